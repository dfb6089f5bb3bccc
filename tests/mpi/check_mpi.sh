#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs the test programs of libclsample-mpi on 1, 2, 3 and 4 ranks of this machine, by the launcher
# MPIEXEC. Each run has a limit of time, since ranks that lose step would wait for ever.
# At CLS_TEST_SIZE=small, shards run on 2 and 3 ranks only. MPI_RANKS: other numbers of ranks. Exits
# 77 if there is no launcher or no device.
# shellcheck source=tests/support/mpi.sh
. "$srcdir/tests/support/mpi.sh"
size=${CLS_TEST_SIZE-}
CLS_TEST_SIZE=${CLS_TEST_SIZE-small}
export CLS_TEST_SIZE
if [ ! -x tests/mpi/check_protocol ]; then
    echo "tests/mpi/check_protocol is not built: make check TESTS= builds it"
    exit 99
fi
failed=0 passed=0 skipped=0
for program in check_protocol check_ranks; do
    case $size,$program in small,check_ranks) some='2 3' ;; *) some='1 2 3 4' ;; esac
    for n in ${MPI_RANKS-$some}; do
        [ -x "tests/mpi/$program" ] || continue
        echo "$program on $n ranks"
        on_ranks "$n" 120 "tests/mpi/$program" >"tests/mpi/$program.out" 2>&1
        status=$?
        cat "tests/mpi/$program.out"
        case $status in
        0) passed=$((passed + 1)) ;;
        77) skipped=$((skipped + 1)) ;;
        124) failed=$((failed + 1)) && echo "FAILED: $program hangs on $n ranks" ;;
        *) failed=$((failed + 1)) && echo "FAILED: $program on $n ranks: exit status $status" ;;
        esac
        rm -f "tests/mpi/$program.out"
    done
done
echo "$passed passed, $failed failed"
[ $failed = 0 ] || exit 1
[ $skipped = 0 ] || exit 77
