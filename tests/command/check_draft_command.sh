#!/bin/sh
# SPDX-License-Identifier: MIT
# Proves `clsample draft`: drafts worked out by hand, sentences, its files as the input of `clsample
# verify`, and the host against the device. CLSAMPLE is the command's path. Exits 77 if there is no
# device.
# shellcheck source=tests/command/command.sh
. "$(dirname "$0")/command.sh"

draft_on() { # host|device ARGUMENTS
    where=$1
    shift
    if [ "$where" = host ]; then
        "$clsample" draft --device host "$@"
    else
        "$clsample" draft --cache-dir "$programs" "$@"
    fi
}

ints prompt.npy '5, 9' \
    1 2 3 4 1 2 -1 -1 -1 \
    9 1 2 3 1 2 -1 -1 -1 \
    1 2 3 4 5 6 7 -1 -1 \
    7 5 6 1 5 6 2 7 5 \
    4 99 5 3 4 99 -1 -1 -1
ints output.npy '5, 1' 3 -1 -1 6 5
texts="--prompt prompt.npy --output output.npy"

# --------------------------------------------------------------------- refusals

draft_refused() { # PATTERN OPTIONS
    pattern_=$1
    shift
    # shellcheck disable=SC2086
    refused "$pattern_" draft --device host $texts --k 5 "$@"
}
check "--help" "$clsample" draft --help
says "--help" '^usage: clsample draft' out
refused "--prompt: this option or --output is required; name a file of tokens" draft --k 5
refused "--k: this option is required; it is the number of drafts, 1 to 128" draft \
    --prompt prompt.npy
draft_refused "--k: 0 is out of range; it must be 1 to 128" --k 0
draft_refused "--k: 129 is out of range" --k 129
draft_refused "--max-n: 129 is out of range; it must be 1 to 128" --max-n 129
draft_refused "--min-n: 0 is out of range; it must be 1 to 8" --min-n 0
draft_refused "--min-n: 3 is out of range; it must be 1 to 2" --min-n 3 --max-n 2
draft_refused "--vocab: 0 is out of range; it must be 1 to 1048576" --vocab 0
draft_refused "--vocab: 1048577 is out of range" --vocab 1048577
draft_refused "--fill: -2 is neither -1 nor a token of a vocabulary of 1048576" --fill -2
draft_refused "--fill: 90 is neither -1 nor a token of a vocabulary of 90" --fill 90 --vocab 90
draft_refused "--max-history: 16385 is neither at most 16384 nor a multiple of 64 up to 1048576" \
    --max-history 16385
draft_refused "--max-history: 1048640 is neither" --max-history 1048640
draft_refused "--rows: there is no row 5; the file has rows 0 to 4" --rows 0,5
draft_refused "f32.npy: the array must be int32 .rows, tokens." --output f32.npy
draft_refused "two.npy: the file has 2 rows for 5 requests" --output "$(
    ints two.npy '2, 1' 1 2; echo two.npy)"
draft_refused "line.npy: the array must be int32 .rows, tokens." --prompt "$(
    ints line.npy '2,' 1 2; echo line.npy)"
draft_refused "--draft-ids: x.npy is also the file of --cu" --draft-ids x.npy --cu x.npy
draft_refused "none/x.npy: cannot be written" --cu none/x.npy
draft_refused "draft: unknown option '--top-k'" --top-k 3

# ---------------------------------------------------------------------- by hand

