#!/bin/sh
# SPDX-License-Identifier: MIT
# Proves that the options of `clsample sample` for requests with earlier tokens, and the files that
# they name, reach the request: penalties, biases, masks, stop ids, on the host and on the device.
# What the parameters do is worked out by hand in tests/scripts, of each there is one case here.
# CLSAMPLE is the command's path. Exits 77 if there is no device.
# shellcheck source=tests/command/command.sh
. "$(dirname "$0")/command.sh"

# 6 rows of 4, 3, 2, -1, and what their requests have so far.
npy four.npy '<f4' '6, 4'
for row in 0 1 2 3 4 5; do bytes four.npy 40800000 40400000 40000000 bf800000; done
ints so-far.npy '6, 4'  -1 -1 -1 -1  0 -1 -1 -1  0 0 -1 -1  0 0 0 -1  0 0 0 2  -1 9 -1 1
ints three.npy '6, 1'  3 3 3 3 3 3

# What those of the 8 rows of 37 have so far, some tokens twice. The output as
# int64, too, padded in front by what is token 0 to whoever loses its upper half.
prompt='' output='' output64=''
i=0
while [ $i -lt 8 ]; do
    a=$((i * 11 % 37)) b=$(((i * 5 + 2) % 37))
    prompt="$prompt $b $((i + 1)) $a 36 $((36 - i)) $b"
    output="$output $a $b $a -1"
    output64="$output64 0000000100000000 $(printf '%016x %016x %016x' $a $b $a)"
    i=$((i + 1))
done
npy output64.npy '<i8' '8, 4'
# shellcheck disable=SC2086
{ ints prompt.npy '8, 6' $prompt; ints output.npy '8, 4' $output; bytes output64.npy $output64; }

# ------------------------------------------------------------------- refusals

host_refused "--repetition-penalty: .*above 0" --repetition-penalty 0
host_refused "--repetition-penalty: 'x'" --repetition-penalty x
host_refused "--frequency-penalty" --frequency-penalty nan
host_refused "--presence-penalty" --presence-penalty=-inf
host_refused "--presence-penalty: '1e39' is too large" --presence-penalty 1e39
host_refused "--penalty-scope: 'prompt' is not one of output|all" --penalty-scope prompt
host_refused "--penalty-window" --penalty-window 16385
host_refused "--max-tokens: '-1'" --max-tokens -1
host_refused "--stop-id: .* 37" --stop-id 3 --stop-id 37
host_refused "--stop-id: .* -1" --stop-id -1
host_refused "--stop-id: .* 37" --stop-id 3,37
host_refused "--stop-id: a value is missing" --stop-id
host_refused "--logit-bias: .* 37" --logit-bias 0:1 --logit-bias 37:1
host_refused "--logit-bias: '5' is not ID:VALUE" --logit-bias 5
host_refused "--logit-bias: '5' is not ID:VALUE" --logit-bias 3:1,5
host_refused "--logit-bias: ':5' is not ID:VALUE" --logit-bias :5
host_refused "--logit-bias: 'x' is not an integer" --logit-bias x:5
host_refused "--logit-bias: '' is not a number" --logit-bias 5:
host_refused "--logit-bias: '1:2' is not a number" --logit-bias 5:1:2
host_refused "--logit-bias: '-1e39' is too large" --logit-bias 5:-1e39
host_refused "--logit-bias: .* inf;" --logit-bias 5:inf
host_refused "--logit-bias: .* nan;" --logit-bias 5:nan
host_refused "--allowed-id: .* 37" --allowed-id 3,37
host_refused "--allowed-id: ''" --allowed-id 3,
host_refused "--bad-word: .* 37" --bad-word 3 --bad-word 4,37
host_refused "--bad-word: 'x'" --bad-word 3,x
host_refused "--no-repeat-ngram-size: '-1'" --no-repeat-ngram-size -1
host_refused "--min-tokens: 'x'" --min-tokens x
host_refused "--dry-multiplier" --dry-multiplier nan
host_refused "--dry-base" --dry-multiplier 1 --dry-base inf
host_refused "--dry-allowed-length: '-1'" --dry-allowed-length -1
host_refused "--dry-penalty-last-n" --dry-multiplier 1 --dry-penalty-last-n 16385
host_refused "--dry-sequence-breaker: .* 37" --dry-sequence-breaker 3,37
host_refused "--dry-sequence-breaker: '1:2'" --dry-sequence-breaker 1:2
host_refused "--force: 37 is not a token of a vocabulary of 37" --force 3,37
host_refused "--force: ''" --force 3,
host_refused "--thinking-forced: .* 37" --thinking-forced 3,37
host_refused "--thinking-end: .* -1" --thinking-end -1 --thinking-forced 3
host_refused "--thinking-budget is set, but --thinking-forced, .* is empty" --thinking-budget 3
host_refused "--thinking-start is set, but --thinking-forced, .* is empty" --thinking-start 3
host_refused "--relaxed-delta is set, but --relaxed-top-k is 0" --relaxed-delta 0.5
host_refused "--relaxed-delta: .* is 2; it must be between 0" --relaxed-top-k 1 --relaxed-delta 2
host_refused "--ngram-exempt-id: .* 37" --no-repeat-ngram-size 2 --ngram-exempt-id 37
host_refused "--ngram-window: .* 16385" --no-repeat-ngram-size 2 --ngram-window 16385
host_refused "--loop-repeats: .* is 1; it must be 0 (off) or 2 to 16384" --loop-repeats 1
host_refused "--loop-min: .* is 0; it must be 1 to 1024" --loop-min 0
host_refused "--loop-max: .* is 1025; it must be 1 to 1024" --loop-max 1025
host_refused "--loop-min is 4, which is more than --loop-max of 3" --loop-min 4 --loop-max 3

