#!/bin/sh
# SPDX-License-Identifier: MIT
# Automake's driver of one test, which also notes in the test's .trs file how many
# seconds the test took, and how many of processor time; summary.sh reads them. It is
# called as test-driver is.
begun=$(date +%s)
sh "$(dirname "$0")/test-driver" "$@"
status=$?
for argument; do
    if [ "${previous-}" = --trs-file ] && [ -f "$argument" ]; then
        # The last line is of the children: 0m0.000s 0m0.000s. A subshell would have none.
        times >"$argument.times"
        cpu=$(awk 'END {
            split($1 "m" $2, t, /[ms]+/)
            print int(60 * (t[1] + t[3]) + t[2] + t[4])
        }' "$argument.times")
        rm -f "$argument.times"
        echo ":seconds: $(($(date +%s) - begun)) $cpu" >>"$argument"
    fi
    previous=$argument
done
exit $status
