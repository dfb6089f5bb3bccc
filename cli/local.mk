# SPDX-License-Identifier: MIT
# The fuzzers replace errors.c.
command_parts = cli/common/errors.c $(command_without_errors)
command_without_errors = cli/common/progress.c cli/common/memory.c cli/common/options.c cli/common/print.c cli/common/reason.c \
	cli/common/device_open.c cli/common/devices.c cli/common/npy.c cli/common/arrays.c cli/common/pieces.c \
	cli/common/json.c cli/common/params.c cli/common/grammar.c cli/common/lists.c cli/rows/kinds.c \
	cli/run/text.c cli/run/words.c cli/run/write.c cli/run/data.c cli/run/grammars.c cli/run/side.c cli/run/fields.c \
	cli/run/params.c cli/run/maps.c cli/run/inputs.c cli/run/outputs.c cli/run/step.c cli/run/stages.c cli/run/probe.c \
	cli/run/shards.c cli/run/launches.c cli/run/calls.c cli/run/drafts.c cli/run/recorded.c cli/run/samplers.c \
	cli/run/slots.c cli/run/script.c cli/run/random_params.c cli/run/random_rows.c cli/run/random_calls.c \
	cli/run/random.c cli/run/compare.c cli/run/shrink.c cli/run/why.c \
	cli/run/expect.c \
	cli/accept/child.c cli/accept/names.c cli/accept/findings.c cli/accept/programs.c cli/accept/calls.c \
	cli/accept/steps.c cli/accept/shape.c \
	cli/devices.c cli/request.c cli/results.c cli/sample.c cli/explain.c cli/run.c cli/accept.c \
	cli/selftest.c \
	bench/parallel.c bench/rows.c bench/cases.c bench/setup.c bench/rounds.c bench/floor.c bench/step.c \
	bench/verify.c bench/host.c bench/events.c bench/measure.c bench/drafts.c bench/shards.c \
	bench/requests.c bench/serving.c bench/start.c bench/table.c bench/tune.c bench/bench.c
if BUILD_COMMAND
bin_PROGRAMS = clsample
clsample_SOURCES = cli/main.c $(command_parts)
clsample_LDADD = libclsample.la $(JANSSON_LIBS) -lpthread
endif
EXTRA_DIST += $(srcdir)/cli/*.h $(srcdir)/cli/*/*.h