npy seeds.npy '<u8' '8,'; head -c 64 /dev/zero >>seeds.npy
npy one-row.npy '<f4' '1, 2'; bytes one-row.npy 00000000 3f800000
npy slim.npy '<f4' '8, 3'; head -c 96 /dev/zero >>slim.npy
npy int8.npy '|i1' '8, 1'; bytes int8.npy 0101010101010101
host_refused "int8.npy: the array must be bool" --mask int8.npy
npy uint8.npy '|u1' '8, 5'; head -c 40 /dev/zero >>uint8.npy
host_refused "uint8.npy: 5 uint8 for 37 tokens are bits" --mask uint8.npy
npy line8.npy '|b1' '8,'; bytes line8.npy 0101010101010101
host_refused "line8.npy: the array must be bool" --mask line8.npy
npy bool2.npy '|b2' '8, 1'
host_refused "bool2.npy: numbers of type '|b2'" --mask bool2.npy
npy wide8.npy '|b1' '1, 1048577'; head -c 1048577 /dev/zero >>wide8.npy
refused "wide8.npy: rows of 1048577 elements are longer" sample --device host --logits one-row.npy \
    --mask wide8.npy
host_refused "four.npy: the file has 6 rows for 8" --bias four.npy
refused "prompt.npy: the file has 8 rows for 6" \
    sample --device host --logits four.npy --prompt prompt.npy
refused "f32.npy: the rows have 37 values, but the vocabulary has 3 tokens" \
    sample --device host --logits slim.npy \
    --bias f32.npy
host_refused "int8.npy: the array must be float32" --bias int8.npy
host_refused "--bias-factor: 0 would leave out the bias" --bias f32.npy --bias-factor 0
host_refused "--bias-factor: this option requires --bias" --bias-factor 2
host_refused "step->bias.factor is 1e-39; it must be" --bias f32.npy --bias-factor 1e-39
host_refused "step->logits.softcap is -1; it must be 0" --softcap -1
host_refused "step->logits.softcap is nan; it must be 0" --softcap nan
host_refused "step->logits.softcap is inf; it must be 0" --softcap inf
for has in prompt output; do
    host_refused "so-far.npy: the file has 6 rows for 8" --$has so-far.npy
    host_refused "f32.npy: the array must be int32" --$has f32.npy
    host_refused "seeds.npy: the array must be int32" --$has seeds.npy
    host_refused "no.npy: cannot be opened" --$has no.npy
done
host_refused "--draws: 2 draws of row 0 from position 4294967295 on exceed" --draws 2 --position \
    4294967292 --output output.npy
host_refused "four.npy" --tokens unwritten.npy --bias four.npy
if [ -e unwritten.npy ]; then no_ "a refused call has written"; else yes_; fi

