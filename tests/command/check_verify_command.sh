#!/bin/sh
# SPDX-License-Identifier: MIT
# Proves `clsample verify`: shapes, sentences, drafts worked out by hand and by `clsample
# sample`, trials against single runs, and the host against the device. CLSAMPLE is the
# command's path. Exits 77 if there is no device.
# shellcheck disable=SC2317 # reached by check()
# shellcheck source=tests/command/command.sh
. "$(dirname "$0")/command.sh"

verify_on() { # host|device ARGUMENTS
    where=$1
    shift
    if [ "$where" = host ]; then
        "$clsample" verify --device host "$@"
    else
        "$clsample" verify --cache-dir "$programs" "$@"
    fi
}
verify_refused() { pattern_=$1; shift; refused "$pattern_" verify --device host "$@"; }

rows_of() { # FROM TO FIRST COUNT: rows of a float32 file of 37 columns
    npy "$2" '<f4' "$4, 37"
    tail -c +129 "$1" | tail -c +$(($3 * 148 + 1)) | head -c $(($4 * 148)) >>"$2"
}

# The 8 rows of 37 as three requests with 2, 0 and 3 drafts, and as eight without.
ints cu.npy '4,' 0 3 4 8
ints ids.npy '5,' 5 1 36 0 5
ints cu8.npy '9,' 0 1 2 3 4 5 6 7 8
ints no-ids.npy '0,'
rows_of f32.npy logits5.npy 3 5
npy probs5.npy '<f4' '5, 37'
i=0
while [ $i -lt 185 ]; do # 1/64 to 4/64
    case $((i * i % 7)) in
    0) bytes probs5.npy 3c800000 ;;
    1) bytes probs5.npy 3d000000 ;;
    2) bytes probs5.npy 3d400000 ;;
    *) bytes probs5.npy 3d800000 ;;
    esac
    i=$((i + 1))
done
three="--target f32.npy --cu cu.npy --draft-ids ids.npy"

# ------------------------------------------------------------------- refusals

check "--help" "$clsample" verify --help
says "--help" '^usage: clsample verify' out
says "--help" '^  --rows LIST *the requests to take' out
refused "--target: this option is required; name a file of logits" verify
refused "--cu: this option is required; name a file" verify --target f32.npy
verify_refused "none.npy: cannot be opened" --target none.npy --cu cu.npy
verify_refused "none.npy: cannot be opened" --target f32.npy --cu none.npy
verify_refused "--draft-ids: this option is required; name a file of 5 ids" --target f32.npy --cu \
    cu.npy
ints square.npy '2, 2' 0 1 2 8
verify_refused "square.npy: the array must be int32 .requests + 1." --target f32.npy --cu square.npy
verify_refused "f32.npy: the array must be int32" --target f32.npy --cu f32.npy
cu() { # PATTERN NUMBERS...
    pattern=$1
    shift
    ints bad-cu.npy "$#," "$@"
    verify_refused "bad-cu.npy: $pattern" --target f32.npy --cu bad-cu.npy --draft-ids ids.npy
}
cu "there is no request" 0
cu "the first number must be 0, not 1" 1 8
cu "request 1 has 0 rows; it must have 1 to 129" 0 3 3 8
cu "request 1 has -1 rows" 0 3 2 8
cu "request 0 has 130 rows" 0 130
cu "the last number is 7, but f32.npy has 8 rows" 0 3 7
verify_refused "the array must be int32 .drafts." --target f32.npy --cu cu.npy --draft-ids f32.npy
ints four.npy '4,' 1 2 3 4
verify_refused "four.npy: the file has 4 ids for 5 drafts" --target f32.npy --cu \
    cu.npy --draft-ids four.npy
verify_refused "ids.npy: the file has 5 ids for 0 drafts" --target f32.npy --cu \
    cu8.npy --draft-ids ids.npy
