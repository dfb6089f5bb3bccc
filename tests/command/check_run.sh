#!/bin/sh
# SPDX-License-Identifier: MIT
# Proves clsample run: it accepts the logs of many parameters, from the host and from a device,
# which are equal; it names each token that was changed in a log, with the right reason; texts of
# calls give what they expect, and what is wrong with a text has its sentence. CLSAMPLE is the
# command's path. Without a device it uses the host alone.
# shellcheck source=tests/command/command.sh
. "$(dirname "$0")/command.sh"

# shellcheck disable=SC2317 # check and exits call it
run() { "$clsample" run "$@"; }

# ------------------------------------------------------------- logs are proven

proven() { # OPTIONS: sampled on each device, written, and proven
    for where_ in $devices; do
        check "$where_: sample $*" run_on "$where_" --log "$where_.log" "$@"
        check "$where_: run $*" run "$where_.log"
        says "$where_: run $*" "^[0-9]* statements on 1 side: all equal$" out
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
    proven $f --temperature 0
    proven $f --draws 2 --top-k 9 --top-p 0.8 --min-p 0.05 --temperature 0.8
    proven $f --draws 2 --params mixed.json $request
    proven $f --draws 2 --params mixed.json --rows 6,1,6 --mask holes.npy
    proven $f --mask holes.npy --bias f16.npy --top-k 20
    proven $f --bias bf16.npy --bias-factor -0.75 --temperature 0.25 --mask mask.npy
    proven $f --softcap 2.5 --bias f16.npy --top-k 20 --temperature 0.5
    proven $f --draws 2 --grammar grammar.json --output tokens.npy --mask holes.npy
    proven $f --top-k 5 --kept-set 2 # an overflow is no part of a token's status
    proven --logits f16.npy --top-n-sigma 1.2 --typical 0.9
    proven --logits bf16.npy --dtype bf16 --bias f32.npy --top-a 0.1 --min-keep 3
    proven --logits bad.npy
    proven $f $request --repetition-penalty 1.3 --frequency-penalty 0.4 --presence-penalty 0.1 \
        --penalty-window 3 --stop-id 5 --min-tokens 4 --max-tokens 6
    proven $f $request --dry-multiplier 1 --no-repeat-ngram-size 3 --bad-word 5 --bad-word 1,2 \
        --allowed-id 0,2,4,5,8,10,36
    proven $f $request --draws 2 --mirostat 2 --mirostat-lr 0.3 --temperature 1.2
    proven $f --adaptive-target 0.1 --adaptive-decay 0.5 --dynatemp-range 0.9 --dynatemp-exp 2 \
        --chain temperature,top_k --top-k 5
    proven $f --infill --infill-end 3,4 --infill-prefix prefixes.npy --temperature 0.3
    proven $f $request --draws 2 --force 3,4,5,6,7 --mask holes.npy --stop-id 6
    proven $f $request --draws 2 --thinking-start 9 --thinking-end 1,1 --thinking-forced 30,31 \
        --thinking-budget 1 --mirostat 2
    proven $f $request --draws 2 --force 1,2 --loop-repeats 2 --loop-min 1 --loop-max 2 \
        --top-p 0.8
}
# A relative name is looked up in the log's folder first, then in the current one.
mkdir -p folder/other
cp f32.npy folder/own.npy
cp f32.npy "a name.npy"
(cd folder && "$clsample" sample --device host --logits own.npy --log own.log >/dev/null)
check "files in the log's folder" run folder/own.log
host --log folder/f32.log >out
check "files in the current folder" run folder/f32.log
cp bf16.npy folder/f32.npy
exits 2 "the log's folder is the first" run folder/f32.log
says "the log's folder is the first" "^clsample: folder/f32.npy: uint16 logits" err
host --logits "$PWD/a name.npy" --log folder/f32.log >out
check "an absolute name with a space" run folder/f32.log

# ------------------------------------------------------------ tokens that differ

# Two rows of 4, 3, 2, -1: .66228, .24364, .08963, .00446; without the last .66524, .24473, .09003.
npy four.npy '<f4' '2, 4'
bytes four.npy 40800000 40400000 40000000 bf800000 40800000 40400000 40000000 bf800000
ints bits.npy '2, 1'  7 7