json '[{"stop_id":3},{},{},{},{},{},{},{}]' 'row 0: "stop_id" is not a known key'
json '{"temprature":1}' '"temprature" is not a known key; did you mean temperature?'
json '{"do_sample":true,"top_k":4}' '"do_sample" is not a known key' # Transformers'
json '{"post_thinking":{"force":[3]}}' '"post_thinking": "force" is not a known key'
json '{"typical":0.5,"typical_p":1}' '"typical_p": "typical" is the same parameter'
json '[{"stop_ids":3},{},{},{},{},{},{},{}]' 'row 0: "stop_ids": the value is not an array'
json '[{"stop_ids":["3"]},{},{},{},{},{},{},{}]' 'row 0: "stop_ids": the value is not an integer'
json '[{"stop_ids":[37]},{},{},{},{},{},{},{}]' 'row 0: "stop_ids": .* 37'
json '[{"logit_bias":3},{},{},{},{},{},{},{}]' 'row 0: "logit_bias": the value is neither'
json '[{"logit_bias":[[3]]},{},{},{},{},{},{},{}]' 'row 0: "logit_bias": entry 0 is not'
json '[{"logit_bias":[[3,1],4]},{},{},{},{},{},{},{}]' 'row 0: "logit_bias": entry 1 is not'
json '[{"logit_bias":[["3",1]]},{},{},{},{},{},{},{}]' \
    'row 0: "logit_bias": the value is not an integer'
json '[{"logit_bias":{"x":1}},{},{},{},{},{},{},{}]' "row 0: \"logit_bias\": 'x'"
json '[{"logit_bias":{"3":"inf"}},{},{},{},{},{},{},{}]' \
    'row 0: "logit_bias": the value is not a number'
json '[{"logit_bias":{"3":1e39}},{},{},{},{},{},{},{}]' 'row 0: "logit_bias": .* too large'
json '[{"bad_words":[3]},{},{},{},{},{},{},{}]' 'row 0: "bad_words": entry 0 is not an array'
json '[{"bad_words":[[3],[]]},{},{},{},{},{},{},{}]' 'row 0: "bad_words": entry 1 is not an array'
json '[{"bad_words":[["a"]]},{},{},{},{},{},{},{}]' \
    'row 0: "bad_words": the value is not an integer'
json '[{"bad_words":[[1,37]]},{},{},{},{},{},{},{}]' 'row 0: "bad_words": .* 37'
json '[{"dry_sequence_breakers":["a"]},{},{},{},{},{},{},{}]' \
    'row 0: "dry_sequence_breakers": entry 0 is not'
json '[{"dry_sequence_breakers":1},{},{},{},{},{},{},{}]' \
    'row 0: "dry_sequence_breakers": the value is not an array of arrays'
json '[{"dry_sequence_breakers":[[-1]]},{},{},{},{},{},{},{}]' \
    'row 0: "dry_sequence_breakers": .* -1'
json '[{"allowed_token_ids":[37]},{},{},{},{},{},{},{}]' 'row 0: "allowed_token_ids": .* 37'
json '[{"allowed_token_ids":{}},{},{},{},{},{},{},{}]' \
    'row 0: "allowed_token_ids": the value is not an array'
json '[{"force":3},{},{},{},{},{},{},{}]' 'row 0: "force": the value is not an array of token ids'
json '[{"force":[3,37]},{},{},{},{},{},{},{}]' \
    'row 0: "force": 37 is not a token of a vocabulary of 37'
json '[{"thinking_ends":[[3]]},{},{},{},{},{},{},{}]' \
    'row 0: "thinking_ends" is set, but "thinking_forced"'
json '[{"loop_min":40},{},{},{},{},{},{},{}]' \
    'row 0: "loop_min" is 40, which is more than "loop_max" of 32$'
json '[{},{"logit_bias":{"37":1}},{},{},{},{},{},{}]' 'row 1: "logit_bias": .* 37'
json '[{},{"repetition_penalty":0},{},{},{},{},{},{}]' 'row 1: "repetition_penalty"'
json '[{},{"penalty_scope":"x"},{},{},{},{},{},{}]' 'row 1: "penalty_scope": .* not one of'

