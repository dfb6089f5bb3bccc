#!/bin/sh
# SPDX-License-Identifier: MIT
# Each exported function and each type of the public headers has a man page, made from its comment.
# It renders without a warning in 80 columns, says what it is and where it is declared, and refers
# to pages that are there. Without Doxygen, a clone has no pages: the test is skipped.
# shellcheck disable=SC2154 # checks.sh sets dir
srcdir=$(cd "${srcdir-.}" && pwd)
pages=${BUILD-$PWD}/doc/man3
[ -f "$pages/made" ] || pages=$srcdir/doc/man3
. "$srcdir/tests/support/checks.sh"
if [ ! -f "$pages/made" ]; then
    echo "no Doxygen made man pages: they are not checked"
    exit 77
fi
for map in "$srcdir"/lib/*.map "$srcdir"/lib/*/*.map; do
    sed -n -e '/^CLSAMPLE_PRIVATE/,$d' -e 's/^ *\(cls_[a-z_0-9]*\);$/\1/p' "$map"
done >wanted
cat "$srcdir"/include/*.h "$srcdir"/include/clsample/*.h | sed -n \
    -e 's/^typedef \(struct\|enum\) \(cls_[a-z_]*\) .*/\2/p' \
    -e 's/^CLS_INIT_FUNCTION(\(.*\))$/\1_init/p' \
    -e 's/^static inline cls_status \(cls_[a-z_]*_init\)(.*/\1/p' >>wanted
sort -u wanted >names
[ "$(wc -l <names)" -gt 100 ] || no_ "only $(wc -l <names) names were found"
(cd "$pages" && ls cls_*.3) | sed 's/\.3$//' | sort >made
if cmp -s names made; then yes_; else no_ "pages and names differ: $(diff names made)"; fi

sections='NAME SYNOPSIS DESCRIPTION SEE ALSO'
while read -r name; do
    page=$pages/$name.3
    linked=$(sed -n 's/^\.so man3\///p' "$page")
    if [ -n "$linked" ]; then
        if [ -f "$pages/$linked" ]; then yes_; else no_ "$name is a link to $linked"; fi
        continue
    fi
    has=$(sed -n -e '/FIELDS\|VALUE/d' -e 's/^\.SH //p' "$page" | tr '\n' ' ')
    if [ "$has" = "$sections " ]; then yes_; else no_ "$name has the sections $has"; fi
    says "$name" "^$name .- .\{8\}" "$page"
    says "$name" '^\.B #include <clsample.*\.h>$' "$page"
done <made
sed -n 's/^\.BR \(cls[^ ]*\) (3),*$/\1/p' "$pages"/cls_*.3 | sort -u >seen
while read -r name; do
    if [ -f "$pages/$name.3" ] || [ -f "$srcdir/doc/$name.3" ]; then yes_; else
        no_ "a page refers to $name(3)"
    fi
done <seen

# man --warnings is groff's.
if man --warnings -E UTF-8 -l "$srcdir/doc/clsample.3" >/dev/null 2>&1; then
    # shellcheck disable=SC2046 # a list of files
    MANWIDTH=80 man --warnings -E UTF-8 -l $(grep -L '^\.so' "$pages"/cls_*.3) >text 2>warnings
    if [ -s text ] && [ ! -s warnings ]; then yes_; else no_ "$(head warnings)"; fi
    LC_ALL=C.UTF-8 grep '\\f\|\\&\|#cls\|#CLS\|.\{81\}' text >bad
    if [ ! -s bad ]; then yes_; else no_ "these lines render badly: $(head bad)"; fi
else
    echo 'left out: man --warnings does not work here'
fi
finish
