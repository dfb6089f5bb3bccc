#!/bin/sh
# SPDX-License-Identifier: MIT
# Fails, and names them, if source files lack their licence line.
# usage: spdx-check.sh FILE...
bare=$(for file; do
    case $file in
    *.c | *.h | *.cl | *.sh | *.ac | *.am | *.map | */bootstrap | */.ci/run | */m4/clsample.m4)
        grep -q 'SPDX-License-Identifier: MIT' "$file" || echo "$file" ;;
    esac
done)
[ -z "$bare" ] && exit 0
echo "no SPDX line in: $bare" >&2
exit 1
