#!/bin/sh
# SPDX-License-Identifier: MIT
# Installs the packages of a folder in a bare Debian and runs the tests of debian/tests there, by
# autopkgtest. It needs root, debootstrap, autopkgtest and what this machine's apt reads.
#
#     packaging/debian-test.sh FOLDER [AUTOPKGTEST'S OPTION...]
#
# FOLDER has what debian-build.sh made. FOLDER/tests gets the logs. BASE=FOLDER is a bare Debian to
# copy; without it, debootstrap makes one.
set -eu
if [ $# = 0 ]; then
    sed -n '3,10s/^# \{0,1\}//p' "$0" >&2
    exit 99
fi
folder=$(cd "$1" && pwd)
shift
root=$(mktemp -d)
trap 'rm -rf --one-file-system "$root"' EXIT
chmod 755 "$root"
if [ -n "${BASE-}" ]; then
    cp -a --reflink=auto "$BASE/." "$root"
else
    # shellcheck disable=SC2016 # apt-get expands it
    mirror=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' | head -n 1)
    # shellcheck disable=SC1091 # the machine's own
    suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
    debootstrap --variant=minbase "$suite" "$root" "$mirror"
fi
# The packages come from where this machine's come from.
rm -rf "$root/etc/apt/sources.list"
cp -R /etc/apt/sources.list* /etc/apt/apt.conf* "$root/etc/apt/"
cp /etc/resolv.conf "$root/etc/"
rm -rf "$folder/tests"
# These mounts, which PoCL needs, end with the command.
# shellcheck disable=SC2016 # the inner shell expands its arguments
unshare --mount sh -euc '
    root=$1
    shift
    for name in proc sys dev; do mount --rbind "/$name" "$root/$name"; done
    exec autopkgtest "$@" -- chroot "$root"' \
    sh "$root" --output-dir="$folder/tests" "$@" "$folder"/*.deb "$folder"/*.dsc