grammar() { # TEXT REASON: a grammar that is refused
    printf %s "$1" >grammar.json
    host_refused "grammar.json: $2" --grammar grammar.json
}
grammar '[]' 'the grammar is not an object'
grammar '{"states": 3}' '"states" is not a known key; a grammar has "transitions"'
grammar '{"transitions": {}}' '"transitions" is not an array'
grammar '{"transitions": [3]}' '"transitions": state 0 is not an object'
grammar '{"transitions": [{"x": 0}]}' '"transitions": state 0: "x" is no token id'
grammar '{"transitions": [{"3": "1"}]}' '"transitions": state 0: the state after token 3 is not'
grammar '{"transitions": [{"3": -1}]}' '"transitions": state 0: the state after token 3 is not'
grammar '{"transitions": [{"37": 0}]}' 'state 0: 37 is not a token of a vocabulary of 37$'
grammar '{"transitions": [{"3": 1}]}' 'state 0: token 3 leads to state 1, and the last one is 0$'
grammar '{"transitions": [{"3": 0}], "final": [1]}' '"final"\[0\] is not a state: there is 1$'
grammar '{"transitions": [{"3": 0}], "final": [0]}' 'state 0 is final, but "end_ids" has no token$'
grammar '{"transitions": [{"3": 0}, {}]}' 'state 1 has no transition, and is not in "final"$'
grammar '{"transitions": [{"3": 0, "03": 0}]}' 'state 0 has token 3 twice$'
grammar '{"transitions": [{"3": 0}], "end_ids": [3]}' 'state 0: token 3 is in "end_ids", too$'
grammar '{"transitions": [{"3": 0}], "end_ids": [2000]}' \
    '"end_ids": 2000 is not a token of a vocabulary of 37$'
grammar '{"transitions": [{"3": 0}], "draft_ids": [4]}' \
    'state 0 does not allow 4, which "draft_ids" gives it$'
grammar '{"transitions": [{"3": 0}], "draft_ids": [3, -1]}' \
    '"draft_ids" has 2 elements, and "transitions" 1$'
grammar '{"transitions": [{"3": 0}], "draft_ids": ["x"]}' '"draft_ids".0. is neither an id nor -1$'
grammar '{"transitions": [{"3": 0}], "end_ids": ["x"]}' '"end_ids": the value is not an integer$'
grammar '{"transitions": []}' 'there is no state$'
grammar '{' 'line 1'
host_refused "absent.json: cannot be opened" --grammar absent.json

# ---------------------------------------------------- adjustments, by hand

numbers() { # KEY: what it is in the rows printed last, as JSON
    sed -n "s/^ *\"$1\": \(-*[0-9]*\),*$/\1/p" out | tr '\n' ' '
}

gives() { # TOKENS STATUSES OPTIONS: what the rows of 4, 3, 2, -1 give, greedy
    tokens_=$1 statuses_=$2
    shift 2
    for on in $devices; do
        check "$on $*" run_on "$on" --logits four.npy --temperature 0 --json "$@"
        is "tokens of $on $*" "$(numbers token)" "$tokens_ "
        is "status of $on $*" "$(numbers status)" "$statuses_ "
    done
}
ok='0 0 0 0 0 0'

# Repetition: 4 becomes 2, or 3.2 however often it occurs.
gives '0 0 0 0 0 0' "$ok"
for has in prompt output; do
    gives '0 1 1 1 1 0' "$ok" --$has so-far.npy --repetition-penalty 2
    gives '0 0 0 0 0 0' "$ok" --$has so-far.npy --repetition-penalty 1.25
done

# A grammar of 0* 2 and the end, 3, which the requests have followed as far as their output says.
# 2 ends their text; 9 is no token.
cat >grammar.json <<'END'
{"transitions": [{"2": 1, "0": 0}, {}], "final": [1], "end_ids": [3]}
END
gives '0 0 0 0 3 -1' '0 0 0 0 32 4' --output so-far.npy --grammar grammar.json
gives '2 2 2 2 3 -1' '0 0 0 0 32 4' --output so-far.npy --grammar grammar.json --logit-bias 0:-9

# Frequency: 4 becomes 3.6, 3.2, 2.8. Presence: 2.9. Both look at the output alone by default.
# Windows: of the fifth row's 0 0 0 2 the last three; and across prompt and output, of which the
# output is the later.
f="--frequency-penalty 0.4" p="--presence-penalty 1.1"
# shellcheck disable=SC2086
{
    gives '0 0 0 1 1 0' "$ok" --output so-far.npy $f
    gives '0 0 0 0 0 0' "$ok" --prompt so-far.npy $f
    gives '0 0 0 1 1 0' "$ok" --prompt so-far.npy $f --penalty-scope all
    gives '0 1 1 1 1 0' "$ok" --output so-far.npy $p
    gives '0 0 0 1 0 0' "$ok" --output so-far.npy $f --penalty-window 3
}
gives '0 0 0 0 0 0' "$ok" --prompt so-far.npy --output three.npy --repetition-penalty 2 \
    --penalty-window 1
