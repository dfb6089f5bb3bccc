#!/bin/sh
# SPDX-License-Identifier: MIT
# The demonstration tells its story in words, with what is in the sources alone.
# shellcheck source=tests/command/command.sh
. "$(dirname "$0")/../command/command.sh"
needs_device

mkdir -p sources/data
cp "$here/../../examples/demo.sh" sources
cp "$here/../../examples/data/"* sources/data
check "demo.sh" env LC_ALL=C.UTF-8 sh sources/demo.sh "$clsample"
is "demo.sh: ways that draw the same" "$(grep -c "^  .*' b' .*' little' .*' h'" out)" 4
says "demo.sh" '^  10 statements on 2 sides: all equal' out
says "demo.sh" '^  forged.run: line 6, row 0 is .* is expected' out
says "demo.sh" "^    ' that' .*█" out
says "demo.sh" '^  top-k 50, top-p 0.9 .* us' out

finish
