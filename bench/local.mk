# SPDX-License-Identifier: MIT
# The scripts of this folder build these programs. The second needs jansson.
EXTRA_PROGRAMS = bench/programs bench/profile
bench_programs_LDADD = libclsample_internal.la $(OPENCL_LIBS)
bench_profile_SOURCES = bench/profile.c $(command_parts)
bench_profile_LDADD = libclsample_internal.la $(JANSSON_LIBS) $(OPENCL_LIBS) -lpthread

# This shows what GPU compilers make of the kernels. It needs no GPU.
gpu-resources: bench/programs
	$(SHELL) $(srcdir)/bench/gpu-resources.sh bench/programs
EXTRA_DIST += $(srcdir)/bench/*.[ch] $(srcdir)/bench/*.sh $(srcdir)/bench/*.py bench/show-tests.mk \
	$(srcdir)/bench/results/*.md $(srcdir)/bench/results/*.json $(srcdir)/bench/results/*.svg