gives '0 1 1 1 0 0' "$ok" --prompt so-far.npy --output three.npy --repetition-penalty 2 \
    --penalty-window 2
gives '2 2 2 2 2 2' "$ok" --logit-bias 2:1.5 --logit-bias 2:1
gives '1 1 1 1 1 1' "$ok" --logit-bias 0:-inf --logit-bias 0:9

# The first four rows want token r, the fifth any, the sixth none.
zero=00000000
npy dense32.npy '<f4' '6, 4'
bytes dense32.npy 41100000 $zero $zero $zero $zero 41100000 $zero $zero $zero $zero 41100000 $zero \
    $zero $zero $zero 41100000 $zero $zero $zero $zero ff800000 ff800000 ff800000 ff800000
npy dense16.npy '<f2' '6, 4'
bytes dense16.npy 4880 0000 0000 0000 0000 4880 0000 0000 0000 0000 4880 0000 0000 0000 0000 4880 \
    0000 0000 0000 0000 fc00 fc00 fc00 fc00
npy dense-b16.npy '<u2' '6, 4' # bfloat16
bytes dense-b16.npy 4110 0000 0000 0000 0000 4110 0000 0000 0000 0000 4110 0000 0000 0000 0000 \
    4110 0000 0000 0000 0000 ff80 ff80 ff80 ff80
ints packed.npy '6, 1' 1 2 4 8 -1 0
npy bool.npy '|b1' '6, 4'
bytes bool.npy 00000001 00000100 00010000 01000000 01010101 00000000
npy bytes.npy '|u1' '6, 4'
bytes bytes.npy 00000080 00000200 00ff0000 04000000 01010101 00000000
npy narrow.npy '|b1' '6, 2'
bytes narrow.npy 0001 0100 0101 0100 0001 0000
empty='0 0 0 0 0 4'
for array in "bias dense32" "bias dense16" "bias dense-b16" "mask packed" "mask bool" \
    "mask bytes"; do
    gives '0 1 2 3 0 -1' "$empty" "--${array% *}" "${array#* }.npy"
done
# 9 times a third lifts 3 and 2 above 4, but not -1. Times -0.5 it takes 4 below 3. -inf bans.
for dense in dense32 dense16 dense-b16; do
    gives '0 1 2 0 0 -1' "$empty" --bias $dense.npy --bias-factor 0.3333
    gives '1 0 0 0 0 -1' "$empty" --bias $dense.npy --bias-factor -0.5
done
gives '0 1 0 1 0 -1' "$empty" --mask narrow.npy
gives '0 1 2 3 0 -1' "$empty" --mask packed.npy --bias dense16.npy --logit-bias 0:50

# Stops: a stop id, drawn or at the end of the output; a number of tokens, of which padding and ids
# outside the vocabulary are none.
# shellcheck disable=SC2086
gives '0 0 0 1 -1 -1' '0 0 0 32 40 40' --output so-far.npy $f --stop-id 1,2
gives '0 0 -1 -1 -1 0' '0 96 40 40 40 96' --output so-far.npy --max-tokens 2
check "a stopped row" host --output output.npy --max-tokens 3
says "a stopped row" ' -1 .* stopped$' out

# The logarithm of a lone token's probability may be above 0; the probability is not above 1.
npy lone.npy '<f4' '1, 4'
bytes lone.npy 40a00000 ff800000 ff800000 ff800000
for on in $devices; do
    check "a lone token on $on" run_on $on --logits lone.npy --json
    is "its probabilities on $on" "$(grep -c 'probability": 1.0,*$' out)" 2
done

