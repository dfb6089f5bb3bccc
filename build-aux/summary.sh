#!/bin/sh
# SPDX-License-Identifier: MIT
# Adds up the results of `make check`: the five programs that took most processor time, and
# "N passed, N failed, N skipped". Counts the tests inside each program (Check prints
# "Checks: 12, Failures: 0, ...", scripts "12 passed, 0 failed"); a program that
# prints no count is one test.
# usage: summary.sh FILE...       .log or .trs files of tests
[ $# != 0 ] || exit 0
for file; do
    name=${file%.*}
    [ -f "$name.trs" ] || continue
    echo "%test $name"
    sed -n 's/^:global-test-result:/%result/p; s/^:seconds:/%seconds/p' "$name.trs"
    # A skipped program's numbers would be those of the part that it ran.
    grep -q '^:global-test-result: SKIP' "$name.trs" || tr -d ',:' <"$name.log"
    echo %end
done | awk '
    $1 == "%test" { name = $2; next }
    $1 == "%seconds" { wall[name] = $2; seconds[name] = $3; next }
    $1 == "%result" { result = $2; good = bad = 0; next }
    $2 == "Checks" && $4 == "Failures" { good += $3 - $5 - $7; bad += $5 + $7 }
    NF == 4 && $2 == "passed" && $4 == "failed" { good += $1; bad += $3 }
    $1 == "%end" {
        if (result == "SKIP") { skipped++; next }
        if (result == "PASS" && good == 0) good = 1
        if (result != "PASS" && bad == 0) bad = 1
        passed += good; failed += bad
    }
    END {
        for (i = 0; i < 5; i++) {
            slowest = ""
            for (name in seconds)
                if (slowest == "" || seconds[name] + 0 > seconds[slowest] + 0)
                    slowest = name
            if (slowest == "" || seconds[slowest] + 0 == 0)
                break
            list = list (i == 0 ? "slowest: " : ", ") slowest " " wall[slowest] " s (CPU " \
                seconds[slowest] " s)"
            delete seconds[slowest]
        }
        if (list != "")
            print list
        printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped
    }'
