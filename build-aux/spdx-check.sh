#!/bin/sh
# SPDX-License-Identifier: MIT
# Fails and lists the project's source files in a folder that lack the licence line.
# usage: spdx-check.sh FOLDER
missing=$(find "$1" -type f \( -name '*.[ch]' -o -name '*.cl' -o -name '*.sh' -o -name '*.awk' \
    -o -name '*.py' -o -name '*.ac' -o -name '*.am' -o -name '*.mk' -o -name '*.map' \
    -o -name bootstrap -o -name clsample.m4 \) ! -name ltmain.sh \
    -exec grep -L 'SPDX-License-Identifier: MIT' {} +)
[ -z "$missing" ] && exit 0
echo "these files have no SPDX-License-Identifier line: $missing" >&2
exit 1
