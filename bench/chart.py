#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Draws microseconds of a step beside other samplers, from what peers.py --clsample printed.

    chart.py TIMES.json CHART.svg --caption "two cores of ..., PoCL 3.1, 26 November 2026"

Needs gnuplot. Prints the numbers of the chart in a sentence, the picture's text for those who do
not see it. A step of a model takes tens of milliseconds; the caption says what share of one of
50 ms the slowest of clsample's cases is.
"""
import argparse
import json
import subprocess
import sys

CASES = {
    "greedy": "greedy",
    "topk": "top-k 50, top-p 0.9",
    "topp_flat": "top-p 0.9, flat rows",
    "penalties": "penalties, top-k, top-p",
    "sigma": "top-n-sigma, top-k 100",
}
COLOURS = {"clsample": "#1b6ca8", "PyTorch": "#d9822b", "llama.cpp": "#6b8e4e"}
STEP_US = 50_000  # of a model


def read(path):
    """The fastest function of each library for each case, of the largest batch in the file."""
    with open(path, encoding="utf-8") as file:
        found = [e for e in json.load(file) if e.get("wall_us") and e["function"] != "floor"]
    about = max(found, key=lambda entry: entry["batch"])
    times, versions = {}, {}
    for entry in found:
        key = entry["library"], entry["case"]
        if entry["batch"] == about["batch"] and entry["case"] in CASES and key[0] in COLOURS:
            times[key] = min(entry["wall_us"], times.get(key, entry["wall_us"]))
            versions[entry["library"]] = entry["version"].split("+")[0]
    return times, versions, about


def plot(path, titles, rows, caption):
    """A point for each library, on a line of its own below its case: on a logarithmic axis, which
    these times need, a bar's length would say nothing, and numbers beside points do not collide."""
    blocks, points, numbers = [], [], []
    for i, (title, colour) in enumerate(zip(titles, COLOURS.values())):
        lines = [f"{row[i]} {-(case + 0.25 * (i - 1))}" for case, row in enumerate(rows.values())]
        blocks.append("\n".join([f"$T{i} << END", *lines, "END"]))
        points.append(f'$T{i} using 1:2 with points pt 7 ps 1.2 lc rgb "{colour}" title "{title}"')
        numbers.append(f"$T{i} using 1:2:1 with labels left offset 1,0 font ',11' notitle")
    cases = ", ".join(f'"{name}" {-case}' for case, name in enumerate(rows))
    between = "\n".join(
        f"set arrow from graph 0, first {-case - 0.5} to graph 1, first {-case - 0.5} nohead "
        'lc rgb "#cccccc"'
        for case in range(len(rows) - 1)
    )
    small = "\\n".join(f"{{/*.85 {line}}}" for line in caption.split("\n"))
    commands = "\n".join(blocks) + f"""
set terminal svg size 860,430 font "sans-serif,13" background "white"
set output "{path}"
set logscale x
set xrange [100:1000000]
set format x "%.0f"
set grid xtics
set ytics ({cases}) scale 0
set yrange [{0.5 - len(rows)}:.5]
{between}
set key outside top center horizontal
set xlabel "microseconds of a step, by powers of ten\\n{small}"
set rmargin 5
set bmargin 6
plot {", ".join(points + numbers)}
"""
    subprocess.run(["gnuplot"], input=commands, text=True, check=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("times")
    parser.add_argument("chart")
    parser.add_argument("--caption", required=True)
    options = parser.parse_args()
    times, versions, about = read(options.times)
    titles = [f"{library} {versions[library]}" for library in COLOURS if library in versions]
    rows = {
        title: [round(times.get((library, case), 0)) or "NaN" for library in versions]
        for case, title in CASES.items()
        if ("clsample", case) in times
    }
    worst = max(time for (library, _), time in times.items() if library == "clsample")
    what = f"{about['batch']} rows of {about['vocab']:,} {about['dtype']}"
    share = f"clsample's slowest is {100 * worst / STEP_US:.1f} % of a model's step of 50 ms"
    plot(options.chart, titles, rows, f"{what}; {options.caption}\n{share}; no GPU was measured")
    numbers = "; ".join(f"{name}: {', '.join(map(str, row))}" for name, row in rows.items())
    numbers = numbers.replace("NaN", "not timed")
    print(f"Microseconds of a step of {what} by {', '.join(titles)}. {numbers}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