# No two in a row twice. Bad words; least tokens; what is allowed; DRY, of 0 0 0 the last two repeat
# the first two.
gives '0 0 1 1 0 0' "$ok" --output so-far.npy --no-repeat-ngram-size 2
gives '0 0 0 0 0 0' "$ok" --output so-far.npy --no-repeat-ngram-size 9 --ngram-window 12
gives '0 0 0 0 1 0' "$ok" --output so-far.npy --bad-word 3 --bad-word 0,2,0
ints two.npy '6, 2'  -1 -1  1 -1  1 1  2 1  3 3  2 2
gives '1 1 0 0 0 0' '0 0 32 32 32 32' --output two.npy --stop-id 0 --min-tokens 2
gives '1 1 1 1 1 1' "$ok" --allowed-id 3 --allowed-id 1 --logit-bias 2:9
dry="--dry-multiplier 2 --dry-base 1 --dry-allowed-length 1"
# shellcheck disable=SC2086
for has in prompt output; do
    gives '0 0 1 1 0 0' "$ok" --$has so-far.npy $dry
    gives '0 0 0 0 0 0' "$ok" --$has so-far.npy $dry --dry-sequence-breaker 3 \
        --dry-sequence-breaker 0,0
done

# Forced: the first tokens of the output. Budgets of the thinking. Loops.
gives '3 2 0 0 0 2' '512 512 0 0 0 512' --output so-far.npy --force 3,2
gives '3 2 0 0 0 2' '512 512 0 0 0 512' --output so-far.npy --force 3 --force 2
check "a forced row" host --force 3
says "a forced row" ' 3 .* forced$' out

gives '0 0 0 3 0 0' '0 0 0 512 0 0' --output so-far.npy --thinking-forced 3 --thinking-budget 3 \
    --thinking-end 0,2
gives '0 0 0 3 3 0' '0 0 0 512 512 0' --output so-far.npy --thinking-start 0 --thinking-forced 3 \
    --thinking-budget 2
gives '0 0 0 0 0 0' '0 0 0 288 0 0' --output so-far.npy --loop-repeats 2 --loop-min 2
check "a loop" host --output output.npy --force 0,0,0,0 --loop-repeats 2
says "a row before a loop" ' 0 .* forced$' out
check "a loop" "$clsample" sample --device host --logits four.npy --output so-far.npy \
    --temperature 0 --loop-repeats 3
says "a loop" ' 0 .* stopped, loop$' out

# ------------------------------------------------------- truncations, by hand
#
# 4, 3, 2, -1 have .6623, .2436, .0896 and .0045; an entropy of .8573.

left() { # COUNTS OPTIONS: how many tokens of each row are left
    counts_=$1
    shift
    for on in $devices; do
        check "$on $*" run_on "$on" --logits four.npy --probs left.npy "$@"
        is "tokens left on $on $*" "$(data left.npy | tr ' ' '\n' |
            awk 'NF { n += $1 != 0; if (++i % 4 == 0) { printf "%d ", n; n = 0 } }')" "$counts_ "
    done
}
all() { echo "$1 $1 $1 $1 $1 $1"; }

left "$(all 3)" --top-p 0.1 --min-keep 3
# .99 at first, then half of it, and half of that; or .7; or restored by a 0.
left '3 1 1 1 1 1' --output so-far.npy --top-p 0.99 --top-p-decay 0.5
left '3 2 2 2 2 2' --output so-far.npy --top-p 0.99 --top-p-decay 0.5 --top-p-min 0.7
# At temperature 2 the likeliest has .486, before it .6623.
left "$(all 2)" --top-p 0.65 --temperature 2 --chain temp,top-p
left "$(all 1)" --top-p 0.65 --temperature 2 --chain top_p,temperature
# Infill: a token that begins another one takes its mass.
ints prefix.npy '4,' 1 -1 -1 -1
left "$(all 3)" --infill --infill-end 3 --logit-bias 1:1
left "$(all 2)" --infill --infill-end 3 --logit-bias 1:1 --infill-prefix prefix.npy

# The output moves the position on, by its tokens.
check "output" host --output output.npy --position 2 --draws 2 --tokens o.npy
says "position of the table" '^ *0 *6 ' out
check "position" host --position 5 --draws 2 --tokens p5.npy
same "an output of 3 from position 2 is position 5" o.npy p5.npy
check "int64" host --output output64.npy --position 2 --draws 2 --tokens o64.npy \
    --frequency-penalty 1
check "int32" host --output output.npy --position 2 --draws 2 --tokens o32.npy --frequency-penalty 1
same "int64 is int32" o64.npy o32.npy

