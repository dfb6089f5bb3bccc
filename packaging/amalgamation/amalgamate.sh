#!/bin/sh
# SPDX-License-Identifier: MIT
# Joins the library to one source and one header, for programs that vendor it, and puts what else
# such a program needs beside them. The macros that a source defines end with it, since other
# sources define the same names. What a program may leave out stands between #ifndef and #endif.
# usage: amalgamate.sh FOLDER SOURCE-DIRECTORY BUILD-DIRECTORY SOURCE...
set -eu
folder=$1 srcdir=$2 builddir=$3
shift 3
version=$(sh "$srcdir/build-aux/version.sh" "$srcdir/include/clsample/base.h")

# join IN-PLACE PUBLIC FILE...: the text of the files. Headers stand where they are included if
# IN-PLACE is 1, else before the file that includes them; PUBLIC are headers that are there already.
join() {
    in_place=$1 public=$2
    shift 2
    awk -v in_place="$in_place" -v public="$public" \
        -v roots="$srcdir/include $srcdir/lib $srcdir/cl $srcdir $builddir" '
BEGIN {
    roots_count = split(roots, root, " ")
    for (i = split(public, header, " "); i >= 1; i--)
        done[header[i]] = 1
    for (i = 1; i < ARGC; i++)
        put(ARGV[i])
}
function exists(path,    line, found) {
    found = (getline line <path) >= 0
    close(path)
    return found
}
# The path of an included file: beside the one that includes it, or under one of the roots.
function find(name, from,    i) {
    sub("[^/]*$", "", from)
    if (exists(from name))
        return from name
    for (i = 1; i <= roots_count; i++)
        if (exists(root[i] "/" name))
            return root[i] "/" name
    print "amalgamate.sh: " from " includes " name ", which was not found." >"/dev/stderr"
    exit 1
}
function shown(path,    i) {
    for (i = 1; i <= roots_count; i++)
        if (index(path, root[i] "/") == 1)
            return substr(path, length(root[i]) + 2)
    return path
}
# The part that a source belongs to, if it can be left out. Headers stay.
function part(path) {
    if (path ~ /lib\/shard\/[a-z]*\.c$/)
        return "SHARDS"
    if (path ~ /lib\/selftest\/[a-z]*\.c$/ && path !~ /compile\.c$/)
        return "SELFTEST"
    if (path ~ /lib\/programs\/(stored|container|binaries|cache)\.c$/)
        return "BINARIES"
    return ""
}
function put(path,    line, name, text, macros, left_out) {
    done[path] = 1
    macros = ""
    left_out = part(path)
    text = "\n/* " shown(path) " */\n" (left_out ? "#ifndef CLS_WITHOUT_" left_out "\n" : "")
    while ((getline line <path) > 0) {
        if (line ~ /^# *include "/) {
            name = line
            sub(/^[^"]*"/, "", name)
            sub(/".*/, "", name)
            name = find(name, path)
            if (name in done)
                continue
            if (in_place) {
                printf "%s", text
                text = ""
            }
            put(name)
        } else if (line !~ /SPDX-License-Identifier/)
            text = text line "\n"
        if (path ~ /\.c$/ && line ~ /^# *define [A-Za-z]/) {
            name = line
            sub(/^# *define /, "", name)
            sub(/[^A-Za-z0-9_].*/, "", name)
            macros = macros "#undef " name "\n"
        }
    }
    close(path)
    printf "%s%s%s", text, macros, left_out ? "#endif\n" : ""
}' "$@"
}

# Sources that include <windows.h> come last, since it defines words such as OUT.
ordered=
for windows in 1 0; do
    for source; do
        grep -q '<windows.h>' "$source" && found=0 || found=1
        [ $found != $windows ] || ordered="$ordered $source"
    done
done

title() {
    printf '/* SPDX-License-Identifier: MIT */\n/* The %s of clsample %s, in one file. */\n' "$1" \
        "$version"
}

mkdir -p "$folder"
{
    title headers
    join 1 "" "$srcdir/include/clsample.h"
} >"$folder/clsample.h.new"
{
    title sources
    tail -n +2 "$srcdir/packaging/amalgamation/first.h"
    # shellcheck disable=SC2086 # a list of words
    join 0 "$srcdir/include/clsample.h $(echo "$srcdir"/include/clsample/*.h)" $ordered
} >"$folder/clsample.c.new"
from=$srcdir/packaging/amalgamation
cp "$from/README.md" "$srcdir/LICENSE" "$folder"
sed "s/@VERSION@/$version/" "$from/CMakeLists.txt" >"$folder/CMakeLists.txt"
for file in clsample.h clsample.c; do
    mv "$folder/$file.new" "$folder/$file"
done
