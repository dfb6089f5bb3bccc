# SPDX-License-Identifier: MIT
# The sets of tests. In each the longest come first, so that all end at about the same time with -j.
#
# make check        runs TESTS: each feature at least once, in less than three minutes from an empty
#                   cache of kernels on two cores. It runs short_tests and short_scripts at
#                   CLS_TEST_SIZE=small, unless the caller chooses a size.
# make check-long   runs what takes longer, and short_tests and short_scripts in full
# make check-full   runs everything once
# make check-host   is for the sanitizers. It runs what reaches the host's code: quick_tests,
#                   host_check and command_check.
short_tests = \
	tests/device/check_verify tests/device/check_history tests/device/check_head \
	tests/device/check_chains tests/device/check_shards tests/device/check_shard_calls \
	tests/device/check_adjust tests/device/check_outputs tests/device/check_kept_set \
	tests/device/check_forced tests/device/check_forced_slots \
	tests/device/check_forced_drafts tests/device/check_draw tests/device/check_shortlist \
	tests/device/check_small_list tests/device/check_threshold tests/device/check_guards \
	tests/device/check_logprobs tests/device/check_modes tests/device/check_guided \
	tests/device/check_verify_twin tests/device/check_slots tests/stress/check_load \
	tests/stress/check_threads tests/stress/check_threads_stub tests/unit/check_reference \
	tests/unit/check_forced_host
device_tests = \
	tests/device/check_programs tests/device/check_selftest tests/device/check_interface \
	tests/device/check_refused tests/device/check_usual tests/device/check_lists \
	tests/device/check_loops tests/device/check_survey tests/device/check_goldens \
	tests/device/check_verify_refused tests/device/check_rounds tests/device/check_state \
	tests/device/check_latest tests/device/check_ahead tests/device/check_far \
	tests/device/check_fork tests/device/check_quiet tests/device/check_report \
	tests/device/check_second tests/device/check_wide tests/device/check_head_calls
unit_tests = \
	tests/unit/check_arithmetic tests/unit/check_samplers tests/unit/check_table \
	tests/unit/check_chain_host tests/unit/check_modes_host tests/unit/check_history_host \
	tests/unit/check_verify_host tests/unit/check_verify_equal tests/unit/check_penalties \
	tests/unit/check_answers tests/unit/check_container tests/unit/check_flush \
	tests/unit/check_needs tests/unit/check_requirements tests/unit/check_shortlists \
	tests/unit/check_unseen tests/unit/check_offsets
long_tests = \
	tests/device/check_shard_inputs tests/device/check_shard_edges \
	tests/device/check_shard_outputs tests/device/check_tiers tests/device/check_invariance \
	tests/device/check_binaries tests/stress/check_verify_chance \
	tests/stress/check_verify_law tests/stress/check_soak
# These run shapes and tiers that no other test has. PoCL compiles their kernels with shape_flags.
shape_tests = tests/device/check_tiers tests/device/check_invariance tests/device/check_kept_set
shape_flags =
package_tests = tests/package/layers.sh tests/package/headers.sh tests/package/numbers.sh \
	tests/package/symbols.sh tests/package/portable.sh tests/package/versions.sh
short_scripts = tests/arithmetic/check_sampler.sh
long_check = tests/examples/check_llama.sh tests/examples/check_json.sh tests/package/manual.sh \
	tests/package/gpu_script.sh tests/package/gpu_resources.sh
# Both are left out of the quick set. host_check depends on CLS_TEST_SIZE and command_check does not,
# so that one build with command_check is enough where several run `make check-host`.
host_check =
command_check =
quick_tests =
TESTS = $(quick_tests) $(package_tests)
check_PROGRAMS += tests/arithmetic/check_vectors

