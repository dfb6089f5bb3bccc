#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs shapes.run on each device in shapes, tiers and limits that the other texts leave out.
# Intel's runtime for CPUs refuses groups of 3, 7 and 12 (doc/porting.md): they are left out there.
# CLS_TEST_SIZE=tiny is for those that are compiled soonest. CLS_TEST_LAUNCHER is as in run.sh.
# usage: shapes.sh                 BUILD, CLSAMPLE: as tests/run sets them
set -u
here=$(dirname "$0") hooked=$BUILD/tests/scripts/hooked launcher=${CLS_TEST_LAUNCHER-}
export CLS_TEST_NAME="$BUILD/tests/scripts/shapes"
calls= failed=0
# Hooks, and options of the command. The first ones are those of the size tiny.
shapes='fewest --work-group 1 --tier int64
fewest --work-group 7 --max-local-mem 1024
fewest --work-group 12 --vector 4 --shortlist 64 --groups-per-unit 1
fewest,subgroups --work-group 16 --vector 8 --tier subgroups'
[ "${CLS_TEST_SIZE-}" = tiny ] && calls='--calls 25'
[ "${CLS_TEST_SIZE-}" = tiny ] || shapes="$shapes
fewest --vector 8 --shortlist 64
fewest --work-group 64 --vector 4
fewest --vector 16 --shortlist 512
fewest --work-group 256 --vector 16 --shortlist 2048
fewest --work-group 3 --vector 2 --shortlist 16
fewest --max-work-group 12 --vector 4
fewest,subgroups --work-group 4 --vector 4 --tier subgroups --max-local-mem 4096"
# Oclgrind would need minutes for its proofs.
[ -z "$launcher" ] || shapes=$(printf '%s\n' "$shapes" | sed 's/^fewest/&,short-proofs/')
devices=$($launcher "$CLSAMPLE" devices | sed -n 's/^[* ] \([0-9][0-9]*\) .*/\1/p')
for device in $devices; do
    while read -r hooks options; do
        # shellcheck disable=SC2086 # lists of options
        if out=$($launcher "$hooked" "$hooks" "$here/shapes.run" --device "$device" $options \
            $calls 2>&1 </dev/null); then
            echo "device $device, $hooks $options: $(printf '%s\n' "$out" | tail -n 1)"
        elif printf '%s\n' "$out" | grep -q "on Intel's runtime for CPUs it must be a power"; then
            echo "device $device, $hooks $options: refused there"
        else
            printf 'device %s, %s %s: FAILED\n%s\n' "$device" "$hooks" "$options" "$out"
            failed=1
        fi
    done <<END
$shapes
END
done
[ -n "$devices" ] || { echo "there is no device" && exit 77; }
exit $failed
