#!/bin/sh
# SPDX-License-Identifier: MIT
# Proves that `clsample explain` reports of each stage what is worked out by hand, and the
# distribution that `clsample sample` draws from. Needs no device. CLSAMPLE is the command's path.
# shellcheck source=tests/command/command.sh
. "$(dirname "$0")/command.sh"

# Two rows of 4, 3, 2, -1: .66228, .24364, .08963, .00446.
npy four.npy '<f4' '2, 4'
bytes four.npy 40800000 40400000 40000000 bf800000 40800000 40400000 40000000 bf800000
ints repeats.npy '2, 3'  -1 -1 -1  0 0 0
ints none.npy '2, 1'  1 0

explain() { "$clsample" explain --logits four.npy "$@"; }
numbers() { # KEY: of all stages, rounded to four digits
    sed -n "s/^ *\"$1\": \(-*[0-9.]*\),*$/\1/p" out | awk '{ printf "%.4f ", $1 }'
}
names() { sed -n 's/^ *"stage": "\(.*\)",$/\1/p' out | tr '\n' ' '; }

shows() { # WHAT STAGES TOKENS MASSES SHARES TEMPERATURES OPTIONS
    what_=$1 stages_=$2 tokens_=$3 masses_=$4 shares_=$5 temperatures_=$6
    shift 6
    check "$what_" explain --json "$@"
    is "stages: $what_" "$(names)" "$stages_ "
    is "tokens left: $what_" "$(sed -n 's/^ *"tokens": \([0-9]*\),*$/\1/p' out | tr '\n' ' ')" \
        "$tokens_ "
    is "masses: $what_" "$(numbers mass)" "$masses_ "
    is "shares: $what_" "$(numbers of_before)" "$shares_ "
    is "temperatures: $what_" "$(numbers temperature)" "$temperatures_ "
}

# ------------------------------------------------------------------- refusals

no() { pattern_=$1; shift; refused "$pattern_" explain --logits four.npy "$@"; }
refused "--logits: this option is required" explain
refused "nowhere.npy: cannot be opened: No such file or directory" explain --logits nowhere.npy
no "--row: there is no row 2; the file has rows 0 to 1" --row 2
no "--row: '-1'" --row -1
no "--top: 'x'" --top x
no "unknown option '--tokens'" --tokens t.npy
no "unknown option '--plot'" --plot x.svg
no "--top-p" --top-p 2
no "--chain: 'x' is neither a preset" --chain x
no "--infill: this option requires" --infill
no "f32.npy: not a llama2.c" --pieces f32.npy

# --------------------------------------------------------- stages, by hand

shows "nothing" "logits" "4" "1.0000" "1.0000" "1.0000"
shows "llama.cpp's order" "logits top-k top-p temperature" "4 3 2 2" "1.0000 0.9955 0.9059 0.9059" \
    "1.0000 0.9955 0.9100 1.0000" "1.0000 1.0000 1.0000 2.0000" \
    --chain llama --top-k 3 --top-p 0.9 --temperature 2
shows "the default order" "logits temperature top-k top-p" "4 4 3 3" "1.0000 1.0000 0.9955 0.9955" \
    "1.0000 1.0000 0.9601 1.0000" "1.0000 2.0000 2.0000 2.0000" \
    --top-k 3 --top-p 0.9 --temperature 2
shows "vLLM's order" "logits min-p top-k top-p" "4 3 2 1" "1.0000 0.9955 0.9059 0.6623" \
    "1.0000 0.9955 0.9100 0.7311" "1.0000 1.0000 1.0000 1.0000" --chain vllm --top-k 2 --top-p 0.7 \
    --min-p 0.1
shows "any order" "logits xtc typical" "4 3 2" "1.0000 0.3377 0.3333" "1.0000 0.3377 0.9868" \
    "1.0000 1.0000 1.0000" --chain xtc,top_k,typical --xtc-probability 1 --xtc-threshold 0.2 \
    --typical 0.98
shows "p-less" "logits p-less" "4 1" "1.0000 0.6623" "1.0000 0.6623" "1.0000 1.0000" --p-less
shows "top-a" "logits top-a" "4 2" "1.0000 0.9059" "1.0000 0.9059" "1.0000 1.0000" --top-a 0.5
shows "top-n-sigma" "logits top-n-sigma" "4 2" "1.0000 0.9059" "1.0000 0.9059" "1.0000 1.0000" \
    --top-n-sigma 1
