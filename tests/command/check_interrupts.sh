#!/bin/sh
# SPDX-License-Identifier: MIT
# Proves that `clsample bench` ends in order when it is interrupted: it prints the cases that are
# finished, and exits with status 130. CLSAMPLE is the command's path. Exits 77 if there is no
# device.
# shellcheck source=tests/command/command.sh
. "$(dirname "$0")/command.sh"
needs_device

bench="bench --batch 2 --vocab 1000 --runs 3"
# the table's cases
finished() { sed -n 's/^\([a-z_]*\)  *[0-9.]* .*[0-9-]$/\1/p' out | tr '\n' ' '; }
# shellcheck disable=SC2086
if make_interrupting; then
    interrupted INTERRUPT_AT=3 "$clsample" $bench
    is "an interrupted bench: status" $code 130
    is "an interrupted bench: cases" "$(finished)" "greedy topk "
    # A slow machine has lines of progress before it.
    is "an interrupted bench: its sentence" "$(tail -n 1 err)" \
        "clsample: bench: interrupted; of 31 cases 2 are finished"
    interrupted INTERRUPT_AT=3 "$clsample" $bench --json
    is "an interrupted bench, JSON: status" $code 130
    is "an interrupted bench, JSON: cases" \
        "$(sed -n 's/^ *"case": "\(.*\)",$/\1/p' out | tr '\n' ' ')" "greedy topk "
    is "an interrupted bench, JSON: ends" "$(head -1 out)$(tail -1 out)" "[]"
    interrupted INTERRUPT_AT=1 "$clsample" $bench --json
    is "nothing is finished" "$code $(tr -d '\n' <out)" "130 []"
    interrupted INTERRUPT_AT=1 "$clsample" $bench --case minp
    is "nothing is finished" "$code $(cat out err)" \
        "130 clsample: bench: interrupted; of 1 cases 0 are finished"
    interrupted INTERRUPT_AT=2 INTERRUPT_TWICE=1 "$clsample" $bench
    is "interrupted twice" "$code $(cat out err)" "130 "
    interrupted INTERRUPT_AT_STEP=9 "$clsample" $bench --case serving
    is "interrupted serving" "$code $(cat out err)" \
        "130 clsample: bench: interrupted; of 1 cases 0 are finished"
    interrupted "$clsample" $bench --case topk
    is "not interrupted" "$code $(finished)" "0 topk "
else
    no_library
fi

finish
