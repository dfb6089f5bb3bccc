#!/bin/sh
# SPDX-License-Identifier: MIT
# Proves the command's options and `clsample sample` on small files made here: the host's and
# the device's tokens are equal, and every refusal has its sentence and exit status. CLSAMPLE is
# the command's path. Exits 77 if there is no device.
# shellcheck source=tests/command/command.sh
. "$(dirname "$0")/command.sh"

npy seeds.npy '<u8' '8,'
bytes seeds.npy 0000000000000005 0000000000000006 0000000000000007 0000000000000008 \
    0000000000000009 000000000000000a 000000000000000b 000000000000000c

# ---------------------------------------------------- what needs no device

check "--version" "$clsample" --version
for command in "" devices sample explain run bench; do
    # shellcheck disable=SC2086
    check "$command --help" "$clsample" $command --help
    says "$command --help" '^usage: clsample' out
done
for command in devices sample explain run bench; do
    "$clsample" $command --help >help
    check "help $command" "$clsample" help $command
    same "help $command and $command --help" help out
done
# Each command has its page, which clsample.1 names.
doc=$here/../../doc
"$clsample" --help | sed -n 's/^  \([a-z]*\)  *[a-z].*/\1/p' | grep -v '^clsample$' >commands
is "commands" "$(wc -l <commands | tr -d ' ')" 7
while read -r command; do
    page=$doc/clsample-$command.1
    says "clsample-$command.1" "^.Nm clsample $command" "$page"
    says "clsample-$command.1 in clsample.1" "^.Xr clsample-$command 1" "$doc/clsample.1"
    says "clsample-$command.1 is installed" "doc/clsample-$command.1" "$here/../../doc/local.mk"
done <commands
if [ "$devices" != host ]; then
    check "devices" "$clsample" devices
    check "devices --json" "$clsample" devices --json
    says "devices --json" '"arithmetic": 1' out
fi
OCL_ICD_VENDORS=$PWD/nothing/ refused "no OpenCL device found; install a device's driver" devices
OCL_ICD_VENDORS=$PWD/nothing/ exits 1 "devices --json" "$clsample" devices --json
is "devices --json without a device" "$(cat out)" "[]"
says "devices --json without a device" "^clsample: no OpenCL device found; install" err
"$clsample" --help >help
exits 1 "clsample alone" "$clsample"
same "clsample alone and --help" help out
refused "unknown command 'sing'" sing
refused "unknown command 'params'; clsample --help lists the commands" params
# What is misspelt has a name that is like it.
refused "unknown command 'smaple'; did you mean sample?$" smaple
refused "unknown command 'sampel'; did you mean sample?$" help sampel
refused "unknown command 'param'; did you mean params?$" help param
refused "unknown command '--verison'; did you mean --version?$" --verison
refused "--dtype: 'fp16' is not one of f32|f16|bf16; did you mean f16?$" bench --dtype fp16
refused "--case: 'top' is not one of .*; did you mean topk?$" bench --case top
host_refused "--chain: 'temprature' is .*, top-a); did you mean temperature?$" \
    --chain top_k,temprature
check "help help" "$clsample" help help
says "help help" '^  sample  *draw' out
refused "sample: unknown option '--topk'; did you mean --top-k?$" sample --topk 3
refused "sample: unknown option '--temp'; did you mean --temperature?$" sample --temp=3
refused "explain: unknown option '--min_p'; did you mean --min-p?$" explain --min_p .3
refused "bench: unknown option '--btach'; did you mean --batch?$" bench --btach 3
refused "bench: unknown option '--logits'; --help lists the options$" bench --logits f32.npy
refused "unknown option '--wrong'; --help lists the options$" devices --wrong
refused "unknown option '--$(printf %040d 1)'; --help" devices --"$(printf %040d 1)"
refused "unexpected argument 'x'" devices x
refused "--json: this option takes no value" devices --json=1
refused "--logits: this option is required" sample
refused "--logits: a value is missing" sample --logits
refused "none.npy: cannot be opened: No such file or directory" sample --logits none.npy
refused "[.]: cannot be read: Is a directory" sample --logits .

host_refused "--temperature: .*'x'" --temperature x
host_refused "--top-k: '1.5'" --top-k 1.5
host_refused "--top-k: '9999999999'" --top-k=9999999999
host_refused "--min-p" --min-p=-0.5
host_refused "--top-a: top_a is 2; it must be between 0 (off) and 1" --top-a 2
host_refused "--chain: 'other' is neither a preset (default, vllm or llama) nor a stage" \
    --chain other