three_refused() { # PATTERN OPTIONS
    pattern_=$1
    shift
    # shellcheck disable=SC2086
    verify_refused "$pattern_" $three "$@"
}
three_refused "four.npy: the file has 4 parents for 5 drafts" --parents four.npy
three_refused "f32.npy: the array must be int32 .drafts." --parents f32.npy
ints up.npy '5,' -1 1 -1 0 1
three_refused "up.npy: draft 1 of request 0 follows 1, which is neither" --parents up.npy
ints out.npy '5,' -1 0 -2 0 1
three_refused "out.npy: draft 0 of request 2 follows -2, which is neither" --parents out.npy
ints chain.npy '5,' -1 0 -1 0 1
for method in standard block typical; do
    three_refused "--parents: the method $method does not support trees" --parents chain.npy \
        --method $method
done
three_refused "--parents: the method standard" --parents chain.npy --draft-probs probs5.npy
three_refused "--draft-logits: it cannot be combined with --draft-probs" --draft-probs probs5.npy \
    --draft-logits logits5.npy
three_refused "f32.npy: the file has 8 rows for 5 drafts" --draft-probs f32.npy
three_refused "f32.npy: the file has 8 rows for 5 drafts" --draft-logits f32.npy
three_refused "f16.npy: the array must be float32 .drafts, vocab." --draft-probs f16.npy
three_refused "ids.npy: the array must be float32 or float16" --draft-logits ids.npy
three_refused "f16.npy: .* another type than those of f32.npy" --draft-logits f16.npy
npy slim.npy '<f4' '5, 3'; head -c 60 /dev/zero >>slim.npy
three_refused "slim.npy: a row has 3 values, but the target's rows have 37" --draft-probs slim.npy
three_refused "--method: 'best' is not one of match|standard|block|typical" --method best
three_refused "--epsilon: 0 " --epsilon 0
three_refused "--epsilon: 1.5 " --epsilon 1.5
three_refused "--delta: -1 " --delta -1
three_refused "--delta: 17 " --delta 17
three_refused "--trials: it must be at least 1" --trials 0
three_refused "--trials: the 8 positions of request 0 from 4294967289 on exceed" --trials 2 \
    --position 4294967289
three_refused "--temperature" --temperature -1
three_refused "none/t.npy: cannot be written" --tokens none/t.npy
ints prompts.npy '8, 1' 0 1 2 3 4 5 6 7
three_refused "prompts.npy: the file has 8 rows for 3 requests" --prompt prompts.npy
three_refused "square.npy: the file has 2 rows for 8 rows of logits" --mask square.npy
three_refused "--rows: there is no request 3; cu.npy has requests 0 to 2" --rows 0,3
echo '[{},{}]' >p.json
three_refused "p.json: the file has 2 rows of parameters for 3 requests" --params p.json
npy seeds.npy '<u8' '2,'; bytes seeds.npy 0000000000000001 0000000000000001
three_refused "seeds.npy: the file has 2 seeds for 3 requests" --seeds seeds.npy

# ------------------------------------------------------------------ by hand

numbers() { data "$1" | sed 's/^ //; s/ $//'; }
shape() { head -c 128 "$1" | tail -c 118 | sed "s/.*'shape': (\([0-9, ]*\)).*/\1/"; }

# At CLS_TEST_SIZE=tiny, at which sanitizers watch the host, these cases run on the host alone; the
# sections below also run on the device.
by_hand_on=$devices
[ "${CLS_TEST_SIZE-}" != tiny ] || by_hand_on=host
gives() { # TOKENS ACCEPTED OPTIONS
    tokens_=$1 accepted_=$2
    shift 2
    for on in $by_hand_on; do
        check "$on $*" verify_on "$on" "$@" --tokens t.npy --accepted a.npy --nodes n.npy
        is "tokens on $on $*" "$(numbers t.npy)" "$tokens_"
        is "accepted on $on $*" "$(numbers a.npy)" "$accepted_"
    done
}

