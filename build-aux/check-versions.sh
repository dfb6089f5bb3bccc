#!/bin/sh
# SPDX-License-Identifier: MIT
# Checks that the sources name one version, one date and one soname of each library. A place that
# differs is reported by a sentence with the file and both values.
# usage: check-versions.sh [SOURCE [DEBIAN]]        the folders of the sources (.) and of Debian's
#                                                   files (SOURCE/packaging/debian)
set -u
LC_ALL=C
export LC_ALL
cd "${1-.}" || exit 99
debian=${2-packaging/debian}
failed=0

complain() {
    printf '%s\n' "$*"
    failed=1
}

# agree FILE THING VALUE SOURCE WANTED
agree() {
    [ "$3" = "$5" ] || complain "$1 has the $2 ${3:-(none)}, but $4 gives $5."
}

# Prints what \( \) matches in the first line of FILE that matches PATTERN as a whole.
first() { # FILE PATTERN
    sed -n "s/^$2\$/\\1/p" "$1" | head -n 1
}

# ------------------------------------------------------------------ version
header=include/clsample/base.h
number='[0-9][0-9.]*'
version=$(sh build-aux/version.sh $header)
if ! echo "$version" | grep -q '^[0-9]*\.[0-9]*\.[0-9]*$'; then
    complain "$header has the version '$version', but a version is three numbers."
    exit 1
fi
has_version() { # FILE VALUE
    agree "$1" version "$2" $header "$version"
}

agree $header CLS_VERSION_NUMBER "$(first $header '#define CLS_VERSION_NUMBER \([0-9]*\)')" \
    CLS_VERSION_STRING "$(echo "$version" | awk -F. '{ print $1 * 10000 + $2 * 100 + $3 }')"
arithmetic=$(first $header '#define CLS_ARITHMETIC_VERSION \([0-9]*\) .*')
agree doc/arithmetic.md "arithmetic's version" \
    "$(sed -n 's/^This is \*\*version \([0-9]*\)\*\* of the arithmetic.*/\1/p' doc/arithmetic.md)" \
    $header "$arithmetic"
grep -q "^AC_INIT(\[clsample\], m4_esyscmd_s(\[sh build-aux/version.sh $header\])" configure.ac ||
    complain "configure.ac's AC_INIT does not take the version from $header."
has_version NEWS "$(sed -n '1s/^clsample \([^ ]*\) (.*)$/\1/p' NEWS)"
has_version "$debian/changelog" \
    "$(sed -n '1s/^clsample (\(.*\)-[^-]*) .*/\1/p' "$debian/changelog")"
# Not every tree has these: a built configure, Python's package, which may take the version from the
# header, and pages that name a version.
[ ! -f configure ] || has_version configure "$(first configure "PACKAGE_VERSION='\(.*\)'")"
[ ! -f pyproject.toml ] || grep -q '^dynamic = .*"version"' pyproject.toml ||
    has_version pyproject.toml "$(first pyproject.toml 'version = "\(.*\)"')"
named=$(grep -o "clsample[- ]$number\.[0-9][0-9]*" README.md HACKING.md doc/*.md |
    sed 's/:clsample[- ]/:/')
for named in $named; do
    case $version in
    "${named#*:}" | "${named#*:}".*) ;;
    *) has_version "${named%%:*}" "${named#*:}" ;;
    esac
done

# --------------------------------------------------------------------- date
date=$(sed -n '1s/.*(\(.*\))$/\1/p' NEWS)
packaged=$(sed -n '/^ -- /{s/.*>  //p;q;}' "$debian/changelog" | awk '{
    month = (index("JanFebMarAprMayJunJulAugSepOctNovDec", $3) + 2) / 3
    printf "%s-%02d-%s\n", $4, month, $2 }')
case $date in
[0-9][0-9][0-9][0-9]-[0-1][0-9]-[0-3][0-9]) ;;
*)
    complain "NEWS has the date '$date' on its first line, but a date is YYYY-MM-DD."
    date=
    ;;
esac
printf '%s\n' "$date" "$packaged" | sort -c 2>/dev/null ||
    complain "$debian/changelog has the date $packaged, but NEWS gives the later $date."

# ------------------------------------------------------------------ sonames
# The number in a soname is CURRENT - AGE. Debian's packages are named after it.
soname() { # LIBRARY VARIABLE MAP
    interface=$(first configure.ac "AC_SUBST(\[$2\], \[\(.*\)\])")
    current=${interface%%:*} age=${interface##*:} revision=${interface#*:}
    so=$((current - age)) source="configure.ac's $2 $interface"
    package=$1$so symbols=$debian/$1$so.symbols
    named=$(grep -o "$1[0-9][0-9]*" "$debian/control" | sort -u | tr '\n' ' ')
    agree "$debian/control" package "${named% }" "$source" "$package"
    [ "$named" = "$package " ] || return
    if [ ! -f "$symbols" ] || [ ! -f "$debian/$package.install" ]; then
        complain "$debian lacks $package.install or $package.symbols, but $source gives $package."
        return
    fi
    agree "$symbols" soname "$(first "$symbols" "\($1\.so\.[0-9]*\) $package .*")" \
        "$source" "$1.so.$so"

    # A version that breaks the interface renames the node.
    node=$(first "$3" '\([A-Z_]*_[0-9_]*\) {')
    if [ "${revision%%:*}:$age" = 0:0 ] && [ "$1" = libclsample ]; then
        agree "$3" "version node" "$node" "$source in version $version" \
            "CLSAMPLE_$(echo "$version" | sed 's/\.[0-9]*$//; s/\./_/')"
    fi
    missing=$(awk -v node="$node" '
        NR == FNR { listed[$1]; next }
        /PRIVATE/ { exit }
        sub(/;$/, "") && /cls_/ && !($1 "@" node in listed) { printf " %s@%s", $1, node }' \
        "$symbols" "$3")
    [ -z "$missing" ] || complain "$3 exports names that $symbols does not list:$missing."
    extra=$(awk -v node="$node" '
        NR == FNR { if (sub(/;$/, "")) exported[$1]; next }
        split($1, at, "@") == 2 && /^ / &&
            !(at[2] == node && (at[1] in exported || at[1] == node)) { printf " %s", $1 }' \
        "$3" "$symbols")
    [ -z "$extra" ] || complain "$symbols lists names that $3 does not export:$extra."
}
soname libclsample CLS_LIBRARY_VERSION lib/clsample.map
agree NEWS soname "$(tr '\n' ' ' <NEWS | grep -o 'soname *\(is\)* *[0-9][0-9]*' | head -n 1 |
    sed 's/.* //')" "$source" "$so"
soname libclsample-head CLS_HEAD_LIBRARY_VERSION lib/head/clsample-head.map
soname libclsample-mpi CLS_MPI_LIBRARY_VERSION lib/mpi/clsample-mpi.map

[ $failed != 0 ] || echo "the version is $version everywhere"
exit $failed
