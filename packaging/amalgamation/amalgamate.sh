#!/bin/sh
# SPDX-License-Identifier: MIT
# Joins the library to one source and one header, for programs that vendor it, and puts what else
# such a program needs beside them. The macros that a source defines end with it, since other
# sources define the same names. What a program may leave out stands between #ifndef and #endif.
# usage: amalgamate.sh FOLDER SOURCE-DIRECTORY BUILD-DIRECTORY SOURCE...
set -eu
folder=$1 srcdir=$2 builddir=$3
shift 3
mkdir -p "$folder"
version=$(sh "$srcdir/build-aux/version.sh" "$srcdir/include/clsample/base.h")

# What a program may leave out: CLS_WITHOUT_PART, and the sources and kernel files of the part. The
# functions of these are refused by a sentence; a request that needs kernels which are not there is
# refused by its feature (lib/programs/table.c).
parts='
SHARDS   lib/shard/[a-z]*.c|cl/kernels/(partial|merge).cl|cl/core/shards.h
SELFTEST lib/selftest/(prove|run|parts|selftest|rows|cases|known|steps|outputs|calls).c
BINARIES lib/programs/(stored|container|binaries|cache).c
VERIFY   lib/step/(verify|draft).c|cl/kernels/(verify|residual|lookup).cl|cl/draw/residual.cl
SEARCH   cl/kernels/(search|pass).cl
SAMPLERS cl/kernels/watermark.cl|cl/core/watermark.h
SAMPLERS cl/stages/(infill|mirostat|p_less|top_a|top_n_sigma|xtc).cl
OUTPUTS  cl/kernels/kept.cl|cl/row/gather.cl
GRAMMARS lib/request/(grammar|grammar_saved).c
HOST     lib/step/host.c|lib/host/(host|slot|text|adjust|select|set|chain|sample|draw|watermark).c
HOST     lib/host/(outputs|verify|lookup|stages/[a-z_]*).c
RECORD   lib/record/record.c|lib/step/recorded.c|lib/request/words.c
LAYOUT   lib/layout.c'

# join IN-PLACE PUBLIC FILE...: the text of the files. Headers stand where they are included if
# IN-PLACE is 1, else before the file that includes them; PUBLIC are headers that are there already.
join() {
    in_place=$1 public=$2
    shift 2
    awk -v in_place="$in_place" -v public="$public" -v parts="$parts" -v folder="$folder" \
        -v roots="$srcdir/include $srcdir/lib $srcdir/cl $srcdir $builddir" '
BEGIN {
    rows = split(parts, table, " ")
    while (!in_place && (getline line <(folder "/clsample.h.new")) > 0)
        api = api line "\n"
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
function part(path,    i) {
    for (i = 2; i <= rows && path ~ /\.c$/; i += 2)
        if (path ~ "(^|/)(" table[i] ")$")
            return table[i - 1]
    return ""
}
# The function whose definition a line begins or ends, as a call that is refused by a sentence. Of
# parts that have their own #ifdef in headers only public functions need that.
function refused(line, left_out,    name, out) {
    if (signature == "" && (line !~ /^[a-z].*\(/ || line ~ /^(static|typedef|extern) /))
        return ""
    signature = signature line "\n"
    if (line !~ /\{/) {
        if (line ~ /;/)
            signature = ""
        return ""
    }
    line = signature
    signature = ""
    sub(/[ \n]*\{.*/, "", line)
    name = line
    sub(/\(.*/, "", name)
    sub(/.*[ *]/, "", name)
    if (left_out ~ /^(SHARDS|SELFTEST|BINARIES)$/ && api !~ name "\\(")
        return ""
    if (line ~ /^void [a-z]/)
        return line "\n{\n}\n"
    if (line !~ /^cls_status /)
        return line "\n{\n    return (" substr(line, 1, index(line, name "(") - 1) "){0};\n}\n"
    out = ""
    if (match(line, /\*\*[a-z]+\)$/)) {
        out = substr(line, RSTART + 2, RLENGTH - 3)
        out = "    if (" out " != NULL)\n        *" out " = NULL;\n"
    }
    return line "\n{\n" out "    return cls_left_out(__func__, \"CLS_WITHOUT_" left_out \
        "\");\n}\n"
}
function put(path,    line, name, text, macros, left_out, refusals) {
    done[path] = 1
    macros = refusals = signature = ""
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
        if (left_out)
            refusals = refusals refused(line, left_out)
        if (path ~ /\.c$/ && line ~ /^# *define [A-Za-z]/) {
            name = line
            sub(/^# *define /, "", name)
            sub(/[^A-Za-z0-9_].*/, "", name)
            macros = macros "#undef " name "\n"
        }
    }
    close(path)
    printf "%s%s%s", text, macros, left_out ? "#else\n" refusals "#endif\n" : ""
}' "$@"
}

# The text of the kernels takes two fifths of its size: see pack.awk.
LC_ALL=C awk -v parts="$parts" -f "$srcdir/packaging/amalgamation/pack.awk" \
    "$builddir/lib/kernels.c" >"$folder/kernels.new"

# Sources that include <windows.h> come last, since it defines words such as OUT.
ordered=
for windows in 1 0; do
    for source; do
        [ "$source" != "$builddir/lib/kernels.c" ] || source=$folder/kernels.new
        grep -q '<windows.h>' "$source" && found=0 || found=1
        [ $found != $windows ] || ordered="$ordered $source"
    done
done

title() {
    printf '/* SPDX-License-Identifier: MIT */\n/* The %s of clsample %s, in one file. */\n' "$1" \
        "$version"
}

{
    title headers
    join 1 "" "$srcdir/include/clsample.h"
} >"$folder/clsample.h.new"
{
    title sources
    tail -n +2 "$srcdir/packaging/amalgamation/first.h"
    # shellcheck disable=SC2086 # a list of words
    join 0 "$srcdir/include/clsample.h $(echo "$srcdir"/include/clsample/*.h)" $ordered
    cat <<'EOC'

static cls_status cls_left_out(const char *function, const char *macro)
{
    return cls_refuse_call("%s() is of a part that this library was built without (%s)", function,
                           macro);
}
EOC
} >"$folder/clsample.c.new"
rm "$folder/kernels.new"
from=$srcdir/packaging/amalgamation
cp "$from/README.md" "$srcdir/LICENSE" "$folder"
cp "$from/Android.mk" "$from/meson_options.txt" "$folder"
for file in CMakeLists.txt meson.build; do
    sed "s/@VERSION@/$version/" "$from/$file" >"$folder/$file"
done
for file in clsample.h clsample.c; do
    mv "$folder/$file.new" "$folder/$file"
done
