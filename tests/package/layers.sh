#!/bin/sh
# SPDX-License-Identifier: MIT
# Checks that calls go one way through the folders of lib/, of cl/, and of the command: a folder may
# use itself and those before it in the lists below. Includes are read from the sources, and calls
# from the objects of the build, since a public function needs no private header.
#
# The host's sampling has three layers: its set of tokens (select.c, set.c), its stages, and what
# runs them. The command's benchmark is a folder beside cli/.
# No files call each other in a circle: those of a folder of lib/, and all of the command.
#
#     sh tests/package/layers.sh [BUILD]     (the source's root is the current folder or $srcdir)
set -u
LC_ALL=C
export LC_ALL
build=${1-.} top=${srcdir-.}
# lib/head and lib/mpi are libraries of their own, which portable.sh checks.
cl='core row stages draw kernels'
lib='base device programs queue request record set stages host sampler step shard selftest'
command='rows common bench run accept'
# The circles that are wanted, one a line: its files in order, without .c. There is none.
wanted=''
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

# Symbols as "file folder defined name" and "file folder used name"; what lies above all folders is
# "top". An object whose source has left is none of the build's.
symbols() {
    # shellcheck disable=SC2086,SC2046 # a program with its flags, and a list of objects
    ${NM:-nm} -A $(find "$build/lib" "$build/cli" "$build/bench" -name '*.o' \
        ! -path '*/head/*' ! -path '*/mpi/*' 2>"$work/errors") |
        awk -v top="$build/" -v source="$top/" '{
        file = substr($0, length(top) + 1)
        sub(/[.]o:.*/, "", file)
        sub(/[.]libs\//, "", file)
        sub(/[^\/]*_la-/, "", file)
        if (file ~ /^(cli|bench)\// && !(file in there))
            there[file] = (getline line <(source file ".c")) > 0
        if (file ~ /^(cli|bench)\// && !there[file])
            next
        folder = file
        sub(/^(lib|cli)\//, "", folder)
        sub(/^host\/stages\//, "stages/", folder)
        sub(/^host\/(set|select)$/, "set/", folder)
        if (!sub(/\/.*/, "", folder))
            folder = "top"
        if ($(NF - 1) == "U")
            print file, folder, "used", $NF
        else if ($(NF - 1) ~ /^[TDBRC]$/)
            print file, folder, "defined", $NF
    }' | sort -u
}

# calls FILES: "folder used user file name": which file of the tree, whose names match the pattern,
# calls which other one.
calls() {
    awk -v files="$1" '
        $1 !~ files { next }
        $3 == "defined" && $4 !~ /^cls_source_/ { file[$4] = $1; folder[$4] = $2 }
        $3 == "used" { use[$0] }
        END {
            for (u in use) {
                split(u, p, " ")
                if (p[4] in file)
                    print p[2], folder[p[4]], p[1], file[p[4]], p[4]
            }
        }' "$work/symbols" | sort
}

say_calls() { awk '{ print $1, $2, $3 ".c calls " $5 "() of " $4 ".c" }'; }

# The first column must come no earlier in the list than the second.
upwards() {
    awk -v list="$1" '
        BEGIN { n = split(list " top", name, " "); for (i = 1; i <= n; i++) rank[name[i]] = i }
        ($1 in rank) && ($2 in rank) && rank[$2] > rank[$1] { $1 = $2 = ""; print substr($0, 3) }'
}

# Reads "folder used user file name", and prints the files of each circle in order. Two files are in
# one circle if each reaches the other.
circles() {
    awk '
        $3 != $4 { reaches[$3, $4] = 1; is[$3]; is[$4] }
        END {
            for (via in is) for (a in is) if ((a, via) in reaches)
                for (b in is) if ((via, b) in reaches) reaches[a, b] = 1
            for (a in is) {
                if (!((a, a) in reaches) || a in done) continue
                for (b in is)
                    if (((a, b) in reaches) && ((b, a) in reaches)) {
                        done[b]
                        print a, b
                    }
            }
        }' | sort | awk '{ of[$1] = of[$1] " " $2 } END { for (a in of) print substr(of[a], 2) }'
}

# Names the circles that are not wanted, and wanted ones that are not there.
judge_circles() {
    printf '%s\n' "$wanted" | sed '/^$/d' | sort >"$work/wanted"
    sort >"$work/circles"
    comm -13 "$work/wanted" "$work/circles" | sed 's/^/a circle: /'
    comm -23 "$work/wanted" "$work/circles" | sed 's/^/a wanted circle is not there: /'
}

symbols >"$work/symbols"
if [ ! -s "$work/symbols" ]; then
    echo "layers: no objects in $build/lib" >&2
    exit 99
fi
calls '^lib/' >"$work/lib"
calls '^(cli|bench)/' >"$work/command"
{
    # shellcheck disable=SC2086 # lists of words
    includes lib $lib | upwards "$lib"
    # shellcheck disable=SC2086
    includes cl $cl | upwards "$cl"
    # shellcheck disable=SC2086
    { includes cli $command && includes . bench; } | upwards "$command"
    say_calls <"$work/lib" | upwards "$lib"
    say_calls <"$work/command" | upwards "$command"
    { awk '$1 == $2 && $1 != "top"' "$work/lib" && cat "$work/command"; } | circles | judge_circles
} | sort -u >"$work/found"
cat "$work/found"
[ ! -s "$work/found" ] || {
    echo 'layers: a folder uses one that comes after it, or files call each other in a circle' >&2
    exit 1
}
echo "1 passed, 0 failed"
