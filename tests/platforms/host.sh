#!/bin/sh
# SPDX-License-Identifier: MIT
# The context without a device on other processors, C libraries, compilers and Windows, of which
# each gets a row: built by Debian's (cross) compilers, static, and run by QEMU's user mode or Wine
# where this machine cannot run it. jansson and Check are built from Debian's sources, too.
# usage: host.sh [TARGET...]       on Debian 12, x86-64; as root, or with sudo
# shellcheck source=tests/platforms/common.sh
. "$(dirname "$0")/common.sh"

# target: what it is called, the prefix of its tools, its flags, what runs it, its packages.
describe() {
    name='' host='' cc='' flags='-O2' emulator='' packages='' libc='glibc 2.36' exe=''
    static=-all-static
    case $1 in
    aarch64) name=AArch64 host=aarch64-linux-gnu packages=libc6-dev-arm64-cross ;;
    armhf) name='Armv7, 32 bits' host=arm-linux-gnueabihf packages=libc6-dev-armhf-cross ;;
    riscv64) name='RISC-V, 64 bits' host=riscv64-linux-gnu packages=libc6-dev-riscv64-cross ;;
    ppc64le) name='POWER, little-endian' host=powerpc64le-linux-gnu
        packages=libc6-dev-ppc64el-cross ;;
    s390x) name='s390x, big-endian' host=s390x-linux-gnu packages=libc6-dev-s390x-cross ;;
    m32) name='x86, 32 bits' host=i686-linux-gnu flags='-O2 -msse2 -mfpmath=sse'
        packages=libc6-dev-i386-cross ;;
    musl) name=x86-64 cc=musl-gcc packages=musl-tools libc='musl 1.2' ;;
    native) name=x86-64 cc=gcc flags='-O3 -march=native' static='' ;;
    clang) name=x86-64 cc=clang packages=clang static='' ;;
    windows) name='x86-64, Windows' host=x86_64-w64-mingw32 libc='Wine 8.0' exe=.exe
        packages='gcc-mingw-w64-x86-64-win32 wine64' ;;
    *) echo "host.sh: no target is called $1"; exit 2 ;;
    esac
    [ -n "$cc" ] || cc=$host-gcc
    case $1 in
    aarch64 | riscv64 | s390x) emulator=qemu-$1-static ;;
    ppc64le) emulator=$folder/qemu/usr/bin/qemu-$1 libc='glibc 2.36, QEMU 10.0' ;;
    armhf) emulator=qemu-arm-static ;;
    windows) emulator=/usr/lib/wine/wine64 ;;
    esac
    case $emulator in *qemu*) name="$name, by QEMU" ;; esac
    case $1 in
    aarch64 | armhf | riscv64 | ppc64le | s390x)
        packages="$packages qemu-user-static gcc-$(echo "$host" | tr _ -)" ;;
    m32) packages="$packages gcc-i686-linux-gnu" ;;
    esac
}

# sources PACKAGE: Debian's sources of a library, unpacked in $folder/sources/PACKAGE.
sources() {
    [ ! -f "$folder/sources/$1/configure.ac" ] || return 0
    mkdir -p "$folder/sources/lists/partial" && cd "$folder/sources" || return
    echo "deb-src $(mirror) bookworm main" >list
    options="-o Dir::Etc::SourceList=$PWD/list -o Dir::Etc::SourceParts=/dev/null
        -o Dir::State::Lists=$PWD/lists"
    # shellcheck disable=SC2086 # a list of words
    apt-get $options update -q && apt-get $options source -q --download-only "$1" &&
        dpkg-source --no-check -x "$1"_*.dsc "$1" && cd "$1" && autoreconf -fi
}

