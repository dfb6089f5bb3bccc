#!/bin/sh
# SPDX-License-Identifier: MIT
# An OpenCL implementation of a Debian or an Ubuntu, in a bare system of its own that debootstrap
# makes: PoCL, rusticl on llvmpipe, or Oclgrind; with a row for each shape. Another machine's runs
# by QEMU's user mode, whose binfmt entry must have the flag F; its command is built here.
# usage: debian.sh SUITE IMPLEMENTATION [MACHINE] [SHAPE...]       on Debian, x86-64; as root
#     SUITE            bookworm, trixie or sid; of Ubuntu jammy, noble or resolute
#     IMPLEMENTATION   pocl, rusticl, oclgrind
#     MACHINE          amd64 (the default), arm64, armhf, ...
#     SHAPE            check; 1, which is the library's own; 4, 64 or other groups
# CLSAMPLE_KEEP=1 goes on with the system, and what was built in it, of the run before.
# shellcheck source=tests/platforms/common.sh
. "$(dirname "$0")/common.sh"
[ $# -ge 2 ] || { sed -n '6,11s/^# \{0,1\}//p' "$0"; exit 2; }
[ "$(id -u)" = 0 ] || { echo 'debian.sh: only root may enter a system in a folder'; exit 2; }
suite=$1 implementation=$2 machine=${3:-amd64}
shift 2
[ $# = 0 ] || shift
own=$(dpkg --print-architecture)
archive=$(mirror) components=main script='' trust=''
case $suite in
jammy | noble | resolute) # Debian has no keys of Ubuntu's, so that TLS vouches for the system
    archive=https://archive.ubuntu.com/ubuntu components='main universe'
    script=/usr/share/debootstrap/scripts/gutsy trust=--no-check-gpg
    ;;
esac
case $implementation in
pocl) package=pocl-opencl-icd icd=pocl called=PoCL ;;
rusticl) package=mesa-opencl-icd icd=rusticl called='rusticl on llvmpipe, Mesa' ;;
oclgrind) package=oclgrind icd='' called=Oclgrind ;;
*) echo "debian.sh: no implementation is called $implementation"; exit 2 ;;
esac
root=$folder/$suite-$machine-$implementation
base=$folder/$suite-$machine.base slower=1 by=''
[ "$machine" = "$own" ] || base=$root.base slower=6 by=' by QEMU'

# A bare system, untouched. Packages come from where this machine's do.
make_base() {
    [ ! -f "$base/made" ] || return 0
    [ "$machine" = "$own" ] || { unpack_base; return; }
    need debootstrap || return
    [ -x "$base/usr/bin/git" ] ||
        debootstrap --variant=minbase --arch="$machine" --include=git,ca-certificates $trust \
            --components="$(echo "$components" | tr ' ' ,)" "$suite" "$base" "$archive" $script \
            >"$folder/logs/$suite-$machine.log" 2>&1 || return
    for file in /etc/resolv.conf /etc/hosts; do cp "$file" "$base/etc/"; done
    cp -r /etc/apt/apt.conf.d/. "$base/etc/apt/apt.conf.d/"
    echo "deb $archive $suite $components" | sed 's/https:/http:/' >"$base/etc/apt/sources.list"
    touch "$base/made"
}

