#!/bin/sh
# SPDX-License-Identifier: MIT
# Proves that `clsample replay` accepts the logs of many parameters, from the host and from a
# device, whose logs are equal; that it names each token that was changed in a log, with the right
# reason; and that it accepts no damaged log. CLSAMPLE is the command's path. Without a device it
# uses the host alone.
# shellcheck source=tests/command/command.sh
. "$(dirname "$0")/command.sh"

# shellcheck disable=SC2317 # check and exits call it
replay() { "$clsample" replay "$@"; }

# ------------------------------------------------------------- logs are proven

proven() { # TOKENS OPTIONS: sampled on each device, written, and proven
    tokens_=$1
    shift
    for where_ in $devices; do
        check "$where_: sample $*" run_on "$where_" --log "$where_.log" "$@"
        check "$where_: replay $*" replay "$where_.log"
        says "$where_: replay $*" "^all $tokens_ tokens of [0-9]* requests are proven$" out
        [ "$where_" = host ] || same "the logs of $*" host.log "$where_.log"
    done
}

# Row r allows all tokens but r and r + 8.
npy holes.npy '|b1' '8, 37'
i=0
while [ $i -lt 296 ]; do
    case $((i % 37 - i / 37)) in 0 | 8) bytes holes.npy 00 ;; *) bytes holes.npy 01 ;; esac
    i=$((i + 1))
done
ints tokens.npy '8, 5'  1 2 3 1 2  4 5 -1 4 -1  0 0 0 0 0  36 1 36 1 36  9 9 -1 -1 -1  7 8 7 8 -1 \
    -1 -1 -1 -1 -1  20 21 20 21 20
ints prefixes.npy 37, -1 0 0 1 -1 2 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 \
    -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1
cat >mixed.json <<'END'
[{"temperature":0},{"top_k":3,"temperature":0.7},{"top_p":0.5,"top_p_decay":0.9},
{"min_p":0.3,"logit_bias":{"3":"-inf","5":1.25,"6":-1e30}},
{"chain":"llama","top_k":5,"top_p":0.8,"xtc_probability":0.5,"xtc_threshold":0.01},
{"chain":["min_p","temperature"],"min_p":0.2,"temperature":3.4028234e38,"dry_multiplier":0.8,
 "dry_allowed_length":1,"dry_sequence_breakers":[[8],[1,2]],"bad_words":[[7,9],[3]]},
{"seed":"18446744073709551615","stream":9007199254740993,"penalty_scope":"all","p_less":true},
{"position":4294967280,"allowed_token_ids":[],"stop_ids":[1,2],"force":[36,36],"loop_repeats":2,
 "thinking_forced":[8],"thinking_budget":2}]
END

echo '{"transitions": [{"1": 1, "3": 2, "9": 0}, {"2": 0}, {}], "final": [2], "end_ids": [5]}' \
    >grammar.json

