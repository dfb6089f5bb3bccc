#!/bin/sh
# SPDX-License-Identifier: MIT
# Automake's driver of one test, which also notes in the test's .trs file how many
# seconds the test took; summary.sh reads them. It is called as test-driver is.
begun=$(date +%s)
sh "$(dirname "$0")/test-driver" "$@"
status=$?
for argument; do
    if [ "${previous-}" = --trs-file ] && [ -f "$argument" ]; then
        echo ":seconds: $(($(date +%s) - begun))" >>"$argument"
    fi
    previous=$argument
done
exit $status
