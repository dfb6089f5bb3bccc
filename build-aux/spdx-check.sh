#!/bin/sh
# SPDX-License-Identifier: MIT
# Fails and lists the source files that lack the licence line.
# usage: spdx-check.sh FILE...
missing=$(for file; do
    case $file in
    *.c | *.h | *.cl | *.sh | *.awk | *.py | *.ac | *.am | *.map | */bootstrap | */.ci/run | \
        */m4/clsample.m4)
        grep -q 'SPDX-License-Identifier: MIT' "$file" || echo "$file" ;;
    esac
done)
[ -z "$missing" ] && exit 0
echo "these files have no SPDX-License-Identifier line: $missing" >&2
exit 1
