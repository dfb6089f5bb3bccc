#!/bin/sh
# SPDX-License-Identifier: MIT
# Judges what texts of calls give on the host by a model of each slot (judge.c). Where the size is
# small, it also runs some texts on sides of a device that run.sh leaves to the long set.
# usage: judge.sh                  BUILD, CLSAMPLE: as tests/run sets them
set -u
here=$(dirname "$0") hooked=$BUILD/tests/scripts/hooked
cache=${CLS_TEST_PROGRAMS:+--cache-dir $CLS_TEST_PROGRAMS}
case ${CLS_TEST_SIZE-} in
'') seeds=40 texts= ;;
small) seeds=10 texts='slots verify calls forced accept shards' ;;
tiny) seeds=10 texts= ;;
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
judge "by hand" "$hooked" judge "$here/calls.run" "$here/forced.run" "$here/accept.run" \
    "$here/saved.run" "$here/drafts.run" "$here/shards.run"
moved=
for text in slots verify accept forced history modes grammar saved budgets phases; do
    moved="$moved $here/$text.run"
done
# shellcheck disable=SC2086 # a list of files
judge "slots that are saved and loaded between the calls" "$CLSAMPLE" run $moved \
    --sides host-moved --seeds 3
devices=$("$CLSAMPLE" devices | sed -n 's/^[* ] \([0-9][0-9]*\) .*/\1/p')
for device in $devices; do
    for text in $texts; do
        # shellcheck disable=SC2086 # a list of options
        judge "$text, device $device" "$CLSAMPLE" run "$here/$text.run" --device "$device" \
            --sides each,ahead,shards-2,shards-3 --all-features $cache
    done
done
exit $failed