log() { # OPTIONS: writes good.log, of one step of two rows
    check "sample $*" "$clsample" sample --device host --logits four.npy --log good.log "$@"
    check "run $*" run good.log
}
# The part of the step that a row expects: "2" or "-1 EMPTY".
of_row() { sed -n 's/.* -> //p' good.log | cut -d, -f $(($1 + 1)) | sed 's/^ //'; }
line() { grep -n '^step' good.log | cut -d: -f 1; }
differs() { # WHAT ROW TEXT PATTERN: the row expects this text
    what_=$1
    awk -v row="$2" -v text="$3" 'BEGIN { FS = OFS = " -> " }
        /^step/ { n = split($2, part, ", *"); $2 = ""; part[row + 1] = text
            for (i = 1; i <= n; i++) $2 = $2 (i > 1 ? ", " : "") part[i] }
        { print }' good.log >bad.log
    exits 1 "$what_" run bad.log
    is "$what_: lines" "$(wc -l <out)" 1
    says "$what_" "^bad.log: line $(line), row $2 is $(of_row "$2"), but $3 is expected$4$" out
}

log --mask bits.npy
differs "a masked token" 1 3 "; the mask does not allow token 3"
cp grammar.json other.json
echo '{"transitions": [{"0": 0, "1": 0, "2": 0}]}' >grammar.json
log --grammar grammar.json
differs "a token outside the grammar" 1 3 "; the grammar does not allow token 3"
log --grammar grammar.json --thinking-end 2
differs "a token of the thinking" 1 3 "; token 3, of final probability .* in the set .*"
echo '{ "transitions": [{"2": 0, "1": 0, "0": 0}] }' >grammar.json
check "the same grammar in other words" run good.log
echo '{ "transitions": [{"2": 0, "1": 0}] }' >grammar.json
exits 2 "another grammar" run good.log
says "another grammar" "line [0-9]*: grammar.json is another grammar than when the text was \
written" err
cp other.json grammar.json
log --top-k 3
drawn=$(of_row 0)
differs "a token outside the set" 0 3 "; token 3 is outside the kept set: \
stage top-k (3) removes it and leaves 3 of 4 tokens"
for other in 0 1 2; do
    [ "$other" = "$drawn" ] && continue
    p=$(echo 665241 244728 090031 | cut -d' ' -f $((other + 1)))
    differs "another token of the set" 0 "$other" "; token $other, of final probability 0.$p, is \
also in the set of 3 tokens, but it is not the one that is drawn.*"
done
# What was mixed up: the seed of another request, the position, the row, the request.
mixed() { # TOKEN WORDS
    printf '%s\n' "sampler vocab=1000 slots=2 rows=2" "begin 0 seed=1003 temperature=4" \
        "begin 1 seed=1004 temperature=3 logit_bias=7:9" \
        "step slots=0,1 positions=5,6 logits=random:9 -> $1, 0" >mixed.log
    exits 1 "mixed up: $2" run mixed.log
    says "mixed up: $2" \
        "row 0 is [0-9]*, but $1 is expected; .* is drawn; $2 (1 of [0-9]* others tried)$" out
}
drawn_by() { # REQUEST STEP: what the step's row 0 draws
    printf '%s\n' "sampler vocab=1000 slots=2 rows=2" "begin 0 $1" "step $2 -> 1000" >drawn.log
    "$clsample" run drawn.log | sed 's/.*row 0 is \([0-9]*\),.*/\1/'
}
one='slots=0 positions=5 logits=random:9'
mixed "$(drawn_by 'seed=1004 temperature=4' "$one")" "seed 1004 (slot 1) draws it"
mixed "$(drawn_by 'seed=1003 temperature=4' 'slots=0 positions=3 logits=random:9')" \
    "position 3 draws it"
mixed "$(drawn_by 'seed=1003 temperature=4' "$one draws=2")" "draw 2 of the position draws it"
request='seed=1004 temperature=3 logit_bias=7:9'
mixed "$(drawn_by "$request" 'slots=0 positions=6 logits=random:9')" \
    "the request of row 1 draws it"
printf '%s\n' 'sampler vocab=8 slots=2 rows=2 max_history=8' \
    'begin 0 temperature=0 stop_ids=2 stop_action=ban thinking_ends=5' \
    'begin 1 temperature=0 relaxed_top_k=2 thinking_ends=5' \
    'step slots=0,1 positions=2147483647,-1 logits=tokens:2,3 -> 2, 2' >thinks.log
exits 1 "a stop id in the thinking" run thinks.log
says "a stop id in the thinking" \
    "row 0 is 0, but 2 is expected; stop_action, while the request thinks, bans token 2$" out