# Debian 13's QEMU, whose programs are static. That of Debian 12 gets an instruction of POWER's
# vectors wrong (doc/porting.md).
newer_qemu() {
    [ ! -x "$folder/qemu/usr/bin/qemu-ppc64le" ] || return 0
    mkdir -p "$folder/qemu/lists/partial" && cd "$folder/qemu" || return
    echo "deb $(mirror) trixie main" >list
    options="-o Dir::Etc::SourceList=$PWD/list -o Dir::Etc::SourceParts=/dev/null
        -o Dir::State::Lists=$PWD/lists"
    # shellcheck disable=SC2086 # a list of words
    apt-get $options update -q && apt-get $options download -q qemu-user &&
        dpkg-deb -x qemu-user_*.deb . && rm qemu-user_*.deb
}

# library PACKAGE FLAG...: builds it for the target.
library() {
    package=$1 parts=src # not its tests and manuals
    [ "$1" != check ] || parts="lib src"
    shift
    [ ! -f "$dir/$package.made" ] || return 0
    sources "$package" && mkdir -p "$dir/$package" && cd "$dir/$package" &&
        "$folder/sources/$package/configure" -q ${host:+--host=$host} CC="$cc" CFLAGS="$flags" \
            --disable-shared --prefix="$dir/root" "$@" &&
        make -s -j2 SUBDIRS="$parts" && make -s install SUBDIRS="$parts" &&
        touch "$dir/$package.made"
}

# What the tests link of OpenCL, which has no device.
opencl() {
    cd "$dir" && mkdir -p include && ln -sf /usr/include/CL include/ || return
    for call in $(cat "$top"/tests/*/*.[ch] "$top"/lib/head/*.c "$top"/cli/*.c "$top"/examples/*.c |
        grep -o '\bcl[A-Z][A-Za-z]*(' | tr -d '(' | sort -u); do
        echo "int $call(void); int $call(void) { return -1001; }"
    done >opencl.c
    $cc -O1 -w -fno-builtin -c opencl.c -o opencl.o && rm -f libOpenCL.a &&
        ar rc libOpenCL.a opencl.o
}

# The machine's own libraries where the program is for this machine and not static.
build() {
    mkdir -p "$dir/build"
    if [ -z "$static" ]; then
        set --
    else
        library jansson && library check --disable-subunit --disable-timeout-tests && opencl ||
            return
        libraries=-lcheck
        [ "$target" = windows ] || libraries="$libraries -lm -lpthread -lrt"
        set -- OPENCL_CFLAGS="-I$dir/include" OPENCL_LIBS="-L$dir -lOpenCL" \
            JANSSON_CFLAGS="-I$dir/root/include" JANSSON_LIBS="-L$dir/root/lib -ljansson" \
            CHECK_CFLAGS="-I$dir/root/include" CHECK_LIBS="-L$dir/root/lib $libraries"
    fi
    cd "$dir/build" || return
    [ -f Makefile ] || "$top/configure" -q ${host:+--host=$host} CC="$cc" CFLAGS="$flags" \
        --disable-shared --without-clblast "$@" || return
    # Before LDFLAGS is set, with which configure could link nothing.
    make -s Makefile || return
    programs=tests/device/check_saved$exe
    for unit in $units; do programs="$programs tests/unit/$unit$exe"; done
    set -- ${static:+LDFLAGS=$static}
    make -s -j2 "clsample$exe" "tests/arithmetic/check_vectors$exe" "$@" || return
    # shellcheck disable=SC2086 # a list of words
    make -s -j2 $programs "$@"
}

# The command alone, linked with the machine's C library, so that it can load OpenCL: for debian.sh.
build_command() {
    # shellcheck disable=SC2086 # a list of words
    need dpkg-dev autoconf automake libtool opencl-c-headers $packages &&
        mkdir -p "$dir/include" "$dir/command" && ln -sfn /usr/include/CL "$dir/include/CL" &&
        library jansson && cd "$dir/command" || return
    [ -f Makefile ] || "$top/configure" -q --host="$host" CC="$cc" CFLAGS="$flags" \
        --disable-shared --without-clblast OPENCL_CFLAGS="-I$dir/include" OPENCL_LIBS=-lOpenCL \
        JANSSON_CFLAGS="-I$dir/root/include" JANSSON_LIBS="-L$dir/root/lib -ljansson" || return
    make -s -j2 clsample
}

# Tests of the host that need nothing of the system, each of which counts as the checks that it
# makes; and those that take long where a machine is emulated, which are left out there.
units='check_arithmetic check_samplers check_goldens check_table check_modes_host
    check_history_host check_verify_host check_grammar_host check_grammar_saved
    check_overlap_host check_shortlists'
long_units='check_select check_offsets check_container check_reference check_watermark'

run_units() {
    passed=0 failed=0
    for unit in $units; do
        if ! $emulator "./tests/unit/$unit$exe" >unit.log 2>&1; then
            failed=$((failed + 1))
            echo "FAILED: $unit"
        fi
        tail -n 4 unit.log
        checks=$(sed -n 's/^[0-9]*%: Checks: \([0-9]*\),.*/\1/p' unit.log)
        [ -z "$checks" ] || passed=$((passed + checks))
    done
    echo "$passed passed, $failed failed"
    [ $failed = 0 ]
}

# A slot that another machine saved is loaded, goes on and is saved as the same bytes; and the slots
# of this machine are those bytes.
run_saved() {
    $emulator "./tests/device/check_saved$exe" --host &&
        $emulator "./tests/device/check_saved$exe" --host --write slots.txt &&
        tr -d '\r' <slots.txt | cmp - "$top/tests/vectors/slots.txt" # Windows ends lines so
}

# Called by this script itself, under try's limit.
if [ "${1-}" = --in ]; then
    target=$2
    describe "$target"
    [ -n "$emulator" ] || units="$units $long_units"
    export CK_FORK=no CLS_TEST_SIZE=tiny srcdir="$top" WINEDEBUG=-all
    dir=$folder/host-$target
    case $3 in
    build) case $target in ppc64le) newer_qemu || exit ;; esac; build; exit ;;
    command) mkdir -p "$dir"; build_command; exit ;;
    esac
    cd "$dir/build" || exit
    case $3 in
    units) run_units ;;
    saved) run_saved ;;
    esac
    exit