f="--logits f32.npy"
request="--prompt tokens.npy --output tokens.npy"
# shellcheck disable=SC2086 # options
{
    proven 8 $f --temperature 0
    proven 24 $f --draws 3 --seed 5
    proven 16 $f --draws 2 --top-k 9 --top-p 0.8 --min-p 0.05 --temperature 0.8
    proven 16 $f --draws 2 --params mixed.json $request
    proven 6 $f --draws 2 --params mixed.json --rows 6,1,6 --mask holes.npy
    proven 8 $f --mask holes.npy --bias f16.npy --top-k 20
    proven 8 $f --bias bf16.npy --bias-factor -0.75 --temperature 0.25
    proven 8 $f --mask mask.npy
    proven 16 $f --draws 2 --grammar grammar.json --output tokens.npy --mask holes.npy
    proven 8 $f --top-k 5 --kept-set 2 # an overflow is no part of a token's status
    proven 8 --logits f16.npy --top-n-sigma 1.2 --typical 0.9
    proven 8 --logits bf16.npy --dtype bf16 --bias f32.npy --top-a 0.1 --min-keep 3
    proven 4 --logits bad.npy
    proven 8 $f $request --repetition-penalty 1.3 --frequency-penalty 0.4 --presence-penalty 0.1 \
        --penalty-window 3 --stop-id 5 --min-tokens 4 --max-tokens 6
    proven 8 $f $request --dry-multiplier 1 --no-repeat-ngram-size 3 --bad-word 5 --bad-word 1,2 \
        --allowed-id 0,2,4,5,8,10,36
    proven 16 $f $request --draws 2 --mirostat 1 --mirostat-ent 2
    proven 16 $f $request --draws 2 --mirostat 2 --mirostat-lr 0.3 --temperature 1.2
    proven 8 $f --adaptive-target 0.1 --adaptive-decay 0.5
    proven 8 $f --infill --infill-end 3,4 --infill-prefix prefixes.npy --temperature 0.3
    proven 16 $f $request --draws 2 --force 3,4,5,6,7 --mask holes.npy --stop-id 6
    proven 16 $f $request --draws 2 --thinking-start 9 --thinking-end 1,1 --thinking-forced 30,31 \
        --thinking-budget 1 --mirostat 2
    proven 16 $f $request --draws 2 --force 1,2 --loop-repeats 2 --loop-min 1 --loop-max 2 \
        --top-p 0.8
    proven 8 $f --dynatemp-range 0.9 --dynatemp-exp 2 --chain temperature,top_k --top-k 5
}
if [ "$devices" != host ]; then
    check "shards" run_on device --logits f32.npy --top-p 0.9 --shards 3 --log shards.log
    check "shards" replay shards.log
fi

# A relative name is looked up in the log's folder first, then in the current one.
mkdir -p run/other
cp f32.npy run/own.npy
(cd run && "$clsample" sample --device host --logits own.npy --log own.log >/dev/null)
check "files in the log's folder" replay run/own.log
host --log run/f32.log >out
check "files in the current folder" replay run/f32.log
cp bf16.npy run/f32.npy
exits 2 "the log's folder is the first" replay run/f32.log
says "the log's folder is the first" "^clsample: run/f32.npy: uint16 logits" err
host --logits "$PWD/f32.npy" --log run/f32.log >out
check "an absolute name" replay run/f32.log

# ------------------------------------------------------------ tokens that differ

# Two rows of 4, 3, 2, -1: .66228, .24364, .08963, .00446; without the last .66524, .24473, .09003.
npy four.npy '<f4' '2, 4'
bytes four.npy 40800000 40400000 40000000 bf800000 40800000 40400000 40000000 bf800000
ints bits.npy '2, 1'  7 7

log() { # OPTIONS: writes good.log, of one token in line 3 and one in line 5
    check "sample $*" "$clsample" sample --device host --logits four.npy --log good.log "$@"
    check "replay $*" replay good.log
}
token() { sed -n "$1s/^{\"token\":\\(-*[0-9]*\\),.*/\\1/p" good.log; }
draws='the log has token'
differs() { # WHAT LINE NUMBER PATTERN: with this token in the line
    what_=$1
    sed "$2s/^{\"token\":-*[0-9]*/{\"token\":$3/" good.log >bad.log
    exits 1 "$what_" replay bad.log
    is "$what_: lines" "$(wc -l <out)" 1
    says "$what_" "^line $2, row [01], step 0, position [0-9]*: .*$4$" out
}

log --mask bits.npy
differs "a masked token" 5 3 "$draws 3, .* the mask does not allow token 3"
cp grammar.json other.json
echo '{"transitions": [{"0": 0, "1": 0, "2": 0}]}' >grammar.json
log --grammar grammar.json
differs "a token outside the grammar" 5 3 "$draws 3, .* the grammar does not allow token 3"
log --grammar grammar.json --thinking-end 2
differs "a token of the thinking" 5 3 "$draws 3, .* token 3, of final probability .* in the set .*"
echo '{ "transitions": [{"2": 0, "1": 0, "0": 0}] }' >grammar.json
check "the same grammar in other words" replay good.log
cp other.json grammar.json
exits 2 "another grammar" replay good.log
says "another grammar" "^clsample: grammar.json: .*" err
log --top-k 3
drawn=$(token 3)
differs "a token outside the set" 3 3 "$draws 3, but the draw gives token $drawn, \
of final probability 0.[0-9]*; token 3 is outside the kept set: \
stage top-k (3) removes it and leaves 3 of 4 tokens"
for other in 0 1 2; do
    [ "$other" = "$drawn" ] && continue
    p=$(echo 665241 244728 090031 | cut -d' ' -f $((other + 1)))
    differs "another token of the set" 3 "$other" "token $other, of final probability 0.$p, is \
also in the set of 3 tokens, but it is not the one that is drawn"
done
differs "no token" 3 -1 \
    "the log has no token, but the draw gives token $drawn, of final probability.*"
