#!/bin/sh
# SPDX-License-Identifier: MIT
# Shows that a request draws the same tokens alone, in a batch, in other work-groups and on the
# host, proves the tokens of a log, finds a forged one, and times a step: with the logits of a small
# model. All that compiles comes before the first table.
# usage: demo.sh [path of the command clsample]
set -eu
data=$(cd "$(dirname "$0")" && pwd)/data
clsample=${1:-clsample}
logits=$data/stories260K-logits.npy pieces=$data/tok512.bin
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The tokenizer's bytes: a number, then a score, a length and the text of each token.
od -An -v -t u1 "$pieces" | LC_ALL=C awk '
    { for (i = 1; i <= NF; i++) byte[n++] = $i }
    END {
        for (at = 4; at < n;) {
            text = ""
            length_of = byte[at += 4]
            for (at += 4; length_of-- > 0; at++)
                text = text sprintf("%c", byte[at] < 32 || byte[at] > 126 ? 63 : byte[at])
            print text
        }
    }' >"$work/words"
request="--logits $logits --temperature 2 --top-k 7 --draws 6 --seed 4"
# draws TITLE ARGUMENT...: the words that row 15 draws, which its own seed decides.
draws()
{
    title=$1
    shift
    printf '  %-27s' "$title" >>"$work/table"
    $limit "$clsample" sample $request "$@" >"$work/drawn" || {
        [ $? = 124 ] || exit 1
        echo "left out: the driver has compiled for $seconds seconds" >>"$work/table"
        return 0
    }
    awk 'NR == FNR { word[n++] = $0; next }
        $1 == 15 { printf "%-9s", word[$3] } END { print "" }' \
        "$work/words" "$work/drawn" | tee -a "$work/table" >>"$work/drawings"
}

"$clsample" devices | sed -n 's/^\* *\([0-9]*\)  /Device \1: /p'
echo
echo 'The kernels are compiled, which takes seconds the first time ...'
limit=
draws "alone" --rows 15
draws "in a batch of 16 rows" --rows 15,0-14
# Some drivers for CPUs compile groups of several items for minutes.
seconds=30
if command -v timeout >/dev/null; then limit="timeout $seconds"; fi
draws "in work-groups of 4 items" --rows 15 --work-group 4
limit=
draws "on the host" --rows 15 --device host
"$clsample" bench --runs 101 --case greedy --case topk --json >"$work/times"

cat <<'END'

A small language model has written "Once upon a time, there was a little boy named Timmy." Six draws
of the next word, by top-k 7, temperature 2 and one seed:

END
cat "$work/table"
if [ "$(sort -u "$work/drawings" | wc -l)" -ne 1 ]; then
    echo 'demo.sh: these draws differ, and must not' >&2
    exit 1
fi
echo
echo "The draws are the same, bit for bit."

cat <<'END'

A log holds what was asked and what was drawn, and `clsample run` derives the tokens again:

END
"$clsample" sample $request --rows 15 --log "$work/log.run" >"$work/drawn"
"$clsample" run "$work/log.run" --device 0 | sed 's/^/  /'
# The third draw gets the token of the fourth.
awk 'NR == FNR { if (/^step/ && ++step == 4) token = $NF; next }
    /^step/ && ++again == 3 { $NF = token } { print }' \
    "$work/log.run" "$work/log.run" >"$work/forged.run"
cat <<'END'

The same log in which somebody has replaced the third token by another likely one:

END
if "$clsample" run "$work/forged.run" --device 0 >"$work/found" 2>&1; then
    echo 'demo.sh: the forged token was not found' >&2
    exit 1
fi
sed "s|$work/||" "$work/found" | fold -s -w 90 | sed 's/^/  /'

cat <<'END'

A step of 16 rows of 128,256 logits, from the call until the tokens are on the host:

END
awk -F'[:", ]+' '
    $2 == "case" { name = $3 == "greedy" ? "greedy" : "top-k 50, top-p 0.9" }
    $2 == "floor_us" { floor = $3 }
    $2 == "step_us" {
        printf "  %-22s %4.0f us    (one read of the logits: %.0f us)\n", name, $3, floor
    }' "$work/times"

cat <<END

The stages of llama.cpp's chain on one row:

END
"$clsample" explain --logits "$logits" --pieces "$pieces" --row 47 --seed 11 --top 4 \
    --chain llama --top-k 40 --top-p 0.95 --min-p 0.05 --temperature 0.8 --dynatemp-range 0.3

cat <<END

next:
  $clsample selftest       compares every stage on this device with known answers
  $clsample bench          times more samplers
  $clsample sample --help  samples your own logits from a NumPy file
END
