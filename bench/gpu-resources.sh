#!/bin/sh
# SPDX-License-Identifier: MIT
# Compiles each program for GPUs, without a GPU, and prints what it needs: registers, stack,
# spills, local memory, occupancy and barriers. For NVIDIA clang compiles to PTX and ptxas for
# sm_90; for AMD clang compiles for gfx90a and gfx1100. Clang replaces the vendors' front ends and
# inlines everything, as they do. The script measures no times. It fails if a program exceeds the
# limits below.
#
# usage: gpu-resources.sh PROGRAMS [GROUP [VECTOR]]     PROGRAMS: the built bench/programs
# WITHOUT_GFX90A=1 leaves out the target that has no limits, a third of the time.
# ONLY='accept force' compiles these programs alone.
# needs: clang-15 and libclc-15 (Debian); ptxas (CUDA) for NVIDIA's lines
set -eu
programs=${1:?usage: gpu-resources.sh PROGRAMS [GROUP [VECTOR]]}
group=${2:-256}
vector=${3:-4}
clang=${CLANG:-/usr/lib/llvm-15/bin/clang}
clc=${LIBCLC:-/usr/lib/clc}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
PATH=$PATH:/usr/local/cuda/bin
if [ ! -x "$clang" ] || [ ! -e "$clc/amdgcn--amdhsa.bc" ]; then
    echo "clang-15 with libclc-15 is not installed"
    exit 77
fi
common="-x cl -Xclang -finclude-default-header -nogpulib -O3 -S -w -mllvm -inline-threshold=1000000"

# The limits that a change must not exceed: name, registers (sm_90), bytes of stack, bytes of
# spills, occupancy in percent, vector registers (gfx1100). doc/performance.md lists what each
# program needs.
limits() {
    cat <<EOF
slots 80 544 0 37 88
slots-state 128 744 0 25 88
prepare 64 32 0 50 80
survey 64 0 0 50 64
survey-row 80 0 0 37 96
token-plain 64 0 0 50 64
token-list 80 0 0 37 96
token-row 128 0 0 25 128
token-all 128 160 1110 25 128
pass 64 0 0 50 64
pass-row 80 0 0 37 96
search 128 96 24 25 128
search-row 128 264 1240 25 128
search-all 128 400 3140 25 128
distribution 64 0 0 50 64
distribution-row 80 0 0 37 64
report 80 24 0 37 64
report-row 128 24 0 25 104
force 64 32 24 50 64
kept 64 0 0 50 64
kept-row 64 0 0 50 64
accept 64 0 0 50 64
draw 64 136 0 50 64
residual 128 48 0 25 96
verify 128 48 0 25 128
verify-forced 128 80 100 25 128
shard-survey 64 0 0 50 64
shard-survey-row 80 0 0 37 96
partial 128 56 96 25 128
merge 64 0 0 50 96
EOF
}

