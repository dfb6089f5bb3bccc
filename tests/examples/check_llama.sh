#!/bin/sh
# SPDX-License-Identifier: MIT
# Proves that examples/llama builds outside this tree and runs correctly on a random checkpoint
# and, where ../shared/data has one, on a real one. It uses the library of this build or, with
# BUILD empty, the installed one. CC, CFLAGS, PKG_CONFIG and LLAMA_FLAGS (of make) say what to
# build with. Exits 77 if there is no compiler or no device.
source=$(cd "$(dirname "$0")/../.." && pwd) || exit 99
BUILD=${BUILD-$PWD} CC=${CC:-cc} PKG_CONFIG=${PKG_CONFIG:-pkg-config}
# shellcheck source=tests/support/checks.sh
. "$source/tests/support/checks.sh"

refused() { refused_by llama "$llama" "$@"; }

runs() { # ARGUMENTS...: exit 0
    "$llama" "$@" >out 2>err
    code=$?
    if [ $code -eq 0 ]; then yes_; else no_ "llama $*: exit $code: $(tail -1 err)"; fi
}

texts() { # FILE N: the first N requests of the JSON printed last, a line each
    sed -n "2,$(($2 + 1))s/[],]*\$//p" out >"$1"
}

# ------------------------------------------------------------------------ build

for tool in "${CC%% *}" "${PKG_CONFIG%% *}" make; do
    command -v "$tool" >/dev/null && continue
    echo "no $tool: the example is not built"
    exit 77
done
if [ -n "$BUILD" ]; then
    PKG_CONFIG_PATH=$BUILD${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}
    LD_LIBRARY_PATH=$BUILD/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    DYLD_LIBRARY_PATH=$BUILD/.libs
    export PKG_CONFIG_PATH LD_LIBRARY_PATH DYLD_LIBRARY_PATH
fi
build() { # DIRECTORY FLAGS...
    where=$1
    shift
    # make's own variables are the outer make's business. An archive's files may be read-only.
    # shellcheck disable=SC2086 # a list of words
    if mkdir "$where" && (cd "$where" &&
        MAKEFLAGS='' MFLAGS='' make -f "$source/examples/llama/Makefile" \
        src="$source/examples/llama" CC="$CC" CFLAGS="${CFLAGS--O2}" PKG_CONFIG="$PKG_CONFIG" "$@" \
        ${LLAMA_FLAGS-}) \
        >build.log 2>&1; then
        yes_
    else
        cat build.log
        no_ "make $* in examples/llama"
        finish
    fi
}
build with
llama=$dir/with/llama

# ------------------------------------------------------------ a random checkpoint

runs --checkpoint r.bin --tokenizer r.tok --make-random
runs --checkpoint again.bin --tokenizer again.tok --make-random
same "random checkpoints" r.bin again.bin
# The tests' own folder of compiled programs, if they have one: kernels.sh.
programs=${CLS_TEST_PROGRAMS:+--cache-dir $CLS_TEST_PROGRAMS}
model="--checkpoint r.bin --tokenizer r.tok $programs"

# shellcheck disable=SC2086
"$llama" $model --max-tokens 3 >out 2>err
code=$?
if [ $code -eq 77 ]; then
    cat err
    exit 77
fi

long='--repetition-penalty 1.5 --frequency-penalty 0.5 --presence-penalty 0.1 --penalty-window 16'
cat >prompts <<EOF
the cat
--temperature 0 --max-tokens 9	The zebra is at the end
--temperature 1.5 --top-k 40 --min-p 0.02 --seed 7	x

