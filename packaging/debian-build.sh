#!/bin/sh
# SPDX-License-Identifier: MIT
# Builds Debian's source and binary packages from a release archive, and checks them by lintian. It
# needs the packages that `apt-get build-dep` would install, and lintian.
#
#     packaging/debian-build.sh ARCHIVE FOLDER [OPTION...]
#
# FOLDER gets the packages; OPTIONs are dpkg-buildpackage's. DEB_BUILD_OPTIONS=nocheck leaves out
# the tests.
set -eu
if [ $# -lt 2 ]; then
    sed -n '3,9s/^# \{0,1\}//p' "$0" >&2
    exit 99
fi
archive=$1 folder=$2
shift 2
name=$(basename "$archive" .tar.xz)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"

# The archive keeps Debian's files in packaging/, so that those of a distribution can stand in
# debian/ without a conflict.
cp "$archive" "$work/$(echo "$name" | tr - _).orig.tar.xz"
tar -C "$work" -xf "$archive"
cp -R "$work/$name/packaging/debian" "$work/$name/debian"
# Debian's programs build them, not those that a developer put before them.
PATH=/usr/sbin:/usr/bin:/sbin:/bin
(cd "$work/$name" && dpkg-buildpackage --no-sign "$@")
# The first package closes no bug of Debian's, as long as nobody uploads it there.
lintian --pedantic --display-info --fail-on error,warning \
    --suppress-tags initial-upload-closes-no-bugs "$work"/*.changes
mkdir -p "$folder"
cp "$work"/*.deb "$work"/*.dsc "$work"/*.tar.xz "$folder/"
