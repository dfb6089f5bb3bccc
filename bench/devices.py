#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Turns reports of clsample report, and what make gpu-resources prints, into rows of tables.

    devices.py FILE...                               prints the rows
    devices.py --page doc/devices.md REPORT.json...  puts them into the page's tables
    devices.py --page doc/performance.md TEXT        those of each program; doc/devices.md has
                                                     those of the compilers

A row replaces the one of the same name. The tables stand between <!-- devices: NAME --> and the
next blank line; those that a page has not are left out.
"""
import argparse
import json
import re
import sys

UNITS = ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))
CASES = ("greedy", "topk", "plain", "topp_peaked")


def size(n):
    for unit, name in UNITS:
        if n >= unit:
            return f"{n / unit:.1f}".rstrip("0").rstrip(".") + f" {name}"
    return f"{n} B"


def seconds(found):
    return "-" if found is None else f"{found:.2g} s" if found < 100 else f"{found:.0f} s"


def yes(value):
    return "yes" if value else "no"


def version(text):
    found = re.search(r"\d+\.\d+", text or "")
    return found[0] if found else "?"


def key(report):
    d = report["device"]
    return f"{d['name']}, {d['platform']}".replace("|", "/")


def what_it_is(report):
    d = report["device"]
    return [
        d["type"],
        d["driver"],
        f"{version(d['version'])}; {version(d['opencl_c'])}",
        str(d["compute_units"]),
        f"{d['max_work_group']:,}",
        size(d["local_mem_bytes"]),
        f"{yes(d['infinities'])}; {yes(d['subnormals'])}",
        d["subgroups"],
    ]


def what_it_does(report):
    """What failed is named; a part that the report has not is "-"."""
    start, shape = report.get("start") or {}, report.get("shape") or {}
    test, bench = report.get("selftest"), report.get("bench") or {}
    first = [start.get(f"{part}_seconds") for part in ("context", "sampler", "first_step")]
    ratios = {c["case"]: c.get("ratio") for c in bench.get("cases", [])}
    failed = report["failures"]
    agrees = "-" if not test else f"{test['cases'] - test['failed']:,} of {test['cases']:,}"
    return [
        report["clsample"],
        f"{shape['work_group']}, {shape['row_group']}, {shape['vector']}" if shape else "-",
        f"{shape['shortlist']:,}; {shape['tier']}" if shape else "-",
        agrees if not failed else f"{agrees}; failed: {len(failed)}",
        seconds(None if None in first else sum(first)),
        seconds(sum(c["seconds"] for c in report["compile"]) if report.get("compile") else None),
        " ".join("-" if ratios.get(case) is None else f"{ratios[case]:.1f}" for case in CASES),
    ]


def of_report(text):
    """Table, name of the row, and cells, for each row."""
    report = json.loads(text)
    return [
        ("what they are", key(report), what_it_is(report)),
        ("what they do", key(report), what_it_does(report)),
    ]


# ------------------------------------------------------------------- compilers


# What the names of targets begin with: which compilers, and the columns of registers, of what is
# spilled, of its bytes, of the stack and of what runs at once, with its unit.
KINDS = {
    "sm_": (slice(0, 2), "reg", "spills", "spills", "stack", "occ", "%"),
    "gfx": (slice(0, 1), "vgpr", "sp", "scratch", None, "occ", "waves"),
    "": (slice(2, 3), None, "scratch", "scratch", "stack", "simd", "lanes"),
}


def of_target(target, programs, versions):
    """What a target's compiler makes of all programs. What it does not print is "-"."""
    kind = next(kind for start, kind in KINDS.items() if target.startswith(start))
    compilers, registers, spilled, size_of_it, stack, at_once, unit = kind

    def column(name):
        return [int(program[name].rstrip("%")) for program in programs]

    def most(name):
        return f"{max(column(name)):,}" if name else "-"

    return [
        ", ".join(versions.split(", ")[compilers]),
        str(len(programs)),
        most(registers),
        f"{sum(n > 0 for n in column(spilled))}; {most(size_of_it)}",
        most(stack),
        f"{min(column(at_once))} {unit}",
        f"{sum(column('s'))}; {most('MB')}" if "MB" in programs[0] else "-",
    ]


