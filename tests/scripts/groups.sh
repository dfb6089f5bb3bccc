#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs groups.run in the shape that GPUs have: vectors of 4, groups that survey two tiles at once,
# and groups of rows whose reductions have two levels. PoCL compiles barriers for minutes, so items
# are coroutines (tests/support/items.c). Other implementations run shapes.sh, in the long set. In
# full it also runs where each item looks for tokens in a range of tiles, as on Intel's GPUs, and
# with a list of 16 tokens, which finds the hits of a row's tiles in several rounds.
# usage: groups.sh                 BUILD, CLSAMPLE: as tests/run sets them
set -u
here=$(dirname "$0") failed=0
# Not optimized, all its programs take 39 s of processor time.
export POCL_EXTRA_BUILD_FLAGS="${POCL_EXTRA_BUILD_FLAGS--cl-opt-disable}"
devices=$("$CLSAMPLE" devices | sed -n 's/^[* ] \([0-9][0-9]*\) .*/\1/p
    s/^ *platform  Portable Computing Language,.*/pocl/p' | sed -n 'N;s/\npocl$//p;D')
case ${CLS_TEST_SIZE-} in
'') ways='items ranges items,16' seeds="--seeds ${CLS_TEST_SEEDS:-3}" ;;
*) ways=items seeds= ;;
esac
sampler=$(mktemp) || exit 1
trap 'rm -f "$sampler"' EXIT
echo 'sampler vocab=3100 slots=1 dtypes=f32 features=shortlist' >"$sampler"
for device in $devices; do
    for way in $ways; do
        case $way in
        *,*) list="--shortlist ${way#*,}" ;;
        *) list= ;;
        esac
        # shellcheck disable=SC2086 # lists of options
        out=$("$BUILD/tests/scripts/hooked" "${way%,*}" "$here/groups.run" --device "$device" \
            --tier int64 --work-group 128 --row-group 32 --vector 4 $list $seeds 2>&1)
        status=$?
        [ $status = 77 ] && echo "$out" && exit 77
        if [ $status = 0 ]; then
            printf 'device %s, %s: %s\n' "$device" "$way" "$(printf '%s\n' "$out" | tail -n 1)"
        else
            printf 'device %s, %s: FAILED\n%s\n' "$device" "$way" "$out"
            failed=1
        fi
    done
    # Short rows do not show that a list ends behind its first window; the proof has long ones.
    out=$("$BUILD/tests/scripts/hooked" one-window "$sampler" --device "$device" --tier int64 \
        --work-group 8 --row-group 8 --vector 4 2>&1)
    case $out in
    *'token-list gives other results than the host'*)
        echo "device $device: the proof sees that a list ends behind its first window" ;;
    *)
        printf 'device %s: FAILED: a list that ends behind its first window:\n%s\n' "$device" "$out"
        failed=1
        ;;
    esac
done
[ -n "$devices" ] || { echo "there is no device of PoCL" && exit 77; }
exit $failed
