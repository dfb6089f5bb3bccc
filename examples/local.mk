# SPDX-License-Identifier: MIT
# make check builds these examples and runs the quick ones as tests.
check_PROGRAMS += examples/llamacpp/check_adapter examples/guidance examples/json examples/minimal examples/rows \
	examples/server examples/speculative
quick_examples = examples/guidance examples/llamacpp/check_adapter examples/rows examples/server examples/speculative
examples_guidance_LDADD = libclsample.la $(OPENCL_LIBS) -lm
examples_json_SOURCES = examples/json.c examples/json_grammar.c examples/json_grammar.h
examples_json_LDADD = libclsample.la $(OPENCL_LIBS)
examples_minimal_LDADD = libclsample.la $(OPENCL_LIBS)
examples_rows_LDADD = libclsample.la $(OPENCL_LIBS)
examples_server_LDADD = libclsample.la $(OPENCL_LIBS)
examples_speculative_LDADD = libclsample.la $(OPENCL_LIBS)
# A stub stands in for llama.cpp, to which the adapter belongs.
examples_llamacpp_check_adapter_SOURCES = \
	examples/llamacpp/check_adapter.c examples/llamacpp/clsample-llama.c examples/llamacpp/stub/llama.c
examples_llamacpp_check_adapter_CPPFLAGS = -I$(srcdir)/examples/llamacpp/stub $(AM_CPPFLAGS)
examples_llamacpp_check_adapter_LDADD = libclsample.la $(OPENCL_LIBS) -lm
EXTRA_DIST += examples/demo.sh examples/data examples/opencl.h examples/litert-lm/exports.map examples/llamacpp/stub/llama.h examples/llama/model.cl \
	$(srcdir)/examples/*/*.[ch] $(srcdir)/examples/*/*.py $(srcdir)/examples/*/README.md $(srcdir)/examples/*/Makefile