# 4 rows of 4, 3, 2, -1 as two requests with a draft each; top-k 1 leaves token 0.
npy four.npy '<f4' '4, 4'
for _ in 0 1 2 3; do bytes four.npy 40800000 40400000 40000000 bf800000; done
ints two.npy '3,' 0 2 4
ints right.npy '2,' 0 0
ints wrong.npy '2,' 0 1
one=3f800000 zero=00000000
npy sure.npy '<f4' '2, 4'; bytes sure.npy $one $zero $zero $zero $zero $one $zero $zero
f="--target four.npy --cu two.npy"
# shellcheck disable=SC2086
{
    for method in match standard block typical; do
        gives '0 0 0 0' '1 1' $f --draft-ids right.npy --top-k 1 --method $method
        gives '0 0 0 -1' '1 0' $f --draft-ids wrong.npy --top-k 1 --method $method
        gives '0 -1 0 -1' '1 0' $f --draft-ids wrong.npy --top-k 1 --method $method --disable-bonus
        gives '0 -1 0 -1' '1 0' $f --draft-ids wrong.npy --top-k 1 --method $method --stop-id 0
        gives '0 0 0 -1' '1 0' $f --draft-ids wrong.npy --temperature 0 --method $method
        gives '-1 -1 1 0' '0 1' $f --draft-ids wrong.npy --top-k 1 --method $method --mask "$(
            ints m.npy '4, 1' 0 15 2 15; echo m.npy)"
    done
    gives '0 0 0 -1' '1 0' $f --draft-ids wrong.npy --method match --temperature 0
    for method in standard block; do
        gives '0 0 0 -1' '1 0' $f --draft-ids wrong.npy --top-k 1 --draft-probs sure.npy \
            --method $method
        gives '1 1 1 1' '1 1' $f --draft-ids "$(ints ones.npy '2,' 1 1; echo ones.npy)" \
            --draft-logits "$(
            npy banned.npy '<f4' '2, 4'; bytes banned.npy ff800000 $zero ff800000 ff800000 \
                ff800000 $zero ff800000 ff800000; echo banned.npy)" --allowed-id 1 --method $method
    done
    # What has no probability in its own distribution, or is no token, ends the drafts.
    gives '0 0 0 -1' '1 0' $f --draft-ids right.npy --top-k 1 --draft-probs sure.npy
    gives '0 0 0 -1' '1 0' $f --draft-ids "$(ints no.npy '2,' 0 4; echo no.npy)" --top-k 1
    gives '0 0 0 -1' '1 0' $f --draft-ids "$(ints no.npy '2,' 0 -1; echo no.npy)" --top-k 1 \
        --method block
    # A penalty counts the draft before the row: the second token is another one.
    gives '0 1 0 1' '1 1' $f --draft-ids right.npy --top-k 1 --frequency-penalty 1.5
    # A tree: the second of two siblings is the text, and its child.
    ints tree.npy '4,' -1 -1 0 1
    ints leaves.npy '4,' 1 0 0 0
    npy five.npy '<f4' '5, 4'
    for _ in 0 1 2 3 4; do bytes five.npy 40800000 40400000 40000000 bf800000; done
    ints one-cu.npy '2,' 0 5
    gives '0 0 0 -1 -1' 2 --target five.npy --cu one-cu.npy --draft-ids leaves.npy \
        --parents tree.npy --top-k 1
    is "the path" "$(numbers n.npy)" '1 3 -1 -1'
}

# ------------------------------------------------------------- against sample