differs "a token that does not exist" 3 4 "token 4 is not in the vocabulary"
sed '5s/"status":0/"status":32/' good.log >bad.log
exits 1 "another status" replay bad.log
says "another status" ': token [0-3] has the status "stopped" in the log, but it should be "ok"$' \
    out
sed '3s/"seed":0/"seed":9/;3s/"position":0/"position":1/' good.log >bad.log
exits 1 "another seed" replay bad.log

sed 's/^{"token":[0-9]/{"token":3/' good.log >bad.log
exits 1 "--all" replay --all bad.log
is "--all" "$(cut -d, -f1 out | tr '\n' ' ')" "line 3 line 5 2 of 2 tokens differ "
sed '1s/"version":"[^"]*"/"version":"0.0.1"/' bad.log >old.log
exits 1 "another version" replay old.log
says "another version" "^the log was written by clsample 0.0.1; this is " out

# One stage or ban after another: the first that removes token 3.
removed() { # REASON OPTIONS
    reason_=$1
    shift
    log "$@"
    differs "$*" 3 3 "; .*$reason_"
}
ints said.npy '2, 2'  3 -1  3 -1
npy low.npy '<f4' '2, 4'
bytes low.npy 00000000 00000000 00000000 ff800000 00000000 00000000 00000000 ff800000
removed "stage temperature (0: greedy) removes it and leaves 1 of 4 tokens" --temperature 0
removed "stage top-p (0.99) removes it .*" --top-p 0.99 --top-k 4
removed "stage min-p (0.1) removes it and leaves 3 of 4 tokens" --min-p 0.1
removed "stage p-less removes it .*" --p-less
removed "stage xtc (.*) removes it and leaves 2 of 3 tokens" --chain top_k,xtc --top-k 3 \
    --xtc-probability 1 --xtc-threshold 0.2 --logit-bias 3:6
removed "stage mirostat (2, in its initial state: mu 2) removes it .*" --mirostat 2 --mirostat-ent 1
removed "token 3 is not one of the allowed ids" --allowed-id 0,1
removed "logit_bias bans token 3" --logit-bias 3:-inf
removed "the bias bans token 3" --bias low.npy
removed "bad_words bans token 3" --bad-word 3
removed "no_repeat_ngram bans token 3" --no-repeat-ngram-size 1 --output said.npy
removed "min_tokens still bans the stop ids, one of which is token 3" --stop-id 3 --min-tokens 9
removed "min_tokens still bans the stop ids, one of which is token 3" --stop-id 3 --min-tokens 9 \
    --allowed-id 1,3
check "a logit of minus infinity" "$clsample" sample --device host --logits low.npy --log good.log
differs "a logit of minus infinity" 3 3 "; a logit of minus infinity or NaN excludes token 3"

# A row that has no token, and the adaptive state in a log of another program.
log --logit-bias 0:-inf --logit-bias 1:-inf --logit-bias 2:-inf --logit-bias 3:-inf
differs "a row without tokens" 3 3 "$draws 3, but the draw gives no token (empty)"
log --mirostat 2 --mirostat-ent 5 --seed 2
sed '3s/^{"token":[0-9]/{"adaptive":{"mu":0,"sum":0,"weight":0,"top_p":0},"token":2/' good.log \
    >bad.log
