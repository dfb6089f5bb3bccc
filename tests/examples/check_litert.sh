#!/bin/sh
# SPDX-License-Identifier: MIT
# Proves that the plug-in of examples/litert-lm builds, and draws the tokens of the same requests on
# the host for a stub of LiteRT's runtime. BUILD has the library and the single file. Exits 77 if
# there is no compiler, no jansson or no device.
source=$(cd "$(dirname "$0")/../.." && pwd) || exit 99
BUILD=${BUILD-$PWD} CC=${CC:-cc} PKG_CONFIG=${PKG_CONFIG:-pkg-config}
# shellcheck source=tests/support/checks.sh
. "$source/tests/support/checks.sh"

for tool in "${CC%% *}" "${PKG_CONFIG%% *}" make; do
    command -v "$tool" >/dev/null && continue
    echo "no $tool: the plug-in is not built"
    exit 77
done
if ! $PKG_CONFIG --exists jansson; then
    echo 'no jansson: the plug-in is not built'
    exit 77
fi
PKG_CONFIG_PATH=$BUILD${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}
LD_LIBRARY_PATH=$BUILD/.libs:$dir${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} # the plug-in is in $dir
export PKG_CONFIG_PATH LD_LIBRARY_PATH
if [ -n "${CLS_TEST_PROGRAMS-}" ]; then export CLSAMPLE_LITERT_CACHE="$CLS_TEST_PROGRAMS"; fi
example=$source/examples/litert-lm plugin=$dir/libLiteRtTopKOpenClSampler.so

if MAKEFLAGS='' MFLAGS='' make -f "$example/Makefile" src="$example" single="$BUILD/amalgamation" \
    CC="$CC" CFLAGS="${CFLAGS--O2} -Wall -Wextra -Wconversion -Werror" >build.log 2>&1; then
    yes_
else
    tail -5 build.log
    no_ 'make in examples/litert-lm'
    finish
fi
host() { # PROGRAM FLAGS...
    program=$1
    shift
    # shellcheck disable=SC2046,SC2086 # lists of words
    if $CC -std=gnu11 ${CFLAGS--O2} -Wall -Wextra -Werror "$@" -I"$example" \
        $($PKG_CONFIG --cflags clsample) "$source/tests/examples/litert_host.c" "$plugin" \
        -o "$program" \
        $($PKG_CONFIG --libs clsample) -lOpenCL -lm >build.log 2>&1; then
        yes_
    else
        grep -m 3 error build.log
        no_ "cc litert_host.c $*"
        finish
    fi
}
host host -rdynamic
host hidden
runs() { # PROGRAM ARGUMENTS...
    "./$@" >out 2>err
    code=$?
    [ $code -ne 77 ] || { echo 'no device'; exit 77; }
    if [ $code -eq 0 ]; then yes_; else no_ "$*: exit $code: $(tail -2 err)"; fi
}

# It exports its seven functions and nothing else, and links none of OpenCL's. Phones may have pages
# of 16 KB.
${NM:-nm} -D "$plugin" >symbols
exported=$(grep -c ' T ' symbols)
if [ "$exported" = 7 ] && ! grep -q ' U cl[A-Z]' symbols; then yes_; else no_ "$(cat symbols)"; fi
if readelf -lW "$plugin" | awk '$1 == "LOAD" && $NF != "0x4000" { bad = 1 } END { exit bad }'; then
    yes_
else
    no_ 'segments are not aligned to 16 KB'
fi
runs host
runs hidden hidden

finish
