# SPDX-License-Identifier: MIT
pkgconfigdir = $(libdir)/pkgconfig
pkgconfig_DATA = clsample.pc clsample-head.pc
cmakedir = $(libdir)/cmake/clsample
cmake_DATA = clsample-config.cmake clsample-config-version.cmake
EXTRA_DIST += packaging/debian packaging/amalgamation $(srcdir)/packaging/*.sh $(srcdir)/packaging/*.in

# The library in one file, for programs that vendor it. The archive of a release has the folder `amalgamation`.
single_files = amalgamation/*.[ch] amalgamation/*.txt amalgamation/*.md amalgamation/meson.build amalgamation/Android.mk amalgamation/LICENSE
.PHONY: amalgamation
amalgamation: amalgamation/clsample.c
	@echo 'the library in one file, with its header and CMakeLists.txt: $(abs_builddir)/amalgamation'
amalgamation/clsample.c: $(library_sources) $(library_generated) $(library_headers) include/clsample.h $(core_parts) \
		$(srcdir)/packaging/amalgamation/*
	$(AM_V_GEN)(cd $(srcdir) && $(SHELL) packaging/amalgamation/amalgamate.sh $(abs_builddir)/amalgamation . \
	    $(abs_builddir) $(library_sources) $(library_generated:%=$(abs_builddir)/%))

# Compiles the installed examples as users would, by pkg-config and by CMake; all of them are there.
installcheck-local:
	@! { $(find_pages); } || test -f '$(DESTDIR)$(man3dir)/cls_sample.3' || \
	    { echo '$(DESTDIR)$(man3dir) has no page of cls_sample()' >&2; exit 1; }
	@cd $(srcdir) && find examples -name '*.[ch]' -o -name '*.cl' -o -name '*.py' -o -name '*.sh' -o -name '*.md' \
	    -o -name Makefile | while read -r file; do test -f "$(DESTDIR)$(docdir)/$$file" || \
	    { echo "$(DESTDIR)$(docdir) has no $$file" >&2; exit 1; }; done
	CC='$(CC)' PKG_CONFIG='$(PKG_CONFIG)' libdir='$(DESTDIR)$(libdir)' destdir='$(DESTDIR)' \
	    includedir='$(DESTDIR)$(includedir)' prefix='$(prefix)' $(SHELL) $(srcdir)/tests/package/installcheck.sh \
	    '$(DESTDIR)$(docdir)/examples/minimal.c' '$(DESTDIR)$(docdir)/examples/server.c'
