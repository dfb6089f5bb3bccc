# SPDX-License-Identifier: MIT
dist_doc_DATA = README.md NEWS LICENSE doc/arithmetic.md doc/design.md doc/devices.md doc/integration.md \
	doc/performance.md doc/porting.md doc/python.md doc/reliability.md doc/scaling.md
dist_man3_MANS = doc/clsample.3 doc/clsample-head.3
if BUILD_COMMAND
dist_man_MANS = doc/clsample.1 doc/clsample-devices.1 doc/clsample-sample.1 doc/clsample-verify.1 \
	doc/clsample-explain.1 doc/clsample-demo.1 doc/clsample-bench.1 doc/clsample-replay.1 doc/clsample-report.1 \
	doc/clsample-selftest.1 doc/clsample-tune.1
endif
EXTRA_DIST += $(srcdir)/doc/*.md $(srcdir)/doc/*.[13] doc/manual.css doc/manual.xml

# The manual begins at html/index.html.
DOXYGEN = doxygen
html-local:
	@command -v $(DOXYGEN) >/dev/null || \
	    { echo 'make html needs Doxygen ($(DOXYGEN)); Debian: apt-get install doxygen' >&2; exit 1; }
	@echo '  GEN      html'; rm -rf html && $(DOXYGEN) doc/Doxyfile