host_refused "--chain: 'lama' is .*; did you mean llama?$" --chain lama
host_refused "--chain: '' is neither a preset" --chain ''
host_refused "--chain: 'penalties' is neither a preset" --chain penalties,top_k
host_refused "--chain: '' is neither a preset" --chain top_k,,top_p
host_refused "--chain: stage 'top-k' occurs twice" --chain top_k,temp,top-k
host_refused "parameters: --top-k is set, but --chain has no such stage$" \
    --chain temperature,top_p --top-k 3
host_refused "--p-less: this option takes no value" --p-less=1
host_refused "--infill: this option requires --infill-end" --infill
host_refused "--infill-end: 37 is not a token" --infill --infill-end 3,37
host_refused "--infill-end: 'x'" --infill --infill-end x
host_refused "f32.npy: the array must be int32 .vocab." --infill --infill-end 3 --infill-prefix \
    f32.npy
host_refused "--min-keep: '-1'" --min-keep -1
host_refused "--top-p-reset-id: 'x'" --top-p-reset-id x
host_refused "--logprobs-top: 129 is too large; the most is 128" --logprobs-top 129
host_refused "--logprobs-top-ids: it requires --logprobs-top" --logprobs-top-ids x.npy
host_refused "--logprobs-top-values: it requires --logprobs-top" --logprobs-top-values x.npy
host_refused "--kept-set: 38 is more than the vocabulary's 37 tokens" --kept-set 38
host_refused "--kept-set-ids: it requires --kept-set" --kept-set-ids x.npy
host_refused "--kept-set-offsets: it requires --kept-set-ids" --kept-set 3 --kept-set-offsets x.npy
host_refused "--kept-set-counts: it requires --kept-set" --kept-set-counts x.npy
host_refused "--seed: '-1'" --seed -1
host_refused "--seed: '18446744073709551616'" --seed 18446744073709551616
host_refused "--position: '4294967296'" --position 4294967296
host_refused "--draws" --draws 0
host_refused "--draws: 2 draws of row 0" --draws 2 --position 4294967295
host_refused "--vector is 3; it must be 0, 2, 4, 8 or 16$" --vector 3
host_refused "--shortlist is 5; it must be 0 or a power of two from 16 to 2048$" --shortlist 5
host_refused "--row-group is 1025; it must be at most 1024$" --row-group 1025
host_refused "--groups-per-unit is 1025; it must be at most 1024$" --groups-per-unit 1025
host_refused "--max-local-mem is 7; it must be 0 or at least 1024$" --max-local-mem 7
npy long.npy '<f4' '65536, 1'
head -c 262144 /dev/zero >>long.npy
refused "long.npy: 65536 rows are more than the 65535 of a step; select some by --rows$" sample \
    --device host --logits long.npy
host_refused "--tier: 'x' is not one of auto|int64|subgroups" --tier x
host_refused "--max-local-mem: '-1'" --max-local-mem -1
host_refused "--dtype: 'f64'" --dtype f64
host_refused "f32.npy: .* bf16" --dtype bf16
host_refused "f32.npy: .* f16" --dtype f16
host_refused "--logprob-kind" --logprob-kind odd
# An output is neither an input nor another output, by whatever name; devices may be named twice.
cp f32.npy own.npy
mkdir -p folder
ln own.npy folder/link.npy 2>/dev/null || cp own.npy folder/link.npy
own_refused() { # PATTERN OPTIONS
    pattern_=$1
    shift
    refused "$pattern_" sample --device host --logits own.npy "$@"
}
for name in own.npy ./own.npy folder/../own.npy "$PWD/own.npy" folder/link.npy; do
    own_refused "--tokens: $name is also the file of --logits" --tokens "$name"
done
own_refused "--log: own.npy is also the file of --logits" --log own.npy
own_refused "--logprobs: f32.npy is also the file of --bias" --bias f32.npy --logprobs f32.npy
own_refused "--tokens: new.npy is also the file of --probs" --tokens new.npy \
    --probs folder/../new.npy
same "an input that was named as an output" f32.npy own.npy
is "outputs that were named twice" "$(echo new.np*)" "new.np*"
check "two outputs to one device" host --tokens /dev/null --logprobs /dev/null
check "the same name in two folders" host --tokens new.npy --logprobs folder/new.npy
host_refused "none/t.npy: cannot be written: No such file or directory" --tokens none/t.npy
if [ -w /dev/full ]; then
    host_refused "/dev/full: cannot be written: No space left" --tokens /dev/full
fi
refused "bf16.npy: .*--dtype bf16" sample --device host --logits bf16.npy
refused "--device: 'gpu' is not the number of a device\|no OpenCL device found" sample --logits \
    f32.npy --device gpu
refused "none.bin: cannot be opened: No such file or directory" explain \
    --logits f32.npy --pieces none.bin
refused "f32.npy: not a llama2.c" explain --logits f32.npy --pieces f32.npy

