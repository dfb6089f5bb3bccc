# SPDX-License-Identifier: MIT
# Shards on ranks of MPI: a separate library. Only it, its tests and its example use MPI.
if BUILD_MPI
include_HEADERS += include/clsample-mpi.h
noinst_LTLIBRARIES += libclsample_mpi_internal.la
libclsample_mpi_internal_la_CFLAGS = -DCLS_MPI_BUILD $(library_cflags) $(MPI_CFLAGS)
libclsample_mpi_internal_la_SOURCES = lib/mpi/create.c lib/mpi/agree.c lib/mpi/exchange.c

lib_LTLIBRARIES += libclsample-mpi.la
libclsample_mpi_la_SOURCES =
libclsample_mpi_la_LIBADD = libclsample_mpi_internal.la libclsample.la $(MPI_LIBS) $(OPENCL_LIBS)
libclsample_mpi_la_LDFLAGS = -no-undefined -version-info $(CLS_MPI_LIBRARY_VERSION) \
	$(version_script:=lib/mpi/clsample-mpi.map)
EXTRA_libclsample_mpi_la_DEPENDENCIES = lib/mpi/clsample-mpi.map
endif
