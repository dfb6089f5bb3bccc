# SPDX-License-Identifier: MIT
# The LM head: a separate library with a separate kernel; only it uses CLBlast.
noinst_LTLIBRARIES += libclsample_head_internal.la
libclsample_head_internal_la_CFLAGS = -DCLS_HEAD_BUILD $(library_cflags) $(CLBLAST_CFLAGS)
libclsample_head_internal_la_LIBADD = $(CLBLAST_LIBS)
libclsample_head_internal_la_SOURCES = lib/head/create.c lib/head/logits.c lib/head/clblast.c
nodist_libclsample_head_internal_la_SOURCES = lib/head/kernels.c

lib_LTLIBRARIES += libclsample-head.la
libclsample_head_la_SOURCES =
libclsample_head_la_LIBADD = libclsample_head_internal.la libclsample.la $(OPENCL_LIBS)
libclsample_head_la_LDFLAGS = -no-undefined -version-info $(CLS_HEAD_LIBRARY_VERSION) \
	$(version_script:=lib/head/clsample-head.map)
EXTRA_libclsample_head_la_DEPENDENCIES = lib/head/clsample-head.map
