#!/bin/sh
# SPDX-License-Identifier: MIT
# Compiles each program for GPUs, without a GPU, and prints what it needs: registers, stack,
# spills, local memory, occupancy, barriers and wide loads. For NVIDIA clang compiles to PTX and
# ptxas for sm_90; for AMD clang compiles for gfx1100. Clang replaces the vendors' front
# ends and inlines everything, as they do. For Intel its own compiler compiles for dg2 and gen9; it
# is known to take minutes and gigabytes for a large kernel, so its seconds of processor time and
# its MB are printed, too. The script measures no times of kernels. It fails if a program exceeds
# the limits below, or if Intel's compiler does not end well.
#
# usage: gpu-resources.sh PROGRAMS [GROUP [VECTOR]]     PROGRAMS: the built bench/programs
# WITHOUT_GEN9=1 leaves out Intel's older GPUs, which have dg2's limits on seconds and MB alone.
# ONLY='accept force' compiles these programs alone.
# needs: clang-15 and libclc-15 (Debian); ptxas (CUDA) for most of NVIDIA's columns; ocloc
# (intel-opencl-icd) and time (Debian) for Intel's
set -eu
programs=${1:?usage: gpu-resources.sh PROGRAMS [GROUP [VECTOR]]}
group=${2:-256}
vector=${3:-4}
clang=${CLANG:-/usr/lib/llvm-15/bin/clang}
clc=${LIBCLC:-/usr/lib/clc}
ptxas=${PTXAS:-ptxas}
ocloc=${OCLOC:-ocloc}
gnu_time=${GNU_TIME:-/usr/bin/time}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
PATH=$PATH:/usr/local/cuda/bin
if [ ! -x "$clang" ] || [ ! -e "$clc/amdgcn--amdhsa.bc" ]; then
    echo "clang-15 with libclc-15 is not installed"
    exit 77
fi
common="-x cl -Xclang -finclude-default-header -nogpulib -O3 -S -w -mllvm -inline-threshold=1000000"

# The limits that a change must not exceed: name, registers (sm_90), bytes of stack, bytes of
# spills, occupancy in percent (at least), loads of 16 bytes in the PTX (at least), vector registers
# (gfx1100), and for Intel's GPUs seconds of processor time, which depend on the machine and so are
# twice what a busy one took, MB, lanes (at least) and bytes of scratch on dg2. What is left out at
# the end has no limit. ptxas gives some programs a few bytes more of spills now and then.
# doc/kernels.md lists what the largest programs need.
limits() {
    cat <<EOF
slots 80 640 0 37 0 93 5 200 8 0
slots-state 128 864 0 25 0 106 20 350 16 1024
prepare 64 8 0 50 0 80 6 250 8 256
survey 48 0 0 62 4 64 5 200 8 0
survey-row 80 0 0 37 4 96 6 200 8 0
token-plain 64 8 0 50 10 64 5 200 16 0
token-small 128 8 0 25 33 108 12 300 16 8192
token-list 128 8 0 25 33 108 14 300 16 8192
token-row 128 16 0 25 42 128 32 425 16 8192
token-all 128 384 0 25 50 128 110 850 16 16384
pass 64 0 0 50 8 80 5 200 8 4096
pass-row 80 72 200 37 8 96 5 200 16 4096
search 128 464 488 25 61 128 30 450 16 32768
search-row 128 560 1044 25 71 128 50 600 16 131072
search-all 128 1032 580 25 106 128 115 1582 16 131072
distribution 64 0 0 50 8 80 5 200 16 0
distribution-row 80 96 344 37 8 104 5 200 16 0
report 80 16 0 37 20 96 8 350 16 1024
report-row 120 56 0 25 19 113 28 400 16 65536
watermark 128 32 0 25 12 96 5 300 16 2048
force 64 16 0 50 0 64 5 200 16 0
kept 64 8 0 50 4 64 5 200 16 0
kept-row 64 8 0 50 4 77 5 200 16 8192
accept 128 328 0 25 0 112 8 220 16 320
residual 128 48 0 25 12 96 10 250 16 16384
verify 112 64 0 25 16 128 18 345 16 32768
lookup 48 0 0 62 0 32 5 200 16 0
partial 128 160 0 25 28 128 16 350 16 32768
merge 64 0 0 50 16 96 5 200 16 0
EOF
}

