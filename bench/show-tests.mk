# SPDX-License-Identifier: MIT
# Prints the names of the tests of `make check`, in a build folder, for bootstrap; for bench/gpu.py,
# which must end within minutes, with each text alone (show-single-tests).
include Makefile
show-tests-of-check: ; @echo $(TESTS)
show-single-tests: ; @echo $(texts) $(other_tests) $(package_tests)
.DEFAULT_GOAL = show-tests-of-check