# Compiles a program for NVIDIA. Prints: registers stack spills local barriers
nvidia() {
    # The library limits registers by a build option of NVIDIA's compiler; ptxas takes a directive.
    register_limit=$(printf '%s\n' "$3" |
        sed -n 's/.*-cl-nv-maxrregcount=\([0-9]*\).*/.maxnreg \1/p')
    set -- "$1" "$2" "${3%% -cl-nv-maxrregcount=*}"
    # shellcheck disable=SC2086 # lists of words
    "$clang" -target nvptx64--nvidiacl $common -Xclang -target-cpu -Xclang sm_80 \
        -Xclang -target-feature -Xclang +ptx70 \
        -Xclang -mlink-builtin-bitcode -Xclang "$clc/nvptx64--nvidiacl.bc" \
        $3 "$2" -o "$folder/k.ptx" || return 1
    # clang 15 does not pass the work-group size on, as NVIDIA's compiler does.
    awk -v group="$group" -v limit="$register_limit" '
        /^\.visible \.entry/ { entry = 1 }
        entry && /^\{/ { print ".reqntid " group ", 1, 1 " limit; entry = 0 }
        { print }' "$folder/k.ptx" >"$folder/g.ptx"
    if ! ptxas -v -arch=sm_90 "$folder/g.ptx" -o "$folder/k.cubin" >"$folder/k.txt" 2>&1; then
        tail -n 3 "$folder/k.txt" >&2
        return 1
    fi
    awk '
        /bytes stack frame/ {
            for (i = 1; i < NF; i++) {
                if ($(i + 1) == "bytes" && $(i + 2) == "stack") stack = $i
                if ($(i + 1) == "bytes" && $(i + 2) == "spill") spills += $i
            }
        }
        /Used [0-9]+ registers/ {
            for (i = 1; i < NF; i++) {
                if ($i == "Used") registers = $(i + 1)
                if ($(i + 1) == "bytes" && $(i + 2) ~ /^smem/) local = $i
            }
        }
        END { printf "%d %d %d %d ", registers, stack, spills, local }' "$folder/k.txt"
    grep -cE 'bar\.sync|barrier\.sync' "$folder/k.ptx" || true
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

have_ptxas=
if command -v ptxas >/dev/null; then have_ptxas=1; fi
printf 'groups of %s, vectors of %s, float32\n\n' "$group" "$vector"
printf '%-18s|%33s|%24s|%24s\n' '' 'sm_90' 'gfx90a' 'gfx1100'
printf '%-18s|%5s%6s%7s%7s%5s%4s|%6s%8s%5s%5s|%6s%8s%5s%5s\n' \
    program reg stack spills local occ bar vgpr scratch sp occ vgpr scratch sp occ
failed=0
over() {
    echo "    exceeds its limit: $*"
    failed=$((failed + 1))
}
# The sub-groups of the vendor's compiler: 5 for NVIDIA, 4 for AMD.
"$programs" "$group" "$vector" 5 >"$folder/nvidia"
"$programs" "$group" "$vector" 4 >"$folder/amd"
while read -r name file _tiles options; do
    [ "$file" != self_test ] || continue
    case " ${ONLY-$name} " in *" $name "*) ;; *) continue ;; esac
    "$programs" --text "$name" >"$folder/source.cl"
    printf '%-18s|' "$name"
    registers=0 stack=0 spills=0 occupancy=100
    if [ -n "$have_ptxas" ]; then
        # shellcheck disable=SC2046 # numbers
        set -- $(nvidia sm_90 "$folder/source.cl" "$options")
        registers=$1 stack=$2 spills=$3
        # A multiprocessor has 65,536 registers, 2,048 work-items and 227 KiB of local memory; each
        # group wastes 1 KiB of it.
        occupancy=$(awk -v r="$1" -v l="$4" -v g="$group" 'BEGIN {
            per = int((r + 7) / 8) * 8 * 32
            warps = int(65536 / per)
            b = int(warps / (g / 32))
            m = int(227 * 1024 / (l + 1024))
            if (m < b) b = m
            if (2048 / g < b) b = 2048 / g
            printf "%d", 100 * b * g / 2048
        }')
        printf '%5d%6d%7d%7d%4d%%%4d|' "$1" "$2" "$3" "$4" "$occupancy" "$5"
    else
        printf '%34s|' 'no ptxas'
    fi
    other=$(awk -v name="$name" '$1 == name { $1 = $2 = $3 = ""; print }' "$folder/amd")
    if [ -n "${WITHOUT_GFX90A-}" ]; then
        printf '%24s|' 'left out'
    else
        # shellcheck disable=SC2046 # numbers
        set -- $(amd gfx90a "$folder/source.cl" "$other")
        printf '%6d%8d%5d%5d|' "$1" "$2" "$3" "$4"
    fi
    # shellcheck disable=SC2046 # numbers
    set -- $(amd gfx1100 "$folder/source.cl" "$other")
    printf '%6d%8d%5d%5d\n' "$1" "$2" "$3" "$4"
    limit=$(limits | awk -v name="$name" '$1 == name { print $2, $3, $4, $5, $6 }')
    [ -n "$limit" ] && [ "$group" = 256 ] || continue
    vgprs=$1
    # shellcheck disable=SC2086 # numbers
    set -- $limit
    [ "$registers" -le "$1" ] || over "$registers registers, at most $1"
    [ "$stack" -le "$2" ] || over "$stack bytes of stack, at most $2"
    [ "$spills" -le "$3" ] || over "$spills bytes of spills, at most $3"
    [ "$occupancy" -ge "$4" ] || over "$occupancy % occupancy, at least $4"
    [ "$vgprs" -le "$5" ] || over "$vgprs vector registers on gfx1100, at most $5"
done <"$folder/nvidia"
[ "$failed" = 0 ]