$long --max-tokens 60	a long prompt of many more tokens than the others
--top-p 0.5 --max-tokens 1	Ä €uro
EOF
# A text is its request's alone, however many there are at a time, however long
# their chunks and however far the steps run ahead.
# shellcheck disable=SC2086
{
    runs $model --prompts prompts --requests 9 --json
    texts one 9
    says "a request of 9 tokens" '"end": "full".*"tokens": \[\([0-9]*, \)\{8\}[0-9]*\]}' one
    runs $model --prompts prompts --requests 9 --streams 3 --ahead 0 --chunk 1 --json
    texts three 9
    same "1 and 3 streams" one three
    runs $model --prompts prompts --requests 64 --streams 64 --ahead 40 --chunk 64 --json
    texts many 9
    same "1 and 64 streams" one many
    runs $model --prompts prompts --requests 9 --streams 2 --seed 1 --json
    texts seed 9
    differ "seeds 0 and 1" one seed
    # A request comes and goes with every step: clsample's staging is full at times.
    runs $model --prompts prompts --requests 200 --max-tokens 1 --ahead 0 --json
    texts calm 200
    runs $model --prompts prompts --requests 200 --max-tokens 1 --streams 2 --ahead 60 --json
    texts hasty 200
    same "0 and 60 steps ahead" calm hasty
    # Drafts change nothing but the time. Those that the whole model makes are its own
    # tokens, and accepted but for what is behind a stop; unless others are asked for.
    for draft in "ngram" "ngram --drafts 15" "layers=1 --drafts 1" "layers=2 --drafts 7"; do
        runs $model --prompts prompts --requests 9 --streams 4 --draft $draft --json
        texts drafts 9
        same "texts with drafts: $draft" one drafts
    done
    says "drafts" '"drafted": [1-9][0-9]*, "accepted": [1-9]' out
    for method in match standard block; do
        runs $model --prompt "the cat" --streams 2 --draft layers=2 --method $method \
            --temperature 0.9 --json
        if [ "$(sed -n 's/.*"drafted": \([0-9]*\), "accepted": \([0-9]*\),.*/\1 \2/p' out |
            awk '{ print ($1 > 0 && $1 - $2 <= 8) }')" = 1 ]; then
            yes_
        else
            no_ "own drafts, $method"
        fi
    done
    runs $model --temperature 0 --streams 2 --json
    texts plain 2
    for method in match standard block typical; do
        runs $model --temperature 0 --streams 2 --draft layers=1 --method $method --json
        texts drafts 2
        same "greedy text, $method" plain drafts
    done
    runs $model --streams 3 --max-tokens 20 --draft layers=1 --method standard
    says "a line on drafts" '^drafts  *[0-9]* of [1-9][0-9]* accepted' err
    runs $model --prompt "the cat" --prompt "the dog" --requests 3 --max-tokens 40
    mv out plain
    says "a table" 'tokens/s' err
    says "sampling's share" '^sampling  *[0-9.]* ms a step, [0-9.]* %' err
    runs $model --prompt "the cat" --prompt "the dog" --requests 3 --streams 3 --max-tokens 40 \
        --stream
    same "texts at once and as they grow" plain out
}

# ---------------------------------------------------------------- what is refused

size=$(($(wc -c <r.bin)))
for n in 0 1 27 28 29 1000 $((size / 2)) $((size - 1)); do
    head -c $n r.bin >cut.bin
    refused "cut.bin: t" --checkpoint cut.bin --tokenizer r.tok
done
{ cat r.bin; echo; } >long.bin
refused "long.bin: longer" --checkpoint long.bin --tokenizer r.tok
i=0
while [ $i -lt 7 ]; do # each number of the header: none, and far too large
    for bytes in '\000\000\000\000' '\000\000\000\177'; do
        # shellcheck disable=SC2059
        { head -c $((4 * i)) r.bin; printf "$bytes"; tail -c +$((4 * i + 5)) r.bin; } >bad.bin
        refused "bad.bin: not a llama2.c checkpoint" --checkpoint bad.bin --tokenizer r.tok
    done
    i=$((i + 1))
done
size=$(($(wc -c <r.tok)))
for n in 0 3 4 11 12 500 $((size - 1)); do
    head -c $n r.tok >cut.tok
    refused "cut.tok: " --checkpoint r.bin --tokenizer cut.tok