sed -i 's/-> 2, 2/-> 0, 2/' thinks.log
for ends in 'stop_ids=2 stop_action=end-thinking' \
    'loop_action=end-thinking loop_repeats=2 loop_max=2'; do
    printf '%s\n' 'sampler vocab=8 slots=1 max_history=8' \
        "begin 0 top_k=3 $ends thinking_ends=5 thinking_forced=5" \
        'step logits=tokens:2 -> 7' >ends.log
    exits 1 "$ends" run ends.log
    says "$ends" "row 0 is 2, but 7 is expected; token 7 is outside the kept set: stage top-k" out
done
exits 1 "relaxed drafts" run thinks.log
says "relaxed drafts" "row 1 is 3, but 2 is expected; token 2 is outside the kept set: .*" out
differs "no token" 0 "-1 EMPTY" ""
differs "a token that does not exist" 0 4 "; token 4 is not in the vocabulary"
differs "another status" 0 "$drawn STOPPED" "; the token is right, but its status is not"
sed 's/positions=0,/positions=1,/;s/seed=1/seed=9/' good.log >bad.log
exits 1 "another seed and position" run bad.log
sed 's/^version .*/version 0.0.1/;s/ -> ./ -> 3/' good.log >bad.log
exits 1 "another version" run bad.log
says "another version" "^the text was written by clsample 0.0.1; this is " out
sed 's/arithmetic=1$/arithmetic=2/' good.log >bad.log
exits 2 "another arithmetic" run bad.log
says "another arithmetic" \
    "line 1: the text is of arithmetic 2; this library has arithmetic 1, which may draw other" err
sed 's/ arithmetic=1$//' good.log >older.log
exits 0 "a log without the number" run older.log

# One stage or ban after another: the first that removes token 3.
removed() { # REASON OPTIONS
    reason_=$1
    shift
    log "$@"
    differs "$*" 0 3 "; $reason_"
}
kept="token 3 is outside the kept set:"
ints said.npy '2, 2'  3 -1  3 -1
npy low.npy '<f4' '2, 4'
bytes low.npy 00000000 00000000 00000000 ff800000 00000000 00000000 00000000 ff800000
removed "$kept stage temperature (0: greedy) removes it and leaves 1 of 4 tokens" --temperature 0
removed "$kept stage top-p (0.99) removes it .*" --top-p 0.99 --top-k 4
removed "$kept stage min-p (0.1) removes it and leaves 3 of 4 tokens" --min-p 0.1
removed "$kept stage p-less removes it .*" --p-less
removed "$kept stage xtc (.*) removes it and leaves 2 of 3 tokens" --chain top_k,xtc --top-k 3 \
    --xtc-probability 1 --xtc-threshold 0.2 --logit-bias 3:6
removed "$kept stage mirostat (2, tau 1, eta 0.1) removes it .*" --mirostat 2 --mirostat-ent 1
removed "token 3 is not one of the allowed ids" --allowed-id 0,1
removed "logit_bias bans token 3" --logit-bias 3:-inf
removed "the bias bans token 3" --bias low.npy
removed "bad_words bans token 3" --bad-word 3
removed "no_repeat_ngram bans token 3" --no-repeat-ngram-size 1 --output said.npy
removed "min_tokens still bans the stop ids, one of which is token 3" --stop-id 3 --min-tokens 9
removed "min_tokens still bans the stop ids, one of which is token 3" --stop-id 3 --min-tokens 9 \
    --allowed-id 1,3
check "a logit of minus infinity" "$clsample" sample --device host --logits low.npy --log good.log
differs "a logit of minus infinity" 0 3 "; a logit of minus infinity or NaN excludes token 3"

log --logit-bias 0:-inf --logit-bias 1:-inf --logit-bias 2:-inf --logit-bias 3:-inf
differs "a row without tokens" 0 3 ""

# Forced tokens: another one, one that the mask forbids, and one that nothing forces.
log --force 3,2
differs "a token in place of a forced one" 0 2 "; the request must emit it"
differs "no token in place of a forced one" 0 -1 "; the request must emit it"
log --force 3,2 --output said.npy
differs "a token in place of a forced one" 1 3 "; the request must emit it"
log --thinking-forced 1,2 --thinking-budget 1 --output said.npy
differs "a token within the budget" 0 0 "; the request must emit it"
differs "a forced token as a drawn one" 0 1 "; the token is right, but its status is not"
log --force 3 --mask bits.npy
differs "a masked token" 0 3 "; the mask does not allow token 3, which is forced"
log --top-k 3
differs "a token that nothing forces" 0 "3 FORCED" "; nothing forces token 3"