# Another machine's system: its packages are unpacked, with what dpkg would note of them, and not
# installed, for which QEMU would take half an hour.
unpack_base() {
    need qemu-user-static || return
    apt=$base.apt
    rm -rf "$base" "$apt"
    mkdir -p "$apt/lists/partial" "$apt/archives/partial" && touch "$apt/status" || return
    echo "deb [arch=$machine] $archive $suite $components" >"$apt/list"
    options="-o APT::Architecture=$machine -o APT::Architectures=$machine
        -o Dir::State::status=$apt/status -o Dir::State::Lists=$apt/lists
        -o Dir::Etc::SourceList=$apt/list -o Dir::Etc::SourceParts=/dev/null
        -o Dir::Cache::archives=$apt/archives -o APT::Sandbox::User=root"
    # shellcheck disable=SC2086 # lists of words
    { apt-get $options update -q && apt-get $options install -y -q --no-install-recommends \
        --download-only base-files bash coreutils dpkg ocl-icd-libopencl1 $package; } \
        >"$folder/logs/$suite-$machine.log" 2>&1 || return
    mkdir -p "$base/var/lib/dpkg"
    for deb in "$apt"/archives/*.deb; do
        dpkg-deb -x "$deb" "$base" || return
        { dpkg-deb -f "$deb"; printf 'Status: install ok installed\n\n'; } >>"$apt/status"
    done
    chroot "$base" /bin/true || { echo 'no entry of binfmt_misc runs such programs'; return 1; }
    cp "$apt/status" "$base/var/lib/dpkg/" && touch "$base/made"
}

# shellcheck disable=SC2317 # a trap calls it
leave() {
    for place in proc sys dev; do umount -lR "$root/$place" 2>/dev/null; done
}

enter() {
    for place in proc sys dev; do
        if mountpoint -q "$root/$place"; then
            echo "debian.sh: $root/$place is still mounted"
            exit 2
        fi
    done
    if [ -z "${CLSAMPLE_KEEP-}" ] || [ ! -d "$root/root/clsample" ]; then
        rm -rf "$root" && cp -a --reflink=auto "$base" "$root" || exit 2
    fi
    # Mounted for the run only: a later rm -rf of the folder must not reach the real /dev.
    trap leave EXIT
    trap 'exit 130' INT TERM
    for place in proc sys dev; do
        mount --rbind "/$place" "$root/$place" && mount --make-rslave "$root/$place" || exit 2
    done
    if [ ! -d "$root/root/clsample" ]; then
        git clone -q "$top" "$root/root/clsample" || exit 2
    fi
    export CLSAMPLE_SOURCES="$root/root/clsample" # whose commit results.py notes
    cp -r "$folder/inputs" "$root/root/"
}

# in_system COMMAND, and inside WHAT SECONDS COMMAND, a try: by the shell of the system.
proxies=$(env | grep -iE '^(https?|no)_proxy=' || true)
settings='' # of the implementation
in_system() {
    # shellcheck disable=SC2086 # lists of settings
    $within chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=dumb \
        DEBIAN_FRONTEND=noninteractive $settings $proxies bash -c "cd /root/clsample && $1"
}
within=''
inside() {
    wanted "$1" || return 0
    what=$1 limit=$(($2 * slower))
    log=$folder/logs/$key-$(echo "$what" | tr -c 'a-zA-Z0-9\n' -).log
    begun=$(date +%s)
    within="timeout -k 10 $limit"
    in_system "$3" >"$log" 2>&1 </dev/null 9>&-
    judged $?
    within=''
}

# version PACKAGE
version() {
    # shellcheck disable=SC2016 # dpkg's format
    in_system "dpkg-query -W -f='\${Version}' $1" 2>/dev/null |
        sed 's/^[0-9]*://; s/[-+].*//'
}

make_base || { echo "debian.sh: there is no $suite for $machine; see $folder/logs"; exit 1; }
enter
# shellcheck source=/dev/null
name=$(. "$root/etc/os-release" && echo "$PRETTY_NAME" | sed 's,GNU/Linux ,,')
prefix=$suite-$implementation-$machine
shape() { # NAME WORDS
    row "$prefix-$1" "$called" "$(version "$package")" \
        "$(in_system 'uname -m')$by, $name" "$2"
}

# What a user types in a bare system: it installs what is missing, PoCL too.
bootstrap() {
    row "$prefix-check" "$called" '' "$(in_system 'uname -m'), $name" './bootstrap'
    inside './bootstrap demo' 1800 './bootstrap demo'
    inside './bootstrap check' 5400 './bootstrap check'
    python3 "$here/results.py" version "$tries" "$(version "$package")"
    end_row || status=1
}

