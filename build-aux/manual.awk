# SPDX-License-Identifier: MIT
# The filter through which Doxygen reads the public headers and the pages. It marks the comments of
# a header as Doxygen's, whatever they say, and makes links of the names of pages and constants.
# usage: awk -f manual.awk FILE

# The label of a page of the manual, by its file.
function page_label(file) {
    gsub(/^doc\/|\.md$/, "", file)
    return file == "README" ? "mainpage" : tolower(file)
}

# What stands between backticks: a link, code in which Doxygen finds functions and structs, or code.
# Doxygen takes a single quote for the end of code.
function code(text,    header) {
    if (text ~ /^(doc\/[a-z]+|[A-Z]+)\.md$/)
        return "[" text "](@ref " page_label(text) ")"
    header = text
    sub(/^include\//, "", header)
    if (header ~ /^clsample(-mpi|\/[a-z]+)?\.h$/)
        return "[" text "](@ref " header ")"
    if (text ~ /(cls|CLS)_/ && text !~ /[\\@#%<>&]/)
        return "<code>" text "</code>"
    return text ~ /'/ ? "``" text "``" : "`" text "`"
}

# Words between pieces of code.
function words(text,    out) {
    gsub(is_page ? "[\\\\@<]" : "[\\\\@<#%]", "\\\\&", text)
    gsub(/et al\. /, "et al.\\&nbsp;", text) # not the end of a sentence
    if (!is_page)
        gsub(/CLS_[A-Z0-9_]*[A-Z0-9]/, "#&", text)
    gsub(/"#CLS_/, "\"CLS_", text)
    while (match(text, /doc\/[a-z]+\.md/)) {
        out = out substr(text, 1, RSTART - 1) code(substr(text, RSTART, RLENGTH))
        text = substr(text, RSTART + RLENGTH)
    }
    return out text
}

# A line of text. `in_code`: it begins within a piece of code.
function text_of(line,    part, n, i, out) {
    n = split(line, part, "`")
    for (i = 1; i <= n; i++)
        if ((i + in_code) % 2)
            out = out words(part[i])
        else if (i > 1 && i < n)
            out = out code(part[i])
        else
            out = out (i > 1 ? "`" : "") part[i] (i < n ? "`" : "")
    in_code = n ? (in_code + n - 1) % 2 : 0
    return out
}

# ------------------------------------------------------------------ pages
function page_line(line,    slug) {
    block = line ~ /^    / && (block || latest == "") || line == "" && block
    latest = line
    if (block || line ~ /^\|[-:| ]+\|$/)
        return line
    if (line ~ /^#/) {
        slug = tolower(line)
        gsub(/^#+ |[^a-z0-9_ -]/, "", slug)
        gsub(/ /, "-", slug)
        line = text_of(line) " {#" label (titled ? "-" slug : "") "}"
        titled = 1
        return line
    }
    # A link to a file is [path], whose place stands at the end of the page.
    if (line ~ /^\[[^ ]*\]: [^:]*$/)
        return ""
    while (match(line, /\[([A-Za-z0-9_.-]+\/[A-Za-z0-9_.\/-]*|[A-Z]+\.md)\]/))
        line = substr(line, 1, RSTART - 1) "`" substr(line, RSTART + 1, RLENGTH - 2) "`" \
            substr(line, RSTART + RLENGTH)
    line = text_of(line)
    gsub(/\]\(#/, "](@ref " label "-", line)
    return line
}

# ---------------------------------------------------------------- headers
# A line of a comment. What follows CLS_OK is what a function returns. The paragraphs of a file's
# comment have titles.
function comment_line(line,    is_number, returns) {
    if (line ~ /^    /)
        return line
    if (of_file && latest == "" && match(line, /^[A-Z][a-z]+( [a-z]+)?( [a-z]+)?\. /))
        line = "**" substr(line, 1, RLENGTH - 1) "** " substr(line, RLENGTH + 1)
    is_number = line ~ /^[0-9]+\./ && latest !~ /^$|^ |^[0-9]+\. /
    latest = line
    returns = !of_file && sub(/^(Returns )?CLS_OK/, "CLS_OK", line)
    line = text_of(line)
    if (is_number) # the end of a sentence, not an item
        line = substr(line, 1, index(line, ".") - 1) "\\" substr(line, index(line, "."))
    return (returns ? "@return " : "") line
}

# Reads the comment that begins with this line.
function read_comment(line,    text, last) {
    in_code = 0
    latest = "none"
    while (1) {
        last = sub(/ *\*\/.*/, "", line)
        sub(/^ *\* ?|^ +/, "", line)
        text = text comment_line(line)
        if (last || (getline line) <= 0)
            return "/** " text " */\n"
        text = text "\n * "
    }
}

# Adds a comment to a declaration that has none, and prints both. Functions and fields share the
# comment above them.
function declare(line,    name, part, type, n, i) {
    if (line ~ /^typedef struct .*\{/)
        structure = substr(line, 16, length(line) - 17)
    if (line ~ /^}/)
        structure = ""
    if (structure != "" && line ~ /;$/) {
        name = line
        sub(/[[)].*|, .*|;$/, "", name)
        sub(/.*[ *]/, "", name)
        if (comment != "")
            group = above ? name : ""
        else if (group != "")
            comment = "/** See #" structure "::" group ". */\n"
        else if (name == "struct_size")
            comment = "/** sizeof(" structure "): see \"Growth\" in clsample.h. */\n"
        # Doxygen describes only the first of several names.
        n = line ~ /\(/ ? 1 : split(line, part, ", ")
        type = part[1]
        sub(/[a-z_0-9]+$/, "", type)
        for (i = 1; i < n; i++) {
            print comment (i > 1 ? type : "") part[i] ";"
            if (above)
                comment = "/** See #" structure "::" name ". */\n"
            line = type part[n]
        }
    } else if (match(line, /^(CLS_INIT_FUNCTION\(|static inline cls_status )cls_[a-z_]+/)) {
        name = substr(line, 1, RLENGTH)
        gsub(/.*[ (]|_init$/, "", name)
        comment = "/** Sets the defaults of a " name ": see \"Growth\" in clsample.h. */\n"
        if (line ~ /^CLS/)
            line = "static inline cls_status " name "_init(" name " *object);"
    } else if (line ~ /^(CLS_[A-Z_]*API|#define)/) {
        if (comment == "")
            comment = shared
        shared = comment
    }
    print comment line
    comment = ""
}

FNR == 1 {
    is_page = FILENAME ~ /\.md$/
    name = FILENAME
    sub(is_page ? "^.*/" : "^(.*/)?include/", "", name)
    label = page_label(name)
}
is_page && !/^<!-- .* -->$/ { print page_line($0) }
is_page { next }
/^\/\* (SPDX-|----)/ { $0 = "" }
{
    at = index($0, "/*")
    before = at ? substr($0, 1, at - 1) : $0
    sub(/ +$/, "", before)
    if (at) {
        of_file = !titled
        comment = comment read_comment(substr($0, at + 2))
        above = above || before == ""
        if (of_file) {
            sub(/clsample: /, "", comment)
            sub(/\/\*\*/, "/** @file " name "\n *", comment)
            print comment
            titled = 1
            comment = ""
        }
        if (before == "")
            next
    }
    if (before ~ /^$|^}|^#(if|e)/)
        comment = group = shared = ""
    declare(before)
    above = 0
}
