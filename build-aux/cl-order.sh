#!/bin/sh
# SPDX-License-Identifier: MIT
# Prints the files of a kernel program, one on each line. Each file appears once, after the files
# that it includes: this is the order in which a device compiler reads them. An include is a line
# `#include "row/shortlist.cl"`, with a path relative to FOLDER.
# usage: cl-order.sh FOLDER KERNEL.cl
#        cl-order.sh --text FOLDER KERNEL.cl   prints the text of the program instead
set -eu
text=
if [ "$1" = --text ]; then
    text=1
    shift
fi
awk -v folder="$1" -v first="$2" -v text="$text" '
function walk(file,    line, lines, path, part) {
    if (file in seen)
        return
    seen[file] = 1
    path = folder "/" file
    while ((lines = (getline line <path)) > 0)
        if (line ~ /^#include "/) {
            split(line, part, "\"")
            walk(part[2])
        }
    if (lines < 0) {
        print "cl-order.sh: cannot read " path >"/dev/stderr"
        exit failed = 1
    }
    close(path)
    if (!text) {
        print file
        return
    }
    print "#line 1 \"" file "\""
    while ((getline line <path) > 0)
        print line ~ /^#include "/ ? "" : line
    close(path)
}
BEGIN { walk(first); exit failed }'