# Emulated compilers take ten times as long, so that another machine's command is built here.
cross_build() {
    target=$machine
    [ "$machine" != arm64 ] || target=aarch64
    sh "$here/host.sh" --in "$target" command && mkdir -p "$root/root/clsample/build" &&
        cp "$folder/host-$target/command/clsample" "$root/root/clsample/build/"
}

build() {
    [ "$machine" = "$own" ] || { cross_build; return; }
    in_system "apt-get update -q && apt-get install -y -q --no-install-recommends gcc libc6-dev \
        make autoconf automake libtool pkg-config libjansson-dev ocl-icd-opencl-dev \
        ocl-icd-libopencl1 $package && autoreconf -fi && mkdir -p build && cd build &&
        ../configure --disable-shared --without-clblast && make -s -j2 clsample"
}

# in_shape ITEMS: the usual texts and the self-test in groups of so many. PoCL's usual way for such
# groups copies what follows each barrier under a condition, for hours, and another way does not.
in_shape() {
    own_settings=$settings words="groups of $1, vectors of 4"
    if [ "$implementation" = pocl ]; then
        settings="$settings POCL_WORK_GROUP_METHOD=cbs"
        words="$words, POCL_WORK_GROUP_METHOD=cbs"
    fi
    shape "$1" "$words"
    options="--device 0 --work-group $1 --row-group $1 --vector 4"
    inside usual.run 900 "$clsample run tests/scripts/usual.run --sides device,permuted $options"
    inside 'self-test, f32' 1800 "$clsample selftest --dtype f32 $options"
    settings=$own_settings
    end_row || status=1
}

# The shape that the library chooses.
chosen() {
    types='f32 f16 bf16' named=texts
    # Their compilers need minutes for a kernel of the other texts, and so does emulation.
    if [ "$implementation-$machine" != "pocl-$own" ]; then
        types=f32 named=usual.run texts=tests/scripts/usual.run
    fi
    shape 1 "$(in_system "$clsample devices" 2>/dev/null |
        sed -n 's/^ *shape *//p' | head -n 1)"
    for type in $types; do
        inside "self-test, $type" 1800 "$clsample selftest --device 0 --dtype $type"
    done
    inside "$named" 3600 "$clsample run $texts --device 0 --sides device,permuted"
    # It has 288 steps of up to 64 rows, which Oclgrind and QEMU would interpret.
    if [ "$implementation" != oclgrind ] && [ "$machine" = "$own" ]; then
        ! wanted accept || rm -f "$report"
        inside accept 5400 "$clsample accept --device 0 --minutes 1 --json accept.json"
    fi
    in_system "$clsample $(tokens_of . /root/inputs) tokens.npy --device 0" \
        >"$folder/logs/$prefix-tokens.log" 2>&1
    digest "$root/root/clsample/tokens.npy"
    end_row || status=1
}

status=0
report=$root/root/clsample/accept.json
clsample=build/clsample
[ $# != 0 ] || case $implementation-$machine in
pocl-"$own") set -- check 1 4 64 ;;
*) set -- 1 ;;
esac
case $1 in
check)
    bootstrap
    shift
    ;;
*) in_system 'test -x build/clsample' || build >"$folder/logs/$prefix-build.log" 2>&1 ||
    { tail -n 20 "$folder/logs/$prefix-build.log"; exit 1; } ;;
esac
# QEMU emulates PoCL's threads, too, which gain nothing there.
[ "$machine" = "$own" ] || settings=POCL_MAX_PTHREAD_COUNT=1
case $implementation in
rusticl) settings=RUSTICL_ENABLE=llvmpipe ;;
oclgrind) clsample='oclgrind --data-races --build-options -cl-opt-disable build/clsample' ;;
esac
if [ -n "$icd" ]; then
    in_system "mkdir -p /root/icd && cp /etc/OpenCL/vendors/$icd.icd /root/icd/"
    settings="$settings OCL_ICD_VENDORS=/root/icd/"
fi
for shape; do
    case $shape in
    1) chosen ;;
    *) in_shape "$shape" ;;
    esac
done
exit $status
