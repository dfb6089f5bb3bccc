#!/bin/sh
# SPDX-License-Identifier: MIT
# Proves that `clsample sample --shards` prints and writes the same bytes as without that option,
# for many parameters, inputs and outputs, for even and uneven borders, and on several contexts; and
# that `clsample bench --shards`, which compares tokens in each step, measures its cases. Every
# refusal has its sentence. CLSAMPLE is the command's path. Exits 77 if there is no device.
# shellcheck source=tests/command/command.sh
. "$(dirname "$0")/command.sh"

# ------------------------------------------------------------------- refusals

split_refused() { # PATTERN ARGUMENTS...
    pattern_=$1
    shift
    refused "$pattern_" sample --logits f32.npy "$@"
}
split_refused "--shards: it must be at least 1" --shards 0
split_refused "--shards: '-1' is not an integer" --shards -1
split_refused "--shards: a value is missing" --shards
split_refused "--shards: 38 shards are more than the vocabulary's 37 tokens" --shards 38
split_refused "--shards: 4097 is too large; the most is 4096" --shards 4097
split_refused "--shards: the reference has no shards; choose another --device" --shards 2 \
    --device host
split_refused "--borders: this option requires --shards" --borders 5
split_refused "--borders: --shards 3 needs 2 of them, but 1 is given" --shards 3 --borders 5
split_refused "--borders: --shards 2 needs 1 of them, but 2 are given" --shards 2 --borders 5,9
split_refused "--borders: 5 is not above the border before it" --shards 3 --borders 5,5
split_refused "--borders: 0 is not within a vocabulary of 37 tokens" --shards 2 --borders 0
split_refused "--borders: 37 is not within a vocabulary of 37 tokens" --shards 2 --borders 37
split_refused "--borders: 'x' is not an integer" --shards 2 --borders x
split_refused "--device: several devices require --shards" --device 0,0
split_refused "--device: 3 devices are too many for --shards 2" --shards 2 --device 0,0,0

refused "--shards: it must be at least 1" bench --shards 0
refused "--shards: 4097 is too large; the most is 4096" bench --shards 4097
refused "--shards: 8 shards are more than the vocabulary's 7 tokens" bench --vocab 7 --shards 8
for name in serving verify mirostat_late; do
    refused "--case: $name is not measured with --shards" bench --shards 2 --case $name
done

# ------------------------------------------------------------------ equal bytes

needs_device

split_refused "--device: '' is not the number of a device" --shards 2 --device 0,
split_refused "--device: there is no device 999" --shards 2 --device 0,999

run_once() { # PREFIX ARGUMENTS...: writes PREFIX.out and three arrays
    to=$1
    shift
    check "$to: $*" run_on device --tokens "$to.tokens" --logprobs "$to.logprobs" \
        --probs "$to.probs" "$@"
    mv out "$to.out"
}

splits() { # "OPTIONS OF THE SPLIT"... -- ARGUMENTS...: each split is as the whole
    : >the-splits
    while [ "$1" != -- ]; do
        echo "$1" >>the-splits
        shift
    done
    shift
    run_once whole "$@"
    while read -r how; do
        # shellcheck disable=SC2086 # options
        run_once split $how "$@"
        for part in out tokens logprobs probs; do
            same "$part of $how and of the whole, $*" whole.$part split.$part
        done
    done <the-splits
}

# 4 rows of 5,000 logits between -8 and 8, of which shards begin at multiples of 1,024.
npy wide.npy '<f4' '4, 5000'
LC_ALL=C awk 'BEGIN {
    x = 1
    for (i = 0; i < 20000; i++) {
        for (b = 0; b < 3; b++) {
            x = x * 16807 % 2147483647
            printf "%c", 1 + x % 255
        }
        x = x * 16807 % 2147483647
        printf "%c", (x % 2 ? 63 : 64) + (x % 3 ? 128 : 0)
    }
}' >>wide.npy
ints tokens.npy '8, 3'  1 2 3  4 5 -1  0 0 0  36 1 36  9 9 -1  7 8 7  -1 -1 -1  20 21 20
echo '[{"temperature":0},{"top_k":3,"temperature":0.7},{"top_p":0.5},{"min_p":0.3},
{"chain":"llama","top_k":5,"top_p":0.8},{"chain":"vllm","min_p":0.2},
{"seed":"18446744073709551615","stream":3},{"position":9}]' >mixed.json

splits "--shards 1" "--shards 2" "--shards 4 --borders 1,1024,4999" "--shards 5 --device 0,0" -- \
    --logits wide.npy --draws 3
splits "--shards 3" -- --logits wide.npy --temperature 0
splits "--shards 3" "--shards 7 --borders 3,700,1000,1100,4000,4500" -- --logits wide.npy \
    --top-k 50 --top-p 0.9 --temperature 0.8
