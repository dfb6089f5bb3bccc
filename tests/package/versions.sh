#!/bin/sh
# SPDX-License-Identifier: MIT
# Proves that build-aux/check-versions.sh accepts the sources, and that it names the file and both
# values when one place is changed in a copy.
set -u
top=$(cd "${srcdir-.}" && pwd)
copy=$(mktemp -d) || exit 99
trap 'rm -rf "$copy"' EXIT
passed=0 failed=0

# verdict NAME STATUS: counts, and shows what the check said.
verdict() {
    if [ "$2" = 0 ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED: $1"
        cat "$copy/said"
    fi
}

check() {
    sh "$top/build-aux/check-versions.sh" "$copy/top" >"$copy/said" 2>&1
}

# refused FILE EXPRESSION WORDS: with sed's EXPRESSION applied to FILE, the check prints one line,
# which matches WORDS, and fails.
refused() {
    cp "$copy/top/$1" "$copy/kept"
    sed "$2" "$copy/kept" >"$copy/top/$1"
    cmp -s "$copy/kept" "$copy/top/$1" && echo "nothing changed" >"$copy/said"
    check
    [ $? = 1 ] && [ "$(wc -l <"$copy/said")" = 1 ] && grep -q "$3" "$copy/said"
    verdict "$1: $2" $?
    cp "$copy/kept" "$copy/top/$1"
}

mkdir "$copy/top"
for path in NEWS README.md HACKING.md configure.ac configure pyproject.toml build-aux doc include \
    lib packaging; do
    [ ! -e "$top/$path" ] || cp -R "$top/$path" "$copy/top/"
done
chmod -R u+w "$copy/top"
check
verdict "the sources" $?

debian=packaging/debian
package=$(sed -n 's/^Package: \(libclsample[0-9]*\)$/\1/p' "$top/$debian/control")
interface=$(sed -n 's/.*\[CLS_LIBRARY_VERSION\], \[\(.*\)\].*/\1/p' "$top/configure.ac")
version=$(sh "$top/build-aux/version.sh" "$top/include/clsample/base.h")
refused include/clsample/base.h '/CLS_VERSION_NUMBER/s/[0-9]*$/7/' "base.h has .* 7, but"
refused include/clsample/base.h '/CLS_VERSION_STRING/s/".*"/"1.0"/' "base.h has .* '1.0', but"
refused include/clsample/base.h '/CLS_ARITHMETIC_VERSION [0-9]/s/[0-9]/7/' \
    "arithmetic.md has the arithmetic's version 1, but .* 7"
refused NEWS '1s/ [0-9.]* / 7.7.7 /' "NEWS has the version 7.7.7, but .* gives $version"
refused NEWS '1s/(.*)/(soon)/' "NEWS has the date 'soon'"
refused NEWS '1s/(.*)/(2999-01-01)/' "$debian/changelog has the date .*NEWS gives .*2999-01-01"
refused NEWS '2s/$/The soname is 777./' "NEWS has the soname 777, but .*$interface"
refused README.md '1s/$/ clsample 7.7.7/' "README.md has the version 7.7.7, but .* $version"
refused doc/arithmetic.md 's/clsample [0-9]\.[0-9]*/clsample 7.7/' "arithmetic.md has .* 7.7, but"
refused configure.ac 's/^AC_INIT.*/AC_INIT([clsample], [7.7.7])/' "configure.ac's AC_INIT"
refused $debian/changelog '1s/(.*-/(7.7.7-/' "$debian/changelog has .* 7.7.7, but .* $version"
refused $debian/control "s/^Package: $package\$/Package: libclsample777/" \
    "control has the package .*libclsample777.*, but .*$interface gives $package"
refused $debian/control "s/$package (=/libclsample777 (=/" \
    "control has the package .*libclsample777.*, but .*$interface gives $package"
refused "$debian/$package.symbols" '1s/\.so\.[0-9]*/.so.777/' \
    "has the soname libclsample.so.777, but"
refused "$debian/$package.symbols" '/ cls_sample@/d' 'does not list: cls_sample@'
refused "$debian/$package.symbols" 's/ cls_sample@.*/&\n cls_sample@CLSAMPLE_0_1 0.1/' \
    'does not export: cls_sample@CLSAMPLE_0_1'
refused configure.ac '/MPI_LIBRARY_VERSION/s/\[[0-9:]*\]/[777:0:0]/' \
    "CLS_MPI_LIBRARY_VERSION 777:0:0 gives"
[ ! -f "$top/pyproject.toml" ] ||
    refused pyproject.toml 's/^\(version\|dynamic\) = .*/version = "7.7.7"/' \
        "pyproject.toml has .* 7.7.7, but"

echo "$passed passed, $failed failed"
[ $failed = 0 ]
