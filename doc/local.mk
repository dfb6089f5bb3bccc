# SPDX-License-Identifier: MIT
# The pages are installed in a folder, as here, so that their links to each other hold.
nobase_dist_doc_DATA = README.md HACKING.md CONTRIBUTING.md SECURITY.md NEWS LICENSE doc/arithmetic.md doc/chart.svg doc/design.md \
	doc/devices.md doc/integration.md doc/kernels.md doc/parameters.md doc/performance.md doc/porting.md \
	doc/python.md doc/reliability.md doc/requests.md doc/runtimes.md doc/scaling.md doc/testing.md
dist_man3_MANS = doc/clsample.3 doc/clsample-head.3
if BUILD_COMMAND
dist_man_MANS = doc/clsample.1 doc/clsample-devices.1 doc/clsample-sample.1 \
	doc/clsample-explain.1 doc/clsample-run.1 doc/clsample-bench.1 \
	doc/clsample-selftest.1 doc/clsample-accept.1
endif
EXTRA_DIST += $(srcdir)/doc/*.md $(srcdir)/doc/*.[13] doc/manual.css doc/manual.xml

# Doxygen makes the manual, and a man page for each function and type. The archive has these pages.
# They are made without the manual's layout, whose missing parts Doxygen 1.17 leaves out of them.
need_doxygen = test '$(DOXYGEN)' || { echo 'this needs Doxygen; Debian: apt-get install doxygen' >&2; exit 1; }
html-local:
	@$(need_doxygen); echo '  GEN      html'; rm -rf html && $(DOXYGEN) doc/Doxyfile
if HAVE_DOXYGEN
doc/man3/made: include/clsample.h include/clsample-mpi.h $(pkginclude_HEADERS) build-aux/manual.awk build-aux/pages.awk
	$(AM_V_GEN)rm -rf doc/man3 && $(MKDIR_P) doc/man3/doxygen && { cat doc/Doxyfile && printf '%s\n' \
	    GENERATE_HTML=NO GENERATE_MAN=YES ALWAYS_DETAILED_SEC=YES LAYOUT_FILE= OUTPUT_DIRECTORY=doc/man3/doxygen; } | \
	    $(DOXYGEN) - && cd doc/man3 && LC_ALL=C $(AWK) -v version=$(VERSION) \
	    -f $(abs_srcdir)/build-aux/pages.awk doxygen/man/man3/*.h.3 doxygen/man/man3/cls_*.3 && \
	    rm -r doxygen && echo >made
else
doc/man3/made:
endif
find_pages = pages=doc/man3; test -f $$pages/made || pages=$(srcdir)/doc/man3; test -f $$pages/made
all-local: doc/man3/made
install-data-local: doc/man3/made
	@$(MKDIR_P) '$(DESTDIR)$(man3dir)'; if $(find_pages); then \
	    $(INSTALL_DATA) `find $$pages -name 'cls_*.3' $(without_mpi)` '$(DESTDIR)$(man3dir)'; fi
uninstall-local:
	@if $(find_pages); then names=`cd $$pages && ls cls_*.3`; cd '$(DESTDIR)$(man3dir)' && rm -f $$names; fi
dist-pages: doc/man3/made
	@$(find_pages) || $(need_doxygen); cp -R $$pages "$(distdir)/doc"