fi

[ $# != 0 ] ||
    set -- aarch64 armhf riscv64 ppc64le s390x m32 musl native clang windows
status=0
report=''
export WINEDEBUG=-all WINEPREFIX="$folder/wine"
for target; do
    describe "$target"
    dir=$folder/host-$target
    mkdir -p "$dir"
    # shellcheck disable=SC2086 # a list of words
    need dpkg-dev autoconf automake libtool opencl-c-headers $packages
    row "host-$target" 'the host,' "$libc" "$name" "$(basename "$cc") $flags"
    # Emulation takes ten times as long and more.
    sides='host-each,host-moved,host-alone,host-permuted,host-threads'
    [ -z "$emulator" ] || sides='host-permuted'
    try build 3600 sh "$here/host.sh" --in "$target" build
    clsample=$dir/build/clsample$exe
    if [ -x "$clsample" ]; then
        cd "$top" || exit
        # shellcheck disable=SC2046,SC2086 # lists of words
        {
            try 'test vectors' 1200 env srcdir="$top" \
                $emulator "$dir/build/tests/arithmetic/check_vectors$exe"
            try 'unit tests' 3600 sh "$here/host.sh" --in "$target" units
            try 'saved slots' 600 sh "$here/host.sh" --in "$target" saved
            rm -f "$dir/tokens.npy"
            $emulator "$clsample" $(tokens_of . "$folder/inputs") "$dir/tokens.npy" --device host \
                >"$folder/logs/host-$target-tokens.log" 2>&1
            digest "$dir/tokens.npy"
            try texts 5400 $emulator "$clsample" run $texts --sides $sides
            # Wine's OpenCL is that of the machine.
            [ "$target" != windows ] || try 'usual.run on a device' 900 \
                $emulator "$clsample" run tests/scripts/usual.run --device 0 --sides device,permuted
        }
    fi
    end_row || status=1
done
exit $status
