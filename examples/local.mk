# SPDX-License-Identifier: MIT
# The examples that make check builds, and the tests among them.
check_PROGRAMS += examples/llamacpp/check_adapter examples/json examples/minimal examples/server
quick_examples = examples/llamacpp/check_adapter examples/server
examples_json_SOURCES = examples/json.c examples/json_grammar.c examples/json_grammar.h
examples_json_LDADD = libclsample.la $(OPENCL_LIBS)
examples_minimal_LDADD = libclsample.la $(OPENCL_LIBS)
examples_server_LDADD = libclsample.la $(OPENCL_LIBS)
# The adapter to llama.cpp, which a stub stands in for.
examples_llamacpp_check_adapter_SOURCES = \
	examples/llamacpp/check_adapter.c examples/llamacpp/clsample-llama.c examples/llamacpp/stub/llama.c
examples_llamacpp_check_adapter_CPPFLAGS = -I$(srcdir)/examples/llamacpp/stub $(AM_CPPFLAGS)
examples_llamacpp_check_adapter_LDADD = libclsample.la $(OPENCL_LIBS) -lm

EXTRA_DIST += examples/demo.sh examples/data examples/llamacpp/generate.c \
	$(srcdir)/examples/llamacpp/*.h $(srcdir)/examples/llamacpp/stub/*.h \
	$(srcdir)/examples/*/README.md $(srcdir)/examples/*/Makefile $(srcdir)/examples/python/*.py \
	$(srcdir)/examples/llama/*.[ch] $(srcdir)/examples/llama/model.cl \
	examples/tensor_parallel/ranks.c
