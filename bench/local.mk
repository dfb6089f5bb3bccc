# SPDX-License-Identifier: MIT
# The scripts of this folder build these programs. All but the first two need jansson.
EXTRA_PROGRAMS = bench/start bench/programs bench/scaling bench/profile bench/write-rows
bench_start_LDADD = libclsample.la $(OPENCL_LIBS)
bench_programs_LDADD = libclsample_internal.la $(OPENCL_LIBS)
bench_scaling_SOURCES = bench/scaling.c bench/parallel.c bench/rows.c
bench_scaling_LDADD = libclsample_internal.la $(OPENCL_LIBS) -lm -lpthread
bench_profile_SOURCES = bench/profile.c $(command_parts)
bench_profile_LDADD = libclsample_internal.la $(JANSSON_LIBS) $(OPENCL_LIBS) -lpthread
bench_write_rows_SOURCES = bench/write-rows.c bench/rows.c bench/parallel.c \
	cli/npy.c cli/errors.c cli/memory.c cli/options.c cli/print.c
bench_write_rows_LDADD = libclsample_internal.la $(JANSSON_LIBS) $(OPENCL_LIBS) -lpthread

# This shows what GPU compilers make of the kernels. It needs no GPU.
gpu-resources: bench/programs
	$(SHELL) $(srcdir)/bench/gpu-resources.sh bench/programs
EXTRA_DIST += $(srcdir)/bench/*.[ch] $(srcdir)/bench/*.sh $(srcdir)/bench/*.py bench/show-tests.mk \
	bench/results/README.md
