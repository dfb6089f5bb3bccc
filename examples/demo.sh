#!/bin/sh
# SPDX-License-Identifier: MIT
# Compares greedy, temperature, top-k, top-p and min-p on a few rows of a real model's logits, and
# explains the stages of one row.  usage: demo.sh [path of the command clsample]
set -eu
data=$(cd "$(dirname "$0")" && pwd)/data
clsample=${1:-clsample}
logits=$data/stories260K-logits.npy pieces=$data/tok512.bin
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
case $(locale charmap 2>/dev/null) in UTF-8) block='█' ;; *) block='#' ;; esac

cat <<'END'
A small language model has written a story:

    Once upon a time, there was a [little] boy named Timmy. Timmy liked to play outside in the
    sun[g]lasses. He had a sweet window [that] he loved going to swing. One day, Timmy ...

For the three tokens in brackets this shows the likeliest candidates, the probabilities that each
sampler leaves them, and three draws.

END
"$clsample" devices | sed -n 's/^\* *\([0-9]*\)  /On device \1: /p'

# One step samples each row once for each setting.
settings='{"temperature": 0}, {"temperature": 0.8}, {"temperature": 0.8, "top_k": 3},
    {"temperature": 0.8, "top_p": 0.9}, {"temperature": 0.8, "min_p": 0.1}'
echo "[$settings, $settings, $settings]" >"$work/params.json"
"$clsample" sample --logits "$logits" --rows 8,8,8,8,8,29,29,29,29,29,47,47,47,47,47 --seed 11 \
    --params "$work/params.json" --draws 3 --candidates "$work/candidates.json" >"$work/drawn"
# The tokenizer's bytes: a number, then a score, a length and the text of each token.
od -An -v -t u1 "$pieces" | LC_ALL=C awk -v block="$block" '
    BEGIN { rows = 0
        columns = split("greedy|temp 0.8|+ top-k 3|+ top-p 0.9|+ min-p 0.1", title, "|") }
    function word(id) { return sprintf("%-12s", "\047" text[id] "\047") }
    function show(first, i, k, c, p, bar) {
        printf "\nrow %-8s", row[first]
        for (c = 0; c < columns; c++)
            printf "%-13s", title[c + 1]
        for (i = 1; i <= 6; i++) {
            k = likeliest[first + 1, i]
            printf "\n%s", word(k)
            for (c = 0; c < columns; c++) {
                p = share[first + c, k]
                for (bar = 0; p > 0 && bar < 6; bar++)
                    printf "%s", (bar == 0 || bar + 0.5 <= 6 * p ? block : " ")
                printf(p > 0 ? " %3.0f%%  " : "%13s", p > 0 ? 100 * p : "")
            }
        }
        printf "\ntokens left "
        for (c = 0; c < columns; c++)
            printf "%-13d", count[first + c]
        for (i = 0; i < 3; i++) {
            printf "\n%-12s", (i == 0 ? "drawn" : "")
            for (c = 0; c < columns; c++)
                printf "%s ", word(drawn[3 * (first + c) + i])
        }
        print ""
    }
    FNR == 1 { file++ }
    file == 1 { for (i = 1; i <= NF; i++) byte[n++] = $i; next }
    file == 2 && FNR > 1 && $1 + 0 == $1 { drawn[draws++] = $3 }
    file == 3 && /"row"/ { row[rows] = $2 + 0; rank = 0 }
    file == 3 && /"token"/ { token = $2 + 0 }
    file == 3 && /"count"/ { count[rows++] = $2 + 0 }
    file == 3 && /"probability"/ {
        share[rows - 1, token] = $2
        likeliest[rows - 1, ++rank] = token
    }
    END {
        for (at = 4; at < n; id++) {
            length_of = byte[at += 4]
            for (at += 4; length_of-- > 0; at++)
                text[id] = text[id] sprintf("%c", byte[at] < 32 || byte[at] > 126 ? 63 : byte[at])
        }
        for (i = 0; i < rows; i += columns)
            show(i)
    }' - "$work/drawn" "$work/candidates.json"

echo
echo "The last row again, with each stage of llama.cpp's chain:"
echo
"$clsample" explain --logits "$logits" --pieces "$pieces" --row 47 --seed 11 --top 4 --chain llama \
    --top-k 40 --top-p 0.95 --min-p 0.05 --temperature 0.8 --dynatemp-range 0.3
