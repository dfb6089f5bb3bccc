# SPDX-License-Identifier: MIT
# `make check` runs TESTS, each feature at least once, in three to five minutes from an empty cache of
# kernels on two cores. It runs short_tests, short_scripts and texts at CLS_TEST_SIZE=small, unless the
# caller chooses a size. doc/testing.md describes the other sets. In each set the longest tests come
# first, so that all end at about the same time with -j.
short_tests = tests/device/check_proofs tests/device/check_programs tests/device/check_selftest \
	tests/device/check_head tests/device/check_shards tests/device/check_shard_calls \
	tests/device/check_guards tests/device/check_far tests/device/check_quiet \
	tests/stress/check_threads tests/stress/check_threads_stub $(short_units)
short_units = tests/unit/check_reference $(whole_units)
# CI leaves these and whole_scripts out of its long tests: it has run them in the quick set, for
# the same seed and with every 64th value of the logarithm. The release runs them whole.
whole_units = tests/unit/check_watermark
device_tests = tests/device/check_interface tests/device/check_refused \
	tests/device/check_saved tests/device/check_memory tests/device/check_ahead \
	tests/device/check_fork tests/device/check_record tests/device/check_wide tests/device/check_head_calls \
	tests/device/check_pointers
unit_tests = tests/unit/check_arithmetic tests/unit/check_goldens tests/unit/check_samplers tests/unit/check_table \
	tests/unit/check_modes_host tests/unit/check_history_host tests/unit/check_verify_host \
	tests/unit/check_container \
	tests/unit/check_flush tests/unit/check_needs tests/unit/check_requirements tests/unit/check_shortlists \
	tests/unit/check_unseen tests/unit/check_usm tests/unit/check_offsets tests/unit/check_grammar_host tests/unit/check_grammar_saved \
	tests/unit/check_overlap_host tests/unit/check_select tests/unit/check_host_threads
long_tests = tests/device/check_shard_contexts \
	tests/device/check_tiers tests/device/check_binaries \
	tests/stress/check_verify_law
# These run shapes and tiers that no other test has. PoCL compiles their kernels with shape_flags.
shape_tests = tests/device/check_tiers tests/scripts/shapes $(texts:.run=)
package_tests = tests/package/layers.sh tests/package/recipe.sh tests/package/names.sh tests/package/headers.sh tests/package/numbers.sh tests/package/symbols.sh tests/package/pages.sh \
	tests/package/links.sh tests/package/portable.sh tests/package/versions.sh
short_scripts =
long_check = tests/examples/check_json.sh tests/examples/check_litert.sh \
	tests/package/manual.sh \
	tests/package/gpu_script.sh tests/package/gpu_resources.sh tests/package/amalgamation.sh \
	tests/package/growth.sh tests/package/peers.sh \
	tests/package/bootstrap.sh tests/package/device.sh tests/package/platforms.sh
# The quick set leaves out host_check, which depends on CLS_TEST_SIZE, and command_check, which does
# not: if several builds run `make check-host`, one of them with command_check is enough.
host_check = $(fault_tests)
other_tests = $(first_command_test) $(programs) $(quick_command_tests) $(last_tests) $(quick_examples) \
	$(fuzz_host) $(fuzz_device)
quick_tests = $(all_texts) $(other_tests)
TESTS = $(quick_tests) $(package_tests)
# These come last, when all that they need is compiled: tests that run at the same time compile the
# same programs twice.
last_tests = tests/arithmetic/check_vectors $(short_scripts)
check_PROGRAMS = tests/arithmetic/check_vectors
# Automake writes a rule for each program that is in TESTS under some condition. This condition
# never holds: it gives rules to the programs that only check-long, check-full and check-host run.
if NEVER
TESTS += $(host_check) $(long_check)
endif
if BUILD_COMMAND
# The command opens the device in each run: it takes longest once kernels are compiled.
first_command_test = tests/command/check_command.sh
quick_command_tests = tests/command/check_run.sh tests/command/check_replay.sh tests/command/check_explain.sh \
	tests/command/check_pages.sh tests/command/check_without_opencl.sh