exits 1 "an adaptive state" replay bad.log
says "an adaptive state" "the draw gives token 0, of final probability 1.000000; token 2 is \
outside the kept set: stage mirostat (2, mu 0) removes it and leaves 1 of 4 tokens$" out
sed 's/"mu":0/"mu":2147483647/' bad.log >impossible.log
exits 2 "a mu that overflows" replay impossible.log
says "a mu that overflows" "line 3: row->adaptive has mu 2147483647, .*: Mirostat's mu is imp" err
log --adaptive-target 0.5
sed '3s/^{/{"adaptive":{"mu":0,"sum":0,"weight":0,"top_p":0},/' good.log >bad.log
exits 2 "averages without a weight" replay bad.log
says "averages without a weight" "line 3: row->adaptive has .*: the averages of adaptive p" err

# Forced tokens: another one, one that the mask forbids, and one that nothing forces.
log --force 3,2
differs "a token in place of a forced one" 3 2 "$draws 2, but token 3 is forced; it is force\[0\]"
differs "no token in place of a forced one" 3 -1 "no token, but token 3 is forced; it is force.*"
log --force 3,2 --output said.npy
differs "a token in place of a forced one" 5 3 "token 2 is forced; it is force\[1\]"
log --thinking-forced 1,2 --thinking-budget 1 --output said.npy
differs "a token within the budget" 3 0 \
    "but token 1 is forced; the thinking has used its budget of 1 tokens"
sed '3s/"status":512/"status":0/' good.log >bad.log
exits 1 "a forced token as a drawn one" replay bad.log
says "a forced token as a drawn one" \
    ': token 1 has the status "ok" in the log, but it should be "forced"$' out
log --force 3 --mask bits.npy
differs "a masked token" 3 3 \
    "the draw gives no token (empty); the mask does not allow token 3, which is forced"
log --top-k 3
sed '3s/^{"token":[0-9],"status":0/{"token":3,"status":512/' good.log >bad.log
exits 1 "a token that nothing forces" replay bad.log
says "a token that nothing forces" "; nothing forces token 3$" out
log --loop-repeats 3 --force 0,0,0 --output "$(ints zeros.npy '2, 2' 0 0 0 0; echo zeros.npy)"
sed '3s/"status":800/"status":512/' good.log >bad.log
exits 1 "a loop that goes on" replay bad.log
says "a loop that goes on" ' "forced" in the log, but it should be "stopped, loop, forced"$' out

# Logits that changed after they were sampled.
log
cp four.npy kept.npy
npy four.npy '<f4' '2, 4'
bytes four.npy 40800000 40400000 40000000 bf800000 40800000 40400000 40000001 bf800000
exits 1 "other logits" replay good.log
says "other logits" "^line 5, .*: the logits, the mask or the bias have changed since" out
mv kept.npy four.npy

# -------------------------------------------------------------------- exit 2

log --top-k 3 --mask bits.npy --prompt said.npy
broken() { # PATTERN SCRIPT: good.log, changed by the script of sed
    sed "$2" good.log >bad.log
    exits 2 "$2" replay bad.log
    says "$2" "^clsample: $1" err
    is "$2: sentences" "$(wc -l <err)" 1
}
broken "bad.log: line 3 is damaged: " '3s/...$//'
broken "bad.log: line 4 is damaged: it is not an object$" '4s/.*/[]/'
broken "bad.log: line 4 is neither a request nor a token$" '4s/.*/{}/'
broken "bad.log: the log has 1 of its 2 tokens; it is cut short$" '5d'
broken "bad.log: line 2: there is no request 0 before this token$" '2d'
broken "bad.log: line 4: request 2 follows .*" '4s/"request":1/"request":2/'
broken "four.npy: the rows have 4 tokens, but bad.log has a vocabulary of 5$" '1s/:4,/:5,/'
broken "four.npy: the logits are f32, but bad.log has the type f16$" '1s/f32/f16/'
broken 'bad.log: line 1: "dtype": '"'f64' is not one of f32|f16|bf16$" '1s/f32/f64/'
broken "none.npy: cannot be opened: No such file or directory$" '1s/four.npy/none.npy/'
broken "none.npy: cannot be opened: No such file or directory$" '1s/bits.npy/none.npy/'
broken "four.npy: the file has 160 bytes, but it had 161 when bad.log was written$" \
    '1s/:160}/:161}/'
