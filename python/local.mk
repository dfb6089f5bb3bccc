# SPDX-License-Identifier: MIT
python_modules = $(srcdir)/python/clsample/*.py $(srcdir)/python/clsample/py.typed
EXTRA_DIST += $(python_modules) python/generate.py python/words.py python/README.md
# The tests use the package as setup.py puts it together. It needs cffi and NumPy.
PYTHON = python3
python_package = python/package/clsample
python-package: libclsample.la
	rm -rf $(python_package) && $(MKDIR_P) $(python_package)
	cp $(python_modules) .libs/libclsample.so $(python_package)
	$(PYTHON) $(srcdir)/python/generate.py $(srcdir)/include $(python_package)
check-python: python-package
	srcdir='$(srcdir)' BUILD='$(abs_builddir)' PYTHON='$(PYTHON)' \
	    $(SHELL) $(srcdir)/tests/python/check_python.sh
# Distributions install the package without a library in it: it opens the installed one.
pythondir = $(prefix)/lib/python3/dist-packages
install-python: libclsample.la
	$(MKDIR_P) '$(DESTDIR)$(pythondir)/clsample'
	$(INSTALL_DATA) $(python_modules) '$(DESTDIR)$(pythondir)/clsample'
	$(PYTHON) $(srcdir)/python/generate.py $(srcdir)/include '$(DESTDIR)$(pythondir)/clsample' \
	    "`$(SED) -n "s/^dlname='\(.*\)'/\1/p" libclsample.la`"
