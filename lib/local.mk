# SPDX-License-Identifier: MIT
include_HEADERS = include/clsample.h
core_parts = include/clsample/base.h include/clsample/chain.h include/clsample/params.h include/clsample/grammar.h include/clsample/context.h \
	include/clsample/programs.h include/clsample/sampler.h include/clsample/slot.h include/clsample/step.h \
	include/clsample/outputs.h include/clsample/verify.h include/clsample/draft.h \
	include/clsample/readback.h include/clsample/shard.h include/clsample/host.h include/clsample/selftest.h include/clsample/layout.h
pkginclude_HEADERS = $(core_parts) include/clsample/head.h
library_headers = $(srcdir)/lib/*.h $(srcdir)/lib/*/*.h

library_sources = \
	lib/base/status.c lib/base/structs.c lib/base/read.c lib/base/sha256.c lib/base/hash.c lib/base/lock.c lib/base/threads.c lib/base/opencl.c \
	lib/device/device.c lib/device/source.c lib/device/subgroups.c \
	lib/programs/table.c lib/programs/lifetime.c lib/programs/build.c lib/programs/compile.c lib/programs/proved.c \
	lib/programs/stored.c lib/programs/container.c lib/programs/binaries.c lib/programs/cache.c \
	lib/queue/events.c lib/queue/arguments.c lib/queue/pointers.c lib/queue/buffers.c lib/queue/readback.c \
	lib/request/param_table.c lib/request/params.c lib/request/words.c lib/request/infill.c lib/request/arrays.c lib/request/lists.c lib/request/history.c lib/request/logarithm.c lib/request/grammar.c lib/request/grammar_saved.c \
	lib/record/record.c \
	lib/host/host.c lib/host/state.c lib/host/text.c lib/host/slot.c lib/host/adjust.c lib/host/select.c lib/host/set.c \
	lib/host/stages/infill.c lib/host/stages/min_p.c lib/host/stages/mirostat.c \
	lib/host/stages/p_less.c lib/host/stages/temperature.c lib/host/stages/top_a.c \
	lib/host/stages/top_k.c lib/host/stages/top_n_sigma.c lib/host/stages/top_p.c \
	lib/host/stages/typical_p.c lib/host/stages/xtc.c lib/host/chain.c lib/host/sample.c \
	lib/host/draw.c lib/host/watermark.c lib/host/outputs.c lib/host/verify.c lib/host/lookup.c \
	lib/sampler/enter.c lib/sampler/kernels.c lib/sampler/sampler.c lib/sampler/memory.c lib/sampler/changes.c lib/sampler/needs.c lib/sampler/slots.c \
	lib/sampler/save.c lib/sampler/commands.c \
	lib/step/tables.c lib/step/operands.c lib/step/check.c lib/step/recorded.c lib/step/launch.c lib/step/logprobs.c lib/step/host.c lib/step/sample.c lib/step/outputs.c lib/step/verify.c lib/step/draft.c \
	lib/shard/create.c lib/shard/partial.c lib/shard/gather.c lib/shard/decide.c lib/shard/rows.c \
	lib/shard/exchange.c lib/selftest/prove.c \
	lib/selftest/run.c lib/selftest/parts.c lib/selftest/selftest.c lib/selftest/rows.c lib/selftest/cases.c lib/selftest/known.c \
	lib/selftest/steps.c lib/selftest/outputs.c lib/selftest/calls.c lib/context.c
library_generated = lib/kernels.c lib/layout.c
noinst_LTLIBRARIES = libclsample_core.la
libclsample_core_la_CFLAGS = -DCLS_BUILD $(library_cflags)
libclsample_core_la_SOURCES = $(library_sources)
nodist_libclsample_core_la_SOURCES = $(library_generated)