# --params says what options say; what a row names replaces the option.
row='{"repetition_penalty":1.5,"frequency_penalty":0.25,"presence_penalty":-0.5,
"penalty_scope":"all","penalty_window":7,"max_tokens":4,"stop_ids":[5,9],
"logit_bias":{"3":1.5,"4":"-inf","5":2}}'
echo "[$row,$row,$row,$row,$row,$row,$row,$row]" >all.json
echo "$row" >object.json
row='{"logit_bias":[[3,1.5],[4,"-inf"],[5,1],[5,1]],"stop_ids":[9,5]}'
echo "[$row,$row,$row,$row,$row,$row,$row,$row]" >lists.json
row='{"logit_bias":[],"stop_ids":[],"max_tokens":0,"force":[],"thinking_forced":[]}'
echo "[$row,$row,$row,$row,$row,$row,$row,$row]" >nothing.json
penalties="--repetition-penalty 1.5 --frequency-penalty 0.25 --presence-penalty -0.5"
penalties="$penalties --penalty-scope all --penalty-window 7"
lists="--stop-id 5 --stop-id 9 --logit-bias 3:1.5,4:-inf --logit-bias=5:2"
# shellcheck disable=SC2086
for on in $devices; do
    request="$on --logits f32.npy --prompt prompt.npy --output output.npy --draws 9"
    check "options" run_on $request $penalties $lists --max-tokens 4 --tokens t1.npy \
        --probs p1.npy --json
    sed '/"logprob/,/]/d' out >s1
    check "--params" run_on $request --params all.json --tokens t2.npy --probs p2.npy --json
    sed '/"logprob/,/]/d' out >s2
    same "tokens of options and --params" t1.npy t2.npy
    same "probabilities of options and --params" p1.npy p2.npy
    same "status of options and --params" s1 s2
    check "an object for all rows" run_on $request --params object.json --tokens t2.npy
    same "an object for all rows" t1.npy t2.npy
    check "lists" run_on $request $penalties --stop-id 1 --logit-bias 1:7 --max-tokens 4 \
        --params lists.json --tokens t3.npy
    same "lists of rows" t1.npy t3.npy
    check "no lists" run_on $request $penalties $lists --max-tokens 1 --force 0,1,2,3 \
        --thinking-forced 3 --params nothing.json --tokens t4.npy
    check "no lists" run_on $request $penalties --tokens t5.npy
    same "empty lists of rows" t4.npy t5.npy
    differ "with and without lists" t1.npy t5.npy
done

# The same of what came later, some of it by other servers' names.
same_as() { # ROW OPTIONS: for all rows, in a file
    row=$1
    shift
    echo "[$row,$row,$row,$row,$row,$row,$row,$row]" >same.json
    for on in $devices; do
        request="$on --logits f32.npy --prompt prompt.npy --output output.npy --draws 5"
        # shellcheck disable=SC2086
        {
            check "$*" run_on $request "$@" --tokens t1.npy --probs p1.npy
            check "$row" run_on $request --params same.json --tokens t2.npy --probs p2.npy
            check "nothing" run_on $request --tokens t3.npy --probs p3.npy
        }
        same "tokens of $* and $row" t1.npy t2.npy
        same "probabilities of $* and $row" p1.npy p2.npy
        differ "probabilities of $* and none" p1.npy p3.npy
    done
}
same_as '{"temperature":0.9,"dynatemp_range":0.4,"dynatemp_exponent":2,
"samplers":["xtc","temperature","typ_p","p_less"],"typical_p":0.95,
"xtc_probability":0.5,"xtc_threshold":0.05,"p_less":true,"min_keep":2}' \
    --temperature 0.9 --dynatemp-range 0.4 --dynatemp-exp 2 --chain xtc,temp,typical,p-less \
    --typical 0.95 --xtc-probability 0.5 --xtc-threshold 0.05 --p-less --min-keep 2
same_as '{"top_n_sigma":1.5,"chain":"llama","top_p":0.9,"top_p_decay":0.8,"top_p_min":0.3,
"top_p_reset_id":4}' \
    --top-n-sigma 1.5 --chain llama --top-p 0.9 --top-p-decay 0.8 --top-p-min 0.3 --top-p-reset-id 4
echo '{"chain":"llama"}' >p.json
check "a row's preset in place of stages" host --chain temp,top-k --params p.json
same_as '{"temperature":0.3,"top_a":0.9,"min_p":0}' --temperature 0.3 --top-a 0.9
same_as '{"mirostat":2,"mirostat_tau":2,"mirostat_eta":0.3}' --mirostat 2 --mirostat-ent 2 \
    --mirostat-lr 0.3
