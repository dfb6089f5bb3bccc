#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Turns reports of clsample report into rows of the tables of doc/devices.md.

    devices.py REPORT.json...                        prints the rows
    devices.py --page doc/devices.md REPORT.json...  puts them into the page's tables

A row replaces the one of the same device. The tables stand between <!-- devices: NAME --> and the
next blank line.
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


TABLES = {"what they are": what_it_is, "what they do": what_it_does}


def put(page, table, name, row):
    """The page with the row in a table, in place of the one of the same device."""
    mark = f"<!-- devices: {table} -->\n"
    if mark not in page:
        sys.exit(f"devices.py: the page has no table after {mark.strip()}")
    before, rest = page.split(mark)
    lines, after = rest.split("\n\n", 1)
    lines = [line for line in lines.split("\n") if not line.startswith(f"| {name} |")]
    return before + mark + "\n".join([*lines, row]) + "\n\n" + after


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("reports", nargs="+", metavar="REPORT.json")
    parser.add_argument("--page", help="the page whose tables get the rows")
    options = parser.parse_args()
    page = open(options.page, encoding="utf-8").read() if options.page else None
    for path in options.reports:
        try:
            with open(path, encoding="utf-8") as file:
                report = json.load(file)
            rows = {table: make(report) for table, make in TABLES.items()}
            name = key(report)
        except (OSError, ValueError, KeyError, TypeError) as error:
            sys.exit(f"devices.py: {path} is no report of clsample report: {error!r}")
        for table, cells in rows.items():
            row = "| " + " | ".join([name, *(cell.replace("|", "/") for cell in cells)]) + " |"
            if page is None:
                print(row)
            else:
                page = put(page, table, name, row)
    if page is not None:
        with open(options.page, "w", encoding="utf-8") as file:
            file.write(page)


if __name__ == "__main__":
    main()
