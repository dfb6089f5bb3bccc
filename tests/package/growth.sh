#!/bin/sh
# SPDX-License-Identifier: MIT
# The promise that structs grow: a program that was compiled with today's header runs with a library
# whose every struct with a struct_size has two fields more, and one that was compiled with such a
# header runs with today's library. The libraries are those in one file.
build=$(pwd)
# shellcheck source=tests/support/checks.sh
. "$srcdir/tests/support/checks.sh"
cc=${CC:-cc}
libraries="${OPENCL_LIBS:--lOpenCL} -lpthread -lm"
MAKEFLAGS='' MFLAGS='' make -C "$build" amalgamation >make.log 2>&1 ||
    no_ "make amalgamation: $(tail -3 make.log)"

# Each struct with a struct_size gets two fields of different alignment before its end.
mkdir today grown
cp "$build"/amalgamation/clsample.[ch] today
cp today/clsample.c grown
awk '/^typedef struct/ { grows = 0 }
    /^    size_t struct_size;/ { grows = 1 }
    /^} cls_[a-z_]*;/ && grows {
        print "    uint64_t added;\n    int32_t added_too;"
        grows = 0
        n++
    }
    { print }
    END { print n >"grown/structs" }' today/clsample.h >grown/clsample.h
structs=$(cat grown/structs)
if [ "$structs" -ge 22 ]; then yes_; else no_ "only $structs structs grow"; fi

for library in today grown; do
    "$cc" -std=c11 -O0 -w -c "$library/clsample.c" -o "$library/clsample.o" 2>cc.log ||
        no_ "the library of $library: $(head -3 cc.log)"
done
for program in today grown; do
    for library in today grown; do
        # shellcheck disable=SC2086 # a list of libraries
        "$cc" -std=c11 -w "-I$program" "$srcdir/tests/package/growth.c" "$library/clsample.o" \
            $libraries -o program 2>cc.log && ./program >out 2>&1
        says "a program of $program, the library of $library: $(head -3 cc.log)" \
            '^all calls take and fill their structs$' out
    done
done
finish
