#!/bin/sh
# SPDX-License-Identifier: MIT
# Kernels cannot include the public header, so the numbers that both use stand in it and in
# cl/core. This checks that they are equal: stages, row statuses, what slots count, methods of
# verification, kinds of drafts' distributions.
set -u
top=${srcdir-.}

# The enumerators as "NAME number"; a line of the header may end after the equals sign.
public() {
    find "$top/include" -name '*.h' -exec cat {} + | tr '\n' ' ' |
        grep -o "CLS_$1_[A-Z0-9_]* *= *[0-9][0-9]*" | sed "s/^CLS_$1_//; s/ *= */ /" | sort
}
# The kernels' enumerators, likewise.
private() {
    cat "$top"/cl/core/*.h |
        sed -n "s/^ *CLS_$1_\([A-Z0-9_]*\) = \([0-9][0-9]*\),.*\$/\1 \2/p" |
        sort
}

passed=0 failed=0
compare() { # PUBLIC PRIVATE NAMES: but for names that one side alone has
    in_header=$(public "$1" | grep -v -E "^($3) ")
    in_kernels=$(private "$2" | grep -v -E "^($3) ")
    if [ -n "$in_header" ] && [ "$in_header" = "$in_kernels" ]; then
        passed=$((passed + $(echo "$in_header" | wc -l)))
    else
        failed=$((failed + 1))
        echo "FAILED: CLS_$1_ of the public header:"
        echo "$in_header"
        echo "CLS_$2_ of cl/core:"
        echo "$in_kernels"
    fi
}
compare STAGE STAGE 'MIROSTAT_[12]'
compare ROW ROW 'OK'
compare COUNTS COUNTS '-'
compare VERIFY VERIFY '-'
compare DRAFT DRAFT '-'

echo "$passed passed, $failed failed"
[ $failed = 0 ]