p="--frequency-penalty 0.75 --repetition-penalty 1.25 --temperature 1.5 --top-p 0.95 --seed 3"
for on in $devices; do
    # Without drafts, and with several trials.
    # shellcheck disable=SC2086
    {
        check "sample on $on" run_on "$on" --logits f32.npy $p --prompt prompts.npy --position 7 \
            --draws 3 \
            --tokens s.npy
        check "no drafts on $on" verify_on "$on" --target f32.npy --cu cu8.npy \
            --draft-ids no-ids.npy $p \
            --prompt prompts.npy --position 7 --trials 3 --tokens t.npy --accepted a.npy
        check "no file on $on" verify_on "$on" --target f32.npy --cu cu8.npy $p \
            --prompt prompts.npy --position 7 --trials 3 --tokens t2.npy --method standard
    }
    is "draws of sample and trials without drafts on $on" "$(numbers t.npy)" \
        "$(numbers s.npy | tr ' ' '\n' | awk '{ x[NR - 1] = $1 }
            END { for (d = 0; d < 3; d++) for (r = 0; r < 8; r++)
                printf "%s%d", d + r ? " " : "", x[r * 3 + d] }')"
    same "no drafts by match and standard on $on" t.npy t2.npy
    is "shape of trials" "$(shape t.npy)" "3, 8, 1"
    is "shape of trials" "$(shape a.npy)" "3, 8"

    # Without drafts, log-probabilities are those of sample.
    # shellcheck disable=SC2086
    for kind in raw final; do
        check "sample's logprobs on $on" run_on "$on" --logits f32.npy $p --prompt prompts.npy \
            --logprob-kind $kind --logprobs s.npy
        check "logprobs on $on" verify_on "$on" --target f32.npy --cu cu8.npy $p \
            --prompt prompts.npy --logprob-kind $kind --logprobs t.npy
        is "$kind logprobs on $on" "$(data t.npy)" "$(data s.npy)"
        check "logprobs of drafts on $on" verify_on "$on" $three $p --logprob-kind $kind \
            --logprobs $kind.$on.npy --draft-probs probs5.npy
        is "shape of logprobs" "$(shape $kind.$on.npy)" "3, 4"
    done

    # A text of four tokens, one by one; then as drafts, and with one that is wrong.
    ints text.npy '1, 1' -1
    text=
    for r in 0 1 2 3; do
        rows_of f32.npy row.npy $r 1
        # shellcheck disable=SC2086
        check "token $r on $on" run_on "$on" --logits row.npy $p --output text.npy \
            --tokens token.npy
        text="$text $(numbers token.npy)"
        # shellcheck disable=SC2086
        ints text.npy "1, $((r + 1))" $text
    done
    rows_of f32.npy rows.npy 0 4
    ints cu4.npy '2,' 0 4
    # shellcheck disable=SC2086
    for k in 0 1 2 3; do
        ids=
        i=0
        for t in $text; do
            [ $i -lt 3 ] && ids="$ids $((i == k ? (t + 1) % 37 : t))"
            i=$((i + 1))
        done
        ints drafts.npy '3,' $ids
        check "drafts on $on" verify_on "$on" --target rows.npy --cu cu4.npy \
            --draft-ids drafts.npy $p \
            --tokens t.npy --accepted a.npy
        is "the text by drafts, wrong at $k, on $on" "$(numbers t.npy)" \
            "$(echo $text | awk -v k=$k '{ for (i = 0; i < 4; i++)
                printf "%s%d", i ? " " : "", i <= k ? $(i + 1) : -1 }')"
        is "accepted of drafts, wrong at $k, on $on" "$(numbers a.npy)" $k
    done
done

# ------------------------------------------------------------ some of the requests

distribution="--draft-logits logits5.npy"
ints prompts3.npy '3, 1' 0 1 2
# shellcheck disable=SC2086
for on in $devices; do
    for how in "--parents chain.npy" "$distribution"; do
        set -- $three $how $p --bias f16.npy --bias-factor -0.5 --prompt prompts3.npy
        check "all requests of '$how' on $on" verify_on "$on" "$@" --trials 2 --tokens t.npy
        check "requests 2 and 0 of '$how' on $on" verify_on "$on" "$@" --trials 2 --rows 2,0 \
            --tokens some.npy --json
        is "shape of some requests" "$(shape some.npy)" "2, 2, 4"
        is "tokens of requests 2 and 0 of '$how' on $on" "$(numbers some.npy)" \
            "$(numbers t.npy | awk '{ for (t = 0; t < 24; t += 12) {
                for (i = 9; i < 13; i++) printf "%s%d", (t + i > 9 ? " " : ""), $(t + i)
                for (i = 1; i < 5; i++) printf " %d", $(t + i) } }')"
        is "numbers of requests 2 and 0" \
            "$(sed -n 's/^ *"request": \([0-9]*\),$/\1/p' out | tr '\n' ' ')" "2 0 "
        check "request 1 of '$how' on $on" verify_on "$on" "$@" --row 1 --tokens some.npy
        is "request 1 has no drafts" "$(numbers some.npy)" "$(numbers t.npy | cut -d' ' -f5-8)"
    done
done

# ------------------------------------------------------------- trials, outputs

