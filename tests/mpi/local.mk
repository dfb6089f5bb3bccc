# SPDX-License-Identifier: MIT
# Ranks of MPI, which a script starts.
if BUILD_MPI
mpi_internal = libclsample_mpi_internal.la libclsample_internal.la
check_PROGRAMS += tests/mpi/check_protocol
short_scripts += tests/mpi/check_mpi.sh
long_check += tests/examples/check_tensor_parallel.sh
tests_mpi_check_protocol_SOURCES = tests/mpi/check_protocol.c tests/mpi/stub_shard.c
tests_mpi_check_protocol_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CFLAGS)
tests_mpi_check_protocol_LDADD = $(mpi_internal) $(MPI_LIBS) $(OPENCL_LIBS) -lpthread
if HAVE_CHECK
if HAVE_VERSION_SCRIPT
check_PROGRAMS += tests/mpi/check_ranks
tests_mpi_check_ranks_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CFLAGS)
tests_mpi_check_ranks_LDADD = libtests.a $(mpi_internal) $(MPI_LIBS) $(CHECK_LIBS) $(OPENCL_LIBS) \
	-lpthread
tests_mpi_check_ranks_LDFLAGS = -Wl,--wrap=cls_shard_partial
endif
endif
endif