# Files that are not what they should be.
broken() { # FILE PATTERN
    refused "$1: .*$2" sample --device host --logits "$1"
}
: >empty.npy;                                     broken empty.npy "not a .npy"
head -c 60 f32.npy >short.npy;                    broken short.npy "the header is cut short"
head -c 1000 f32.npy >cut.npy;                    broken cut.npy "cut short: it has 872 bytes"
{ cat f32.npy; printf x; } >long.npy;             broken long.npy "more data"
npy wide.npy '<f8' '1, 1'; bytes wide.npy 0000000000000000
broken wide.npy \
    "are float64 ('<f8'), not f32, f16 or bf16; convert them in NumPy by a.astype('float32')"
npy whole.npy '<i4' '1, 1'; bytes whole.npy 00000000; broken whole.npy \
    "are int32 ('<i4').*a.astype('float32')"
npy big.npy '>f4' '1, 1'; bytes big.npy 00000000
broken big.npy "big endian: float32 ('>f4'); convert them in NumPy by a.astype('<f4')"
npy complex.npy '<c8' '1, 1'; bytes complex.npy 0000000000000000; broken complex.npy \
    "type '<c8'.*a.astype('float32')"
npy text.npy '<U4' '1, 1';                        broken text.npy "type '<U4'"
npy one.npy '<f4' '37,'; bytes one.npy 0000000000000000;  broken one.npy "cut short"
npy line.npy '<f4' '1,'; bytes line.npy 00000000; broken line.npy "one dimension"
npy cube.npy '<f4' '1, 1, 1';                     broken cube.npy "3 dimensions"
npy huge.npy '<f4' '99999999999999999999, 2';     broken huge.npy "the header is not valid"
npy over.npy '<f4' '281474976710656, 281474976710656'; broken over.npy "too large"
npy lots.npy '<f4' '1000000000000, 2';            broken lots.npy "cut short"
npy none.npy '<f4' '0, 5';                        broken none.npy "empty"
npy nan.npy '<f4' 'nan, 5';                       broken nan.npy "the header is not valid"
npy minus.npy '<f4' '-1, 5';                      broken minus.npy "the header is not valid"
sed 's/False/True /' f32.npy >fortran.npy;        broken fortran.npy \
    "Fortran order.*numpy.ascontiguousarray(a)"
npy broad.npy '<f4' '1, 1048577'; head -c 4194308 /dev/zero >>broad.npy; broken broad.npy \
    "1048577 tokens"
rm none.npy

npy few.npy '<i4' '2, 2'; bytes few.npy 00000000 00000000 00000000 00000000
host_refused "few.npy: the file has 2 rows for 8 rows of logits$" --mask few.npy
host_refused "few.npy: the file has 2 rows for 8 rows of logits, 3 of them selected" --rows 0-2 \
    --mask few.npy
host_refused \
    "f32.npy: the array must be bool .rows, vocab., or int32 .rows, words. of 32 tokens each, but \
it is float32 ('<f4') .8, 37.$" --mask f32.npy
host_refused \
    "few.npy: the array must be uint64 .rows., but it is int32 ('<i4') .2, 2.; convert .* \
a.astype('uint64')" \
    --seeds few.npy
host_refused \
    "wide.npy: the array must be float32.*, but it is float64 ('<f8').* a.astype('float32')" \
    --bias wide.npy
npy pair.npy '<u8' '2,'; bytes pair.npy 0000000000000001 0000000000000001
host_refused "pair.npy: the file has 2 seeds for 8 rows" --seeds pair.npy

json "{" "line"
json '{"x":1}' '"x" is not a known key'
json '[{}]' "the file has 1 row of parameters for 8 rows"
json '[3,{},{},{},{},{},{},{}]' "row 0 is not an object"
json '[{},{"top-k":1},{},{},{},{},{},{}]' 'row 1: "top-k" is not a known key; did you mean top_k?$'
json '[{},{"stop_id":[1]},{},{},{},{},{},{}]' 'row 1: "stop_id" is .*; did you mean stop_ids?$'
json '[{},{"x":1},{},{},{},{},{},{}]' 'row 1: "x" is not a known key$'
json '[{},{},{"top_k":1.5},{},{},{},{},{}]' 'row 2: "top_k": the value is not an integer'
json '[{},{},{"top_k":"1"},{},{},{},{},{}]' 'row 2: "top_k": the value is not an integer'
json '[{},{},{},{"top_p":"x"},{},{},{},{}]' 'row 3: "top_p": the value is not a number'
json '[{},{},{},{"top_p":2},{},{},{},{}]' 'row 3: "top_p"'
json '[{},{},{},{},{"chain":"x"},{},{},{}]' 'row 4: "chain": .* is neither a preset'
json '[{},{},{},{},{"chain":1},{},{},{}]' 'row 4: "chain": the value is neither a string nor'
json '[{},{},{},{},{},{"seed":-1},{},{}]' 'row 5: "seed"'
json '[{},{},{},{},{},{},{"position":4294967296},{}]' 'row 6: "position"'
json '[{},{},{},{},{},{},{},{"top_k":1,"top_k":2}]' 'line 1: duplicate'
wrong() { json "[{\"$1\":$2},{},{},{},{},{},{},{}]" "row 0: $3"; } # KEY VALUE PATTERN
for key in dynatemp_range dynatemp_exponent dynatemp_exp top_n_sigma typical_p typical \
    xtc_probability xtc_threshold \
    mirostat_tau mirostat_ent mirostat_eta mirostat_lr adaptive_target adaptive_decay \
    dry_multiplier dry_base \
    top_p_decay top_p_min repeat_penalty; do
    wrong $key '"x"' "\"$key\": the value is not a number"
    wrong $key 1e31 "\"$key\": [a-z_]* is [^;]*; it must be"
