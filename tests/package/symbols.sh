#!/bin/sh
# SPDX-License-Identifier: MIT
# The shared library exports what the header declares: no name more, none less.
lib=$(ls .libs/libclsample.so .libs/libclsample.dylib .libs/libclsample.dll.a 2>/dev/null | head -n 1)
if [ -z "$lib" ]; then
    echo "no shared library here"
    exit 77
fi

declared=$(sed -n '/^CLS_API/s/.*[ *]\(cls_[a-z0-9_]*\)(.*/\1/p' "$srcdir/include/clsample.h" | sort)
# nm's letter tells code and data from what is undefined or absolute (the
# version node itself); macOS puts an underscore before C names.
case $lib in
*.so) exported=$(${NM:-nm} -gP -D "$lib") ;;
*) exported=$(${NM:-nm} -gP "$lib") ;;
esac
exported=$(echo "$exported" | awk '$2 ~ /^[TDBRVW]$/ { sub(/@.*/, "", $1); sub(/^_cls/, "cls", $1); print $1 }' | sort)

if [ -z "$declared" ] || [ "$declared" != "$exported" ]; then
    echo "in the header:"; echo "$declared"
    echo "in $lib:"; echo "$exported"
    echo "0 passed, 1 failed"
    exit 1
fi
echo "$(echo "$declared" | wc -l) names, in the header and in $lib"
echo "1 passed, 0 failed"
