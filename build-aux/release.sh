#!/bin/sh
# SPDX-License-Identifier: MIT
# Makes the files of a release from the last commit: the archive, and from the archive the wheel and
# Debian's packages, and the sums of all. The same commit gives the same bytes on every run.
#
#     build-aux/release.sh [--rehearse] [FOLDER]
#
# FOLDER, build/release unless given, gets the files and must be empty. --rehearse leaves out the
# tests: `make distcheck`, and those of Debian's build.
set -u
# Debian's programs, not those that a developer put before them.
PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C
export PATH LC_ALL
unset XZ_OPT XZ_DEFAULTS TAR_OPTIONS MAKEFLAGS MAKELEVEL SOURCE_DATE_EPOCH DEB_BUILD_OPTIONS
umask 022

die() {
    printf 'release: %s\n' "$*" >&2
    exit 1
}

rehearse=no
case ${1-} in
--rehearse)
    rehearse=yes DEB_BUILD_OPTIONS=nocheck
    export DEB_BUILD_OPTIONS
    shift
    ;;
-*) die "the option $1 is unknown; the usage is release.sh [--rehearse] [FOLDER]." ;;
esac
[ $# -lt 2 ] || die "the argument $2 is too many; the usage is release.sh [--rehearse] [FOLDER]."
folder=${1-$(dirname "$0")/../build/release}
mkdir -p "$folder" || die "the folder $folder cannot be made."
folder=$(cd "$folder" && pwd)
found=$(ls -A "$folder" | head -n 1)
[ -z "$found" ] || die "the folder $folder must be empty, but has $found."
cd "$(dirname "$0")/.." || exit 1

# ------------------------------------------------------------------- checks
for tool in git autoreconf doxygen make tar xz sha256sum python3 dpkg-buildpackage dh lintian; do
    command -v $tool >/dev/null || die "$tool is not installed; doc/testing.md lists the tools."
done
for module in pip setuptools wheel cffi; do
    python3 -c "import $module" 2>/dev/null || die "$(command -v python3) has no module $module."
done
dpkg-checkbuilddeps packaging/debian/control || die "Debian's packages need what is named above."
changed=$(git status --porcelain) || die "$PWD is not a git checkout."
[ -z "$changed" ] || die "the tree is not clean: $changed."
said=$(sh build-aux/check-versions.sh) || die "$said"
version=$(sh build-aux/version.sh include/clsample/base.h)
name=clsample-$version
commit=$(git rev-parse HEAD)
tagged=$(git rev-parse -q --verify "v$version^{commit}") || tagged=$commit
[ "$tagged" = "$commit" ] || die "the tag v$version is at $tagged, but HEAD is at $commit."

# ------------------------------------------------------------------- stages
work=$(mktemp -d) || exit 1
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT

# step NAME COMMAND...: runs a stage with its output in a log, which a failure leaves in FOLDER.
step() {
    stage=$1
    shift
    printf '%-10s' "$stage"
    begun=$(date +%s)
    if ! ("$@") >"$work/log" 2>&1 </dev/null; then
        echo ' failed'
        mv "$work/log" "$folder/$stage.log"
        die "the stage $stage failed; its log is $folder/$stage.log."
    fi
    printf '%5d s\n' $(($(date +%s) - begun))
}

archive() { # PLACE: makes the archive from the commit
    mkdir "$work/$1" && git archive "$commit" | tar -C "$work/$1" -xf - && cd "$work/$1" &&
        autoreconf -fi && mkdir _build && cd _build && ../configure --with-mpi=check && make dist
}

# The same by another user, elsewhere and at another time: nothing of that may be in the archive.
again() {
    umask 077
    TZ=Asia/Tokyo archive again-elsewhere &&
        cmp "$work/first/_build/$name.tar.xz" "$work/again-elsewhere/_build/$name.tar.xz"
}

distcheck() {
    cd "$work/first/_build" && make distcheck
}

# The times in the wheel are those in the archive.
wheel() {
    cd "$work/$name" && SOURCE_DATE_EPOCH=$(date -r NEWS +%s) &&
        export SOURCE_DATE_EPOCH &&
        python3 -m pip wheel --no-deps --no-build-isolation --wheel-dir "$folder" . &&
        ls "$folder/$name"-py3-none-*.whl
}

debian() {
    sh "$work/$name/packaging/debian-build.sh" "$folder/$name.tar.xz" "$folder"
}

step archive archive first
step again again
[ $rehearse = yes ] || step distcheck distcheck
cp "$work/first/_build/$name.tar.xz" "$folder" && tar -C "$work" -xf "$folder/$name.tar.xz" || exit
# What follows is built from the archive alone.
step wheel wheel
step debian debian

cd "$folder" || exit 1
sums=$(sha256sum -- *) && echo "$sums" >SHA256SUMS || exit
echo
wc -c -- * | sed '$d'
echo
echo "These are the files of $name, in $folder."
[ $rehearse = no ] || echo "This was a rehearsal: no test was run."