done
for key in top_p_reset_id mirostat dry_allowed_length dry_penalty_last_n no_repeat_ngram_size \
    min_tokens min_keep; do
    wrong $key '"x"' "\"$key\": the value is not an integer"
done
wrong mirostat 3 '"mirostat": mirostat is 3'
wrong p_less 1 '"p_less": the value is neither true nor false'
wrong infill '"yes"' '"infill": the value is neither true nor false'
wrong chain '[1]' '"chain": entry 0 is not a string'
wrong chain '["top_k","top_k"]' "\"chain\": stage 'top-k' occurs twice"
json '[{"chain":["top_p"],"top_k":2},{},{},{},{},{},{},{}]' \
    'row 0: "top_k" is set, but "chain" has no such stage$'
host_refused "no.json: cannot be opened: No such file or directory" --params no.json

# The reference.
check "host" host --tokens h.npy --logprobs hl.npy --probs hp.npy
says "table" '^ *row *position *token' out
check "greedy" host --temperature 0 --tokens greedy.npy
check "top-k 1" host --top-k 1 --tokens k1.npy
same "greedy is top-k 1" greedy.npy k1.npy
check "raw and final" host --top-k 1 --temperature 0.5
says "raw and final" '^ *row *position *token *raw logprob *raw prob. *final prob.  status$' out
says "raw and final" '^ *0 *0 *[0-9]* *-[0-9.]* *0[.][0-9]* *1.000000  ok$' out
check "final" host --top-k 1 --logprob-kind final --logprobs-top 0
says "final" '^ *0 *0 *[0-9]* *0.0000 *0[.][0-9]* *1.000000  ok$' out
check "seed" host --seed 5 --tokens s.npy
check "seeds" host --seeds seeds.npy --tokens sf.npy
same "--seed N is N + r" s.npy sf.npy
differ "another seed" h.npy s.npy
check "draws" host --draws 5 --position 2 --tokens d.npy
check "position" host --position 4 --tokens p4.npy
is "draw 2 from position 2 is position 4" \
    "$(data d.npy | tr -s ' ' '\n' | sed -n '/./p' | awk 'NR % 5 == 3' | tr '\n' ' ')" \
    "$(data p4.npy | sed 's/^ //')"
is "shape of --draws" "$(head -c 128 d.npy | tr -d '\0' | grep -c -a "'<i4'.*(8, 5)")" 1
check "stream" host --stream 1 --tokens stream.npy
differ "another stream" h.npy stream.npy
check "mask" host --mask mask.npy --tokens m.npy
is "mask" "$(data m.npy)" " 0 1 2 3 4 5 6 36 "
echo '[{"seed":5},{"seed":6},{"seed":"7"},{"seed":8},
{"seed":9},{"seed":10},{"seed":11},{"seed":12}]' >p.json
check "params" host --params p.json --tokens pf.npy
same "seeds by --params" s.npy pf.npy
check "json" host --json
says "json" '"token": ' out
check "the likeliest" host --temperature 0 --logprobs-top 1 --logprobs-top-ids top.npy \
    --logprobs-top-values topv.npy
is "the likeliest" "$(data top.npy)" "$(data greedy.npy)"
says "the likeliest" '^ *likeliest  *[0-9]' out
check "logprobs of greedy tokens" host --temperature 0 --logprobs lp.npy
is "logprobs of the likeliest" "$(data topv.npy)" "$(data lp.npy)"
ranks() { sed -n 's/^ *"rank": \([0-9]*\),*$/\1/p' out | tr '\n' ' '; }
check "ranks" run_on host --logits bad.npy --temperature 0 --logprobs-top 2 --json
is "ranks, ties counted" "$(ranks)" "1 2 1 0 "
check "the kept set of a greedy row" host --temperature 0 --kept-set 2 --kept-set-ids set.npy \
    --kept-set-counts n.npy
