#!/bin/sh
# SPDX-License-Identifier: MIT
# Each command's page has the options that its help has, each with the same argument (or the words
# that it may be) and, where the help says one, the same default. The page of sample has the
# parameters, too; those of verify and explain refer to it for the options that they share. No line
# of help is longer than 80 columns. No device is needed.
here=$(cd "$(dirname "$0")" && pwd) || exit 99
doc=$here/../../doc
clsample=$(cd "$(dirname "${CLSAMPLE-./clsample}")" && pwd)/clsample
# shellcheck source=tests/support/checks.sh
. "$here/../support/checks.sh"

commands=$("$clsample" help | sed -n 's/^  \([a-z]*\)  *[a-z].*/\1/p')

# The options of pages of the help, each in one line.
options() { # PAGE...
    for name; do "$clsample" help "$name"; done | awk '
    /^  --/ { if (option != "") print option; option = $0; next }
    /^   / { sub(/^ */, " "); option = option $0; next }
    END { print option }'
}

compare() { # COMMAND SHARED PAGE...: a manual page, and another one or "", with pages of the help
    page=$doc/clsample-$1.1 shared=$2
    shift 2
    options "$@" | awk -v page="$page" -v shared="$shared" '
function fail(what) { sub(/.*\//, "", page); print "FAILED: " page ": " what; failed++ }
# A macro line as plain text: "Ar ID : Ns Ar VALUE" is ID:VALUE.
function plain(text) {
    gsub(/ Ns /, " ", text)
    gsub(/(^| )(Ar|Cm) /, "", text)
    gsub(/ /, "", text)
    return text
}
# Reads a page, where ".It Fl -a Ar X , Fl -b Ar Y" has two options; those of ".It Fl -a , -b" have
# no arguments there.
function read_page(file, own,    line, n, part, i, name, argument) {
    while ((getline line <file) > 0) {
        gsub(/\\-/, "-", line)
        while (sub(/\\$/, "", line) && (getline next_line <file) > 0)
            line = line next_line
        if (line !~ /^\.It Fl -/) {
            for (i in at) text[at[i]] = text[at[i]] " " line
            continue
        }
        split("", at)
        n = split(substr(line, 5), part, / , */)
        for (i = 1; i <= n; i++) {
            name = argument = part[i]
            sub(/^(Fl )?-/, "", name)
            sub(/ .*/, "", name)
            sub(/^(Fl )?/, "", argument)
            sub(/^[^ ]*/, "", argument)
            if (!own && name in of_page)
                continue
            at[i] = name
            text[name] = ""
            of_page[name] = n > 1 && argument == "" ? "?" : plain(argument)
            is_own[name] = own
        }
    }
}
BEGIN {
    read_page(page, 1)
    if (shared != "")
        read_page(shared, 0)
}
/^  --/ {
    name = substr($1, 3)
    argument = $0
    sub(/^  --[^ ]* /, "", argument)
    sub(/ .*/, "", argument)
    seen[name] = 1
    options++
    if (!(name in of_page)) { fail("--" name ": the page has no such option"); next }
    lists_words = argument ~ /^[A-Z]+$/ && of_page[name] ~ /^[a-z0-9]+\|/
    if (of_page[name] == "?")
        argument = "?"
    if (argument != "" && of_page[name] != argument && !lists_words)
        fail("--" name " " argument ": the page has " of_page[name])
    if (argument == "" && of_page[name] != "")
        fail("--" name ": the page has the argument " of_page[name])
    if (match($0, /\(default -?[0-9.e-]+/)) {
        value = substr($0, RSTART + 9, RLENGTH - 9) + 0
        found = 0
        n = split(text[name], word, /[ ;,]+/)
        for (i = 1; i <= n; i++) {
            sub(/\.$/, "", word[i])
            found += word[i] ~ /^-?[0-9.]+(e-?[0-9]+)?$/ && word[i] + 0 == value
        }
        if (!found)
            fail("--" name ": the page does not say that the default is " value)
        defaults++
    }
}
END {
    for (name in of_page)
        if (is_own[name] && !(name in seen) && name != "row")
            fail("--" name ": the page has it, the help has not")
    print options + defaults - failed, failed + 0
}' >counts
    grep '^FAILED' counts
    passed=$((passed + $(tail -n 1 counts | cut -d' ' -f1)))
    failed=$((failed + $(tail -n 1 counts | cut -d' ' -f2)))
}

for command in $commands; do
    case $command in
    sample) compare sample "" sample params ;;
    explain) compare "$command" "$doc/clsample-sample.1" "$command" ;;
    *) compare "$command" "" "$command" ;;
    esac
done
if [ "$passed" -gt 200 ]; then yes_; else no_ "only $passed options and defaults were compared"; fi

for command in "" params $commands; do
    # shellcheck disable=SC2086 # a word or none
    "$clsample" help $command >help
    awk 'length > 80' help >long
    if [ -s long ]; then no_ "help $command, more than 80 columns: $(cat long)"; else yes_; fi
done
# Each parameter of the table is on a page of their own.
"$clsample" help params >params
names=$(sed -n 's/^      "\([a-z-]*\)", \("[^"]*"\|NULL\),.*/\1/p' \
    "$here/../../lib/base/param_table.h")
for name in $names; do says "help params" "^  --$name " params; done
if [ "$(echo "$names" | wc -l)" -gt 45 ]; then yes_; else no_ "few names in the table: $names"; fi
"$clsample" help sample >help
if grep -q -e '--top-k' help; then no_ "help sample has --top-k"; else yes_; fi
says "help sample" 'clsample help params lists the sampling parameters' help
finish
