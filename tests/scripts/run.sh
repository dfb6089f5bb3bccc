#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs texts of calls (man clsample-run) on the host and on each device, all in one process, where
# programs are compiled once. CLS_TEST_SIZE says in which ways:
#
#     tiny     by the fewest programs, with at most 25 random calls of each statement, or 10 on
#              Oclgrind; in other ways on the host alone
#     small    in the device's own shape; shards.run on three shards, too
#     (unset)  on all sides and with what only tests can change, for three seeds: CLS_TEST_SIDES
#              and CLS_TEST_SEEDS say on fewer sides, and for how many
#
# CLS_TEST_SEED=N gives other random calls, and CLS_TEST_GROUP=N groups of N where the size is tiny,
# where CLS_TEST_PARAMETERS=BYTES limits kernels' arguments.
# CLS_TEST_LAUNCHER, which is tests/support/oclgrind.sh, starts the program on its own device.
# Samplers have all features, so that each step runs the smallest of all programs.
# usage: run.sh FILE.run...        BUILD, CLSAMPLE: as tests/run sets them
set -u
name=$(basename "$1" .run)
[ $# = 1 ] || name=texts
texts=$* here=$(dirname "$0")
hooked=$BUILD/tests/scripts/hooked launcher=${CLS_TEST_LAUNCHER-}
export CLS_TEST_NAME="$BUILD/tests/scripts/$name"
calls=25
[ -z "$launcher" ] || CLS_TEST_SIZE=tiny calls=10
seed=${CLS_TEST_SEED:+--first-seed $CLS_TEST_SEED}
passed=0 failed=0

# way WHAT COMMAND...: runs the text in a way.
way() {
    what=$1 begun=$(date +%s)
    shift
    # shellcheck disable=SC2086 # lists of files and of options
    if out=$("$@" --all-features $texts $seed 2>&1); then
        passed=$((passed + 1))
        word=$(printf '%s\n' "$out" | tail -n 1)
    else
        failed=$((failed + 1))
        word="FAILED: $* --all-features $texts $seed
$out"
    fi
    printf '%s, %s: %s, %d s\n' "$name" "$what" "$word" $(($(date +%s) - begun))
}

# on DEVICE: all ways of a device.
# shellcheck disable=SC2086 # lists of options
on() {
    group=${CLS_TEST_GROUP:+--work-group $CLS_TEST_GROUP --row-group $CLS_TEST_GROUP --vector 4}
    case ${CLS_TEST_SIZE-} in
    tiny)
        way "device $1" $launcher "$hooked" fewest,short-proofs --calls $calls --device "$1" \
            --vector 16 ${group:-${launcher:+--work-group 5 --row-group 5}} \
            ${CLS_TEST_PARAMETERS:+--max-parameters $CLS_TEST_PARAMETERS}
        ;;
    small)
        way "device $1" "$CLSAMPLE" run --device "$1" --sides device,permuted $cache
        # No other text needs shards: more would take long.
        case $texts in
        *shards.run*)
            all=$texts texts=$here/shards.run
            way "device $1, three shards" "$CLSAMPLE" run --device "$1" --sides shards-3 $cache
            texts=$all
            ;;
        esac
        ;;
    *)
        way "device $1, all sides" "$CLSAMPLE" run --device "$1" $seeds \
            --sides "${CLS_TEST_SIDES:-all}" $cache
        way "device $1, vectors of 4 and lists of 16" "$hooked" fewest --device "$1" $seeds \
            --sides device,alone,shards-2 --work-group 1 --row-group 1 --vector 4 --shortlist 16 \
            --max-parameters 256
        way "device $1, and the host with whole sorts" "$hooked" whole-sort --device "$1"
        way "device $1, by search" "$hooked" search --device "$1" $seeds
        way "device $1, with small lists" "$hooked" small-lists --device "$1" $seeds
        ;;
    esac
}

case ${CLS_TEST_SIZE-} in
'') seeds="--seeds ${CLS_TEST_SEEDS:-3}" ;;
*) seeds= ;;
esac
cache=${CLS_TEST_PROGRAMS:+--cache-dir $CLS_TEST_PROGRAMS}
# shellcheck disable=SC2086 # a list of options
[ -n "$launcher" ] || way host "$CLSAMPLE" run --sides host-alone,host-permuted,host-threads $seeds
devices=$($launcher "$CLSAMPLE" devices | sed -n 's/^[* ] \([0-9][0-9]*\) .*/\1/p')
for device in $devices; do on "$device"; done
printf '%d passed, %d failed\n' $passed $failed
[ $failed = 0 ] || exit 1
[ -n "$devices" ] || { echo "there is no device" && exit 77; }
