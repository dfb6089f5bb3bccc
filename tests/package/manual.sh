#!/bin/sh
# SPDX-License-Identifier: MIT
# The manual that `make html` makes is complete: Doxygen warns of nothing; every exported function,
# struct, field, enumerator and macro of the public headers has a description; every page is there;
# every link leads to a place that exists; and no escape of manual.awk is left in the text.
# shellcheck disable=SC2154 # checks.sh sets dir
build=${BUILD-$PWD}
srcdir=$(cd "${srcdir-.}" && pwd)
. "$srcdir/tests/support/checks.sh"
if ! command -v "${DOXYGEN:=doxygen}" >/dev/null; then
    echo "no $DOXYGEN: the manual is not checked"
    exit 77
fi
cat "$build/doc/Doxyfile" - >Doxyfile <<EOD
OUTPUT_DIRECTORY = "$dir"
GENERATE_XML = YES
WARN_LOGFILE = warnings
EOD
if "$DOXYGEN" Doxyfile >log 2>&1; then yes_; else no_ "$DOXYGEN: $(cat log)"; fi
if [ -s warnings ]; then no_ "$(cat warnings)"; else yes_; fi

# The names that have a description, and the fields that there are, as STRUCT.FIELD.
awk '
    /<compoundname>/ { split($0, part, /[<>]/); compound = part[3]; level = 1; described[1] = 0 }
    /<memberdef / { of = /kind="variable"/ ? compound "." : ""; level = 2; described[2] = 0 }
    /<enumvalue / { level = 3; described[3] = 0 }
    /<name>/ {
        split($0, part, /[<>]/)
        name[level] = (level == 2 ? of : "") part[3]
        if (name[level] ~ /^cls_.*[.]/)
            print name[level] >"wanted"
    }
    /<(brief|detailed)description>/ { text = 1 }
    text && /<para>/ { described[level] = 1 }
    /<\/(brief|detailed)description>/ { text = 0 }
    /<\/enumvalue>/ || /<\/memberdef>/ { if (described[level]) print name[level]; level-- }
    /<\/compounddef>/ { if (described[1]) print compound }' xml/*.xml | sort -u >described

{
    for map in "$srcdir"/lib/*.map "$srcdir"/lib/*/*.map; do
        sed -n -e '/^CLSAMPLE_PRIVATE/,$d' -e 's/^ *\(cls_[a-z_0-9]*\);$/\1/p' "$map"
    done
    cat "$srcdir"/include/*.h "$srcdir"/include/clsample/*.h | sed -n \
        -e 's/^typedef enum \([a-z_]*\) {$/\1/p' \
        -e 's/^typedef struct \([a-z_]*\) .*/\1/p' \
        -e 's/^    \(CLS_[A-Z_0-9]*\) = .*/\1/p' \
        -e 's/^CLS_INIT_FUNCTION(\(.*\))$/\1_init/p' \
        -e '/_API /d' -e '/_UNUSED/d' -e '/_NONNULL/d' \
        -e 's/^#define \(CLS_[A-Z_]*\)[ (].*/\1/p'
} | sort -u - wanted >names
mv names wanted
[ "$(grep -c '[.]' wanted)" -gt 300 ] || no_ "only $(grep -c '[.]' wanted) fields were found"
comm -23 wanted described >missing
if [ -s missing ]; then
    no_ "these names have no description: $(tr '\n' ' ' <missing)"
else
    passed=$((passed + $(wc -l <wanted)))
fi

# Pages, and the links of the first one to them.
for page in "$srcdir"/doc/*.md; do
    name=$(basename "$page" .md)
    if [ -f "html/$name.html" ]; then yes_; else no_ "no page of $page"; fi
    grep -q "\[doc/$name.md\]" "$srcdir/README.md" || continue
    says "README.md's link to $name.md" "href=\"$name.html\"" html/index.html
done

# Links: places as FILE#NAME, and what refers to them.
(cd html && grep -oE '(href|id|name)="[^"]*"' ./*.html) | sed 's/^\.\///' | awk -F '"' '
    BEGIN { while (("ls html html/search" | getline file) > 0) there[file] = 1 }
    {
        file = $1
        sub(/:(href|id|name)=$/, "", file)
    }
    $1 !~ /href=$/ { there[file "#" $2] = 1; next }
    $2 ~ /^[a-z]+:/ || $2 == "#" { next }
    {
        count++
        wanted[$2 ~ /^#/ ? file $2 : $2] = file
    }
    END {
        for (place in wanted) {
            name = place
            sub(/^search\//, "", name)
            if (!(name in there))
                print wanted[place] " has a link to " place
        }
        if (count < 1000)
            print "there are only " count " links"
    }' >broken
if [ -s broken ]; then no_ "$(cat broken)"; else yes_; fi

grep -E '\\[-<*_#@%]' html/*.html | grep -v '^html/[^:]*_source.html' >escapes
if [ -s escapes ]; then no_ "escapes: $(head -3 escapes)"; else yes_; fi
finish