is "its count" "$(data n.npy)" " 1 1 1 1 1 1 1 1 "
is "its ids" "$(data set.npy)" "$(data greedy.npy | sed 's/\([0-9]\) /\1 -1 /g')"
check "an overflow" host --top-k 5 --kept-set 3 --kept-set-ids set-h.npy --kept-set-counts n-h.npy
says "an overflow" '  overflow$' out
is "true counts" "$(data n-h.npy)" " 5 5 5 5 5 5 5 5 "
sets="--kept-set 37 --kept-set-ids"
# shellcheck disable=SC2086
{
    check "sets" host --top-p 0.6 $sets set.npy
    check "packed sets" host --top-p 0.6 $sets ids.npy --kept-set-offsets at.npy
    check "their counts" host --top-p 0.6 $sets other.npy --kept-set-counts n.npy
}
is "ids one behind the other" "$(data ids.npy)" "$(data set.npy | sed 's/ -1//g')"
ends() { # the sums of the counts
    at=0
    printf ' 0 '
    for n in $(data n.npy); do at=$((at + n)) && printf '%d ' $at; done
}
is "their offsets" "$(data at.npy)" "$(ends)"
check "sets that are too large" host --top-k 5 --kept-set 3 --kept-set-ids ids.npy \
    --kept-set-offsets at.npy
is "they are left out" "$(data at.npy)" " 0 0 0 0 0 0 0 0 0 "
check "the kept set as JSON" host --top-k 5 --kept-set 37 --json
is "ids as JSON" "$(grep -c '"kept_count": 5,' out)" 8

# ------------------------------------------------------------- some of the rows

host_refused "--rows: there is no row 8; the file has rows 0 to 7" --rows 0,8
host_refused "--rows: there is no row 8; the file has rows 0 to 7" --rows 5-9
host_refused "--rows: 5-3 is not a range: it ends before it begins" --rows 0,5-3
host_refused "--rows: 'x' is not an integer" --rows 0,x
host_refused "--rows: '' is not an integer" --rows 3-
host_refused "--rows: '-1' is not an integer" --rows -1
host_refused "--rows: more than 16777216 rows are selected" --rows 0-16777216
host_refused "--row: there is no row 8; the file has rows 0 to 7" --row 8
picked() { # OPTIONS: what rows 6, 1, 2 and 3 have among all
    check "all rows, $*" host --draws 2 --tokens all.npy --probs allp.npy --json "$@"
    check "some rows, $*" host --draws 2 --rows 6,1-3 --tokens some.npy --probs somep.npy \
        --json "$@"
    is "tokens of some rows, $*" "$(data some.npy | tr -s ' ' '\n' | sed '/^$/d' | tr '\n' ' ')" \
        "$(data all.npy | tr -s ' ' '\n' | sed '/^$/d' | awk '{ x[NR - 1] = $1 }
            END { n = split("12 13 2 3 4 5 6 7", at, " ")
                for (i = 1; i <= n; i++) print x[at[i]] }' | tr '\n' ' ')"
    is "numbers of some rows, $*" "$(sed -n 's/^ *"row": \([0-9]*\),*$/\1/p' out | tr '\n' ' ')" \
        "6 1 2 3 "
    { tail -c +$((129 + 6 * 148)) allp.npy | head -c 148; tail -c +$((129 + 148)) allp.npy |
        head -c 444; } >wanted
    tail -c +129 somep.npy >have
    same "distributions of some rows, $*" have wanted
}
i=0
counts=''
while [ $i -lt 8 ]; do counts="$counts $i $((i * 2 % 5))" i=$((i + 1)); done
# shellcheck disable=SC2086
ints counts.npy '8, 2' $counts
echo '[{"top_k":1},{"top_k":2},{"top_k":3},{"top_k":4},
{"top_k":5},{"top_k":6},{"top_k":7},{"top_k":8}]' >eight.json
picked
picked --seeds seeds.npy --bias f16.npy --temperature 1.5
picked --mask mask.npy --params eight.json
picked --prompt counts.npy --output counts.npy --repetition-penalty 1.5 --frequency-penalty 0.5
check "--rows once" host --rows 6,1-3 --tokens some.npy
check "--rows and --row" host --row 6 --rows 1-2 --row=3 --tokens rows.npy
same "--row and --rows" rows.npy some.npy
# A file may have the rows that are selected, and no others.
echo '[{},{}]' >p.json
host_refused "p.json: the file has 2 rows of parameters for 8 rows of logits, 1 of them selected" \
    --rows 1 --params p.json