same_as '{"mirostat":1,"mirostat_ent":1,"mirostat_lr":0.3}' --mirostat 1 --mirostat-ent 1 \
    --mirostat-lr 0.3
same_as '{"adaptive_target":0.2,"adaptive_decay":0.7}' --adaptive-target 0.2 --adaptive-decay 0.7
same_as '{"dry_multiplier":1.5,"dry_base":1.2,"dry_allowed_length":1,"dry_penalty_last_n":9,
"dry_sequence_breakers":[[3],[4,5]],"repeat_penalty":1.2}' \
    --dry-multiplier 1.5 --dry-base 1.2 --dry-allowed-length 1 \
    --dry-penalty-last-n 9 --dry-sequence-breaker 3 --dry-sequence-breaker 4,5 \
    --repetition-penalty 1.2
same_as '{"no_repeat_ngram_size":2,"bad_words":[[1],[2,3]],"min_tokens":9,"stop_ids":[7,8],
"allowed_token_ids":[0,1,2,3,4,5,6,7,8,9]}' \
    --no-repeat-ngram-size 2 --bad-word 1 --bad-word 2,3 --min-tokens 9 \
    --stop-id 7 --stop-id 8 --allowed-id 0,1,2,3,4,5,6,7,8,9

same_as '{"presence_penalty":3,"penalty_exempt_ids":[3,4]}' \
    --presence-penalty 3 --penalty-exempt-id 3,4
same_as '{"presence_penalty":3,"presence_window":1,"repetition_window":2,"frequency_window":3}' \
    --presence-penalty 3 --presence-window 1 --repetition-window 2 --frequency-window 3
same_as '{"xtc_probability":1,"xtc_threshold":0.01,"xtc_exempt_ids":[3,4]}' \
    --xtc-probability 1 --xtc-threshold 0.01 --xtc-exempt-id 3,4
same_as '{"no_repeat_ngram":1,"ngram_window":3,"ngram_output_only":true,"ngram_exempt_ids":[3,4]}' \
    --no-repeat-ngram-size 1 --ngram-window 3 --ngram-output-only --ngram-exempt-id 3,4
same_as '{"top_k":5,"thinking_ends":[[3]],"relaxed_top_k":4,"relaxed_delta":0.5}' \
    --top-k 5 --thinking-end 3 --relaxed-top-k 4 --relaxed-delta 0.5

same_as '{"top_k":5,"force":[1,2,3,4,5]}' --top-k 5 --force 1,2,3 --force 4,5
same_as '{"top_k":5,"thinking_budget":1,"thinking_start":[0],"thinking_ends":[[36,0]],
"thinking_forced":[1,2]}' \
    --top-k 5 --thinking-budget 1 --thinking-start 0 --thinking-end 36,0 --thinking-forced 1,2
same_as '{"top_k":5,"loop_repeats":2,"loop_min":1,"loop_max":2}' \
    --top-k 5 --loop-repeats 2 --loop-min 1 --loop-max 2

# ------------------------------------------------------ at random, host = device

needs_device

f="--logits f32.npy"
# shellcheck disable=SC2086
{
    request="--prompt prompt.npy --output output.npy --draws 12"
    for logits in f32.npy f16.npy "bf16.npy --dtype bf16"; do
        both --logits $logits $request --repetition-penalty 1.3
        both --logits $logits $request $penalties $lists --max-tokens 9 --top-p 0.9 \
            --temperature 1.5 --seed 3
    done
    both $f $request --bias bf16.npy --bias-factor 1.5 --presence-penalty 0.5 --stop-id 36
    both $f $request --bias f32.npy --mask mask.npy --max-tokens 4
    both $f --params all.json --prompt output.npy --draws 3
    both --logits bad.npy --logit-bias 0:1
    both $f $request --infill --infill-end 3,4,5 --temperature 0.3
    both $f $request $dry --no-repeat-ngram-size 3 --bad-word 5 --bad-word 11,2 --min-tokens 5 \
        --stop-id 36 $penalties
    both $f $request --thinking-forced 7,8 --thinking-start 36 --max-tokens 4 --top-p 0.9
    both $f $request --force 1,2,3,4 --logprob-kind final --top-k 9 --mirostat 2
}

finish
