#!/bin/sh
# SPDX-License-Identifier: MIT
# Intel's OpenCL runtime for CPUs, the newest of PyPI, 200 MB that pip downloads, in groups of 1, 16
# and 64, which have real barriers and sub-groups.
# usage: intel.sh [GROUP...]       on x86-64. CLSAMPLE: the command, build/clsample unless set
# shellcheck source=tests/platforms/common.sh
. "$(dirname "$0")/common.sh"
clsample=${CLSAMPLE:-$top/build/clsample}
[ -x "$clsample" ] || { echo "intel.sh: there is no $clsample; ./bootstrap makes it"; exit 2; }
place=$folder/intel
if [ ! -f "$place/icd/intel.icd" ]; then
    python3 -m venv "$place" &&
        "$place/bin/pip" install -q intel-opencl-rt tbb tcmlib intel-cmplr-lib-rt || exit 1
    mkdir -p "$place/icd"
    find "$place" -name libintelocl.so >"$place/icd/intel.icd"
fi
library=$(cat "$place/icd/intel.icd")
export OCL_ICD_VENDORS="$place/icd/" LD_LIBRARY_PATH="${library%/*}"
version=$("$place/bin/pip" list 2>/dev/null | sed -n 's/^intel-opencl-rt  *//p')
# shellcheck source=/dev/null
machine="$(uname -m), $(. /etc/os-release && echo "${PRETTY_NAME}" | sed 's,GNU/Linux ,,')"
[ $# != 0 ] || set -- 1 16 64
cd "$top" || exit
usual16=$folder/inputs/usual16.run # usual.run in the types of 16 bits
for type in f16 bf16; do
    sed "s/dtypes=f32/dtypes=$type/; s/^logits .*/& dtype=$type/" tests/scripts/usual.run
done >"$usual16"
status=0
report=$place/accept.json
for group; do
    case $group in
    1) shape='its own, groups of 1' options='' ;;
    *) shape="groups of $group" options="--work-group $group --row-group $group" ;;
    esac
    # This runtime keeps no compiled program from one process to the next.
    cache="--cache-dir $place/cache-$group"
    mkdir -p "$place/cache-$group"
    row "intel-$group" "Intel's CPU runtime" "$version" "$machine" "$shape"
    # shellcheck disable=SC2046,SC2086 # lists of words
    {
        for type in f32 f16 bf16; do
            try "self-test, $type" 1800 "$clsample" selftest --device 0 --dtype $type $options \
                $cache
        done
        try 'usual.run, f16, bf16' 900 "$clsample" run "$usual16" --device 0 \
            --sides device,permuted $options $cache
        [ -z "$options" ] || try usual.run 900 "$clsample" run tests/scripts/usual.run \
            --device 0 --sides device,permuted $options $cache
        try texts 3600 "$clsample" run $texts --device 0 --sides device,permuted $options $cache
        ! wanted accept || rm -f "$report"
        [ -n "$options" ] ||
            try accept 2400 "$clsample" accept --device 0 --minutes 1 --json "$report"
        rm -f "$place/tokens.npy"
        "$clsample" $(tokens_of . "$folder/inputs") "$place/tokens.npy" --device 0 $options $cache \
            >"$folder/logs/intel-tokens.log" 2>&1
    }
    digest "$place/tokens.npy"
    end_row || status=1
done
exit $status
