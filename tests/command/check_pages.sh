#!/bin/sh
# SPDX-License-Identifier: MIT
# The page of clsample-sample has the options that --help has, by the table of parameters, each
# with the same argument (or the words that it may be) and, where --help says one, the same
# default. No device is needed.
page=${srcdir-.}/doc/clsample-sample.1
"${CLSAMPLE-./clsample}" sample --help | awk -v page="$page" '
function fail(what) { print "FAILED: " what; failed++ }
# A macro line as plain text: "Ar ID : Ns Ar VALUE" is ID:VALUE.
function plain(text) {
    gsub(/ Ns /, " ", text)
    gsub(/(^| )(Ar|Cm) /, "", text)
    gsub(/ /, "", text)
    return text
}
BEGIN {
    while ((getline line <page) > 0) {
        gsub(/\\-/, "-", line)
        if (line ~ /^\.It Fl -/) {
            split(line, part, " ")
            name = substr(part[3], 2)
            argument = line
            sub(/^\.It Fl -[^ ]*/, "", argument)
            of_page[name] = plain(argument)
        } else if (name != "")
            text[name] = text[name] " " line
    }
}
/^  --/ {
    name = substr($1, 3)
    argument = $0
    sub(/^  --[^ ]* /, "", argument)
    sub(/ .*/, "", argument)
    if (name == "help")
        next
    seen[name] = 1
    options++
    if (!(name in of_page)) { fail("--" name ": the page has no such option"); next }
    lists_words = argument ~ /^[A-Z]+$/ && of_page[name] ~ /^[a-z0-9]+\|/
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
        if (!(name in seen))
            fail("--" name ": the page has it, --help has not")
    if (options < 50 || defaults < 30)
        fail(options " options and " defaults " defaults were found")
    print options + defaults - failed " passed, " failed + 0 " failed"
    exit failed != 0
}'