whole_scripts = tests/scripts/groups.sh
short_scripts += $(whole_scripts) tests/scripts/judge.sh
# clsample run runs these on the host and on each device, in the ways of tests/scripts/run.sh. All sets
# but the full one run them in one process for each way (all_texts).
all_texts = tests/scripts/texts.sh
texts = tests/scripts/outputs.run tests/scripts/masks.run tests/scripts/budgets.run tests/scripts/adjust.run \
	tests/scripts/modes.run tests/scripts/history.run tests/scripts/grammar.run tests/scripts/steps.run \
	tests/scripts/chains.run tests/scripts/verify.run tests/scripts/shards.run tests/scripts/slots.run \
	tests/scripts/calls.run tests/scripts/forced.run tests/scripts/drafts.run tests/scripts/accept.run \
	tests/scripts/saved.run tests/scripts/refused.run tests/scripts/watermark.run tests/scripts/usual.run \
	tests/scripts/phases.run tests/scripts/softcap.run
long_check += tests/scripts/shapes.sh tests/examples/check_demo.sh
command_check = tests/command/check_requests.sh tests/command/check_shapes.sh tests/command/check_selftest_command.sh \
	tests/command/check_interrupts.sh tests/command/check_tune.sh tests/command/check_accept.sh \
	tests/command/check_pocl_arrays.sh
endif

more_tests = $(host_check) $(command_check) $(long_check)
check-long:
	$(MAKE) $(AM_MAKEFLAGS) check short_size= TESTS='$(all_texts) $(more_tests) $(short_tests) $(short_scripts)'
check-full:
	$(MAKE) $(AM_MAKEFLAGS) check short_size= TESTS='$(more_tests) $(texts) $(other_tests) $(package_tests)'
check-host:
	$(MAKE) $(AM_MAKEFLAGS) check TESTS='$(host_check) $(command_check) $(quick_tests)'
tests/package/amalgamation.log tests/examples/check_litert.log: amalgamation/clsample.c
check-local: check-TESTS
	@$(SHELL) $(srcdir)/build-aux/summary.sh $(TEST_LOGS)
TEST_EXTENSIONS = .sh .run
SH_LOG_COMPILER = $(SHELL)
RUN_LOG_COMPILER = $(SHELL) $(srcdir)/tests/scripts/run.sh
short_size = small
LOG_DRIVER = $(SHELL) $(srcdir)/build-aux/timed-driver.sh
SH_LOG_DRIVER = $(LOG_DRIVER)
RUN_LOG_DRIVER = $(LOG_DRIVER)
# CK_FORK=no: an OpenCL context does not survive a fork. CLS_TEST_KERNELS is a folder for compiled
# kernels. OCL_ICD_VENDORS stays as it is, since the caller chooses the devices.
AM_TESTS_ENVIRONMENT = \
	case ' $(short_tests) $(short_scripts:.sh=) $(all_texts:.sh=) $(texts:.run=) ' in *" $(@:.log=) "*) \
	    export CLS_TEST_SIZE="$${CLS_TEST_SIZE-$(short_size)}";; esac; \
	case ' $(shape_tests) ' in *" $(@:.log=) "*) \
	    export POCL_EXTRA_BUILD_FLAGS="$${POCL_EXTRA_BUILD_FLAGS-$(shape_flags)}";; esac; \
	kernels="$${CLS_TEST_KERNELS-$(abs_builddir)/tests/kernels}" \
	own='$(abs_builddir)/$(@:.log=.pocl)'; . '$(srcdir)/tests/support/kernels.sh'; \
	export CK_FORK=no BUILD='$(abs_builddir)' CLSAMPLE='$(abs_builddir)/clsample' CC='$(CC)' NM='$(NM)' \
	    CFLAGS='$(CFLAGS)' PKG_CONFIG='$(PKG_CONFIG)' MPIEXEC='$(MPIEXEC)' MPI_CFLAGS='$(MPI_CFLAGS)';

LDADD = libtests.a libclsample_internal.la $(CHECK_LIBS) $(OPENCL_LIBS) -lpthread
tests_arithmetic_check_vectors_SOURCES = tests/arithmetic/check_vectors.c tests/arithmetic/values.c tests/support/one_row.c \
	tests/arithmetic/blocks.c
tests_arithmetic_check_vectors_LDADD = libclsample_internal.la $(OPENCL_LIBS)

if HAVE_CHECK
check_PROGRAMS += $(programs) $(fault_tests) $(long_tests)
programs = $(short_tests) $(device_tests) $(unit_tests) $(error_tests)
long_check += $(long_tests)
if HAVE_VERSION_SCRIPT
error_tests = tests/device/check_errors
fault_tests = tests/stress/check_faults
endif
# Libtool would compile each of these files twice.
check_LIBRARIES = libtests.a libstub.a
libtests_a_SOURCES = tests/support/fixture.c tests/support/must.c tests/support/one_row.c tests/support/queues.c tests/support/rig.c cli/rows/kinds.c tests/support/batch.c tests/support/script.c \
	tests/support/memory.c tests/support/client.c tests/support/subgroups.c tests/support/pointers.c tests/support/layer.c tests/support/brute.c \
	tests/support/oracle.c tests/support/oracle_adjust.c tests/support/oracle_chain.c \
	tests/support/oracle_stages.c tests/support/oracle_rounded.c tests/support/split.c \
	tests/support/twin.c tests/support/automaton.c
