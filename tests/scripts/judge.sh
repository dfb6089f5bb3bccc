#!/bin/sh
# SPDX-License-Identifier: MIT
# Judges what texts of calls give on the host by a model of each slot (judge.c), and rows
# of all kinds by the oracle.
# CLS_TEST_SEEDS=N gives 13 N seeds where the size is not small or tiny, where it is 3.
# usage: judge.sh                  BUILD, CLSAMPLE: as tests/run sets them
set -u
here=$(dirname "$0") hooked=$BUILD/tests/scripts/hooked
case ${CLS_TEST_SIZE-} in
'') seeds=$((13 * ${CLS_TEST_SEEDS:-3})) ;;
*) seeds=3 ;;
esac
failed=0

# judge WHAT COMMAND...: prints what the command says last, or all if it fails.
judge() {
    what=$1
    shift
    if out=$("$@" 2>&1); then
        printf '%s: %s\n' "$what" "$(printf '%s\n' "$out" | tail -n 1)"
    else
        printf '%s: FAILED: %s\n%s\n' "$what" "$*" "$out"
        failed=1
    fi
}

for text in slots verify steps history outputs chains budgets phases; do
    judge "$text" "$hooked" judge "$here/$text.run" --seeds $seeds
done
for text in oracle modes; do
    judge "$text" "$hooked" oracle "$here/$text.run" --seeds $seeds
done
judge "by hand" "$hooked" judge "$here/calls.run" "$here/forced.run" "$here/accept.run" \
    "$here/saved.run" "$here/drafts.run" "$here/shards.run"
moved=
for text in slots verify accept forced history modes grammar saved budgets phases; do
    moved="$moved $here/$text.run"
done
# shellcheck disable=SC2086 # a list of files
judge "slots that are saved and loaded between the calls" "$CLSAMPLE" run $moved \
    --sides host-moved --seeds 3
exit $failed