# Compiles a program for NVIDIA. Prints: barriers, wide loads, registers, stack, spills, local; the
# last four only where ptxas is installed.
nvidia() {
    # The library limits registers by a build option of NVIDIA's compiler; ptxas takes a directive.
    register_limit=$(printf '%s\n' "$2" |
        sed -n 's/.*-cl-nv-maxrregcount=\([0-9]*\).*/.maxnreg \1/p')
    set -- "$1" "${2%% -cl-nv-maxrregcount=*}"
    # Debian's libclc lacks this function for NVIDIA's devices.
    {
        cat "$1"
        echo 'size_t __attribute__((overloadable)) get_global_offset(uint d) { return 0; }'
    } >"$folder/nvidia.cl"
    # shellcheck disable=SC2086 # lists of words
    "$clang" -target nvptx64--nvidiacl $common -Xclang -target-cpu -Xclang sm_80 \
        -Xclang -target-feature -Xclang +ptx70 \
        -Xclang -mlink-builtin-bitcode -Xclang "$clc/nvptx64--nvidiacl.bc" \
        $2 "$folder/nvidia.cl" -o "$folder/k.ptx" || return 1
    # clang 15 does not pass the work-group size on, as NVIDIA's compiler does.
    awk -v group="$group" -v limit="$register_limit" '
        /^\.visible \.entry/ { entry = 1 }
        entry && /^\{/ { print ".reqntid " group ", 1, 1 " limit; entry = 0 }
        { print }' "$folder/k.ptx" >"$folder/g.ptx"
    grep -cE 'bar\.sync|barrier\.sync' "$folder/k.ptx" || true
    grep -cE 'ld\.global(\.nc)?\.v4' "$folder/k.ptx" || true
    [ -n "$have_ptxas" ] || return 0
    if ! "$ptxas" -v -arch=sm_90 "$folder/g.ptx" -o "$folder/k.cubin" >"$folder/k.txt" 2>&1; then
        tail -n 3 "$folder/k.txt" >&2
        return 1
    fi
    # The kernel's frame, or that of a function that it calls, if it is larger.
    awk '
        /bytes stack frame/ {
            for (i = 1; i < NF; i++) {
                if ($(i + 1) == "bytes" && $(i + 2) == "stack" && $i > stack) stack = $i
                if ($(i + 1) == "bytes" && $(i + 2) == "spill") spills += $i
            }
        }
        /Used [0-9]+ registers/ {
            for (i = 1; i < NF; i++) {
                if ($i == "Used") registers = $(i + 1)
                if ($(i + 1) == "bytes" && $(i + 2) ~ /^smem/) local = $i
            }
        }
        END { printf "%d %d %d %d\n", registers, stack, spills, local }' "$folder/k.txt"
}

# Compiles a program for AMD. Prints: vector registers, scratch, spilled, waves of a SIMD
amd() {
    # shellcheck disable=SC2086 # lists of words
    "$clang" -target amdgcn-amd-amdhsa -mcpu="$1" $common \
        -Xclang -mlink-builtin-bitcode -Xclang "$clc/amdgcn--amdhsa.bc" \
        -Rpass-analysis=kernel-resource-usage $3 "$2" -o "$folder/k.s" 2>"$folder/a.txt" || return 1
    awk '
        { for (i = 1; i < NF; i++) {
            if ($i == "VGPRs:") v = $(i + 1)
            if ($i == "ScratchSize") scratch = $(i + 2)
            if ($i == "Occupancy") waves = $(i + 2)
            if ($i == "VGPRs" && $(i + 1) == "Spill:") spilled = $(i + 2) } }
        END { printf "%d %d %d %d\n", v, scratch, spilled, waves }' "$folder/a.txt"
}

# Compiles a program for Intel. Prints: the compiler's status, its seconds, its MB, lanes, bytes of
# a work-item's stack and of a thread's scratch; on gen9 the scratch holds the stack. Without the
# limits a compiler that does not come to an end would keep the script from its own.
intel() {
    status=0
    rm -rf "$folder/intel"
    mkdir "$folder/intel"
    # shellcheck disable=SC3045 # dash and bash both limit processor time
    (cd "$folder/intel" && ulimit -t 120 &&
        "$gnu_time" -q -o time -f '%U %S %M' timeout 600 "$ocloc" compile -file ../source.cl \
            -device "$1" --format zebin -exclude_ir -options "$2") >"$folder/intel.txt" 2>&1 ||
        status=$?
    { cat "$folder/intel/time" 2>/dev/null || echo 0 0 0; } | awk -v status="$status" '
        END { printf "%d %.0f %.0f ", status, $1 + $2, $3 / 1024 }'
    cat "$folder"/intel/*.bin 2>/dev/null | strings | awk '
        $1 == "-" && $2 == "name:" { kernel = $3 ~ /^cls_/ } # there is a program of constants, too
        !kernel { next }
        $1 == "simd_size:" { lanes = $2 }
        $1 == "usage:" { usage = $2 }
        $1 == "size:" && usage == "private_space" { stack = $2 }
        $1 == "size:" && (usage == "spill_fill_space" || usage == "single_space") { scratch += $2 }
        $1 == "size:" { usage = "" }
        END { printf "%d %d %d\n", lanes, stack, scratch }'
}

complaints=
failed=0
complain() {
    complaints="$complaints    $name$*
"
    failed=$((failed + 1))
}
at_most() { # VALUE LIMIT WHAT; an empty limit is none
    [ -z "$2" ] || [ "$1" -le "$2" ] || complain " exceeds its limit: $1 $3, at most $2"
}
at_least() {
    [ -z "$2" ] || [ "$1" -ge "$2" ] || complain " exceeds its limit: $1 $3, at least $2"
}

options_of() { # SUBGROUPS
    sed -n "s/^$name [^ ]* [^ ]* //p" "$folder/programs.$1"
}

nvidia_columns() { # OPTIONS
    # shellcheck disable=SC2046 # numbers
    set -- $(nvidia "$folder/source.cl" "$1")
    at_least "$2" "$min_wide" 'loads of 16 bytes'
    if [ -z "$have_ptxas" ]; then
        printf '%29s%4d%5d|' 'no ptxas' "$1" "$2"
        return
    fi
    # A multiprocessor has 65,536 registers, 2,048 work-items and 227 KiB of local memory; each
    # group wastes 1 KiB of it.
    occupancy=$(awk -v r="$3" -v l="$6" -v g="$group" 'BEGIN {
        per = int((r + 7) / 8) * 8 * 32
        warps = int(65536 / per)
        b = int(warps / (g / 32))
        m = int(227 * 1024 / (l + 1024))
        if (m < b) b = m
        if (2048 / g < b) b = 2048 / g
        printf "%d", 100 * b * g / 2048
    }')
    printf '%5d%6d%7d%7d%4d%%%4d%5d|' "$3" "$4" "$5" "$6" "$occupancy" "$1" "$2"
    at_most "$3" "$max_registers" registers
    at_most "$4" "$max_stack" 'bytes of stack'
    at_most "$5" "$max_spills" 'bytes of spills'
    at_least "$occupancy" "$min_occupancy" '% occupancy'
}

amd_columns() { # OPTIONS
    # shellcheck disable=SC2046 # numbers
    set -- "$1" $(amd gfx1100 "$folder/source.cl" "$1")
    printf '%6d%8d%5d%5d|' "$2" "$3" "$4" "$5"
    at_most "$2" "$max_vgprs" 'vector registers on gfx1100'
}

intel_columns() { # TARGET DEVICE OPTIONS
    target=$1
    # shellcheck disable=SC2046 # numbers
    set -- $(intel "$2" "$3")
    printf '%4d%6d%5d%6d%8d|' "$2" "$3" "$4" "$5" "$6"
    at_most "$2" "$max_seconds" "seconds of ocloc for $target"
    at_most "$3" "$max_mb" "MB in ocloc for $target"
    if [ "$1" != 0 ]; then
        said=$(tail -n 1 "$folder/intel.txt")
        complain ": ocloc for $target ended with status $1 after $2 s of processor time" \
            "${said:+($said)}"
    elif [ "$4" = 0 ]; then
        complain ": ocloc for $target wrote no kernel"
    elif [ "$target" = dg2 ]; then
        at_least "$4" "$min_lanes" "lanes on dg2"
        at_most "$6" "$max_scratch" "bytes of scratch on dg2"
    fi
}

have_ptxas='' have_ocloc=''
if command -v "$ptxas" >/dev/null; then have_ptxas=1; fi
if command -v "$ocloc" >/dev/null && [ -x "$gnu_time" ]; then have_ocloc=1; fi
printf 'groups of %s, vectors of %s, float32\n' "$group" "$vector"
version() { # COMMAND...: the last number with a dot of what it says
    "$@" 2>/dev/null | sed -n 's/.*[ V]\([0-9][0-9]*\.[0-9.]*[0-9]\).*/\1/p' | tail -n 1
}
driver() {
    (cd "$folder" && "$ocloc" query OCL_DRIVER_VERSION >said && tr -d '\0' <OCL_DRIVER_VERSION)
}
printf 'compilers: clang %s, ptxas %s, ocloc %s\n' "$(version "$clang" --version)" \
    "$(version "$ptxas" --version)" "$(version printf ' %s\n' "$(driver 2>/dev/null || true)")"
if [ -z "$have_ocloc" ]; then echo 'ocloc or time is not installed: no columns for Intel'; fi
printf '\n%-18s|%38s|%24s|%29s|%29s|\n' '' sm_90 gfx1100 dg2 gen9
printf '%-18s|%5s%6s%7s%7s%5s%4s%5s|%6s%8s%5s%5s|%4s%6s%5s%6s%8s|%4s%6s%5s%6s%8s|\n' \
    program reg stack spills local occ bar wide vgpr scratch sp occ \
    s MB simd stack scratch s MB simd stack scratch
# The sub-groups of the vendor's compiler: 5 for NVIDIA, 4 for AMD, 2 for Intel.
for subgroups in 5 4 2; do
    "$programs" "$group" "$vector" $subgroups >"$folder/programs.$subgroups"
done
while read -r name file _tiles options; do
    [ "$file" != self_test ] || continue
    case " ${ONLY-$name} " in *" $name "*) ;; *) continue ;; esac
    read -r max_registers max_stack max_spills min_occupancy min_wide max_vgprs \
        max_seconds max_mb min_lanes max_scratch <<EOF
$([ "$group" != 256 ] || limits | sed -n "s/^$name //p")
EOF
    "$programs" --text "$name" >"$folder/source.cl"
    [ -n "$max_registers" ] || [ "$group" != 256 ] || complain ' has no limits'
    printf '%-18s|' "$name"
    nvidia_columns "$options"
    amd_columns "$(options_of 4)"
    if [ -n "$have_ocloc" ]; then
        intel_columns dg2 dg2 "$(options_of 2)"
        # One device of the family: gen9 itself stands for all, each of which ocloc compiles for.
        [ -n "${WITHOUT_GEN9-}" ] || intel_columns gen9 skl "$(options_of 2)"
    fi
    printf '\n%s' "$complaints"
    complaints=
done <"$folder/programs.5"
[ "$failed" = 0 ]