# Logits that changed after they were sampled.
log
cp four.npy kept.npy
npy four.npy '<f4' '2, 4'
bytes four.npy 40800000 40400000 40000000 bf800000 40800000 40400000 40000001 bf800000
exits 1 "other logits" run good.log
says "other logits" "^good.log: line 5, row 1: the logits, the mask or the bias have changed" out
mv kept.npy four.npy

# ---------------------------------------------------------------------- texts

expects() { # WHAT TEXT: the text gives what it expects
    printf '%s\n' "$2" >text.run
    check "$1" run text.run
}
small='sampler vocab=40 slots=3 max_history=64 max_rollback=8'
expects "forced tokens" "$small
begin 0-2 prompt=1,2,3,2,3 max_tokens=3 temperature=0 # greedy
force 0-2 ids=4,5,4,5
step -> 4 FORCED, 4 FORCED, 4 FORCED
step -> 5 FORCED, 5 FORCED, 5 FORCED # comments follow
step slots=1 -> 4 FORCED|LENGTH|STOPPED
step slots=1 -> -1 STOPPED|SKIPPED
same 0,2"
differs_in() { # SENTENCE TEXT: the text does not give what it expects
    printf '%s\n' "$2" >text.run
    exits 1 "$2" run text.run
    says "$2" "^text.run: $1" out
}
differs_in "line 4: the slots differ$" "$small
begin 0 prompt=1
begin 1 prompt=2
same 0,1"
differs_in "line 2 is refused params->top_p is 2; " "$small
begin 0 top_p=2"
differs_in "line 3: it is nothing, but refused is expected$" "$small
begin 0
append 0 prompt=1 -> refused"
differs_in "line 1 is refused .*" "sampler vocab=1048577"

# What a side leaves out is named; more shards than tokens are no reason.
printf '%s\n' "$small" 'begin 0' 'step slots=0' 'leave host-each,host-alone' 'step slots=0' \
    >text.run
check "a side that leaves the rest out" run text.run --sides host-each,host-alone
says "a side that leaves the rest out" \
    "^5 .* on 3 sides: all equal; host-each left out text.run: its statement leave names this" out
printf '%s\n' 'sampler vocab=2 slots=1' 'begin 0' step 'sampler vocab=1 slots=1' 'begin 0' \
    step 'sampler vocab=9 slots=1' 'begin 0' step >text.run
if [ "$devices" != host ]; then
    check "more shards than tokens" run text.run --device 0 --sides shards-2,shards-3,shards-5
    says "more shards than tokens" "^9 statements on 4 sides: all equal$" out
    check "a device beside the host's sides" run text.run --device 0 --sides host-alone
    says "a device beside the host's sides" "^9 statements on 3 sides: all equal$" out
fi
# Small limits put the kernels' arguments into a buffer, where those that change are written again.
printf '%s\n' 'sampler vocab=40 slots=4 dtypes=f32' 'begin 0-3 temperature=0' \
    'step rows=3 logits=random:1' 'step slots=-1,2,1 logits=random:2' 'step rows=3' >text.run
if [ "$devices" != host ]; then
    check "arguments in a buffer" run text.run --device 0 --max-parameters 256
    says "arguments in a buffer" "^5 statements on 2 sides: all equal$" out
fi
# What is compiled: what the statements need, or what the text names. Folders without programs are
# of devices that give none.
few='step slots=0 outputs=logprobs
step slots=0 mask=random:1'
programs_of() { # SAMPLER: runs a text, and counts the programs that are compiled
    rm -rf programs
    mkdir programs
    printf '%s\n' "$1" 'begin 0-2 prompt=1,2,3,2,3 temperature=0' 'force 0-2 ids=4,5' step \
        'rollback 1 count=1' 'copy 0 from=1' "$few" >text.run
    run_quietly run text.run --device 0 --whole --cache-dir programs
    count=$(find programs -type f | wc -l)
}
if [ "$devices" != host ]; then
    programs_of "$small"
    is "programs that the statements need: exit" "$code" 0
    says "programs that the statements need" "^8 statements on 2 sides: all equal$" out
    is "programs that the statements need: at most 20 of them" "$((count <= 20 ? 0 : count))" 0
    programs_of "$small dtypes=f32 features=shortlist,forced,state,logprobs"
    is "programs without masks: exit" "$code" 1
    says "programs without masks" "^text.run: device: refusal was written, and tokens on the" out
fi
exits 2 "a device that is not there" run text.run --device 99 --sides host-alone