# This is an OpenCL that computes nothing.
libstub_a_SOURCES = tests/support/stub_cl.c tests/support/stub_queue.c tests/support/stub_kernels.c
endif

if BUILD_COMMAND
check_PROGRAMS += tests/scripts/hooked
tests_scripts_hooked_SOURCES = tests/scripts/hooked.c tests/scripts/judge.c tests/scripts/model.c tests/support/brute.c tests/support/one_row.c \
	tests/support/oracle.c tests/support/oracle_adjust.c tests/support/oracle_chain.c \
	tests/support/oracle_stages.c tests/support/oracle_rounded.c tests/support/against.c \
	tests/support/subgroups.c tests/support/items.c $(command_parts)
tests_scripts_hooked_LDADD = libclsample_internal.la $(JANSSON_LIBS) $(OPENCL_LIBS) -lpthread
endif

tests_device_check_proofs_SOURCES = tests/device/check_proofs.c tests/support/driver.c
tests_device_check_programs_SOURCES = tests/device/check_programs.c tests/support/driver.c
tests_device_check_binaries_SOURCES = tests/device/check_binaries.c tests/device/binaries.c tests/support/driver.c
head_libraries = libclsample_head_internal.la libclsample_internal.la
with_head = libtests.a $(head_libraries) $(CHECK_LIBS) $(OPENCL_LIBS) -lpthread
tests_device_check_head_LDADD = $(with_head)
tests_device_check_head_calls_LDADD = $(with_head)
tests_device_check_pointers_LDADD = $(with_head)
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
tests_unit_check_usm_LDADD = $(with_stub)
tests_unit_check_offsets_LDADD = libtests.a $(head_libraries) libstub.a $(CHECK_LIBS) -lpthread

# These have a separate OpenCL in front of the real one, which they load by themselves. Here, too, the
# linker names what is lacking.
with_faults = libtests.a $(head_libraries) $(CHECK_LIBS) -lpthread -ldl
tests_device_check_errors_SOURCES = tests/device/check_errors.c tests/support/faulty.c
tests_device_check_errors_LDADD = $(with_faults)
tests_stress_check_faults_SOURCES = tests/stress/check_faults.c tests/support/life.c tests/support/faulty_memory.c \
	tests/support/faulty.c
tests_stress_check_faults_LDADD = $(with_faults)
tests_stress_check_faults_LDFLAGS = -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=free

# A script starts these programs as ranks of MPI.
if BUILD_MPI
mpi_internal = libclsample_mpi_internal.la libclsample_internal.la
check_PROGRAMS += tests/mpi/check_protocol
short_scripts += tests/mpi/check_mpi.sh
long_check += tests/examples/check_tensor_parallel.sh
tests_mpi_check_protocol_SOURCES = tests/mpi/check_protocol.c tests/mpi/stub_shard.c
tests_mpi_check_protocol_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CFLAGS)
tests_mpi_check_protocol_LDADD = $(mpi_internal) $(MPI_LIBS) $(OPENCL_LIBS) -lpthread
if HAVE_CHECK
if HAVE_VERSION_SCRIPT
check_PROGRAMS += tests/mpi/check_ranks
tests_mpi_check_ranks_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CFLAGS)
tests_mpi_check_ranks_LDADD = libtests.a $(mpi_internal) $(MPI_LIBS) $(CHECK_LIBS) $(OPENCL_LIBS) -lpthread
tests_mpi_check_ranks_LDFLAGS = -Wl,--wrap=cls_shard_partial
endif
endif
endif
EXTRA_DIST += tests/run tests/mutants.py tests/vectors tests/examples/litert_host.c tests/package/left_out.c tests/package/own_memory.c tests/package/growth.c tests/llamacpp/crossings.c tests/llamacpp/device.c $(test_headers) $(srcdir)/tests/*/*.sh $(srcdir)/tests/*/*.py \
	$(srcdir)/tests/scripts/*.run tests/platforms/results.jsonl
test_headers = $(srcdir)/tests/*/*.h
