dnl SPDX-License-Identifier: MIT

dnl CLS_TRY_CFLAG(FLAG, VARIABLE) appends FLAG to VARIABLE if the compiler accepts it. The test
dnl needs -Werror, because clang only warns about flags that it does not know.
AC_DEFUN([CLS_TRY_CFLAG], [
    AS_VAR_PUSHDEF([cached], [cls_cv_cflag_$1])
    AC_CACHE_CHECK([whether $CC accepts $1], [cached], [
        cls_saved=$CFLAGS
        CFLAGS="$CFLAGS -Werror $1"
        AC_COMPILE_IFELSE([AC_LANG_PROGRAM()], [AS_VAR_SET([cached], [yes])], [AS_VAR_SET([cached], [no])])
        CFLAGS=$cls_saved])
    AS_VAR_IF([cached], [yes], [AS_VAR_APPEND([$2], [" $1"])])
    AS_VAR_POPDEF([cached])])

dnl CLS_TRY_VERSION_SCRIPT sets HAVE_VERSION_SCRIPT if the linker accepts a version script. Without
dnl one, only hidden visibility keeps internal names out of the libraries' interfaces.
AC_DEFUN([CLS_TRY_VERSION_SCRIPT], [
    AC_CACHE_CHECK([for linker version scripts], [cls_cv_version_script], [
        AS_ECHO(['CLSAMPLE_0 { global: main; local: *; };']) >conftest.map
        cls_saved=$LDFLAGS
        LDFLAGS="$LDFLAGS -Wl,--version-script=conftest.map"
        AC_LINK_IFELSE([AC_LANG_PROGRAM()], [cls_cv_version_script=yes], [cls_cv_version_script=no])
        LDFLAGS=$cls_saved
        rm -f conftest.map])
    AM_CONDITIONAL([HAVE_VERSION_SCRIPT], [test "$cls_cv_version_script" = yes])])

dnl CLS_CHECK_CLBLAST adds --with-clblast, and sets have_clblast, HAVE_CLBLAST, CLBLAST_CFLAGS and
dnl CLBLAST_LIBS. By default CLBlast is used if it is found. Some packages of CLBlast have no
dnl pkg-config file, so the header and the library are looked for, too.
AC_DEFUN([CLS_CHECK_CLBLAST], [
    AC_ARG_WITH([clblast], [AS_HELP_STRING([--with-clblast], [multiply float32 LM heads by CLBlast on GPUs @<:@where found@:>@])],
        [], [with_clblast=check])
    have_clblast=no
    AS_IF([test "$with_clblast" != no], [
        PKG_CHECK_MODULES([CLBLAST], [clblast], [have_clblast=yes], [
            AC_CHECK_HEADER([clblast_c.h], [
                AC_CHECK_LIB([clblast], [CLBlastSgemm], [have_clblast=yes; CLBLAST_LIBS=-lclblast], [], [$OPENCL_LIBS])])])
        AS_IF([test "$have_clblast" = no && test "$with_clblast" != check],
            [AC_MSG_ERROR([--with-clblast, but CLBlast was not found; Debian: libclblast-dev])])])
    AS_IF([test "$have_clblast" = yes],
        [AC_DEFINE([HAVE_CLBLAST], [1], [Define to 1 if CLBlast was found.])],
        [CLBLAST_CFLAGS= CLBLAST_LIBS=])
    AC_SUBST([CLBLAST_CFLAGS])
    AC_SUBST([CLBLAST_LIBS])])

dnl CLS_CHECK_MPI adds --with-mpi, and sets have_mpi, BUILD_MPI, MPICC, MPIEXEC, MPI_CFLAGS and
dnl MPI_LIBS. It is off by default, since a library works with only one MPI. Each MPI has a compiler
dnl wrapper that prints its command; the flags are taken from there, and $CC stays the compiler. The
dnl launcher of mpicc.NAME is mpiexec.NAME.
AC_DEFUN([CLS_CHECK_MPI], [
    AC_ARG_WITH([mpi], [AS_HELP_STRING([--with-mpi], [build libclsample-mpi, for one vocabulary on several ranks @<:@no@:>@; MPICC names the MPI])],
        [], [with_mpi=no])
    AC_ARG_VAR([MPICC], [compiler of the MPI to use, for --with-mpi])
    AC_ARG_VAR([MPIEXEC], [launcher of that MPI, for its tests])
    have_mpi=no
    AS_IF([test "$with_mpi" != no], [
        AC_CHECK_PROGS([MPICC], [mpicc mpicc.openmpi mpicc.mpich])
        AS_IF([test -n "$MPICC"], [
            cls_shown=`$MPICC -show 2>/dev/null`
            set dummy $cls_shown
            shift
            for word; do
                AS_CASE([$word],
                    [-I*|-D*], [AS_VAR_APPEND([MPI_CFLAGS], [" $word"])],
                    [-pthread], [AS_VAR_APPEND([MPI_CFLAGS], [" $word"]); AS_VAR_APPEND([MPI_LIBS], [" $word"])],
                    [-L*|-l*|-Wl,*|/*.so|/*.a], [AS_VAR_APPEND([MPI_LIBS], [" $word"])])
            done
            cls_saved_cppflags=$CPPFLAGS cls_saved_libs=$LIBS
            CPPFLAGS="$CPPFLAGS $MPI_CFLAGS" LIBS="$MPI_LIBS $LIBS"
            AC_MSG_CHECKING([whether the flags of $MPICC compile and link MPI 3])
            AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <mpi.h>]],
                [[MPI_Request r; int a = 0, b = 0;
                  return MPI_Iallgather(&a, 1, MPI_INT, &b, 1, MPI_INT, MPI_COMM_SELF, &r);]])],
                [have_mpi=yes])
            AC_MSG_RESULT([$have_mpi])
            CPPFLAGS=$cls_saved_cppflags LIBS=$cls_saved_libs
            AS_IF([test -z "$MPIEXEC"], [
                MPIEXEC=`AS_ECHO(["$MPICC"]) | $SED 's|mpi@<:@a-z@:>@*cc\(@<:@^/@:>@*\)$|mpiexec\1|'`
                AC_CHECK_PROG([cls_mpiexec], [$MPIEXEC], [yes], [no])
                AS_IF([test "$cls_mpiexec" = no && ! test -x "$MPIEXEC"], [MPIEXEC=mpiexec])])])
        AS_IF([test "$have_mpi" = no && test "$with_mpi" != check],
            [AC_MSG_ERROR([--with-mpi, but no MPI 3 was found by ${MPICC:-mpicc}; Debian: libopenmpi-dev openmpi-bin])])])
    AS_IF([test "$have_mpi" = yes], [], [MPI_CFLAGS= MPI_LIBS=])
    AM_CONDITIONAL([BUILD_MPI], [test "$have_mpi" = yes])
    AC_SUBST([MPI_CFLAGS])
    AC_SUBST([MPI_LIBS])])
