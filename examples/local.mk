# SPDX-License-Identifier: MIT
# make check builds these examples and runs the quick ones as tests.
check_PROGRAMS += examples/llamacpp/check_adapter examples/llamacpp/check_logits examples/guidance examples/json examples/minimal examples/rows \
	examples/server examples/speculative
quick_examples = examples/guidance examples/llamacpp/check_adapter examples/llamacpp/check_logits \
	examples/rows examples/server examples/speculative
examples_guidance_LDADD = libclsample.la $(OPENCL_LIBS) -lm
examples_json_SOURCES = examples/json.c examples/json_grammar.c examples/json_grammar.h
examples_json_LDADD = libclsample.la $(OPENCL_LIBS)
examples_minimal_LDADD = libclsample.la $(OPENCL_LIBS)
examples_rows_LDADD = libclsample.la $(OPENCL_LIBS)
examples_server_LDADD = libclsample.la $(OPENCL_LIBS)
examples_speculative_LDADD = libclsample.la $(OPENCL_LIBS)
# A stub stands in for llama.cpp.
examples_llamacpp_check_adapter_SOURCES = \
	examples/llamacpp/check_adapter.c examples/llamacpp/clsample-llama.c examples/llamacpp/stub/llama.c
examples_llamacpp_check_adapter_CPPFLAGS = -I$(srcdir)/examples/llamacpp/stub $(AM_CPPFLAGS)
examples_llamacpp_check_adapter_LDADD = libclsample.la $(OPENCL_LIBS) -lm
# tests/examples/check_tensor_parallel.sh starts it as ranks of MPI.
if BUILD_MPI
check_PROGRAMS += examples/tensor_parallel
examples_tensor_parallel_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CFLAGS)
examples_tensor_parallel_LDADD = libclsample-mpi.la libclsample-head.la libclsample.la $(MPI_LIBS) $(OPENCL_LIBS)
endif
examples_llamacpp_check_logits_SOURCES = examples/llamacpp/check_logits.c \
	examples/llamacpp/clsample-llama-logits.c examples/llamacpp/stub/llama.c
examples_llamacpp_check_logits_CPPFLAGS = $(examples_llamacpp_check_adapter_CPPFLAGS)
examples_llamacpp_check_logits_LDADD = libclsample.la $(OPENCL_LIBS)
# Programs to copy from, installed beside the pages that name them.
nobase_dist_doc_DATA += examples/data/LICENSE.tinyllamas examples/data/README.md \
	examples/data/stories260K-logits.npy examples/data/tok512.bin examples/demo.sh \
	examples/guidance.c examples/json.c examples/json_grammar.c examples/json_grammar.h \
	examples/litert-lm/Makefile examples/litert-lm/README.md examples/litert-lm/clsample-litert.c \
	examples/litert-lm/exports.map examples/litert-lm/litert.h examples/litert-lm/message.c \
	examples/litert-lm/params_file.c examples/litert-lm/plugin.h examples/litert-lm/tensors.c \
	examples/llamacpp/Makefile \
	examples/llamacpp/README.md examples/llamacpp/beside.c examples/llamacpp/check_adapter.c \
	examples/llamacpp/check_logits.c \
	examples/llamacpp/clsample-llama-logits.c examples/llamacpp/clsample-llama-logits.h \
	examples/llamacpp/clsample-llama.c examples/llamacpp/clsample-llama.h examples/llamacpp/engine.c \
	examples/llamacpp/engine.h examples/llamacpp/generate.c examples/llamacpp/ggml-opencl.patch \
	examples/llamacpp/in_place.c examples/llamacpp/rounds.c examples/llamacpp/rounds.h \
	examples/llamacpp/stub/llama.c examples/llamacpp/stub/llama.h examples/minimal.c examples/opencl.h examples/python/buffer.py \
	examples/python/chain.py examples/python/drafts.py examples/python/gemma.py \
	examples/python/generate.py examples/python/guided.py examples/python/loop.py \
	examples/python/tensors.py examples/rows.c examples/server.c examples/speculative.c \
	examples/tensor_parallel.c
