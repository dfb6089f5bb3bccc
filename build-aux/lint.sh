#!/bin/sh
# SPDX-License-Identifier: MIT
# Fails, and names the lines, where a C, kernel, shell, awk or Python file or a page is wider than
# 100 columns, or where clang-format would change a C or kernel file. Man pages, data, rows of
# tables and pictures, which cannot be broken, are exempt. Only clang-format 14 formats as the tree
# is formatted; without it, and in a folder that is no git checkout, a part is left out and named.
# usage: lint.sh                          CLANG_FORMAT: the program's name
set -u
cd "$(dirname "$0")/.." || exit 99
if ! git ls-files --error-unmatch build-aux/lint.sh >/dev/null 2>&1; then
    echo "lint: not a git checkout; nothing is checked"
    exit 77
fi
sources=$(git ls-files '*.c' '*.h' '*.cl')
scripts=$(git ls-files '*.sh' '*.awk' '*.py' bootstrap .ci/run .ci/release tests/run)
pages=$(git ls-files '*.md' NEWS)
failed=0

# UTF-8's continuation bytes take no column.
# shellcheck disable=SC2086 # lists of words
LC_ALL=C awk '
    { gsub(/[\200-\277]/, "") }
    FILENAME ~ /\.md$/ && /^(\||!\[)/ || FILENAME ~ /_mutants\.sh$/ && /^[0-9]@/ { next }
    length($0) > 100 {
        printf "%s:%d: %d columns\n", FILENAME, FNR, length($0)
        wide = 1
    }
    END { exit wide }' $sources $scripts $pages || failed=1

formatter=
for name in ${CLANG_FORMAT-clang-format-14 clang-format}; do
    case $("$name" --version 2>/dev/null) in
    *' version 14.'*) formatter=$name && break ;;
    esac
done
if [ -z "$formatter" ]; then
    echo "lint: no clang-format 14; formatting is not checked"
else
    # shellcheck disable=SC2086 # a list of words
    differ=$("$formatter" --dry-run $sources 2>&1 | sed -n 's/:[0-9:]* warning: code should.*//p' |
        sort -u)
    if [ -n "$differ" ]; then
        printf '%s: clang-format -i changes it\n' $differ
        failed=1
    fi
fi
exit $failed
