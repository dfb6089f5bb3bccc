# SPDX-License-Identifier: MIT
command_parts = cli/errors.c $(command_without_errors)
command_without_errors = cli/progress.c cli/memory.c cli/options.c cli/print.c cli/device_open.c cli/npy.c \
	cli/arrays.c cli/pieces.c cli/params.c cli/grammar.c cli/lists.c cli/request.c cli/results.c \
	cli/devices.c cli/sample.c \
	cli/explain.c cli/explain_stages.c cli/inputs.c cli/run.c cli/run_text.c cli/run_data.c \
	cli/run_side.c cli/run_inputs.c cli/run_calls.c cli/run_drafts.c cli/run_slots.c cli/run_random.c cli/run_why.c \
	cli/run_compare.c cli/accept.c cli/accept_child.c cli/accept_names.c cli/accept_work.c \
	cli/selftest.c bench/parallel.c bench/rows.c bench/setup.c bench/floor.c bench/host.c bench/measure.c \
	bench/events.c bench/drafts.c bench/shards.c bench/requests.c bench/serving.c bench/start.c \
	bench/table.c bench/bench.c \
	bench/tune.c
if BUILD_COMMAND
bin_PROGRAMS = clsample
clsample_SOURCES = cli/main.c $(command_parts)
clsample_LDADD = libclsample.la $(JANSSON_LIBS) -lpthread
endif
EXTRA_DIST += $(srcdir)/cli/*.h
