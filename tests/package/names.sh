#!/bin/sh
# SPDX-License-Identifier: MIT
# Checks that each static function of the library's core has a name of its own, so that the sources
# can be compiled as one file. lib/head and lib/mpi are libraries of their own.
set -u
top=${srcdir-.}
names=$(find "$top/lib" -name '*.c' ! -path '*/head/*' ! -path '*/mpi/*' | sort |
    while read -r file; do
        sed -n '/^static inline/d
            s/^static [^=;(]*[ *]\([a-z_][a-z_0-9]*\)(.*/\1/p' "$file" | sort -u |
            sed "s|\$| ${file#"$top"/}|"
    done)
twice=$(echo "$names" | cut -d' ' -f1 | sort | uniq -d)
for name in $twice; do
    echo "FAILED: several files have a static function $name():"
    echo "$names" | sed -n "s/^$name / /p"
done
failed=$(echo "$twice" | grep -c .)
echo "$(($(echo "$names" | wc -l) - failed)) passed, $failed failed"
[ "$failed" = 0 ]