# shellcheck disable=SC2086
for on in $devices; do
    for how in "" "$distribution" "$distribution --method block" "--method typical" \
        "--method match --temperature 0" \
        "--draft-probs probs5.npy --disable-bonus"; do
        check "trials of '$how' on $on" verify_on "$on" $three $how $p --position 5 --trials 3 \
            --tokens t.npy --accepted a.npy
        for t in 0 1 2; do
            check "trial $t of '$how' on $on" verify_on "$on" $three $how $p \
                --position $((5 + t * 4)) \
                --tokens t$t.npy --accepted a$t.npy
        done
        is "trials of '$how' on $on" "$(numbers t.npy)" \
            "$(numbers t0.npy) $(numbers t1.npy) $(numbers t2.npy)"
        is "accepted by '$how' on $on" "$(numbers a.npy)" \
            "$(numbers a0.npy) $(numbers a1.npy) $(numbers a2.npy)"
        is "shapes of '$how' on $on" \
            "$(shape t.npy); $(shape a.npy); $(shape t0.npy); $(shape a0.npy)" \
            "3, 3, 4; 3, 3; 3, 4; 3,"
    done
    # A draft equal to the target is accepted always, by the draft's distribution.
    rows_of f32.npy a.npy 0 2
    rows_of f32.npy b.npy 4 3
    npy equal.npy '<f4' '5, 37'
    for half in a.npy b.npy; do tail -c +129 $half >>equal.npy; done
    for method in standard block; do
        check "equal on $on" verify_on "$on" $three --draft-logits equal.npy --method $method \
            --trials 50 \
            --accepted a.npy
        is "a draft equal to the target, $method on $on" \
            "$(numbers a.npy | tr ' ' '\n' | sort | uniq -c | tr -s ' \n' ' ')" " 50 0 50 2 50 3 "
    done
    check "distributions on $on" verify_on "$on" $three --draft-probs probs5.npy --tokens x.npy \
        --trials 20
    check "distributions on $on" verify_on "$on" $three --draft-probs probs5.npy --tokens y.npy \
        --trials 20 \
        --method standard
    check "distributions on $on" verify_on "$on" $three --draft-probs probs5.npy --tokens z.npy \
        --trials 20 \
        --method match
    check "distributions on $on" verify_on "$on" $three --tokens w.npy --trials 20
    same "standard with a distribution" x.npy y.npy
    same "match without one" z.npy w.npy
    differ "standard and match" x.npy z.npy
done

# shellcheck disable=SC2086
{
    check "table" verify_on host $three $p --position 2
    says "table" '^request position drafts accepted  emitted  tokens$' out
    says "table" '^ *2 *2 *3 ' out
    check "means" verify_on host $three --trials 9
    says "means" '^ *1 *0 *0 *0.0000 *1.0000$' out
    check "--json" verify_on host $three --json --trials 2 --stop-id 5 --allowed-id 5
    says "--json" '"drafts": 3' out
    says "--json" '"status_words": "stopped"' out
    check "--json with logprobs" verify_on host --target four.npy --cu two.npy \
        --draft-ids right.npy --temperature 0 --json --logprob-kind final
    is "logprobs in --json" "$(tr -d ' \n' <out | grep -o '"logprobs":[^]]*]')" \
        "$(printf '"logprobs":[0.0,0.0]\n"logprobs":[0.0,0.0]')"
    check "forced" verify_on host $three --force 5,1,3
    says "forced" '^ *0 *0 *2 *2 *3  5 1 3 (forced)$' out
    check "a loop" verify_on host $three --force 5,5 --loop-repeats 2
    says "a loop" '^ *0 *0 *2 *1 *2  5 5 (stopped, loop, forced)$' out
    check "bad rows" verify_on host --target bad.npy \
        --cu "$(ints cu4.npy '5,' 0 1 2 3 4; echo cu4.npy)"
    says "bad rows" 'empty)$' out
    says "bad rows" ' (inf)$' out
}

# ------------------------------------------------------ at random, host = device

needs_device

