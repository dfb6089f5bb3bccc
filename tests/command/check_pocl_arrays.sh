#!/bin/sh
# SPDX-License-Identifier: MIT
# No program that PoCL has compiled keeps data between its work-groups. A local array becomes such
# data where its address reaches a function as a constant; PoCL's threads then share it, and tokens
# are wrong now and then. Compiles the programs of the self-test. Exits 77 without PoCL or nm.
# shellcheck source=tests/command/command.sh
. "$(dirname "$0")/command.sh"
needs_device
command -v nm >/dev/null || { echo 'nm (binutils) is not installed'; exit 77; }

programs=''
mkdir cache
unset POCL_EXTRA_BUILD_FLAGS # what is not optimized has no constants
POCL_CACHE_DIR=$PWD/cache
export POCL_CACHE_DIR
check "the self-test" "$clsample" selftest --device 0 --dtype f32
find cache -name '*.so' >compiled
[ -s compiled ] || { echo 'device 0 is not of PoCL'; exit 77; }
is 'programs, of which there are more than 20' "$([ "$(wc -l <compiled)" -gt 20 ] && echo yes)" yes
# The toolchain's own data begins with an underscore, or is completed.0.
while read -r file; do
    nm "$file" | sed -n 's/.* [bBdD] \([^_].*\)/\1/p' | grep -v '^completed\.'
done <compiled | sort -u >arrays
is "arrays that threads share" "$(tr '\n' ' ' <arrays)" ''
finish
