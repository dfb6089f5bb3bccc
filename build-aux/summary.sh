#!/bin/sh
# SPDX-License-Identifier: MIT
# Adds up the results of `make check`: "N passed, N failed, N skipped". Counts
# the tests inside each program (Check prints "Checks: 12, Failures: 0, ...",
# scripts "12 passed, 0 failed"); a program that told nothing counts as one.
# usage: summary.sh DIRECTORY...       (where the .log and .trs files are)
for dir; do
    for trs in "$dir"/*.trs; do
        [ -f "$trs" ] || continue
        sed -n 's/^:global-test-result:/result/p' "$trs"
        # A skipped program's numbers would be those of the part that it ran.
        grep -q '^:global-test-result: SKIP' "$trs" || tr -d ',:' <"${trs%.trs}.log"
        echo end
    done
done | awk '
    $1 == "result" { result = $2; good = bad = 0; next }
    $2 == "Checks" && $4 == "Failures" { good += $3 - $5 - $7; bad += $5 + $7 }
    NF == 4 && $2 == "passed" && $4 == "failed" { good += $1; bad += $3 }
    $1 == "end" {
        if (result == "SKIP") { skipped++; next }
        if (result == "PASS" && good == 0) good = 1
        if (result != "PASS" && bad == 0) bad = 1
        passed += good; failed += bad
    }
    END { printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped }'
