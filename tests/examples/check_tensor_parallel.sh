#!/bin/sh
# SPDX-License-Identifier: MIT
# Proves that examples/tensor_parallel writes the texts of examples/llama, byte for byte, on 1 to 4
# ranks: with penalties, many requests and drafts, for a random checkpoint and, where ../shared/data
# has one, for a real one. It uses the library of this build. Exits 77 if there is no compiler, no
# launcher, no libclsample-mpi or no device.
source=$(cd "$(dirname "$0")/../.." && pwd) || exit 99
BUILD=${BUILD-$PWD} CC=${CC:-cc} PKG_CONFIG=${PKG_CONFIG:-pkg-config}
# shellcheck source=tests/support/checks.sh
. "$source/tests/support/checks.sh"
# shellcheck source=tests/support/mpi.sh
. "$source/tests/support/mpi.sh"

for tool in "${CC%% *}" "${PKG_CONFIG%% *}" make; do
    command -v "$tool" >/dev/null && continue
    echo "no $tool: the example is not built"
    exit 77
done
PKG_CONFIG_PATH=$BUILD${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}
LD_LIBRARY_PATH=$BUILD/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
DYLD_LIBRARY_PATH=$BUILD/.libs
export PKG_CONFIG_PATH LD_LIBRARY_PATH DYLD_LIBRARY_PATH
if ! $PKG_CONFIG --exists clsample-mpi; then
    echo "no clsample-mpi: the example is not built"
    exit 77
fi
for name in llama tensor_parallel; do
    if mkdir $name && (cd $name && MAKEFLAGS='' MFLAGS='' make \
        -f "$source/examples/$name/Makefile" src="$source/examples/$name" \
        llama="$source/examples/llama" CC="$CC" CFLAGS="${CFLAGS--O2}" PKG_CONFIG="$PKG_CONFIG") \
        >build.log 2>&1; then
        yes_
    else
        cat build.log
        no_ "make in examples/$name"
        finish
    fi
done
llama=$dir/llama/llama split=$dir/tensor_parallel/tensor_parallel

compare() { # RANKS WHAT ARGUMENTS...: both programs' texts
    n=$1 what=$2
    shift 2
    "$llama" "$@" >whole 2>err || no_ "llama $*: $(tail -1 err)"
    on_ranks "$n" 120 "$split" "$@" >split 2>err || no_ "$n ranks, $*: $(tail -1 err)"
    same "$n ranks: $what" whole split
}

"$llama" --checkpoint r.bin --tokenizer r.tok --make-random || no_ "a random checkpoint"
# The tests' own folder of compiled programs, if they have one: kernels.sh.
programs=${CLS_TEST_PROGRAMS:+--cache-dir $CLS_TEST_PROGRAMS}
model="--checkpoint r.bin --tokenizer r.tok --half $programs"
# shellcheck disable=SC2086
"$llama" $model --max-tokens 3 >out 2>err
[ $? -ne 77 ] || { cat err; exit 77; }
cat >prompts <<EOF
the cat
--temperature 0 --max-tokens 9	The zebra is at the end
--temperature 1.5 --top-k 40 --min-p 0.02 --seed 7	x
--repetition-penalty 1.5 --frequency-penalty 0.5 --penalty-window 16	a long prompt of many words
--top-p 0.5	the dog
EOF
# shellcheck disable=SC2086
for n in 1 2 3 4; do
    compare $n "texts" $model --prompts prompts --requests 9 --streams 3
    [ $n -le 2 ] || continue
    compare $n "requests that come and go" $model --prompts prompts --requests 40 --max-tokens 4 \
        --streams 4 --ahead 20
    compare $n "drafts" $model --prompts prompts --streams 2 --draft ngram
    compare $n "drafts by layers" $model --prompts prompts --streams 2 --draft layers=1 \
        --method standard
done

data=$source/../shared/data
if [ ! -r "$data/stories260K.bin" ] || [ ! -r "$data/tok512.bin" ]; then
    echo "the real model is not there: it was not tried"
    finish
fi
model="--checkpoint $data/stories260K.bin --tokenizer $data/tok512.bin --half $programs"
# shellcheck disable=SC2086
for n in 1 2 3 4; do
    compare $n "a story" $model --temperature 0.8 --top-p 0.9 --seed 5 --max-tokens 120 --streams 2
done
finish
