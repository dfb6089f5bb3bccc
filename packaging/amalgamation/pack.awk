# SPDX-License-Identifier: MIT
# Packs the kernels' text in the C file that cl2c.sh made, to two fifths: frequent pairs of symbols
# become a symbol, again and again. Each string is unpacked alone (lib/device/source.c).
# The first 120 symbols, the frequent ones, are a byte from 128 on, others are two, of which the
# first is from 248 on. Also puts each kernel file into the part that it belongs to.
# usage: LC_ALL=C awk -v parts='PART FILES...' -f pack.awk kernels.c
BEGIN {
    rows = split(parts, table, " ")
    SYMBOLS = 1500 # each takes 4 bytes; 100 more of them save 200 bytes
    for (i = 1; i < 256; i++)
        number[char[i] = sprintf("%c", i)] = i
}
function part(path,    i) {
    for (i = 2; i <= rows; i += 2)
        if (path ~ "(^|/)(" table[i] ")$")
            return table[i - 1]
    return ""
}
# Splits a text into symbols. While pairs are found, a symbol is two bytes, as in UTF-8, so that
# no other text has these bytes.
function split_symbols(text, to,    n, i, byte, length_) {
    length_ = split(text, byte, "")
    n = 0
    for (i = 1; i <= length_; i++)
        if (number[byte[i]] < 192)
            to[++n] = byte[i]
        else {
            to[++n] = byte[i] byte[i + 1]
            i++
        }
    return n
}
function replace_all(s, from, to,    n, out) {
    out = ""
    while ((n = index(s, from)) > 0) {
        out = out substr(s, 1, n - 1) to
        s = substr(s, n + length(from))
    }
    return out s
}
function escaped(c) {
    return c == "\n" ? "\\n" : c == "\"" || c == "\\" ? "\\" c : c
}
function value(c) {
    return c in rank ? 128 + rank[c] : number[c]
}
/^static const char / {
    name[++strings] = $4
    sub(/\[.*/, "", name[strings])
    next
}
/^"/ {
    line = substr($0, 2, length($0) - 2)
    if (line ~ /^#line 1 \\"/) {
        file = line
        sub(/^#line 1 \\"/, "", file)
        sub(/\\".*/, "", file)
    }
    of[strings] = part("cl/" file)
    text[strings] = text[strings] line
    next
}
{ rest[++lines] = $0 }
END {
    for (s = 1; s <= strings; s++) {
        gsub(/\\n/, "\n", text[s])
        gsub(/\\"/, "\"", text[s])
        gsub(/\\\\/, "\\", text[s])
    }
    while (symbols < SYMBOLS) { # 16 pairs a round, since counting is what takes time
        split("", count)
        for (s = 1; s <= strings; s++) {
            n = of[s] ? 0 : split_symbols(text[s], symbol)
            for (i = 1; i < n; i++)
                count[symbol[i] SUBSEP symbol[i + 1]]++
        }
        split("", taken)
        for (k = 0; k < 16 && symbols < SYMBOLS; k++) {
            most = 0
            for (p in count)
                if (count[p] > most || (count[p] == most && p < best)) {
                    split(p, two, SUBSEP)
                    if (two[1] in taken || two[2] in taken)
                        continue
                    most = count[best = p]
                }
            split(best, two, SUBSEP)
            taken[two[1]] = taken[two[2]] = 1
            new = char[192 + int(symbols / 64)] char[128 + symbols % 64]
            symbols++
            first[new] = two[1]
            second[new] = two[2]
            for (s = 1; s <= strings; s++)
                text[s] = replace_all(text[s], two[1] two[2], new)
        }
    }
    # The frequent ones come first.
    split("", count)
    for (s = 1; s <= strings; s++) {
        n = split_symbols(text[s], symbol)
        for (i = 1; i <= n; i++)
            count[symbol[i]]++
    }
    for (k = 0; k < symbols; k++) {
        best = ""
        for (c in first)
            if (!(c in rank) && (best == "" || count[c] > count[best] ||
                                 (count[c] == count[best] && c < best)))
                best = c
        if (k == 120)
            for (c in first) # the others are alike
                if (!(c in rank))
                    rank[c] = k++
        if (k < symbols)
            rank[best] = k
    }
    for (c in rank)
        by_rank[rank[c]] = c
    print "const unsigned short cls_pairs[" symbols "][2] = {"
    for (k = 0; k < symbols; k++)
        print "    {" value(first[by_rank[k]]) ", " value(second[by_rank[k]]) "},"
    print "};"
    for (s = 1; s <= strings; s++) {
        n = split_symbols(text[s], symbol)
        line = ""
        if (of[s])
            print "#ifndef CLS_WITHOUT_" of[s]
        print "static const char " name[s] "[] ="
        for (i = 1; i <= n; i++) {
            k = value(symbol[i]) - 128
            if (k < 0)
                line = line escaped(symbol[i])
            else if (k < 120)
                line = line sprintf("\\%03o", 128 + k)
            else
                line = line sprintf("\\%03o\\%03o", 248 + int((k - 120) / 255), 1 + (k - 120) % 255)
            if (length(line) > 88 || i == n) {
                print "    \"" line (i == n ? "\";" : "\"")
                line = ""
            }
        }
        if (of[s])
            print "#endif"
        of_file[name[s]] = of[s]
    }
    for (i = 1; i <= lines; i++) {
        line = rest[i]
        owner = line
        if (sub(/^#define PARTS_/, "", owner)) {
            sub(/\(.*/, "", owner)
            if (of_file[owner "_0"])
                line = "#ifndef CLS_WITHOUT_" of_file[owner "_0"] "\n" line "\n#else\n" \
                    "#define PARTS_" owner "(X)\n#endif"
        } else if (sub(/^const char .*cls_source_/, "", owner)) {
            sub(/\[.*/, "", owner)
            program = of_file["kernels_" owner "_cl_0"]
            if (program)
                line = line "\n#ifndef CLS_WITHOUT_" program
        } else if (line == "};" && program)
            line = "#else\n    \"\"\n#endif\n};"
        if (line != ";")
            print line
    }
}