npy flat.npy '<i4' '1048576, 0'
broken "flat.npy: the rows have no elements$" '1s/bits.npy","size":136/flat.npy","size":128/'
broken 'bad.log: line 3: "logits": four.npy has no row of 16 bytes at byte 145$' \
    '3s/"logits":128/"logits":145/'
broken 'bad.log: line 3: "logits": four.npy has no row .*' '3s/"logits":128/"logits":127/'
broken 'bad.log: line 3: "bias" is set, but line 1 names no file for it$' '3s/"draw"/"bias":1,&/'
broken 'bad.log: line 3: "position" is missing$' '3s/position/x/'
broken 'bad.log: line 3: "draw": .*' '3s/"draw":0/"draw":-1/'
broken "bad.log: line 5: -2 is no token$" '5s/"token":[0-9]/"token":-2/'
broken 'bad.log: line 2: "top_m" is not a known key; did you mean top_k?$' '2s/top_k/top_m/'
broken 'bad.log: line 2: "temperature": .*' '2s/"top_k":3/"temperature":-1/'
broken 'bad.log: line 2: "prompt": the value is not an array of token ids$' \
    '2s/"prompt":\[3\]/"prompt":3/'
broken 'bad.log: line 2: "force": 4 is not a token of a vocabulary of 4$' \
    '2s/"top_k":3/"force":[1,4]/'
broken 'bad.log: line 2: "force": the value is not an array of token ids$' \
    '2s/"top_k":3/"force":1/'
broken "bad.log: line 2: the infill stage is on, but the log has no tables for it$" \
    '2s/"top_k":3/"infill":true/'
broken "bad.log: the log has format 2, but this version reads format 1$" '1s/log":1/log":2/'
broken "bad.log: the file is no log of clsample sample" '1s/clsample_log/x/'
mkdir -p elsewhere
sed '1s/four.npy/none.npy/' good.log >elsewhere/bad.log
exits 2 "no logits" replay elsewhere/bad.log
says "no logits" "^clsample: elsewhere/bad.log: line 1: none.npy is neither in the folder of the \
log nor in the current one$" err

i=0
size=$(wc -c <good.log)
while [ $i -lt $((size - 1)) ]; do
    head -c $i good.log >bad.log
    exits 2 "the first $i bytes" replay bad.log
    is "the first $i bytes: sentences" "$(wc -l <err)" 1
    i=$((i + 41))
done

: >bad.log
exits 2 "an empty log" replay bad.log
says "an empty log" "bad.log: the log is empty$" err
exits 2 "an array" replay four.npy
says "an array" \
    "^clsample: four.npy: the file is no log of clsample sample: line 1 is not a JSON object$" err
exits 2 "no log" replay nowhere.log
says "no log" "nowhere.log: cannot be opened: No such file or directory$" err
exits 2 "no name" replay
says "no name" "the name of a log is missing" err
exits 2 "two names" replay good.log bad.log
says "two names" "unexpected argument 'bad.log'" err
exits 2 "an unknown option" replay good.log --most
exits 0 "help" replay --help
says "help" "^usage: clsample replay LOG" out

refused "none/x.log: cannot be written: No such file or directory" sample --device host \
    --logits four.npy --log none/x.log
if mkfifo pipe.npy 2>/dev/null; then
    cat four.npy >pipe.npy &
    refused "--log: pipe.npy is a pipe, which replay cannot read again" sample --device host \
        --logits pipe.npy --log x.log
    kill $! 2>/dev/null
    # A log must not name a pipe, which would wait for somebody who writes it.
    log --mask bits.npy
    mkfifo waits.npy run/waits.npy
    for name in waits.npy "$PWD/waits.npy" run/waits.npy; do
        for file in four.npy bits.npy; do
            sed "1s|$file|$name|" good.log >bad.log
            exits 2 "$name for $file" timeout 5 "$clsample" replay bad.log
            says "$name for $file" "^clsample: bad.log: line 1: $name is no regular file$" err
        done
    done
    sed "1s|four.npy|waits.npy|" good.log >run/bad.log
    exits 2 "a pipe in the log's folder" timeout 5 "$clsample" replay run/bad.log
    says "a pipe in the log's folder" "line 1: run/waits.npy is no regular file$" err
fi

finish
