#!/bin/sh
# SPDX-License-Identifier: MIT
# Proves that --params reads Transformers' generation_config.json, and an object for all rows: each
# name gives the tokens and probabilities of the options that are its equal, in sample, explain and
# verify; what has no equal is refused, and what steps do not use is named once. On the host, since
# it only concerns reading. CLSAMPLE is the command's path.
# shellcheck source=tests/command/command.sh
. "$(dirname "$0")/command.sh"

ints prompt.npy '8, 3' 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24
request='--prompt prompt.npy --draws 6'

# config OBJECT OPTIONS...: the same tokens and probabilities, which are not those of no parameters
config() {
    object=$1
    shift
    echo "$object" >config.json
    # shellcheck disable=SC2086
    {
        check "$object" host $request --params config.json --tokens t1.npy --probs p1.npy
        check "$*" host $request "$@" --tokens t2.npy --probs p2.npy
        check "nothing" host $request --tokens t3.npy --probs p3.npy
    }
    same "tokens of $object" t1.npy t2.npy
    same "probabilities of $object" p1.npy p2.npy
    differ "probabilities of $object and of none" p1.npy p3.npy
}

config '{"do_sample":false,"temperature":0.7,"top_k":5}' --temperature 0
config '{"transformers_version":"4.40.0"}' --temperature 0
config '{"do_sample":null,"eos_token_id":3,"transformers_version":"4"}' --temperature 0 --stop-id 3
config '{"do_sample":true,"temperature":0.5,"top_p":0.9}' --temperature 0.5 --top-p 0.9 --top-k 50
config '{"do_sample":true,"top_k":3,"min_p":0.1}' --top-k 3 --min-p 0.1
config '{"do_sample":true,"typical_p":0.4,"top_k":0}' --typical 0.4
config '{"do_sample":true,"repetition_penalty":1.5}' --repetition-penalty 1.5
config '{"do_sample":true,"no_repeat_ngram_size":1}' --no-repeat-ngram-size 1
config '{"do_sample":true,"bad_words_ids":[[3],[9],[4]],"eos_token_id":[9,10],"min_new_tokens":3,
    "max_new_tokens":5}' --bad-word 3 --bad-word 4 --stop-id 9 --stop-id 10 --min-tokens 3 \
    --max-tokens 5
config '{"do_sample":true,"suppress_tokens":[3,4],"sequence_bias":[[[5],1.5]]}' \
    --logit-bias 3:-inf --logit-bias 4:-inf --logit-bias 5:1.5
config '{"temperature":0.5,"dry_multiplier":1}' --temperature 0.5 --dry-multiplier 1
is "an object without Transformers' names" "$(wc -l <err)" 0

# Values that are off.
config '{"do_sample":true,"top_p":0.5,"num_beams":1,"epsilon_cutoff":0.0,"eta_cutoff":1.0,
    "constraints":null,"use_mtp":false,"begin_suppress_tokens":[],"guidance_scale":1}' --top-p 0.5

# What steps do not use is named, once.
echo '{"do_sample":true,"bos_token_id":1,"max_length":99,"temperature":0.5,
    "_from_model_config":true,"transformers_version":"5.0.0"}' >config.json
check "names that are not used" host --params config.json
is "one warning" "$(cat err)" "clsample: warning: config.json: steps do not use bos_token_id, \
max_length, _from_model_config, transformers_version"

echo '{"do_sample":false,"temperature":0.5}' >config.json
check "a temperature that has no effect" host --params config.json
is "the warning" "$(cat err)" "clsample: warning: config.json: \"do_sample\" is not true, so that \
the rows are greedy, and the temperature of 0.5 has no effect"

# explain and verify read it, too.
ints cu.npy '5,' 0 2 4 6 8
ints ids.npy '4,' 1 2 3 4
echo '{"do_sample":true,"top_k":4}' >config.json
reads() { # COMMAND OPTIONS...
    check "$1 --params" "$clsample" "$@" --params config.json
    mv out with-params
    check "$1 --top-k" "$clsample" "$@" --top-k 4
    same "$1" with-params out
    check "$1" "$clsample" "$@"
    differ "$1 with and without top-k" with-params out
}
reads explain --logits f32.npy --row 2
reads verify --device host --target f32.npy --cu cu.npy --draft-ids ids.npy --method match \
    --temperature 2 --json

json '{"do_sample":true,"num_beams":4}' '"num_beams" has no equal here'
json '{"do_sample":true,"epsilon_cutoff":0.01}' '"epsilon_cutoff" has no equal here'
json '{"do_sample":true,"forced_bos_token_id":0}' '"forced_bos_token_id" has no equal here'
json '{"do_sample":true,"watermarking_config":{}}' '"watermarking_config" has no equal here'
json '{"do_sample":true,"min_length":5}' '"min_length" has no equal here'
json '{"do_sample":true,"temperatur":1}' \
    '"temperatur" is not a known key of Transformers; did you mean temperature?'
json '{"do_sampel":true,"transformers_version":"5"}' '"do_sampel" .* did you mean do_sample?'
json '{"do_sample":true,"dry_multiplier":1}' '"dry_multiplier" is not a known key of Transformers'
json '{"do_sample":true,"sequence_bias":[[[1,2],1.5]]}' '"sequence_bias": entry 0 is no pair'
for wrong in 5 '{}' '[5]' '[[[1]]]' '[[1,1.5]]' '[[[],1.5]]'; do
    json '{"do_sample":true,"sequence_bias":'"$wrong}" '"sequence_bias": entry 0 is no pair'
done
json '{"do_sample":true,"suppress_tokens":["x"]}' '"logit_bias": the value is not an integer'
json '{"do_sample":true,"eos_token_id":37}' '"stop_ids": .* 37'
json '{"do_sample":true,"top_k":2.5}' '"top_k": the value is not an integer'
json '{"do_sample":true,"top_p":1.5}' '"top_p": top_p is 1.5'
json '{"temprature":1}' '"temprature" is not a known key; did you mean temperature?'

finish
