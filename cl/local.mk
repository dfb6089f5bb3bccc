# SPDX-License-Identifier: MIT
# Each file of cl/kernels is a program: it names the files that it includes, and
# build-aux/cl-order.sh puts them in order. make writes the C files again when a kernel file changes.
kernel_files = $(srcdir)/cl/*/*.cl $(srcdir)/cl/*/*.h
kernels_to_c = cd $(srcdir) && $(SHELL) build-aux/cl2c.sh cl
EXTRA_DIST += $(kernel_files)

lib/kernels.c: $(kernel_files) build-aux/cl2c.sh build-aux/cl-order.sh
	$(AM_V_GEN)$(MKDIR_P) lib && ($(kernels_to_c) `cd cl && echo kernels/*.cl`) >$@.new && \
	    mv $@.new $@
lib/head/kernels.c: $(kernel_files) build-aux/cl2c.sh build-aux/cl-order.sh
	$(AM_V_GEN)$(MKDIR_P) lib/head && ($(kernels_to_c) head/head.cl) >$@.new && mv $@.new $@
