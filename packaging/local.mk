# SPDX-License-Identifier: MIT
pkgconfigdir = $(libdir)/pkgconfig
pkgconfig_DATA = clsample.pc clsample-head.pc
cmakedir = $(libdir)/cmake/clsample
cmake_DATA = clsample-config.cmake clsample-config-version.cmake
EXTRA_DIST += packaging/debian $(srcdir)/packaging/*.sh $(srcdir)/packaging/*.in

# Compiles examples as users would, by pkg-config and by CMake, against the installed files.
installcheck-local:
	CC='$(CC)' PKG_CONFIG='$(PKG_CONFIG)' libdir='$(DESTDIR)$(libdir)' destdir='$(DESTDIR)' \
	    includedir='$(DESTDIR)$(includedir)' prefix='$(prefix)' $(SHELL) $(srcdir)/tests/package/installcheck.sh \
	    $(srcdir)/examples/llama $(srcdir)/examples/minimal.c $(srcdir)/examples/server.c