npy own-bias.npy '<f2' '1, 37'; tail -c +$((129 + 5 * 74)) f16.npy | head -c 74 >>own-bias.npy
npy own-seed.npy '<u8' '1,'; bytes own-seed.npy 000000000000000a
ints own-output.npy '1, 2' 5 0
echo '[{"top_k":6,"temperature":1.5}]' >own.json
echo '[{},{},{},{},{},{"top_k":6,"temperature":1.5},{},{}]' >eight.json
check "all rows of the files" host --rows 5 --draws 9 --bias f16.npy --seeds seeds.npy \
    --output counts.npy --params eight.json --tokens some.npy
check "files of the selected row" host --rows 5 --draws 9 --bias own-bias.npy \
    --seeds own-seed.npy --output own-output.npy --params own.json --tokens own.npy \
    --log own.log
same "files of the selected row" some.npy own.npy
check "a log of the selected row" "$clsample" run own.log
says "a log of the selected row" "on 1 side: all equal$" out
check "the table of some rows" host --rows 5
says "the table of some rows" '^ *5 *0 ' out
is "the table of some rows" "$(wc -l <out | tr -d ' ')" 2

# A pipe passes by; what is wrong with it is told all the same.
piped() { # FILE OPTIONS: of a pipe as of a file
    piped_=$1
    shift
    check "sample $piped_ $*" "$clsample" sample --device host --logits "$piped_" \
        --tokens file.npy "$@"
    # shellcheck disable=SC2002 # a pipe is what is meant
    cat "$piped_" | "$clsample" sample --device host --logits /dev/stdin --tokens pipe.npy "$@" \
        >out 2>err
    same "a pipe of $piped_ $*" file.npy pipe.npy
}
if [ -e /dev/stdin ]; then
    piped f32.npy
    piped f16.npy --rows 6,1-3
    piped_refused() { # PATTERN: row 0 of standard input, a pipe
        "$clsample" sample --device host --logits /dev/stdin --rows 0 >out 2>err
        echo "$? $(wc -c <out | tr -d ' ') $(grep -c "^clsample: /dev/stdin: $1" err)" >code
    }
    for size in 60 1000; do
        head -c $size f32.npy | piped_refused '.*cut short'
        is "a pipe of $size bytes" "$(cat code)" "1 0 1"
    done
    cat f32.npy f32.npy | piped_refused 'the file has more data'
    is "two files by a pipe" "$(cat code)" "1 0 1"
    # shellcheck disable=SC2002 # a pipe is what is meant
    cat f32.npy | "$clsample" explain --logits /dev/stdin --row 3 >piped.out 2>err
    check "explain of a file" "$clsample" explain --logits f32.npy --row 3
    same "explain of a pipe" out piped.out
fi

# A file of 15.7 GB, most of it holes, in an address space of 1 GB: only what is asked for is read.
npy huge.npy '<f4' '30000, 131072'
# shellcheck disable=SC3045 # a shell that has no such limit leaves it out
within() { (ulimit -v 1000000 && exec "$@"); }
if truncate -s 15728640128 huge.npy 2>/dev/null && [ "$(du -k huge.npy | cut -f1)" -lt 100000 ] &&
    within "$clsample" --version >out 2>err; then
    printf '\000\000\200\077' | dd of=huge.npy bs=1 seek=$((128 + 29999 * 524288 + 20)) \
        conv=notrunc 2>err
    check "one row of 15.7 GB" within "$clsample" sample --device host --logits huge.npy \
        --rows 0,29999 \
        --temperature 0 --tokens huge-t.npy
    is "the last row of 15.7 GB" "$(data huge-t.npy)" " 0 5 "
    check "explain of 15.7 GB" within "$clsample" explain --logits huge.npy --row 29999 \
        --temperature 0
    says "explain of 15.7 GB" '^drawn: #5,' out
else
    echo "left out: no files with holes, or no limit on memory"
fi
rm -f huge.npy

# Presets by their stages.
chain() { # PRESET STAGES
    check "$1" host --temperature 1.7 --top-k 12 --top-p 0.8 --min-p 0.1 --chain "$1" --probs c1.npy
    check "$2" host --temperature 1.7 --top-k 12 --top-p 0.8 --min-p 0.1 --chain "$2" --probs c2.npy
    same "$1 is $2" c1.npy c2.npy
}
chain default temperature,top_k,top_p,min_p
chain vllm temp,min-p,top-k,top-p
chain llama top_k,top_p,min_p,temperature
differ "orders" c1.npy hp.npy

# ---------------------------------------------------------------- the device

needs_device

