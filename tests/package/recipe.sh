#!/bin/sh
# SPDX-License-Identifier: MIT
# HACKING.md's list of what a new truncation touches, against the newest one: each file of the
# library, the kernels, the command and the Python package that names its stage or its parameter is
# in the list, and there are no more than 12 of them without tests (top-a touched 16 once).
#
#     sh tests/package/recipe.sh     (the source's root is the current folder or $srcdir)
set -u
cd "${srcdir-.}" || exit 99
if ! git ls-files --error-unmatch HACKING.md >/dev/null 2>&1; then
    echo "recipe: not a git checkout; nothing is checked"
    exit 77
fi
# The last row of CLS_STAGE_TABLE: its stage, its function and its parameter.
row=$(awk '/define CLS_STAGE_TABLE/ { on = 1 }
    on && /X\(/ { last = $0 }
    on && !/\\$/ { print last; exit }' lib/base/param_table.h)
word='\([a-z0-9_]*\)'
words=$(echo "$row" |
    sed -n "s/^ *X(\([A-Z0-9_]*\), $word, [01], \"[^\"]*\", $word,.*/\1 \2 \3/p")
if [ -z "$words" ]; then
    echo "recipe: the last row of CLS_STAGE_TABLE is not found" >&2
    exit 1
fi
list=$(sed -n '/^## Adding a truncation/,/^## Adding a kernel/p' HACKING.md | tr '\n' ' ')
tests=$(echo "$list" | sed 's/.*9\. The tests:/9. The tests:/')
passed=0 failed=0 n=0
pattern=$(echo "$words" |
    sed 's/^\([A-Z0-9_]*\) \([a-z0-9_]*\) \(.*\)/(\\b|STAGE_)\1\\b|\\b\2|\\b\3/')
for file in $(git grep -lE "$pattern" -- lib cl cli python include packaging); do
    name=${file##*/}
    case $list in
    *"$file"* | *"\`$name\`"*) passed=$((passed + 1)) ;;
    *)
        stem=${name%.*} # a file of the stage's own name
        case " $words " in
        *" $stem "*) passed=$((passed + 1)) ;;
        *)
            echo "recipe: $file names one of $words, but HACKING.md does not name that file"
            failed=$((failed + 1))
            ;;
        esac
        ;;
    esac
    case $tests in
    *"$file"* | *"\`$name\`"*) ;;
    *) n=$((n + 1)) ;;
    esac
done
echo "recipe: the newest truncation ($words) is in $n files without tests and documents"
if [ $n -gt 0 ] && [ $n -le 12 ]; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
echo "$passed passed, $failed failed"
[ $failed = 0 ]
