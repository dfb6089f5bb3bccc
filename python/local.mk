# SPDX-License-Identifier: MIT
# setup.py builds this library of the Python package. It opens OpenCL's loader when the
# package first needs a device. `make install` does not install it.
EXTRA_LTLIBRARIES = python/libclsample.la
python_libclsample_la_CFLAGS = $(library_cflags)
python_libclsample_la_SOURCES = python/opencl.c
python_libclsample_la_LIBADD = libclsample_core.la $(DLOPEN_LIBS)
python_libclsample_la_LDFLAGS = -module -avoid-version -no-undefined -rpath $(pkglibdir) \
	$(no_undefined) $(version_script:=lib/clsample.map) $(version_script:=python/opencl.map)
EXTRA_python_libclsample_la_DEPENDENCIES = lib/clsample.map python/opencl.map
python_modules = $(srcdir)/python/clsample/*.py $(srcdir)/python/clsample/py.typed
EXTRA_DIST += $(python_modules) python/generate.py python/opencl.map
# The tests use the package as setup.py puts it together. It needs cffi and NumPy.
PYTHON = python3
python_package = python/package/clsample
python-package: python/libclsample.la
	rm -rf $(python_package) && $(MKDIR_P) $(python_package)
	cp $(python_modules) python/.libs/libclsample.so $(python_package)
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
