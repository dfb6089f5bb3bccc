#!/bin/sh
# SPDX-License-Identifier: MIT
# Proves that examples/tensor_parallel, whose LM head is divided between ranks, draws the tokens of
# the whole head (it compares them itself), and the same ones on 1, 2, 3 and 4 ranks. Exits 77 if
# there is no launcher or no device.
build=${BUILD-$PWD} source=$(cd "$(dirname "$0")/../.." && pwd) || exit 99
# shellcheck source=tests/support/checks.sh
. "$source/tests/support/checks.sh"
# shellcheck source=tests/support/mpi.sh
. "$source/tests/support/mpi.sh"
for n in 1 2 3 4; do
    on_ranks "$n" 600 "$build/examples/tensor_parallel" >"on_$n" 2>err
    case $? in
    0) yes_ ;;
    77)
        cat err
        exit 77
        ;;
    *) no_ "on $n ranks: $(cat err)" ;;
    esac
    same "1 and $n ranks" on_1 "on_$n"
done
says 'a request that ends' '^request 4:\( [0-9]*\)\{20\}$' on_1
says 'a request that does not' '^request 3:\( [0-9]*\)\{40\}$' on_1
finish
