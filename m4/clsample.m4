dnl SPDX-License-Identifier: MIT

dnl CLS_TRY_CFLAG(FLAG, VARIABLE): appends FLAG to VARIABLE if the compiler
dnl takes it. -Werror, because clang only warns of flags it does not know.
AC_DEFUN([CLS_TRY_CFLAG], [
    AS_VAR_PUSHDEF([cached], [cls_cv_cflag_$1])
    AC_CACHE_CHECK([whether $CC accepts $1], [cached], [
        cls_saved=$CFLAGS
        CFLAGS="$CFLAGS -Werror $1"
        AC_COMPILE_IFELSE([AC_LANG_PROGRAM()], [AS_VAR_SET([cached], [yes])], [AS_VAR_SET([cached], [no])])
        CFLAGS=$cls_saved])
    AS_VAR_IF([cached], [yes], [AS_VAR_APPEND([$2], [" $1"])])
    AS_VAR_POPDEF([cached])])

dnl CLS_TRY_VERSION_SCRIPT: HAVE_VERSION_SCRIPT where the linker takes one;
dnl elsewhere hidden visibility alone keeps the insides in.
AC_DEFUN([CLS_TRY_VERSION_SCRIPT], [
    AC_CACHE_CHECK([for linker version scripts], [cls_cv_version_script], [
        AS_ECHO(['CLSAMPLE_0 { global: main; local: *; };']) >conftest.map
        cls_saved=$LDFLAGS
        LDFLAGS="$LDFLAGS -Wl,--version-script=conftest.map"
        AC_LINK_IFELSE([AC_LANG_PROGRAM()], [cls_cv_version_script=yes], [cls_cv_version_script=no])
        LDFLAGS=$cls_saved
        rm -f conftest.map])
    AM_CONDITIONAL([HAVE_VERSION_SCRIPT], [test "$cls_cv_version_script" = yes])])

dnl CLS_CHECK_CLBLAST: --with-clblast, by default where it is found; sets
dnl have_clblast, HAVE_CLBLAST, CLBLAST_CFLAGS and CLBLAST_LIBS. Some packages
dnl of it come without a pkg-config file.
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
        [AC_DEFINE([HAVE_CLBLAST], [1], [CLBlast is there.])],
        [CLBLAST_CFLAGS= CLBLAST_LIBS=])
    AC_SUBST([CLBLAST_CFLAGS])
    AC_SUBST([CLBLAST_LIBS])])