splits "--shards 2" -- --logits wide.npy --top-p 0.95 --seed 3
splits "--shards 2" -- --logits wide.npy --min-p 0.1 --chain llama

f="--logits f32.npy"
request="--prompt tokens.npy --output tokens.npy"
# shellcheck disable=SC2086
{
    splits "--shards 3" "--shards 37" -- $f --draws 4 --seed 5 --json
    splits "--shards 3" -- $f --params mixed.json --draws 3 --rows 6,1-3
    splits "--shards 3" "--shards 2 --borders 36" -- $f --mask mask.npy --bias f16.npy
    splits "--shards 2" -- --logits f16.npy --top-k 9
    splits "--shards 2" -- --logits bf16.npy --dtype bf16 --logprob-kind final --top-k 9
    splits "--shards 2" "--shards 3" -- --logits bad.npy --json
    splits "--shards 4" -- $f $request --repetition-penalty 1.3 --frequency-penalty 0.4 \
        --penalty-scope all --logit-bias 3:-inf --stop-id 5 --max-tokens 9 --draws 2
    splits "--shards 4" -- $f $request --dry-multiplier 1 --no-repeat-ngram-size 3 --bad-word 5 \
        --allowed-id 0,2,4,5,8,10,36 --penalty-window 2 --presence-penalty 1
    splits "--shards 3" -- $f $request --xtc-probability 0.5 --xtc-threshold 0.04 --typical 0.9 \
        --top-n-sigma 2 --top-a 0.1
    splits "--shards 3" -- $f $request --mirostat 2 --mirostat-ent 2
    splits "--shards 3" -- $f --infill --infill-end 3,4,5
    splits "--shards 3" -- $f --work-group 8 --vector 8 --tier int64 --top-k 3
}

# The further outputs have their own files.
outputs_of() { # PREFIX ARGUMENTS...
    to=$1
    shift
    check "outputs: $*" run_on device --logits wide.npy --top-k 5 --logprobs-top 4 \
        --logprobs-top-ids "$to.ids" --logprobs-top-values "$to.values" --candidates "$to.json" \
        --kept-set 4 --kept-set-ids "$to.set" --kept-set-counts "$to.counts" "$@"
    mv out "$to.out"
}
outputs_of whole
outputs_of split --shards 3 --device 0,0
for part in ids values json set counts out; do
    same "$part of the further outputs" whole.$part split.$part
done

# Devices 0 and 1, which PoCL can make of one CPU.
export POCL_DEVICES="pthread pthread"
if "$clsample" devices --json | awk '/"device": 1,/ { seen = 1 } seen && /"usable": true/ { ok = 1 }
    END { exit !ok }'; then
    splits "--shards 3 --device 0,1" "--shards 4 --device 1,0,1" -- --logits wide.npy --top-k 20
    outputs_of split --shards 2 --device 0,1
    same "candidates on two devices" whole.json split.json
else
    echo "left out: there is only one device"
fi
unset POCL_DEVICES

# -------------------------------------------------------------------- the bench

split_bench() { "$clsample" bench --cache-dir "$programs" --batch 2 --runs 3 --shards 3 "$@"; }
check "bench" split_bench --vocab 5000
says "the bench's table" '^case  *step us  *local us  *merge us exchanges  bytes a row$' out
is "cases of the bench's table" \
    "$(grep -c '^[a-z_0-9]*  *[0-9.]*  *[0-9.]*  *[0-9.]*  *[1-9]  [0-9][0-9 +]*$' out)" 21
says "a case of the bench" '^topp_ties ' out
check "one case of the bench" split_bench --vocab 37 --dtype f16 --case topk --json
for key in shards step_us local_us merge_us exchanges partial_row_bytes launches runs history; do
    says "JSON of the bench" "^ *\"$key\": " out
done
numbers() { sed -n "s/^ *\"$1\": \([0-9]*\),$/\1/p" out; }
is "shards and runs in JSON" "$(numbers shards) $(numbers runs)" "3 3"
if make_interrupting; then
    interrupted INTERRUPT_AT=3 "$clsample" bench --cache-dir "$programs" --batch 2 --vocab 5000 \
        --runs 3 --shards 3
    is "an interrupted bench: cases" \
        "$code $(sed -n 's/^\([a-z_0-9]*\)  *[0-9.]* .*[0-9]$/\1/p' out | tr '\n' ' ')" \
        "130 greedy topk "
    is "an interrupted bench: its sentence" "$(cat err)" \
        "clsample: bench: interrupted; of 21 cases 2 are finished"
else
    no_library
fi

finish
