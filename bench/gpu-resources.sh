#!/bin/sh
# SPDX-License-Identifier: MIT
# What GPU compilers make of each program, without a GPU: registers, stack, spills,
# local memory, occupancy and barriers, for NVIDIA (clang to PTX, then ptxas for
# sm_90) and for AMD (clang to gfx90a and gfx1100). Static: no times. Clang stands in
# for the vendors' front ends; both inline everything, as they do. Fails beyond the
# limits below.
#
# usage: gpu-resources.sh PROGRAMS [GROUP [VECTOR]]     PROGRAMS: the built bench/programs
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
    echo "no clang-15 with libclc-15 here"
    exit 77
fi
common="-x cl -Xclang -finclude-default-header -nogpulib -O3 -S -w -mllvm -inline-threshold=1000000"

# The limits: name, registers (sm_90), bytes of stack, bytes of spills, occupancy in
# percent, vector registers (gfx1100). What stands here is what a change must not
# make worse; doc/performance.md has what each program takes.
limits() {
    cat <<EOF
slots 80 432 0 37 72
slots-state 128 648 0 25 72
prepare 64 32 0 50 80
survey 64 0 0 50 64
survey-row 80 0 0 37 96
token-plain 64 0 0 50 64
token-list 80 0 0 37 96
token-row 128 64 300 25 128
token-all 128 160 1100 25 128
pass 64 0 0 50 64
pass-row 80 0 0 37 96
search 128 216 720 25 128
search-row 128 440 2200 25 128
search-all 128 600 5100 25 128
distribution 64 0 0 50 64
distribution-row 80 0 0 37 64
report 96 32 0 37 64
report-row 128 32 0 25 104
accept 64 0 0 50 64
draw 64 128 0 50 64
residual 128 48 0 25 96
verify 128 48 0 25 128
EOF
}

# One program for NVIDIA: registers stack spills local barriers
nvidia() {
    # What the library tells NVIDIA's compiler of registers, ptxas has from a directive.
    register_limit=$(printf '%s\n' "$3" | sed -n 's/.*-cl-nv-maxrregcount=\([0-9]*\).*/.maxnreg \1/p')
    set -- "$1" "$2" "${3%% -cl-nv-maxrregcount=*}"
    # shellcheck disable=SC2086 # lists of words
    "$clang" -target nvptx64--nvidiacl $common -Xclang -target-cpu -Xclang sm_80 -Xclang -target-feature -Xclang +ptx70 \
        -Xclang -mlink-builtin-bitcode -Xclang "$clc/nvptx64--nvidiacl.bc" $3 "$2" -o "$folder/k.ptx" || return 1
    # clang 15 does not hand the group's size over; NVIDIA's compiler does.
    awk -v group="$group" -v limit="$register_limit" '
        /^\.visible \.entry/ { entry = 1 }
        entry && /^\{/ { print ".reqntid " group ", 1, 1 " limit; entry = 0 }
        { print }' "$folder/k.ptx" >"$folder/g.ptx"
    ptxas -v -arch=sm_90 "$folder/g.ptx" -o "$folder/k.cubin" >"$folder/k.txt" 2>&1 || { tail -n 3 "$folder/k.txt" >&2; return 1; }
    awk '
        /bytes stack frame/ { for (i = 1; i < NF; i++) { if ($(i + 1) == "bytes" && $(i + 2) == "stack") stack = $i
                                                       if ($(i + 1) == "bytes" && $(i + 2) == "spill") spills += $i } }
        /Used [0-9]+ registers/ { for (i = 1; i < NF; i++) { if ($i == "Used") registers = $(i + 1)
                                                          if ($(i + 1) == "bytes" && $(i + 2) ~ /^smem/) local = $i } }
        END { printf "%d %d %d %d ", registers, stack, spills, local }' "$folder/k.txt"
    grep -cE 'bar\.sync|barrier\.sync' "$folder/k.ptx" || true
}

# One program for AMD: vector registers, scratch, spilled, waves of a SIMD
amd() {
    # shellcheck disable=SC2086 # lists of words
    "$clang" -target amdgcn-amd-amdhsa -mcpu="$1" $common -Xclang -mlink-builtin-bitcode -Xclang "$clc/amdgcn--amdhsa.bc" \
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
printf '%-18s|%5s%6s%7s%7s%5s%4s|%6s%8s%5s%5s|%6s%8s%5s%5s\n' program reg stack spills local occ bar vgpr scratch sp occ vgpr scratch sp occ
failed=0
bad() {
    echo "    beyond its limit: $*"
    failed=$((failed + 1))
}
# Sub-groups as the vendor's compiler has them: 5 is NVIDIA's, 4 AMD's.
"$programs" "$group" "$vector" 5 >"$folder/nvidia"
"$programs" "$group" "$vector" 4 >"$folder/amd"
while read -r name file _tiles options; do
    [ "$file" != self_test ] || continue
    "$programs" --text "$name" >"$folder/source.cl"
    printf '%-18s|' "$name"
    registers=0 stack=0 spills=0 occupancy=100
    if [ -n "$have_ptxas" ]; then
        # shellcheck disable=SC2046 # numbers
        set -- $(nvidia sm_90 "$folder/source.cl" "$options")
        registers=$1 stack=$2 spills=$3
        # Of 65,536 registers and 2,048 work-items, and 227 KiB of local memory, a kibibyte a group lost.
        occupancy=$(awk -v r="$1" -v l="$4" -v g="$group" 'BEGIN {
            per = int((r + 7) / 8) * 8 * 32; warps = int(65536 / per); b = int(warps / (g / 32)); m = int(227 * 1024 / (l + 1024))
            if (m < b) b = m; if (2048 / g < b) b = 2048 / g; printf "%d", 100 * b * g / 2048 }')
        printf '%5d%6d%7d%7d%4d%%%4d|' "$1" "$2" "$3" "$4" "$occupancy" "$5"
    else
        printf '%34s|' 'no ptxas here'
    fi
    other=$(awk -v name="$name" '$1 == name { $1 = $2 = $3 = ""; print }' "$folder/amd")
    # shellcheck disable=SC2046 # numbers
    set -- $(amd gfx90a "$folder/source.cl" "$other")
    printf '%6d%8d%5d%5d|' "$1" "$2" "$3" "$4"
    # shellcheck disable=SC2046 # numbers
    set -- $(amd gfx1100 "$folder/source.cl" "$other")
    printf '%6d%8d%5d%5d\n' "$1" "$2" "$3" "$4"
    limit=$(limits | awk -v name="$name" '$1 == name { print $2, $3, $4, $5, $6 }')
    [ -n "$limit" ] && [ "$group" = 256 ] || continue
    vgprs=$1
    # shellcheck disable=SC2086 # numbers
    set -- $limit
    [ "$registers" -le "$1" ] || bad "$registers registers, at most $1"
    [ "$stack" -le "$2" ] || bad "$stack bytes of stack, at most $2"
    [ "$spills" -le "$3" ] || bad "$spills bytes of spills, at most $3"
    [ "$occupancy" -ge "$4" ] || bad "$occupancy % occupancy, at least $4"
    [ "$vgprs" -le "$5" ] || bad "$vgprs vector registers on gfx1100, at most $5"
done <"$folder/nvidia"
[ "$failed" = 0 ]