shows "dynamic temperature" "logits temperature" "4 4" "1.0000 1.0000" "1.0000 1.0000" \
    "1.0000 1.1184" \
    --dynatemp-range 0.5
shows "infill" "logits infill" "4 2" "1.0000 0.6667" "1.0000 0.6667" "1.0000 1.0000" \
    --infill --infill-end 3
shows "greedy" "logits temperature" "4 1" "1.0000 0.6623" "1.0000 0.6623" "1.0000 0.0000" \
    --temperature 0 --top-k 3 --adaptive-target 0.5 --mirostat 2
shows "mirostat" "logits temperature mirostat" "4 4 2" "1.0000 1.0000 0.9059" \
    "1.0000 1.0000 0.8349" \
    "1.0000 1.5000 1.5000" --mirostat 2 --mirostat-ent 1 --temperature 1.5 --top-k 1
shows "adaptive p" "logits top-k adaptive" "4 3 3" "1.0000 0.9955 0.9955" "1.0000 0.9955 1.0000" \
    "1.0000 1.0000 1.0000" --top-k 3 --adaptive-target 0.2
shows "a bias" "logits adjusted top-k" "4 3 2" "1.0000 1.0000 0.9951" "1.0000 0.7564 0.9951" \
    "1.0000 1.0000 1.0000" --logit-bias 1:-inf --logit-bias 2:1 --top-k 2
# Row 1 repeats 0 twice: 4 - 0.9 * 1.75 is 2.425, below 3.
shows "DRY" "logits adjusted top-k" "4 4 1" "1.0000 1.0000 0.5131" "1.0000 1.0000 0.5131" \
    "1.0000 1.0000 1.0000" --row 1 --prompt repeats.npy --dry-multiplier 0.9 \
    --dry-allowed-length 1 --top-k 1
says "DRY" '"parameter": "DRY 0.9 \* 1.75^n"' out
says "DRY" '"token": 1,$' out
shows "a mask of nothing" "logits adjusted" "4 0" "1.0000 0.0000" "1.0000 0.0000" "1.0000 1.0000" \
    --row 1 --mask none.npy
says "a mask of nothing" '"status_words": "empty"' out
# Far below what a float can tell: the masses are of the row before.
shows "a low temperature" "logits temperature" "4 4" "1.0000 1.0000" "1.0000 1.0000" \
    "1.0000 0.0050" \
    --temperature 0.005

# ---------------------------------------------------------------- the picture

check "the picture" explain --row 1 --top-k 2 --temperature 0.5 --top 1
says "the row" '^row 1 of 2, 4 tokens, position 0, seed 1$' out
says "a stage" '^top-k  *2  *90.59%  *98.41%  *0.5  2$' out
says "its top" '^    #0  *0.880797  [^ ]*$' out
is "its top" "$(grep -c '^    #' out)" 3
says "the token" '^drawn: #[01], of final probability 0' out
says "the columns" '^stage  *tokens  mass left  *keeps  *temperature  parameter$' out
check "many adjustments" explain --top 0 --repetition-penalty 1.1 --frequency-penalty 0.2 \
    --presence-penalty 0.1 --dry-multiplier 0.8 --logit-bias 3:1 --bad-word 1,2 --min-tokens 3
is "many adjustments" "$(grep '^adjusted\|^ \{59\}' out | cut -c 60- | tr '\n' ' ')" \
    "logit bias of 1, 1 bad words, min tokens 3, repetition 1.1, frequency 0.2, presence 0.1, DRY \
0.8 * 1.75^n "
is "many adjustments: lines of more than 80 columns" "$(awk 'length > 80' out)" ""
check "both rows" explain --rows 1,0
is "both rows" "$(sed -n 's/^row \([0-9]*\) of 2,.*/\1/p' out | tr '\n' ' ')" "1 0 "
is "both rows: the stages" "$(grep -c '^logits  *4 ' out)" 2
check "both rows as JSON" explain --row 1 --row 0 --json
is "both rows as JSON" "$(sed -n 's/^ *"row": \([0-9]*\),$/\1/p' out | tr '\n' ' ')" "1 0 "
is "both rows as JSON: an array" "$(head -c 1 out)" "["
check "no list" explain --top 0
is "no list" "$(grep -c '^    ' out)" 0
check "all" explain --top 99
is "all" "$(grep -c '^    #' out)" 4
{ printf '\004\000\000\000'; for i in 1 2 3 4; do
    printf "\000\000\000\000\006\000\000\000a'\`l\`\\"; done; } >pieces.bin
