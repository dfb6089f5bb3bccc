# SPDX-License-Identifier: MIT
# README.md describes the targets. Each is a test, too: it replays the inputs that are kept.
fuzz_engine = fuzz/replay.c fuzz/files.c
fuzz_host = fuzz/container fuzz/grammar fuzz/saved_grammar
fuzz_container_SOURCES = fuzz/container.c $(fuzz_engine)
fuzz_container_LDADD = libclsample_internal.la $(OPENCL_LIBS)
fuzz_grammar_SOURCES = fuzz/grammar.c $(fuzz_engine)
fuzz_grammar_LDADD = libclsample_internal.la $(OPENCL_LIBS)
fuzz_saved_grammar_SOURCES = fuzz/saved_grammar.c $(fuzz_engine)
fuzz_saved_grammar_LDADD = libclsample_internal.la $(OPENCL_LIBS)
if BUILD_COMMAND
fuzz_host += fuzz/npy fuzz/params fuzz/texts
fuzz_cli = fuzz/cli.c cli/common/memory.c cli/common/options.c cli/common/lists.c cli/common/print.c
fuzz_npy_SOURCES = fuzz/npy.c fuzz/cli.c cli/common/memory.c cli/rows/kinds.c $(fuzz_engine)
fuzz_npy_LDADD = libclsample_internal.la $(JANSSON_LIBS) $(OPENCL_LIBS)
fuzz_params_SOURCES = fuzz/params.c $(fuzz_cli) $(fuzz_engine)
fuzz_params_LDADD = libclsample_internal.la $(JANSSON_LIBS) $(OPENCL_LIBS)
fuzz_texts_SOURCES = fuzz/texts.c fuzz/cli.c $(command_without_errors) $(fuzz_engine)
fuzz_texts_LDADD = libclsample_internal.la $(JANSSON_LIBS) $(OPENCL_LIBS) -lpthread
endif
if HAVE_CHECK
fuzz_device = fuzz/blob
fuzz_tests = fuzz/device.c fuzz/assert.c
fuzz_blob_SOURCES = fuzz/blob.c $(fuzz_tests) $(fuzz_engine)
endif
check_PROGRAMS += $(fuzz_host) $(fuzz_device)

# clang builds the same targets with libFuzzer, as fuzz/NAME.fuzzer.
FUZZ_CC = clang
FUZZ_CFLAGS = -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=undefined
fuzz_compile = $(FUZZ_CC) $(DEFS) -I$(srcdir) $(AM_CPPFLAGS) $(AM_CFLAGS) $(FUZZ_CFLAGS)
fuzz_library = $(libclsample_internal_la_SOURCES) $(nodist_libclsample_internal_la_SOURCES) \
	$(libtests_a_SOURCES) fuzz/cli.c $(command_without_errors) $(fuzz_tests) fuzz/files.c
fuzz_programs = $(fuzz_host:=.fuzzer) $(fuzz_device:=.fuzzer)
fuzz: $(fuzz_programs)
fuzz/library.a: $(fuzz_library) $(library_headers) $(test_headers)
	$(AM_V_GEN)rm -rf fuzz/objects $@ && $(MKDIR_P) fuzz/objects && for file in $(fuzz_library); do \
	    object=fuzz/objects/`echo $$file | tr / -`.o; test -f $$file || file=$(srcdir)/$$file; \
	    case $$file in *lib/*) build=-DCLS_BUILD;; *) build=;; esac; \
	    $(fuzz_compile) $$build -fsanitize=fuzzer-no-link -c -o $$object $$file || exit 1; \
	done && $(AR) cr $@ fuzz/objects/*.o
SUFFIXES = .fuzzer
.c.fuzzer:
	$(AM_V_CCLD)$(fuzz_compile) -fsanitize=fuzzer -o $@ $< fuzz/library.a $(JANSSON_LIBS) $(OPENCL_LIBS) $(LIBS) -lpthread
$(fuzz_programs): fuzz/library.a
MOSTLYCLEANFILES = fuzz/library.a $(fuzz_programs)
EXTRA_DIST += fuzz/README.md fuzz/corpus $(srcdir)/fuzz/*.h