reports='--logprob-kind final'
both() { # OPTIONS
    # shellcheck disable=SC2086
    for on in host device; do
        check "$on $*" verify_on $on "$@" --tokens $on.t --accepted $on.a --nodes $on.n --json \
            $reports
        mv out $on.out
    done
    for what in t a n out; do same "$what of $*" host.$what device.$what; done
}
ints prompt.npy '3, 4' 3 5 7 -1 1 36 2 2 9 0 -1 -1
ints output.npy '3, 3' -1 -1 -1 5 5 1 36 0 0
ints siblings.npy '5,' -1 -1 -1 -1 0
request="$three --prompt prompt.npy --output output.npy --trials 12"
echo '[{"temperature":0},{"top_k":3,"temperature":0.7,"presence_penalty":1},
{"chain":"llama","top_p":0.8}]' >mixed.json
# shellcheck disable=SC2046,SC2086
{
    for method in match standard block typical; do
        both $request --method $method
        both $request --method $method $p --disable-bonus
        both $request --method $method --params mixed.json --mask mask.npy
        both $request --method $method --bias f16.npy --top-k 7 --stop-id 5 --logit-bias 36:2 \
            --min-p 0.05
        both $request --method $method --max-tokens 4 --no-repeat-ngram-size 2 --dry-multiplier 1 \
            --bad-word 1
    done
    for method in standard block; do
        both $request --method $method --draft-probs probs5.npy $p
        both $request --method $method $distribution --min-p 0.02 --typical 0.98
    done
    for method in match standard block typical; do
        both $request --method $method --force 5,1,36,0,1,2 --mask mask.npy --max-tokens 6
        both $request --method $method --thinking-forced 5,1 --thinking-budget 2 --thinking-end 36
        both $request --method $method --thinking-end 36 --relaxed-top-k 9 --relaxed-delta 0.1
        both $request --method $method --force 5,5,5,0 --loop-repeats 2 --top-k 3
    done
    reports=
    both $request --method typical --epsilon 0.5 --delta 2 --top-p 0.9
    both $request --parents siblings.npy
    both $request --parents chain.npy $p --temperature 0
    both $request --mirostat 2
    both $request --adaptive-target 0.2
    both $request --top-p 0.8 --top-p-decay 0.9
    both --target f16.npy --cu cu.npy --draft-ids ids.npy --temperature 2
    both --target bf16.npy --dtype bf16 --cu cu.npy --draft-ids ids.npy --temperature 2
    both --target f16.npy --cu cu.npy --draft-ids ids.npy --draft-logits "$(
        npy h.npy '<f2' '5, 37'; tail -c +129 f16.npy | head -c 370 >>h.npy; echo h.npy)" --trials 4
    both --target bad.npy --cu "$(ints bad-cu.npy '3,' 0 2 4; echo bad-cu.npy)" \
        --draft-ids right.npy
    both --target f32.npy --cu cu8.npy --trials 2
    # Many trials.
    both $f --draft-ids wrong.npy --trials 900 --draft-probs sure.npy
    # More requests than one call has memory for, with such a history; masks tell the rows apart.
    npy many.npy '<f4' '600, 4'; head -c 9600 /dev/zero >>many.npy
    ints many-cu.npy '301,' $(awk 'BEGIN { for (i = 0; i <= 600; i += 2) print i }')
    ints many-ids.npy '300,' $(awk 'BEGIN { for (i = 0; i < 300; i++) print i * i % 5 }')
    ints many-mask.npy '600, 1' $(awk 'BEGIN { for (i = 0; i < 600; i++) print i % 16 }')
    npy many-logits.npy '<f4' '300, 4'
    for _ in 1 2 3 4 5; do tail -c +129 f32.npy; done | head -c 4800 >>many-logits.npy
    both --target many.npy --cu many-cu.npy --draft-ids many-ids.npy --repetition-penalty 1.5 \
        --penalty-window 16384 \
        --mask many-mask.npy --draft-logits many-logits.npy --trials 2
    # As many drafts as a request can have, and one that has none behind it.
    npy long.npy '<f4' '130, 4'; tail -c +129 many-logits.npy | head -c 2080 >>long.npy
    npy long-draft.npy '<f4' '128, 4'; tail -c +145 many-logits.npy | head -c 2048 >>long-draft.npy
    ints long-cu.npy '3,' 0 129 130
    ints long-ids.npy '128,' $(awk 'BEGIN { for (i = 0; i < 128; i++) print i % 4 }')
    both --target long.npy --cu long-cu.npy --draft-ids long-ids.npy --frequency-penalty 0.1 \
        --method typical \
        --epsilon 0.01
    both --target long.npy --cu long-cu.npy --draft-ids long-ids.npy --draft-logits long-draft.npy \
        --trials 5 \
        --method block
    check "device 0" "$clsample" verify $three --device 0
    refused "--device: there is no device 999" verify $three --device 999
}

finish