# A side, like each word of a list, is known, or the sentence says which one may be meant.
no_side() { # SIDES WORD MEANT
    exits 2 "--sides $1" run text.run --sides "$1"
    says "--sides $1" "^clsample: --sides: '$2' is not one of device|each|.*|all$3$" err
}
no_side nonsense nonsense ''
no_side hostalone hostalone '; did you mean host-alone?'
no_side host-each,shard-2 shard-2 '; did you mean shards-2?'
no_side host-each, '' ''
no_side device:5 device:5 '; did you mean device?'
check "a side twice" run text.run --sides host-alone,host-alone
says "a side twice" "^[0-9]* statements on 2 sides: all equal$" out

# -------------------------------------------------------------------- exit 2

wrong() { # SENTENCE TEXT
    printf '%s\n' "$2" >bad.run
    exits 2 "$2" timeout 20 "$clsample" run bad.run
    says "$2" "^clsample: $1" err
    is "$2: sentences" "$(wc -l <err)" 1
}
wrong "bad.run: line 1: 'stepp' is no statement; did you mean step?$" "stepp"
wrong "bad.run: line 1: there is no sampler yet: a script begins with one" "step"
wrong "bad.run: line 2: step does not know 'slots.host'; it knows: " "$small
step slots.host=64"
wrong "bad.run: line 2: struct_size may be at most [0-9]*, since all that it covers is read" "$small
step struct_size=99999"
wrong "bad.run: line 3: the mask on the host is not so large" "$small
begin 0
step slots=0 mask=random:1 mask_host=1 mask.rows=99999"
wrong "bad.run: line 2: step does not know 'slot'; it knows: " "$small
step slot=1"
wrong "bad.run: line 3: a quote has no end$" "$small

logits file=\"four.npy"
wrong "bad.run: line 2: step takes no word without =, such as 1$" "$small
step 1"
wrong "bad.run: line 2: begin has stop_ids twice$" "$small
begin 0 stop_ids=3 stop_ids=4"
wrong "bad.run: line 2: slots: ';' follows a number$" "$small
step slots=0;"
wrong "bad.run: line 2: slots=x is not a number$" "$small
step slots=x"
wrong "bad.run: line 2: begin needs a word without =$" "$small
begin prompt=1"
wrong "bad.run: line 2: prompt: there are more than 1048576 numbers$" "$small
begin 0 prompt=2000000*1"
wrong "bad.run: line 2: '.*' is no parameter$" "$small
begin 0 tempo=1"
wrong "line 2: temperature: 'hot' is not a number" "$small
begin 0 temperature=hot"
wrong "bad.run: line 2: grammar=g is no grammar of this script$" "$small
begin 0 grammar=g"
wrong "bad.run: line 2: from=a is no saved slot of this script$" "$small
load 0 from=a"
wrong "bad.run: line 3: positions has 1 numbers for 2 rows$" "$small
begin 0-1
step slots=0,1 positions=3"
wrong "bad.run: line 2: outputs: 'probes' is unknown" "$small
step outputs=probes"
wrong "bad.run: line 2: four.npy: there is no row 7; the file has \
rows 0 to 1\|logits_pick: there is no row 7" "sampler vocab=4 slots=1
step rows=1 logits=file:four.npy logits_pick=7"
wrong "bad.run: line 2: the file has 2 rows of 4 logits for 1 rows of 40$" "$small
step rows=1 logits=file:four.npy"
wrong "bad.run: line 2: sampler does not know 'wide'; it knows: " "$small
sampler vocab=40 wide=1"
# A grammar by its transitions.
wrong "bad.run: line 2: state 0: 2000 is not a token of a vocabulary of 40$" "$small
grammar g of=2000:0"
wrong "bad.run: line 2: final: 7 is not a state$" "$small
grammar g of=3:0 final=7 end=1"

# Lists of words, and of numbers.
wrong "bad.run: line 2: leave: no side's name begins with 'hots'$" "$small
leave host-alone,hots"
wrong "bad.run: line 2: features: 'verfy' is unknown; did you mean verify?$" "$small
random features=params,verfy"
wrong "bad.run: line 2: without: '' is unknown$" "$small
random without=params,"
wrong "bad.run: line 2: often: 'top_kk' is unknown; did you mean top_k?$" "$small
random often=top_p,top_kk"
wrong "bad.run: line 2: features: 'shortlst' is unknown; did you mean shortlist?$" "$small
compile features=shortlst"
wrong "bad.run: line 1: dtypes: '' is unknown$" "sampler vocab=40 dtypes=f32,"
wrong "bad.run: line 2: outputs: 'logprob' is unknown; .*; did you mean logprobs?$" "$small
step outputs=logprob"
wrong "bad.run: line 2: outputs: '' is unknown; " "$small
step outputs=logprobs,"
wrong "bad.run: line 2: prompt: ',' follows a number$" "$small
begin 0 prompt=1,2,"

