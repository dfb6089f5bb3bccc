#!/bin/sh
# SPDX-License-Identifier: MIT
# Checks that calls go one way through the folders of lib/ and of cl/: a folder may use itself and
# those before it in the lists below. Includes are read from the sources, and calls from the
# objects of the build, since a public function needs no private header.
#
# The host's sampling has three layers: its set of tokens (select.c, set.c), its stages, and what
# runs them.
# Within a folder of lib/, too, no files call each other in a circle.
#
#     sh tests/package/layers.sh [BUILD]     (the source's root is the current folder or $srcdir)
set -u
LC_ALL=C
export LC_ALL
build=${1-.} top=${srcdir-.}
# lib/head and lib/mpi are libraries of their own, which portable.sh checks.
cl='core row stages draw kernels'
lib='base device programs queue request set stages host sampler step shard selftest'
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

# includes TREE FOLDERS: "user used file" for each file that includes one of another folder.
includes() {
    tree=$1
    shift
    for folder; do
        for file in "$top/$tree/$folder"/*.*; do
            [ -f "$file" ] || continue
            sed -n 's/^#include "\([a-z]*\)\/.*/\1/p' "$file" |
                sed "s|.*|$folder & $tree/$folder/${file##*/} includes &|"
        done
    done
}

# Symbols as "defined folder name" and "used folder name"; what lies above all folders is "top".
symbols() {
    # shellcheck disable=SC2086,SC2046 # a program with its flags, and a list of objects
    ${NM:-nm} -A $(find "$build/lib" -name '*.o' ! -path '*/head/*' ! -path '*/mpi/*') |
        awk -v top="$build/lib/" '{
        path = substr($0, length(top) + 1)
        folder = path ~ /^([.]libs|[^\/]*:)/ ? "top" : path
        sub(/^host\/stages\//, "stages/", folder)
        if (folder ~ /^host\/([.]libs\/)?[^\/]*-(set|select)[.]o/)
            folder = "set"
        sub(/\/.*/, "", folder)
        if ($(NF - 1) == "U")
            print "used", folder, $NF
        else if ($(NF - 1) ~ /^[TDBRC]$/)
            print "defined", folder, $NF
    }' | sort -u
}

# The first column must come no earlier in the list than the second.
upwards() {
    awk -v list="$1" '
        BEGIN { n = split(list " top", name, " "); for (i = 1; i <= n; i++) rank[name[i]] = i }
        ($1 in rank) && ($2 in rank) && rank[$2] > rank[$1] { $1 = $2 = ""; print substr($0, 3) }'
}

calls() {
    symbols >"$work/symbols"
    awk '$1 == "defined" && $3 !~ /^cls_source_/ { where[$3] = $2; next }
         $1 == "defined" { next }
         { use[$2 " " $3] }
         END {
             for (u in use) {
                 split(u, p, " ")
                 if (!(p[2] in where)) continue
                 to = where[p[2]]
                 print p[1], to, "lib/" p[1] " calls " p[2] "() of lib/" to
             }
         }' \
        "$work/symbols"
}

# Circles of files that call each other within a folder of lib/, as tsort reports them.
circles() {
    # shellcheck disable=SC2046 # a list of objects
    ${NM:-nm} -A $(find "$build/lib" -name '*clsample_core_la-*.o') |
        awk -v top="$build/lib/" '{
        file = substr($0, length(top) + 1)
        sub(/[.]o:.*/, "", file)
        sub(/[.]libs\//, "", file)
        sub(/[^\/]*_la-/, "", file)
        if ($(NF - 1) == "U")
            use[file " " $NF]
        else if ($(NF - 1) ~ /^[TDBRC]$/)
            where[$NF] = file
    }
    END {
        for (u in use) {
            split(u, p, " ")
            from = folder = p[1]
            to = where[p[2]]
            sub(/[^\/]*$/, "", folder)
            if (to != "" && to != from && folder != "" && index(to, folder) == 1)
                print from, to
        }
    }' | sort -u | tsort 2>&1 >/dev/null | sed 's/^tsort: /lib: /'
}

{
    # shellcheck disable=SC2086 # lists of words
    includes lib $lib | upwards "$lib"
    # shellcheck disable=SC2086
    includes cl $cl | upwards "$cl"
    calls | upwards "$lib"
    circles
} | sort -u >"$work/found"
n=$(wc -l <"$work/symbols")
if [ "$n" = 0 ]; then
    echo "layers: no objects in $build/lib" >&2
    exit 99
fi
cat "$work/found"
[ ! -s "$work/found" ] || {
    echo 'layers: a folder uses one that comes after it, or files of one call each other' >&2
    exit 1
}
echo "1 passed, 0 failed"
