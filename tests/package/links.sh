#!/bin/sh
# SPDX-License-Identifier: MIT
# Proves that the pages refer to each other by links that lead somewhere. A page's name is a link,
# [doc/porting.md], whose place stands at the end of the page. Each place exists, is the one that
# the name says, and is used. Headings that a page links to exist, and so do pictures. Sections of
# other pages that a page names, such as [doc/porting.md], "Android", exist.
srcdir=$(cd "${srcdir-.}" && pwd)
. "$srcdir/tests/support/checks.sh"
cd "$srcdir" || exit 99
pages=$(ls ./*.md ./*/*.md ./*/*/*.md | grep -v '^\./\(build\|packaging\)')
for page in $pages; do
    awk -v page="$page" -v folder="$(dirname "$page")" '
    # Code: blocks, and what stands between backticks.
    /^    / && (code || latest == "") || /^$/ && code { code = 1; latest = $0; next }
    { code = 0; latest = $0; text = $0; gsub(/`[^`]*`/, "", text) }
    /^\[[^ ]*\]: / {
        name = substr($1, 2, length($1) - 3)
        place[name] = $2
        next
    }
    /`[^` ]+\.md`/ {
        match($0, /`[^` ]+\.md`/)
        named = substr($0, RSTART + 1, RLENGTH - 2)
        if ((getline line <named) >= 0 && "./" named != page && named != page)
            print page " names " named " without a link"
        close(named)
    }
    /^#/ {
        slug = tolower($0)
        gsub(/^#+ |[^a-z0-9_ -]/, "", slug)
        gsub(/ /, "-", slug)
        heading[slug] = 1
    }
    {
        rest = text
        while (match(rest, /\[[^] ]*\]/)) {
            name = substr(rest, RSTART + 1, RLENGTH - 2)
            rest = substr(rest, RSTART + RLENGTH)
            if (rest !~ /^\(/ && name ~ /\/|\.md$/)
                used[name] = 1
        }
        rest = text
        while (match(rest, /\]\([^)]*\)/)) {
            target = substr(rest, RSTART + 2, RLENGTH - 3)
            rest = substr(rest, RSTART + RLENGTH)
            if (target ~ /^#/)
                wanted[substr(target, 2)] = 1
            else if (text ~ /^!\[/ && system("test -f \"" folder "/" target "\"") == 0)
                links++
            else if (target !~ /^[a-z]+:/)
                print page " has a link to " target " that is not one of [names]"
        }
    }
    END {
        for (name in used) {
            if (!(name in place)) { print page ": [" name "] has no place"; continue }
            if (system("test \"" folder "/" place[name] "\" -ef \"" name "\"") != 0)
                print page ": " place[name] " is not " name
            else
                links++
        }
        for (name in place)
            if (!(name in used) && place[name] !~ /^[a-z]+:/)
                print page ": nothing refers to [" name "]"
        for (slug in wanted)
            if (!(slug in heading))
                print page " has no heading #" slug
            else
                links++
        print links + 0
    }' "$page" >"$dir/found"
    grep '^[^0-9]' "$dir/found" && no_ "$page"
    passed=$((passed + $(tail -n 1 "$dir/found")))
done
named='\[[a-z/]*\.md\]\(,\| (\) *"[^"]*"'
for page in $pages; do
    tr '\n' ' ' <"$page" | grep -o "$named" >"$dir/found"
    while read -r found; do
        other=${found#[} section=${found#*\"}
        other=${other%%]*} section=${section%\"}
        if grep -qxF -e "# $section" -e "## $section" -e "### $section" "$other" ||
            grep -qF -e "**$section.**" -e "**$section**" "$other"; then yes_; else
            no_ "$page names \"$section\" of $other, which has no such section"
        fi
    done <"$dir/found"
done
if [ "$passed" -gt 40 ]; then yes_; else no_ "there are only $passed links"; fi
finish
