# SPDX-License-Identifier: MIT
# The filter through which Doxygen reads the public headers and the pages (`make html`). In a header
# it marks the comments above and behind declarations as Doxygen's, and writes the lists in them as
# Markdown. In a page it makes links of the names of pages, headers and functions.
# usage: awk -f manual.awk FILE

# ------------------------------------------------------------------- text
# The label of a page of the manual, by its file.
function page_label(file) {
    if (file == "README.md")
        return "mainpage"
    if (file == "HACKING.md")
        return "hacking"
    if (file !~ /^doc\/[a-z]+\.md$/)
        return ""
    gsub(/^doc\/|\.md$/, "", file)
    return file
}

# What stands between backticks: a link, code that may contain links, or code. Doxygen takes a
# single quote for the end of code.
function code(text,    header) {
    header = text
    sub(/^include\//, "", header)
    if (page_label(text) != "" && text != "README.md")
        return "[" text "](@ref " page_label(text) ")"
    if (header ~ /^clsample(-mpi|\/[a-z]+)?\.h$/)
        return "[" text "](@ref " header ")"
    if (text ~ /(cls|CLS)_/ && text !~ /[\\@#%]/) {
        gsub(/&/, "\\&amp;", text)
        gsub(/</, "\\&lt;", text)
        gsub(/>/, "\\&gt;", text)
        return "<code>" text "</code>"
    }
    return index(text, "'") ? "``" text "``" : "`" text "`"
}

# A line of text, whose special characters stand for themselves. In a page those of Markdown do
# not. Code may end on a later line: `in_code` says so.
function text_of(line,    special, out, end, c, word) {
    special = is_page ? "\\@<" : "\\@<#%*_"
    out = ""
    while (line != "") {
        if (in_code) {
            end = index(line, "`")
            in_code = !end
            out = out (end ? substr(line, 1, end) : line)
            line = end ? substr(line, end + 1) : ""
            continue
        }
        c = substr(line, 1, 1)
        end = index(substr(line, 2), "`")
        if (c == "`" && end) {
            out = out code(substr(line, 2, end - 1))
            line = substr(line, end + 2)
        } else if (c == "`") {
            in_code = 1
            out = out line
            line = ""
        } else if (match(line, /^doc\/[a-z]+\.md/)) {
            out = out code(substr(line, 1, RLENGTH))
            line = substr(line, RLENGTH + 1)
        } else if (match(line, /^et al\. /)) { # not the end of a sentence
            out = out "et al.&nbsp;"
            line = substr(line, RLENGTH + 1)
        } else if (match(line, /^[A-Za-z0-9][A-Za-z0-9_]*/)) {
            word = substr(line, 1, RLENGTH)
            line = substr(line, RLENGTH + 1)
            # Doxygen finds functions and structs by itself.
            if (!is_page && word ~ /^(cls|CLS)_[A-Za-z0-9_]*[A-Za-z0-9]$/ && line !~ /^\(/)
                word = "#" word
            out = out word
        } else if (match(line, /^---*/)) {
            out = out "\\--" substr(line, 3, RLENGTH - 2)
            line = substr(line, RLENGTH + 1)
        } else {
            out = out (index(special, c) ? "\\" c : c)
            line = substr(line, 2)
        }
    }
    return out
}

# ------------------------------------------------------------------ pages
function filter_page(    name, label, titled, i, line, block, slug) {
    name = FILENAME
    sub(/.*\//, "", name)
    label = page_label(name ~ /^[A-Z]+\.md$/ ? name : "doc/" name)
    for (i = 1; i <= NR; i++) {
        line = lines[i]
        if (line ~ /^<!-- .* -->$/)
            continue
        block = line ~ /^    / && (block || lines[i - 1] == "") || line == "" && block
        if (block || line ~ /^\|[-:| ]+\|$/) {
            print line
        } else if (line ~ /^# / && !titled) {
            titled = 1
            print text_of(line) " {#" label "}"
        } else if (line ~ /^#/) {
            slug = tolower(line)
            gsub(/^#+ |[^a-z0-9_ -]/, "", slug)
            gsub(/ /, "-", slug)
            print text_of(line) " {#" label "-" slug "}"
        } else {
            # Links to a section of the page.
            line = text_of(line)
            gsub(/\]\(#/, "](@ref " label "-", line)
            print line
        }
    }
}

# ---------------------------------------------------------------- headers
# A line that begins an item whose other lines are indented: "CLS_BUSY: too many ..." or, in
# columns, "CLS_BUSY           too many ...".
function is_item(line) {
    return line ~ /^[a-z_]+:|^CLS_[A-Za-z_0-9, ]+:|^CLS_[A-Z_]+( or CLS_[A-Z_]+)*(\.|;|  )/
}

# Prints text[1] to text[count] as the body of a comment. A block that is indented behind an empty
# line is code, or a list if it is numbered or names headers. Other indented lines continue an item.
# What follows CLS_OK is what a function returns.
function print_text(of_file,    i, line, lead, hangs, block, list, item, returns) {
    for (i = 2; i <= count; i++)
        if (text[i] ~ /^    +[^ ]/ && text[i - 1] ~ /^[^ ]/)
            hangs = 1
    in_code = 0
    for (i = 1; i <= count; i++) {
        line = text[i]
        if (line == "") {
            print " *"
        } else if (line ~ /^    /) {
            if (text[i - 1] == "")
                block = 1
            item = block && (line ~ /^ +[0-9]+\. / || sub(/^ +clsample/, "- clsample", line))
            if (item)
                list = 1
            if (line ~ /^- clsample/)
                sub(/  +/, ": ", line)
            if (!block || list) {
                sub(/^ +/, "", line)
                line = (item ? "" : "  ") text_of(line)
            }
            print " * " line
        } else {
            block = list = 0
            lead = ""
            if (of_file && (i == 1 || text[i - 1] == "") && \
                match(line, /^([A-Z][a-z]+( [a-z]+)?( [a-z]+)?|[a-z]+\(\))\. /)) {
                lead = "**" substr(line, 1, RLENGTH - 1) "** "
                line = substr(line, RLENGTH + 1)
            }
            if (!of_file && !returns && match(line, /(^|[.)] )CLS_OK[.:;,]|^Returns CLS_OK/)) {
                returns = 1
                if (RSTART > 1) {
                    print " * " text_of(substr(line, 1, RSTART))
                    line = substr(line, RSTART + 2)
                }
                sub(/^Returns /, "", line)
                lead = "@return "
            }
            if (hangs && is_item(line)) {
                if (lead != "")
                    print " * @return"
                lead = "- "
                sub(/  +/, ": ", line)
            }
            line = text_of(line)
            if (match(line, /^[0-9]+\./)) # the end of a sentence, not an item
                line = substr(line, 1, RLENGTH - 1) "\\" substr(line, RLENGTH)
            print " * " lead line
        }
    }
}

# Prints text[1] to text[count] as the comment of what follows.
function print_comment() {
    print "/**"
    print_text(0)
    print " */"
}

# Reads the comment that begins at lines[i] behind `column` characters into text[1] to text[count],
# and returns the index of its last line. Behind a field its other lines have no star.
function read_comment(i, column,    line, last) {
    count = 0
    line = substr(lines[i], column + 1)
    sub(/\/\*/, "*", line)
    while (1) {
        last = sub(/ *\*\/$/, "", line)
        sub(/^ *\*/, "", line)
        sub(column ? "^[ \t]+" : "^ ", "", line)
        if (line != "" || count && !last)
            text[++count] = line
        if (last || i == NR)
            return i
        line = lines[++i]
    }
}

# Prints a line of fields as one line for each. `documented`: a comment is above it, which also
# describes the fields that follow without one. `behind`: the comment behind it.
function print_fields(line, structure, documented, behind,    part, n, i, type, name, comment) {
    sub(/;$/, "", line)
    n = split(line, part, /, /)
    if (line ~ /\(/) { # a pointer to a function
        part[1] = line
        n = 1
    }
    type = part[1]
    sub(/[a-z_0-9]+$/, "", type)
    for (i = 1; i <= n; i++) {
        line = (i == 1 ? "" : type) part[i]
        name = line
        sub(/\[.*|\).*/, "", name)
        sub(/.*[ *]/, "", name)
        comment = behind
        if (documented && i == 1)
            group = name
        else if (behind != "")
            group = ""
        else if (group != "")
            comment = "See " structure "::" group "."
        else if (name == "struct_size")
            comment = "sizeof(" structure "): see \"Growth\" in clsample.h."
        print line ";" (comment == "" ? "" : " /**< " comment " */")
    }
}

# The first line of a function or a macro, likewise. The functions that set defaults may have no
# comment, since clsample.h describes them all.
function print_declaration(line, documented,    name) {
    match(line, /cls_[a-z0-9_]+/)
    name = substr(line, RSTART, RLENGTH)
    if (documented) {
        group = line
    } else if (line ~ /^CLS_INIT_FUNCTION/) {
        print "/** Calls " name "_default() with sizeof(" name "). */"
        line = "static inline void " name "_init(" name " *object);"
    } else if (line ~ /^static inline void cls_[a-z_]*_init\(/) {
        sub(/_init$/, "", name)
        print "/** Calls " name "_default() with sizeof(" name "). */"
    } else if (group != "") {
        print_comment()
    } else if (sub(/_default$/, "", name)) {
        print "/** Sets the defaults of a " name ", and its struct_size: see \"Growth\" in " \
            "clsample.h. */"
    }
    print line
}

function filter_header(    i, n, line, before, behind, at, structure, documented, begun, file) {
    for (i = 1; i <= NR; i++) {
        line = lines[i]
        at = index(line, "/*")
        before = at ? substr(line, 1, at - 1) : line
        sub(/ +$/, "", before)
        if (at)
            i = read_comment(i, before == "" ? 0 : at - 1)
        if (at && before == "") {
            group = ""
            if (text[1] ~ /^(SPDX-|----)/)
                continue
            if (!begun) { # the comment of the file
                begun = 1
                file = FILENAME
                sub(/^(.*\/)?include\//, "", file)
                sub(/^clsample: /, "", text[1])
                print "/** @file " file
                print_text(1)
                print " */"
            } else if (lines[i + 1] !~ /^(#if|$)/) {
                print_comment()
                documented = 1
            }
            continue
        }
        if (before == "" || before ~ /^[#{}]/ && before !~ /^#define/)
            group = ""
        if (match(before, /^typedef struct [a-z_0-9]+ \{/))
            structure = substr(before, 16, RLENGTH - 17)
        if (before ~ /^}/)
            structure = ""
        behind = ""
        in_code = 0
        for (n = 1; at && n <= count; n++)
            behind = behind (n == 1 ? "" : " ") text_of(text[n])
        if (structure != "" && before ~ /^ .*;$/) {
            print_fields(before, structure, documented, behind)
        } else if (at && before !~ /^#e/) {
            print before " /**< " behind " */"
        } else if (before ~ /^(#define|static inline|CLS_[A-Z_]*(API|FUNCTION))/) {
            print_declaration(before, documented)
        } else {
            print before
        }
        documented = 0
    }
}

{
    lines[NR] = $0
}
END {
    is_page = FILENAME ~ /\.md$/
    if (is_page)
        filter_page()
    else
        filter_header()
}