f="--logits f32.npy"
echo '[{"temperature":0},{"top_k":3,"temperature":0.7},{"top_p":0.5},{"min_p":0.3},
{"chain":"llama","top_k":5,"top_p":0.8},{"chain":"vllm","min_p":0.2},
{"seed":"18446744073709551615","stream":3},{"position":9}]' >mixed.json
# shellcheck disable=SC2086
{
    both $f
    both $f --temperature 2.5 --seed 3 --draws 20
    both $f --top-k -1 --top-p 0.6 --position 7
    both $f --mask mask.npy
    both $f --seeds seeds.npy --stream 18446744073709551615
    both $f --params mixed.json --draws 7
    both $f --params mixed.json --draws 7 --rows 6,1-3
    both --logits f16.npy --top-k 9 --seed 2
    both --logits bf16.npy --dtype bf16 --top-k 9 --seed 2
    both --logits bad.npy
    says "status words" '"inf"' out
    stored=$programs
    programs='' # one run has this shape: PoCL takes longer to store it than that saves
    both $f --top-k 9 --seed 2 --work-group 1 --vector 2
    cp b.npy shaped.npy
    programs=$stored
    check "f32" "$clsample" sample $f --top-k 9 --seed 2 --tokens t32.npy
    check "f16" "$clsample" sample --logits f16.npy --top-k 9 --seed 2 --tokens t16.npy
    check "bf16" "$clsample" sample --logits bf16.npy --dtype bf16 --top-k 9 --seed 2 \
        --tokens tb16.npy
    same "tokens of f32 and f16" t32.npy t16.npy
    same "tokens of f32 and bf16" t32.npy tb16.npy
    same "tokens of another shape" t32.npy shaped.npy
    check "device 0" "$clsample" sample $f --device 0
    for kind in raw final; do
        check "$kind logprobs" "$clsample" sample $f --top-k 3 --draws 2 --logprob-kind $kind \
            --logprobs $kind.npy
        is "size of --logprobs" "$(wc -c <$kind.npy | tr -d ' ')" $((128 + 64))
    done
    differ "raw and final logprobs" raw.npy final.npy
    check "probs" "$clsample" sample $f --top-k 1 --probs probs.npy
    is "top-k 1 leaves one 1.0 a row" "$(data probs.npy | tr ' ' '\n' | grep -c '^1065353216$')" 8
    check "top" "$clsample" sample $f --logprobs-top 5 --logprobs-top-ids top-d.npy --json
    check "top on the host" host --logprobs-top 5 --logprobs-top-ids top-h.npy
    same "the likeliest on host and device" top-h.npy top-d.npy
    check "candidates" "$clsample" sample $f --top-k 3 --draws 2 --candidates c.json
    is "candidates" "$(grep -c '"logit"' c.json)" 24
    is "counts of candidates" "$(grep -c '"count": 3,' c.json)" 8
    check "candidates of some rows" "$clsample" sample $f --rows 7,2 --candidates c.json
    is "candidates of some rows" "$(sed -n 's/^ *"row": \([0-9]*\),*$/\1/p' c.json | tr '\n' ' ')" \
        "7 2 "
    check "final" "$clsample" sample $f --top-k 3 --logprobs-top 4 --logprob-kind final \
        --logprobs-top-ids top-f.npy
    is "of the fourth there is none" "$(data top-f.npy | tr ' ' '\n' | grep -c '^-1$')" 8
    refused "none/c.json: cannot be written: No such file or directory" sample $f \
        --candidates none/c.json
    check "kept sets" "$clsample" sample $f --top-k 5 --kept-set 3 --kept-set-ids set-d.npy \
        --kept-set-counts n-d.npy
    same "kept sets on host and device" set-h.npy set-d.npy
    same "their counts on host and device" n-h.npy n-d.npy
    check "ranks" run_on device --logits bad.npy --temperature 0 --logprobs-top 2 --json
    is "ranks on the device" "$(ranks)" "1 2 1 0 "
    check "bad rows" "$clsample" sample --logits bad.npy --logprobs-top 2
    says "an empty row" 'empty' out
    refused "--device: there is no device 999; the devices are 0 ([^ ].*, [a-zA-Z]*)" sample $f \
        --device 999
    for name in cpu '' -1 0x0 4294967296; do
        refused "--device: .*$name.*; the devices are 0 ([^ ].*, [a-zA-Z]*)" sample $f --device \
            "$name"
    done
    mkdir cache
    both $f --top-k 9 --seed 2 --cache-dir cache
    # Some versions of PoCL are not asked for compiled programs, and a warning says so.
    stored=1
    if grep -q '^clsample: warning: --cache-dir: .* is not asked for compiled programs' err; then
        stored=0
    fi
    for times in 1 2; do
        is "files in --cache-dir, $times" \
            "$(ls cache | grep -c '^clsample-[0-9a-f]*-token-list-0[.]bin$')" $stored
        both $f --top-k 9 --seed 2 --cache-dir cache
    done
    # The table needs no more programs than the tokens; log-probabilities as an output do.
    mkdir few
    check "the table" "$clsample" sample $f --draws 3 --top-k 9 --cache-dir few
    cp out table
    is "programs for the table" \
        "$(find few -type f | sed 's/.*clsample-[0-9a-f]*-//;s/-0.bin//' | sort | tr '\n' ' ')" \
        "$([ $stored = 0 ] || echo 'self-test slots survey token-list ')"
    check "the table with an output" "$clsample" sample $f --draws 3 --top-k 9 --cache-dir few \
        --logprobs table.npy
    same "the table and its log-probabilities" out table
    check "the table of final ones" "$clsample" sample $f --draws 3 --top-k 9 --cache-dir few \
        --logprob-kind final
    cp out table
    check "final ones as an output" "$clsample" sample $f --draws 3 --top-k 9 --cache-dir few \
        --logprob-kind final --logprobs table.npy
    same "the table and its final log-probabilities" out table
    check "the table of bad rows" "$clsample" sample --logits bad.npy --cache-dir few
    cp out table
    check "the table of bad rows with an output" "$clsample" sample --logits bad.npy \
        --cache-dir few --logprobs table.npy
    same "the table of bad rows and its log-probabilities" out table
    is "programs for log-probabilities" "$(find few -name '*-report-0.bin' | wc -l | tr -d ' ')" \
        $stored
    # Pipes in place of the files are as good as no files: they are neither waited for nor kept.
    mkdir waits
    for file in cache/*; do
        [ $stored = 0 ] || mkfifo "waits/${file#*/}" 2>/dev/null
    done
    if [ -n "$(find waits -type p)" ]; then
        check "pipes in --cache-dir" timeout 120 "$clsample" sample $f --top-k 9 --seed 2 \
            --cache-dir waits --json --tokens waited.npy
        same "tokens with pipes in --cache-dir" waited.npy a.npy
        is "pipes in --cache-dir" "$(find waits -type p)" ''
    fi
    # A folder that cannot be used is refused, one that cannot be written warned of: /proc cannot,
    # not by root either.
    cached() {
        pattern_=$1
        shift
        refused "--cache-dir: $pattern_" sample $f --top-k 9 --seed 2 --cache-dir "$@"
    }
    cached "'nowhere' cannot be used: No such file or directory" nowhere
    cached "'f32.npy' is not a directory" f32.npy
    cached "'f32.npy/x' cannot be used: Not a directory" f32.npy/x
    cached "'' cannot be used: No such file or directory" ''
    refused "--cache-dir: 'nowhere' cannot be used" bench --cache-dir nowhere
    if [ -d /proc/self ]; then
        check "a folder that cannot be written" "$clsample" sample $f --top-k 9 --seed 2 \
            --cache-dir /proc/self \
            --tokens warned.npy
        says "a folder that cannot be written" \
            "^clsample: warning: --cache-dir: '/proc/self' cannot be written: .*; \
kernels are loaded from it" err
        is "a folder that cannot be written: sentences" "$(wc -l <err | tr -d ' ')" $((2 - stored))
        same "tokens without a folder" warned.npy shaped.npy
    fi
    is "nothing else in --cache-dir" "$(ls -A cache | grep -vc '^clsample-.*[.]bin$')" 0
    refused "--max-local-mem is 1023; it must be 0 or at least 1024" \
        sample $f --max-local-mem 1023
}
# What the self-test lists of the programs does not replace the reason.
POCL_EXTRA_BUILD_FLAGS='-Dcls_survey=+' "$clsample" selftest --dtype f32 >out 2>err
status=$?
if grep -q 'Portable Computing Language' out; then
    is "a self-test whose kernels do not compile: its exit status" $status 2
    says "a self-test whose kernels do not compile" \
        '^clsample: .*: the program survey did not compile ' err
fi
# A line on a terminal counts the kernels once, after it has named the device.
if command -v script >/dev/null && script -qec true /dev/null >/dev/null 2>&1; then
    script -qec "$clsample sample --logits f32.npy" /dev/null >out
    is "a terminal: counts" \
        "$(tr '\r' '\n' <out | grep -v self-test | grep -c 'kernels: .*, 1 of ')" 1
fi
# On a pipe there is a line every ten seconds, which here pass in one millisecond.
cat >hasty.c <<'END'
#include <unistd.h>
unsigned sleep(unsigned seconds) { return usleep(100 * seconds), 0; }
END
if ${CC:-cc} -D_GNU_SOURCE -shared -fPIC -o hasty.so hasty.c 2>cc.err; then
    env ASAN_OPTIONS="${ASAN_OPTIONS:-}:verify_asan_link_order=0" LD_PRELOAD="$PWD/hasty.so" \
        "$clsample" sample --logits f32.npy >out 2>&1
    says "a pipe" '^clsample: sample, [0-9]*0 s: kernels: .* of [2-9]' out
else
    no_library
fi
finish
