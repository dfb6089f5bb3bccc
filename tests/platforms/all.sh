#!/bin/sh
# SPDX-License-Identifier: MIT
# Every platform that this machine can have, one after another, for some hours; what fails is named
# at the end. It writes results.jsonl and the table of doc/devices.md, which are then committed.
# usage: all.sh [--emulated]       on Debian 12, x86-64, as root, after ./bootstrap
#     --emulated       also PoCL for AArch64 under QEMU, which takes hours alone
# CLSAMPLE_PLATFORMS: the folder for systems and builds, some 20 GB; unless set, in $TMPDIR or /tmp
set -u
here=$(cd "$(dirname "$0")" && pwd)
passed=0 failed=0
# platform SCRIPT ARGUMENT...
platform() {
    script=$1
    shift
    if sh "$here/$script" "$@"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED: $script $*"
    fi
}
for target in aarch64 armhf riscv64 ppc64le s390x m32 musl native clang windows; do
    platform host.sh $target
done
for suite in noble resolute trixie sid; do
    platform debian.sh $suite pocl
done
platform intel.sh
for implementation in pocl rusticl oclgrind; do
    platform debian.sh bookworm $implementation
done
platform debian.sh trixie rusticl
[ "${1-}" != --emulated ] || platform debian.sh trixie pocl arm64
python3 "$here/results.py" table
echo "$passed passed, $failed failed"
[ $failed = 0 ]
