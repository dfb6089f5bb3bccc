# SPDX-License-Identifier: MIT
# Prints the names of the tests of `make check`, in a build folder, for bootstrap and
# bench/gpu.py.
include Makefile
show-tests-of-check: ; @echo $(TESTS)
.DEFAULT_GOAL = show-tests-of-check
