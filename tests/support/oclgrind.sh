#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs a test program on Oclgrind's simulated device, which sees data races,
# accesses out of bounds and diverging barriers. Oclgrind exits as its program
# does, whatever it found, so anything in its log fails the test here.
# Kernels are not optimised: of functions that return structs clang makes
# llvm.experimental.noalias.scope.decl, which Oclgrind 21.10 lacks.
# usage: make check LOG_COMPILER=.../tests/support/oclgrind.sh   (OCLGRIND_FLAGS: options)
# CLS_TEST_LAUNCHER is this script, too, where texts are among the tests.
unset CLS_TEST_PROGRAMS # so that kernels are compiled with these options
export CLS_TEST_PLATFORM=Oclgrind # or it has not seen a call
log=${CLS_TEST_NAME-$1}.oclgrind
rm -f "$log"
# shellcheck disable=SC2086 # a list of words
oclgrind --data-races --uniform-writes --build-options -cl-opt-disable --log "$log" \
    ${OCLGRIND_FLAGS-} "$@"
status=$?
if [ -s "$log" ]; then
    head -n 60 "$log"
    echo "oclgrind found errors; its log is $log"
    exit 1
fi
exit $status
