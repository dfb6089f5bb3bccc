#!/bin/sh
# SPDX-License-Identifier: MIT
# bench/gpu-resources.sh reads what the compilers say, fails and says why where a program exceeds a
# limit or Intel's compiler does not end well, goes on after that, and does without the compilers
# that are not installed. Stubs stand in for them, so that nothing is compiled.
# shellcheck disable=SC2154 # checks.sh sets passed and failed
script=$(cd "${srcdir-.}/bench" && pwd)/gpu-resources.sh
# shellcheck source=tests/support/checks.sh
. "${srcdir-.}/tests/support/checks.sh"
command -v strings >/dev/null || { echo "no strings"; exit 77; }

# The limits of survey and kept are the script's own.
mkdir bin clc
touch clc/amdgcn--amdhsa.bc
stub() { # NAME, with its text on standard input
    { echo '#!/bin/sh' && cat; } >"bin/$1"
    chmod +x "bin/$1"
}
stub programs <<'END'
if [ "$1" = --text ]; then echo "the source of $2"; exit; fi
printf 'survey survey 1 -cl-std=CL1.2 -DSUBGROUPS=%d\nkept kept 0 -DSUBGROUPS=%d\n' "$3" "$3"
END
stub clang <<'END'
case $* in
*nvptx*-DSUBGROUPS=5*) cat "$stubs/ptx" >"$(echo "$*" | sed 's/.* -o //')" ;;
*mcpu=gfx*-DSUBGROUPS=4*) cat "$stubs/amd" >&2 ;;
*) exit 1 ;;
esac
END
stub ptxas <<'END'
echo '0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads'
echo 'Used 40 registers, 1024 bytes smem'
END
stub time <<'END'
while [ "$1" != timeout ]; do [ "$1" != -o ] || out=$2; shift; done
"$@"
code=$?
cat "$stubs/used" >"$out"
exit $code
END
stub ocloc <<'END'
case $* in *-DSUBGROUPS=2*) ;; *) exit 1 ;; esac
echo "$*" >>"$stubs/calls"
. "$stubs/ocloc"
printf '\0\1ELF\n' >k.bin
cat "$stubs/info" >>k.bin
END
for type in f32 u32; do printf 'ld.global.v4.%s\nld.global.nc.v4.%s\n' $type $type; done >ptx
printf 'ld.global.v2.u32\nbar.sync 0\n' >>ptx
echo 'VGPRs: 30 ScratchSize [bytes/lane]: 32 Occupancy [waves/SIMD]: 16 VGPRs Spill: 0' >amd
echo '0.9 0.6 204800' >used
: >ocloc
cat >info <<'END'
  - name:            Intel_Symbol_Table_Void_Program
      simd_size:       8
  - name:            cls_survey
      simd_size:       16
      - arg_type:        buffer
        size:            12
      - type:            global
        usage:           private_space
        size:            48
  - name:            Intel_Symbol_Table_Void_Program
      simd_size:       32
END
export stubs="$dir" CLANG="$dir/bin/clang" LIBCLC="$dir/clc" PTXAS="$dir/bin/ptxas" \
    OCLOC="$dir/bin/ocloc" GNU_TIME="$dir/bin/time"

ends() { # WHAT STATUS PATTERN...: the script's status, and the patterns in its output
    what=$1 wanted=$2 code=0
    shift 2
    sh "$script" "$dir/bin/programs" >out 2>&1 || code=$?
    if [ $code = "$wanted" ]; then yes_; else no_ "$what: status $code, not $wanted: $(cat out)"; fi
    for pattern; do says "$what" "$pattern" out; done
}
with() { # FILE TEXT WHAT STATUS PATTERN...: a stub's file has another text for this call
    file=$1
    cp "$file" usual
    printf '%s\n' "$2" >"$file"
    shift 2
    ends "$@"
    mv usual "$file"
}

# ------------------------------------------------------------- what it prints
nvidia='|   40     0      0   1024  75%   1    4|'
dg2='   2   200   16    48       0|'
ends 'gen9, too' 0 "^survey *$nvidia.*|$dg2$dg2\$" "^kept .*|$dg2$dg2\$"
says 'dg2' '-file ../source.cl -device dg2 .* -options *-cl-std=CL1.2 -DSUBGROUPS=2$' calls
says 'gen9' '-device skl .* -options *-DSUBGROUPS=2$' calls
export WITHOUT_GEN9=1
ends 'without gen9' 0 "^survey *$nvidia    30      32    0   16|$dg2\$"

# ----------------------------------------------------------------- the limits
with ptx 'ld.global.v4.f32' 'wide loads' 1 '^    survey exceeds its limit: 1 loads .*, at least 4$'
with used '300.2 0.1 204800' 'seconds' 1 ': 300 seconds of ocloc for dg2, at most [0-9]*$'
with used '1 1 5734400' 'memory' 1 ': 5600 MB in ocloc for dg2, at most [0-9]*$'
with info '- name: cls_survey
simd_size: 4' 'lanes' 1 ': 4 lanes on dg2, at least 8$'
with info '- name: cls_survey
simd_size: 16
usage: spill_fill_space
size: 640000
usage: single_space
size: 64' 'scratch' 1 ': 640064 bytes of scratch on dg2, at most [0-9]*$'
with bin/ptxas 'echo "Used 90 registers"' 'registers' 1 ': 90 registers, at most 64$'
# shellcheck disable=SC2016 # the stub expands it
with bin/programs '[ "$1" = --text ] || echo "new new 0 -DSUBGROUPS=$3"' 'a new program' 1 \
    '^    new has no limits$'

# ------------------------------------------------- a compiler that does not end well
# shellcheck disable=SC2016 # the stub expands it
with ocloc 'kill -9 $$' 'killed' 1 '^kept .*| *2 *200 *0 *0 *0|$' \
    '^    survey: ocloc for dg2 ended with status 137 after 2 s of processor time' \
    '^    kept: ocloc for dg2 ended with status 137 '
with ocloc 'echo "Build failed."; exit 7' 'an error' 1 'ended with status 7 .* (Build failed\.)$'
with ocloc 'exit 0' 'no binary' 1 '^    survey: ocloc for dg2 wrote no kernel$'

# --------------------------------------------------------- what is not installed
PTXAS=$dir/none ends 'no ptxas' 0 '^survey *| *no ptxas   1    4|'
OCLOC=$dir/none ends 'no ocloc' 0 '^ocloc or time is not installed: ' '|    30      32    0   16|$'
GNU_TIME=$dir/none ends 'no time' 0 '^ocloc or time is not installed: '
CLANG=$dir/none ends 'no clang' 77 '^clang-15 with libclc-15 is not installed$'

finish