gives() { # TABLE OPTIONS: the lines "REQUEST COUNT DRAFT...", separated by commas
    table_=$1
    shift
    for on in $devices; do
        check "$on $*" draft_on "$on" "$@"
        is "drafts on $on $*" "$(sed 1d out | tr -s ' ' | sed 's/^ //' | paste -sd, -)" "$table_"
    done
}
# Row 0 goes on behind 1 2 3, then with its first draft again. Row 3 has 7 5 6 farther from its end
# than 5 6.
first="0 5 4 1 2 3 4,1 5 3 1 2 3 1"
# shellcheck disable=SC2086
{
    gives "$first,2 0 -1 -1 -1 -1 -1,3 5 1 5 6 2 7,4 5 3 4 99 5 3" $texts --k 5
    gives "$first,2 0 8 8 8 8 8,3 5 2 7 5 6 2,4 5 3 4 5 3 4" $texts --k 5 --fill 8 --max-n 2 \
        --vocab 90
    gives "4 5 3 4 99 5 3,2 0 -1 -1 -1 -1 -1,3 5 2 7 5 6 2" $texts --k 5 --row 4,2-3 --max-history 6
    # Prompts or outputs alone. Where row 4 is 4 5 3 4, its last token alone occurs twice.
    gives "0 1 3,3 1 6" --prompt prompt.npy --k 1 --rows 0,3
    gives "0 0 -1,3 0 -1" --prompt prompt.npy --k 1 --rows 0,3 --min-n 3
    gives "4 0 -1" --prompt prompt.npy --k 1 --row 4 --vocab 99
    gives "4 1 5" --prompt prompt.npy --k 1 --row 4 --vocab 99 --min-n 1
    gives "0 0 -1" --output output.npy --k 1 --row 0 --min-n 1
}
# A text that only a history of more than 16,384 tokens holds, from a pipe.
npy long.npy '<i4' '1, 20000'
bytes long.npy 00000005 00000006 00000007
head -c 79980 /dev/zero >>long.npy
bytes long.npy 00000005 00000006
gives "0 3 7 0 0" --prompt long.npy --k 3
gives "0 0 -1 -1 -1" --prompt long.npy --k 3 --max-history 16384
is "a pipe" "$("$clsample" draft --device host --prompt /dev/stdin --k 3 <long.npy | tail -n 1)" \
    "      0      3  7 0 0"

# ------------------------------------------------------------- json, and verify

# Rows of logits whose largest ones are 4 1 2 and 5 0 0.
npy target.npy '<f4' '6, 10'
for token in 4 1 2 5 0 0; do
    for t in 0 1 2 3 4 5 6 7 8 9; do
        bytes target.npy "$([ $t = $token ] && echo 40800000 || echo 3f800000)"
    done
done
for on in $devices; do
    for fill in -1 0; do
        # shellcheck disable=SC2086
        check "json on $on" draft_on "$on" $texts --rows 0,2 --k 2 --fill $fill --json \
            --draft-ids ids.npy --cu cu.npy
        is "json on $on" "$(tr -d ' \n' <out)" "[{\"request\":0,\"count\":2,\"draft_ids\":[4,1]},\
{\"request\":2,\"count\":0,\"draft_ids\":[$fill,$fill]}]"
        is "the drafts of verify on $on" "$(data ids.npy)" " 4 1 $fill $fill "
        is "the rows of verify on $on" "$(data cu.npy)" " 0 3 6 "
        check "verify on $on" "$clsample" verify --device host --target target.npy --cu cu.npy \
            --draft-ids ids.npy --temperature 0 --tokens t.npy --accepted a.npy
        is "tokens on $on, fill $fill" "$(data t.npy)" " 4 1 2 5 -1 -1 "
        is "accepted on $on, fill $fill" "$(data a.npy)" " 2 0 "
    done
done

# ----------------------------------------------------- texts at random, host = device

needs_device
npy random.npy '<i4' '40, 60'
# shellcheck disable=SC2059
printf "$(awk 'BEGIN { srand(5); for (i = 0; i < 2400; i++)
    printf "\\%03o\\000\\000\\000", int(rand() * (2 + int(i / 240))) }')" >>random.npy
for options in "--k 1" "--k 7 --min-n 1" "--k 128 --max-n 2" "--k 4 --min-n 5 --max-n 128" \
    "--k 3 --vocab 3 --fill 2" "--k 9 --max-history 20"; do
    # shellcheck disable=SC2086
    for on in host device; do
        check "$on $options" draft_on $on --prompt random.npy $options --json
        mv out $on.out
    done
    same "host and device $options" host.out device.out
done
says "random texts" '"count": 9' host.out
says "random texts" '"count": 0' host.out
check "device 0" draft_on device --prompt prompt.npy --k 2 --device 0
finish