# Counts that no sampler, call or text has are refused, and not because there is no memory.
most=4294967295
wrong "bad.run: line 2: the sampler has vocab=0; for random calls it must be 1 to 1048576$" \
    "sampler vocab=0
random calls=3 seed=4 often=logit_bias"
wrong "bad.run: line 2: the sampler has vocab=0; for random calls it must be 1 to 1048576$" \
    "sampler slots=2
random calls=3 seed=4 often=logit_bias"
wrong "bad.run: line 2: the sampler has slots=$most; for random calls it must be 1 to 16777216$" \
    "sampler vocab=40 slots=$most rows=2
random"
wrong "bad.run: line 2: the sampler has rows=0; for random calls it must be 1 to 65535$" \
    "sampler vocab=40 slots=2 rows=0
random"
wrong "bad.run: line 2: the sampler has max_rollback=$most; for random calls .* 0 to 16384$" \
    "sampler vocab=40 max_rollback=$most
random"
wrong "bad.run: line 1: slots=4294967298 does not fit 32 bits$" "sampler vocab=40 slots=4294967298"
wrong "bad.run: line 2: rows=4294967297 does not fit 32 bits$" "$small
step rows=4294967297"
wrong "bad.run: line 2: status=buffer:18446744073709551615 is larger than 16777216 bytes$" "$small
step status=buffer:18446744073709551615"
wrong "bad.run: line 2: drafts: 1 rows of 314572800 elements are too many$" "$small rows=300
draft ids_request_stride=1048576 requests=300"
wrong "$most rows of 40 elements are too many$" "$small
step bias=tokens:1 bias_rows=$most"
wrong "bad.run: line 2: set.ids: 1 rows of $most elements are too many$" "$small
step slots=0 outputs=packed:$most"
expects "counts that the library refuses" "sampler vocab=40 slots=$most rows=2 -> refused slot_count
$small
draft slots=0 k=$most -> refused call->k is $most
draft requests=$most -> refused call->requests is $most
step rows=$most -> refused step->rows is $most"
wrong "bad.run: the text is cut short: its last line is not \"end\"$" "version 1
$small"
wrong "bad.run: the text has no statements$" "# nothing"
mkdir -p elsewhere
sed 's/four.npy/none.npy/' good.log >elsewhere/bad.log
exits 2 "no logits" run elsewhere/bad.log
says "no logits" "line 5: none.npy is neither in the folder of the text nor in the current one$" err

i=0
size=$(wc -c <good.log)
while [ $i -lt $((size - 1)) ]; do
    head -c $i good.log >bad.log
    exits 2 "the first $i bytes" run bad.log
    is "the first $i bytes: sentences" "$(wc -l <err)" 1
    i=$((i + 41))
done
exits 2 "an array" run four.npy
says "an array" "four.npy is a NumPy array, not a text of calls" err
exits 2 "no text" run nowhere.log
says "no text" "nowhere.log: cannot be opened: No such file or directory$" err
exits 2 "no name" run
says "no name" "run needs the name of a file" err
exits 2 "an unknown option" run good.log --most
exits 0 "help" run --help
says "help" "^usage: clsample run FILE" out

refused "none/x.log: cannot be written: No such file or directory" sample --device host \
    --logits four.npy --log none/x.log
if mkfifo pipe.npy 2>/dev/null; then
    cat four.npy >pipe.npy &
    refused "--log: pipe.npy is a pipe, which clsample run cannot read again" sample --device host \
        --logits pipe.npy --log x.log
    kill $! 2>/dev/null
    # A text must not name a pipe, which would wait for somebody who writes it.
    log --mask bits.npy
    mkfifo waits.npy folder/waits.npy
    for name in waits.npy "$PWD/waits.npy" folder/waits.npy; do
        for file in four.npy bits.npy; do
            sed "s|\"$file\"|\"$name\"|" good.log >bad.log
            exits 2 "$name for $file" timeout 5 "$clsample" run bad.log
            says "$name for $file" "^clsample: bad.log: line 5: $name is not a regular file$" err
        done
    done
fi

finish