# The tests link this library, whose hidden names they can reach. It has what they change besides
# (lib/base/hooks.h).
check_LTLIBRARIES = libclsample_internal.la
libclsample_internal_la_CFLAGS = -DCLS_BUILD $(test_hooks) $(library_cflags)
libclsample_internal_la_SOURCES = $(library_sources) lib/base/hooks.c
nodist_libclsample_internal_la_SOURCES = $(library_generated)

# cls_struct_field() needs a list of the fields of the public structs.
lib/layout.c: include/clsample.h $(core_parts) build-aux/layout.awk
	$(AM_V_GEN)$(MKDIR_P) lib && $(CC) -E $(AM_CPPFLAGS) $(CPPFLAGS) $(srcdir)/include/clsample.h | \
	    $(AWK) -f $(srcdir)/build-aux/layout.awk >$@.new && mv $@.new $@

lib_LTLIBRARIES = libclsample.la
libclsample_la_SOURCES =
libclsample_la_LIBADD = libclsample_core.la
libclsample_la_LDFLAGS = -no-undefined -version-info $(CLS_LIBRARY_VERSION) $(version_script:=lib/clsample.map)
EXTRA_libclsample_la_DEPENDENCIES = lib/clsample.map
EXTRA_DIST += $(library_headers) $(srcdir)/lib/*.map $(srcdir)/lib/*/*.map

# The LM head is a separate library with a separate kernel. Only it uses CLBlast.
head_cflags = -DCLS_HEAD_BUILD $(library_cflags) $(CLBLAST_CFLAGS)
# What lib/private.h declares, but for what libclsample exports, is compiled into each library.
head_sources = lib/head/create.c lib/head/logits.c lib/head/clblast.c lib/base/read.c \
	lib/queue/events.c lib/queue/buffers.c lib/queue/pointers.c
check_LTLIBRARIES += libclsample_head_internal.la
libclsample_head_internal_la_CFLAGS = $(test_hooks) $(head_cflags)
libclsample_head_internal_la_LIBADD = $(CLBLAST_LIBS)
libclsample_head_internal_la_SOURCES = $(head_sources)
nodist_libclsample_head_internal_la_SOURCES = lib/head/kernels.c
lib_LTLIBRARIES += libclsample-head.la
libclsample_head_la_CFLAGS = $(head_cflags)
libclsample_head_la_SOURCES = $(head_sources)
nodist_libclsample_head_la_SOURCES = lib/head/kernels.c
libclsample_head_la_LIBADD = libclsample.la $(CLBLAST_LIBS)
libclsample_head_la_LDFLAGS = -no-undefined -version-info $(CLS_HEAD_LIBRARY_VERSION) \
	$(version_script:=lib/head/clsample-head.map)
EXTRA_libclsample_head_la_DEPENDENCIES = lib/head/clsample-head.map

# Shards on ranks of MPI are another separate library. Only it, its tests and its example use MPI.
if BUILD_MPI
include_HEADERS += include/clsample-mpi.h
pkgconfig_DATA += clsample-mpi.pc
dist_man3_MANS += doc/clsample-mpi.3
noinst_LTLIBRARIES += libclsample_mpi_internal.la
libclsample_mpi_internal_la_CFLAGS = -DCLS_MPI_BUILD $(library_cflags) $(MPI_CFLAGS)
libclsample_mpi_internal_la_SOURCES = lib/mpi/create.c lib/mpi/agree.c lib/mpi/exchange.c lib/base/read.c
lib_LTLIBRARIES += libclsample-mpi.la
libclsample_mpi_la_SOURCES =
libclsample_mpi_la_LIBADD = libclsample_mpi_internal.la libclsample.la $(MPI_LIBS)
libclsample_mpi_la_LDFLAGS = -no-undefined -version-info $(CLS_MPI_LIBRARY_VERSION) \
	$(version_script:=lib/mpi/clsample-mpi.map)
EXTRA_libclsample_mpi_la_DEPENDENCIES = lib/mpi/clsample-mpi.map
else
without_mpi = ! -name 'cls_mpi*'
endif