check "pieces" explain --pieces pieces.bin --top-k 1 --top 1
is "pieces" "$(grep -cF "    'a'\`l\`\\' " out)" 2
check "no token" explain --row 1 --mask none.npy
says "no token" '^no token: empty$' out
check "a forced token" explain --force 3 --top-k 2
says "a forced token" '^top-k  *2 ' out
says "a forced token" \
    '^forced: #3, of final probability 0.000000 and raw probability 0.004462 (forced)$' out
check "a forced token that is masked" explain --row 1 --mask none.npy --force 3
says "a forced token that is masked" '^no token: empty$' out
check "bad rows" "$clsample" explain --logits bad.npy --row 2
says "bad rows" '^drawn: #0, of final probability 1.000000 and raw probability 1.000000 (inf)$' out
escape=$(printf '\033')
if command -v script >/dev/null && script -qec true /dev/null >/dev/null 2>&1; then
    TERM=xterm NO_COLOR='' script -qec "$clsample explain --logits four.npy" /dev/null >out
    says "bold on a terminal" "$escape" out
    TERM=xterm NO_COLOR=1 script -qec "$clsample explain --logits four.npy" /dev/null >out
    is "not with NO_COLOR" "$(grep -c "$escape" out)" 0
    says "not with NO_COLOR" '^logits' out
fi
check "in a file" env TERM=xterm "$clsample" explain --logits four.npy
is "in a file" "$(grep -c "$escape" out)" 0

# ----------------------------------------------- what sample draws from, and draws

agrees() { # OPTIONS: on row 3 of the 8
    check "sample $*" host --probs probs.npy --tokens tokens.npy --json "$@"
    grep '"row"\|probability"' out | sed -n '/"row": 3,/,/"row"/p' | grep probability >of-sample
    check "explain $*" "$clsample" explain --logits f32.npy --row 3 --json "$@"
    grep '^    *"[a-z]*_probability"\|^  "[a-z]*_probability"' out >of-explain
    is "raw and final probability of $*" "$(tr -d ' ,' <of-explain)" "$(tr -d ' ,' <of-sample)"
    is "two probabilities of $*" "$(wc -l <of-explain | tr -d ' ')" 2
    is "the token of $*" "$(sed -n '2,6s/^ *"token": \([0-9]*\),*$/\1/p' out)" \
        "$(data tokens.npy | cut -d' ' -f5)"
    is "the tokens left of $*" "$(sed -n 's/^ *"tokens": \([0-9]*\),*$/\1/p' out | tail -n 1)" \
        "$(data probs.npy | tr ' ' '\n' |
        awk 'NF && ++i > 111 && i <= 148 { n += $1 != 0 } END { print n }')"
}
i=0
tokens=''
while [ $i -lt 40 ]; do tokens="$tokens $((i * i % 11))" i=$((i + 1)); done
# shellcheck disable=SC2086
ints prompt.npy '8, 5' $tokens
agrees
agrees --seed 9 --temperature 0.8 --top-k 20 --top-p 0.9 --min-p 0.02 --chain llama
agrees --chain min_p,temp,typical,top_p --dynatemp-range 0.9 --min-p 0.05 --typical 0.9 \
    --top-p 0.8 --min-keep 4
agrees --output prompt.npy --no-repeat-ngram-size 1 --bad-word 3 --frequency-penalty 0.4 --top-p 0.7
agrees --output prompt.npy --top-p 0.99 --top-p-decay 0.9
agrees --mirostat 2 --mirostat-ent 1.5
agrees --adaptive-target 0.1 --top-k 12 --bias f16.npy --bias-factor -0.75
agrees --mask mask.npy --top-p 0.3
agrees --softcap 1.5 --top-p 0.7 --bias f16.npy
agrees --temperature 0
echo '[{},{},{},{"top_k":3,"samplers":["top_k","temperature"],"temperature":3},{},{},{},{}]' >p.json
agrees --params p.json

finish