done
{ cat r.tok; echo; } >long.tok
refused "long.tok: has more" --checkpoint r.bin --tokenizer long.tok
refused "none.bin: cannot be opened" --checkpoint none.bin --tokenizer r.tok
refused "none.tok: cannot be opened" --checkpoint r.bin --tokenizer none.tok
refused "required"
# shellcheck disable=SC2086
{
    refused "'--nothing' is not an option" $model --nothing
    refused "'text' is not an option" $model text
    refused "--seed: a value is missing" $model --seed
    refused "--seed: '-1' is not a whole" $model --seed -1
    refused "--top-p: 'x' is not a number" $model --top-p x
    refused "request 0: .*top_p is 2" $model --top-p 2
    refused "--streams: '0'" $model --streams 0
    refused "too small for 9 streams" $model --streams 9 --batch 8
    refused "too small for 2 streams and their drafts" $model --streams 2 --batch 9 --draft ngram
    refused "'words' is neither" $model --draft words
    refused "draft layers: '0'" $model --draft layers=0
    refused "has 2 layers, not 3" $model --draft layers=3
    refused "'16' is not a whole" $model --draft ngram --drafts 16
    refused "'none' is not one of match" $model --draft ngram --method none
    refused "require --draft" $model --method match
    refused "no-prompts: cannot be opened" $model --prompts no-prompts
    printf -- '--streams 4\tx\n' >bad
    refused "bad: line 1: '--streams' is not an option of a request" $model --prompts bad
    printf -- 'x\n--top-k\tx\n' >bad
    refused "bad: line 2: '--top-k' lacks its value" $model --prompts bad
    refused "its prompt has [0-9]* tokens" $model --prompt \
        "$(tail -c +1 "$source/tests/examples/check_llama.sh" | head -c 200)"
    refused "not a NumPy array" $model --check-logits r.bin --check-tokens r.tok
}

# A classifier of NaN: no token, and the requests say so.
{ head -c 150000 r.bin; head -c $(($(wc -c <r.bin) - 150000)) /dev/zero |
    tr '\000' '\377'; } >nan.bin
runs --checkpoint nan.bin --tokenizer r.tok --streams 2 --json
texts nan 2
says "no token" '"end": "failed", "status": 5, .*"tokens": \[\]' nan

# ------------------------------------------------------------------- a real model

data=$source/../shared/data
if [ ! -r "$data/stories260K.bin" ] || [ ! -r "$data/tok512.bin" ]; then
    echo "the real model is not there: it was not tried"
    finish
fi
model="--checkpoint $data/stories260K.bin --tokenizer $data/tok512.bin $programs"
recorded="--check-logits $data/stories260K-logits.npy --check-tokens $data/stories260K-tokens.npy"
usual="--temperature 0.8 --top-p 0.9 --seed 5 --max-tokens 80"
# shellcheck disable=SC2086
{
    runs $model $recorded --max-tokens 200
    runs $model $recorded --max-tokens 200 --batch 1
    says "logits" '^256 rows' out
    refused_text=1
    "$llama" $model $recorded --max-tokens 199 >out 2>err && refused_text=0
    if [ $refused_text -eq 1 ]; then
        says "other logits" 'differ by more' err
    else
        no_ "other logits pass"
    fi

    runs $model $usual --streams 64 --json
    texts many 64
    says "a story" 'Once upon a time' many
    runs $model $usual --streams 8 --requests 16 --json
    texts eight 16
    head -n 16 many >first
    same "8 and 64 streams" eight first
    runs $model $usual --requests 4 --json
    texts one 4
    head -n 4 many >first
    same "1 and 64 streams" one first
    runs $model --temperature 0 --prompt "Lily and Tom" --max-tokens 150 --json
    texts device 1
    says "greedy text" '"text": " were' device
    for draft in ngram layers=4; do
        runs $model --temperature 0 --prompt "Lily and Tom" --max-tokens 150 --draft $draft --json
        texts drafts 1
        same "greedy text, drafts: $draft" device drafts
        runs $model $usual --streams 8 --draft $draft --json
        texts drafts 8
        head -n 8 many >first
        same "sampled text, drafts: $draft" first drafts
    done

    build without clblast=no
    llama=$dir/without/llama
    runs $model $recorded --max-tokens 200
    runs $model $usual --streams 2 --json
    says "own products" '"products": "own kernel"' out
}
finish
