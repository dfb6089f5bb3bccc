# SPDX-License-Identifier: MIT
# Makes a man page for each function, type and struct of the public headers from the pages that
# Doxygen makes of headers and structs (GENERATE_MAN, ALWAYS_DETAILED_SEC).
# They are written to the working folder.
# usage: awk -f pages.awk -v version=VERSION man3/*.h.3 man3/cls_*.3

# A declaration as a programmer writes it, from the arguments of a macro.
function declaration(text) {
    gsub(/^\.[A-Z]+ "|"$|\\f[A-Z]/, "", text)
    gsub(/\* /, "*", text)
    while (match(text, /[a-z0-9_]\*/))
        text = substr(text, 1, RSTART) " " substr(text, RSTART + 1)
    sub(/ \(/, "(", text)
    sub(/ \[/, "[", text)
    return text
}

# Begins the page of what a text declares, if that is ours.
function begin(text) {
    name = text
    sub(/[({].*/, "", name)
    sub(/ *$/, "", name)
    sub(/.*[ *]/, "", name)
    if (name !~ /^cls_/)
        name = ""
    else if (!(name in synopsis)) {
        names[++count] = name
        synopsis[name] = text ";"
        include[name] = header
    }
}

# Its first sentence describes a page.
function add(line) {
    if (line == "" || name == "")
        return
    if (!(name in brief) && line !~ /^\./) {
        brief[name] = line
        sub(/\\&\. .*|\\&\.$/, "", brief[name])
        gsub(/\\f[A-Z]/, "", brief[name])
    }
    if (line ~ /^'/) # no request
        line = "\\&" line
    body[name] = body[name] line "\n"
}

function names_it(text, word) {
    return text ~ "(^|[^a-z0-9_])" word "([^a-z0-9_]|$)"
}

# The page of cls_step_init() is that of cls_step.
function is_link(name) {
    base = name
    return sub(/_init$/, "", base) && base in synopsis
}

# What a page names, and the functions and structs that use its type. The comment of a field names
# its enum.
function see_also(page,    text, list, i, other, users) {
    text = synopsis[page] body[page]
    gsub(/\\f[A-Z]/, "", text)
    for (i = 1; i <= count; i++) {
        other = names[i]
        if (other == page || other == "cls_status" || is_link(other))
            continue
        users = synopsis[other] (synopsis[page] ~ /^enum/ ? body[other] : fields[other])
        if (names_it(text, other) || page != "cls_status" && names_it(users, page))
            list = list ".BR " other " (3),\n"
    }
    other = match(page, /^cls_(head|mpi)/) ? "-" substr(page, 5, RLENGTH - 4) : ""
    return list ".BR clsample" other " (3)\n"
}

FNR == 1 {
    linked = /^\.so /
    section = name = title = ""
    header = $2
    gsub(/"/, "", header)
    if (!linked && header !~ /\.h$/)
        title = header
}
linked { next }
title { gsub(title "::", "") }
title && /^\\f.#include/ {
    header = $0
    gsub(/.*<|>.*|\\&/, "", header)
    begin("struct " title)
}
/^\.SH / {
    section = substr($0, 5)
    gsub(/"/, "", section)
    if (section == "Field Documentation")
        body[title] = body[title] ".SH FIELDS\n"
    next
}
section == "SYNOPSIS" && /^\.RI "enum/ { begin(declaration($0)) }
section == "Detailed Description" && title { add($0) }
section == "Field Documentation" && /^\.SS / {
    $0 = declaration($0)
    fields[title] = fields[title] "\n" $0
    add(".TP\n.B " $0)
    fresh = 1
    next
}
section == "Field Documentation" {
    sub(/^\.PP/, ".IP")
    if ($0 != "" && $0 != ".IP" || !fresh) {
        add($0)
        fresh = 0
    }
}
section ~ /^(Function|Enumeration Type|Typedef) Documentation$/ {
    if (/^\.SS /) {
        begin(declaration($0))
        returns = values = 0
    } else if (/^\\fB(Returns|Enumerator)\\fP/) {
        values = /Enumerator/
        returns = 1
        add(values ? ".SH VALUES" : ".SH RETURN VALUE")
    } else if (!returns || !/^\.R[SE]/) {
        if (values)
            sub(/^\.PP/, ".IP")
        add($0)
    }
}

END {
    for (i = 1; i <= count; i++) {
        name = names[i]
        file = name ".3"
        if (is_link(name)) {
            print ".so man3/" base ".3" >file
            close(file)
            continue
        }
        text = synopsis[name]
        gsub(/ /, "\\ ", text)
        gsub(/,\\ /, ", ", text)
        gsub(/\(/, "(\\:", text)
        gsub(/\\fC/, "\\fI", body[name])
        sub(/^(\.PP\n)*/, "", body[name])
        printf ".\\\" SPDX-License-Identifier: MIT\n.TH %s 3 \"\" \"clsample %s\" clsample\n" \
            ".nh\n.ad l\n.SH NAME\n%s \\- %s\n.SH SYNOPSIS\n.B #include <%s>\n.HP 4\n.B %s\n" \
            ".SH DESCRIPTION\n%s.SH SEE ALSO\n%s", name, version, name, brief[name], \
            include[name], text, body[name], see_also(name) >file
        close(file)
    }
}