# The command opens the device in each run: it takes longest once kernels are compiled.
if BUILD_COMMAND
quick_tests += tests/command/check_command.sh
endif
if HAVE_CHECK
check_PROGRAMS += $(short_tests) $(device_tests) $(unit_tests) $(long_tests)
quick_tests += $(short_tests) $(device_tests) $(unit_tests)
long_check += $(long_tests)
if HAVE_VERSION_SCRIPT
check_PROGRAMS += tests/device/check_errors tests/stress/check_faults
quick_tests += tests/device/check_errors
host_check += tests/stress/check_faults
endif
endif
if BUILD_COMMAND
quick_tests += tests/command/check_explain.sh tests/command/check_pages.sh
host_check += tests/command/check_verify_command.sh
command_check += tests/command/check_requests.sh tests/command/check_report_command.sh \
	tests/command/check_shards_command.sh tests/command/check_replay.sh \
	tests/command/check_selftest_command.sh tests/command/check_interrupts.sh \
	tests/command/check_tune.sh
endif
# These come last, when all that they need is compiled: tests that run at the same time compile the
# same programs twice.
quick_tests += tests/arithmetic/check_vectors $(short_scripts)
# Automake writes a rule for each program that is in TESTS under some condition. This condition
# never holds: it gives rules to the programs that only check-long, check-full and check-host run.
if NEVER
TESTS += $(host_check) $(long_check)
endif

check-long:
	$(MAKE) $(AM_MAKEFLAGS) check short_size= \
	    TESTS='$(host_check) $(command_check) $(long_check) $(short_tests) $(short_scripts)'
check-full:
	$(MAKE) $(AM_MAKEFLAGS) check short_size= \
	    TESTS='$(host_check) $(command_check) $(long_check) $(TESTS)'
check-host:
	$(MAKE) $(AM_MAKEFLAGS) check TESTS='$(host_check) $(command_check) $(quick_tests)'
check-local: check-TESTS
	@$(SHELL) $(srcdir)/build-aux/summary.sh $(TEST_LOGS)
.PHONY: check-long check-full check-host

TEST_EXTENSIONS = .sh
SH_LOG_COMPILER = $(SHELL)
short_size = small
LOG_DRIVER = $(SHELL) $(srcdir)/build-aux/timed-driver.sh
SH_LOG_DRIVER = $(LOG_DRIVER)
# CK_FORK: an OpenCL context does not survive a fork. CLS_TEST_KERNELS: a folder for
# compiled kernels; a fresh build compiles afresh.
# OCL_ICD_VENDORS is left alone: whoever runs the tests chooses the devices.
AM_TESTS_ENVIRONMENT = \
	CK_FORK=no; export CK_FORK; \
	case ' $(short_tests) $(short_scripts:.sh=) ' in *" $(@:.log=) "*) \
	    CLS_TEST_SIZE="$${CLS_TEST_SIZE-$(short_size)}"; export CLS_TEST_SIZE;; esac; \
	case ' $(shape_tests) ' in *" $(@:.log=) "*) \
	    POCL_EXTRA_BUILD_FLAGS="$${POCL_EXTRA_BUILD_FLAGS-$(shape_flags)}"; \
	    export POCL_EXTRA_BUILD_FLAGS;; esac; \
	kernels="$${CLS_TEST_KERNELS-$(abs_builddir)/tests/kernels}" \
	own='$(abs_builddir)/$(@:.log=.pocl)'; . '$(srcdir)/tests/support/kernels.sh'; \
	CLSAMPLE='$(abs_builddir)/clsample'; export CLSAMPLE; \
	NM='$(NM)' MPIEXEC='$(MPIEXEC)' MPI_CFLAGS='$(MPI_CFLAGS)'; export NM MPIEXEC MPI_CFLAGS; \
	BUILD='$(abs_builddir)' CC='$(CC)' CFLAGS='$(CFLAGS)' PKG_CONFIG='$(PKG_CONFIG)'; \
	export BUILD CC CFLAGS PKG_CONFIG;

# ----------------------------------------------------------------- programs
LDADD = libtests.a libclsample_internal.la $(CHECK_LIBS) $(OPENCL_LIBS) -lpthread
tests_arithmetic_check_vectors_SOURCES = \
	tests/arithmetic/check_vectors.c tests/arithmetic/vectors.h tests/arithmetic/random.c \
	tests/arithmetic/values.c tests/arithmetic/rows.c tests/arithmetic/lists.c \
	tests/arithmetic/random_rows.c
tests_arithmetic_check_vectors_LDADD = libclsample_internal.la $(OPENCL_LIBS)