def of_resources(text):
    """The rows of the output of bench/gpu-resources.sh."""
    lines = [[cell.strip() for cell in line.split("|")] for line in text.splitlines()]
    versions = re.search(r"^compilers: (.*)$", text, re.M)[1]
    at = next(i for i, line in enumerate(lines) if line[0] == "program")
    targets, names = lines[at - 1][1:-1], [cell.split() for cell in lines[at][1:-1]]
    programs = {}
    for line in lines[at + 1 :]:
        if len(line) < 2:  # a complaint
            continue
        cells = [cell.split() for cell in line[1:-1]]
        programs[line[0]] = {  # without the targets that were left out
            target: dict(zip(name, cell))
            for target, name, cell in zip(targets, names, cells)
            if len(cell) == len(name)
        }
    rows = []
    for target in targets:
        found = [p[target] for p in programs.values() if target in p]
        if found:
            rows.append(("compilers", target, of_target(target, found, versions)))
    for program, p in programs.items():
        if len(p) < len(targets):
            continue
        sm_90, gfx90a, gfx1100, dg2 = (p[name] for name in ("sm_90", "gfx90a", "gfx1100", "dg2"))
        amd = [
            f"{one['vgpr']} (scratch {one['scratch']})" if one["scratch"] != "0" else one["vgpr"]
            for one in (gfx90a, gfx1100)
        ]
        wanted = ("reg", "stack", "spills", "local", "occ", "bar", "wide")
        cells = [sm_90[name].replace("%", " %") for name in wanted]
        cells += [amd[0], f"{amd[1]}, {gfx1100['occ']}"]
        rows.append(("NVIDIA and AMD", f"`{program}`", cells))
        time = "< 1" if dg2["s"] == "0" else dg2["s"]
        cells = [f"{time}, {dg2['MB']}", dg2["simd"]]
        cells += [f"{int(dg2[name]):,}" for name in ("stack", "scratch")]
        rows.append(("Intel", f"`{program}`", cells))
    return rows


# ---------------------------------------------------------------------- the page


def put(page, table, name, row):
    """The page with the row in a table, in place of the one of the same name."""
    before, rest = page.split(mark(table))
    lines, after = rest.split("\n\n", 1)
    lines = [line for line in lines.split("\n") if not line.startswith(f"| {name} |")]
    return before + mark(table) + "\n".join([*lines, row]) + "\n\n" + after


def mark(table):
    return f"<!-- devices: {table} -->\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("files", nargs="+", metavar="FILE")
    parser.add_argument("--page", help="the page whose tables get the rows")
    options = parser.parse_args()
    page = open(options.page, encoding="utf-8").read() if options.page else None
    for path in options.files:
        try:
            with open(path, encoding="utf-8") as file:
                text = file.read()
            rows = (of_resources if text.startswith("groups of ") else of_report)(text)
        except (OSError, ValueError, KeyError, TypeError, StopIteration) as error:
            sys.exit(f"devices.py: {path} is no report of clsample report: {error!r}")
        if page is not None and not any(mark(table) in page for table, _, _ in rows):
            sys.exit(f"devices.py: the page has no table after {mark(rows[0][0]).strip()}")
        for table, name, cells in rows:
            row = "| " + " | ".join([name, *(cell.replace("|", "/") for cell in cells)]) + " |"
            if page is None:
                print(row)
            elif mark(table) in page:
                page = put(page, table, name, row)
    if page is not None:
        with open(options.page, "w", encoding="utf-8") as file:
            file.write(page)


if __name__ == "__main__":
    main()
