#!/bin/sh
# SPDX-License-Identifier: MIT
# The demonstration tells its story in words, with what is in the sources alone.
# shellcheck source=tests/command/command.sh
. "$(dirname "$0")/../command/command.sh"
needs_device

mkdir -p sources/data
cp "$here/../../examples/demo.sh" sources
cp "$here/../../examples/data/"* sources/data
# shellcheck disable=SC2016 # the inner shell expands it
check "demo.sh" env LC_ALL=C.UTF-8 sh -c 'exec sh sources/demo.sh "$0" 2>&1' "$clsample"
is "demo.sh: ways that draw the same, or are left out" \
    "$(grep -c '^  .* Tim  * He  * Timmy  * She  * Timmy  * She \|of 4 items   left out: ' out)" 4
says "demo.sh" '^  alone  * Tim ' out
says "demo.sh" '^  on the host  * Tim ' out
# Where stderr is no terminal the lines of compilations come before the first table.
is "demo.sh: lines of progress in tables" \
    "$(sed '1,/^A small language/d' out | grep -c '^clsample: ')" 0
says "demo.sh" '^  10 statements on 2 sides: all equal' out
says "demo.sh" '^  forged.run: line 6, row 0 is .* is expected' out
says "demo.sh" "^    ' that' .*█" out
says "demo.sh" '^  top-k 50, top-p 0.9 .* us' out

finish