# Libtool would compile each of these files twice.
if HAVE_CHECK
check_LIBRARIES = libtests.a libstub.a
libtests_a_SOURCES = \
	tests/support/asserts.h tests/support/fixture.c tests/support/fixture.h \
	tests/support/example.h tests/support/inputs.c tests/support/inputs.h \
	tests/support/batch.c tests/support/batch.h tests/support/requests.c \
	tests/support/model.c tests/support/model.h tests/support/history.c \
	tests/support/history.h tests/support/serving.c tests/support/serving.h \
	tests/support/script.c tests/support/script.h tests/support/load.c tests/support/load.h \
	tests/support/memory.c tests/support/memory.h tests/support/soak.c tests/support/soak.h \
	tests/support/soak_calls.c tests/support/soak_guests.c tests/support/client.c \
	tests/support/client.h tests/support/subgroups.c tests/support/subgroups.h \
	tests/support/drafts.c tests/support/drafts_random.c tests/support/drafts.h \
	tests/support/verifier.c tests/support/verifier.h tests/support/layer.c \
	tests/support/layer.h tests/support/brute.c tests/support/brute.h tests/support/goldens.c \
	tests/support/goldens.h tests/support/oracle.c tests/support/oracle.h \
	tests/support/oracle_adjust.c tests/support/oracle_chain.c tests/support/oracle_stages.c \
	tests/support/against.c tests/support/params.c tests/support/split.c \
	tests/support/split.h tests/support/twin.c tests/support/twin.h
# An OpenCL that computes nothing.
libstub_a_SOURCES = tests/support/stub_cl.c tests/support/stub_cl.h tests/support/stub_queue.c \
	tests/support/stub_kernels.c
endif

driver = tests/support/driver.c tests/support/driver.h
tests_device_check_programs_SOURCES = tests/device/check_programs.c $(driver)
tests_device_check_binaries_SOURCES = tests/device/check_binaries.c tests/device/binaries.c \
	tests/device/binaries.h $(driver)

head_libraries = libclsample_head_internal.la libclsample_internal.la
with_head = libtests.a $(head_libraries) $(CHECK_LIBS) $(OPENCL_LIBS) -lpthread
tests_device_check_head_LDADD = $(with_head)
tests_device_check_head_calls_LDADD = $(with_head)
tests_device_check_quiet_LDADD = $(with_head)

# Without OPENCL_LIBS the linker names what the stub lacks.
with_stub = libtests.a libclsample_internal.la libstub.a $(CHECK_LIBS) -lpthread
tests_stress_check_threads_stub_SOURCES = tests/stress/check_threads.c
tests_stress_check_threads_stub_CPPFLAGS = -DCLS_STUB $(AM_CPPFLAGS)
tests_stress_check_threads_stub_LDADD = $(with_stub)
tests_unit_check_container_LDADD = $(with_stub)
tests_unit_check_flush_LDADD = $(with_stub)
tests_unit_check_needs_LDADD = $(with_stub)
tests_unit_check_requirements_LDADD = $(with_stub)
tests_unit_check_shortlists_LDADD = $(with_stub)
tests_unit_check_unseen_LDADD = $(with_stub)
tests_unit_check_offsets_LDADD = libtests.a $(head_libraries) libstub.a $(CHECK_LIBS) -lpthread

# These have an OpenCL of their own in front of the real one, which they load by themselves. Here,
# too, the linker names what it lacks.
if HAVE_VERSION_SCRIPT
faulty = tests/support/faulty.c tests/support/faulty.h
with_faults = libtests.a $(head_libraries) $(CHECK_LIBS) -lpthread -ldl
tests_device_check_errors_SOURCES = tests/device/check_errors.c $(faulty)
tests_device_check_errors_LDADD = $(with_faults)
tests_stress_check_faults_SOURCES = tests/stress/check_faults.c \
	tests/support/life.c tests/support/life.h \
	tests/support/faulty_memory.c tests/support/faulty_memory.h $(faulty)
tests_stress_check_faults_LDADD = $(with_faults)
tests_stress_check_faults_LDFLAGS = -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=free
endif

EXTRA_DIST += tests/run tests/vectors $(srcdir)/tests/*/*.sh $(srcdir)/tests/*/*.py
