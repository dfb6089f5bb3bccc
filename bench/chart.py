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
            versions[entry["library"]] = entry["version"]
    return times, versions, about


def plot(path, titles, rows, caption):
    labels = [name.replace(", ", ",\\n", 1) for name in rows]  # two lines each
    table = "\n".join(
        " ".join([f'"{label}"', *map(str, row)]) for label, row in zip(labels, rows.values())
    )
    bars = [
        f'$T using {i + 2}:xticlabels(1) title "{title}" linecolor rgb "{colour}"'
        for i, (title, colour) in enumerate(zip(titles, COLOURS.values()))
    ]
    numbers = [
        f"$T using ($0 + {(i - 1) * 0.25}):{i + 2}:{i + 2} with labels font ',10' offset 0,.6 "
        "notitle"
        for i in range(len(titles))
    ]
    commands = f"""
set terminal svg size 860,430 font "sans-serif,13" background "white"
set output "{path}"
$T << END
{table}
END
set style data histogram
set style histogram clustered gap 1
set style fill solid
set logscale y
set yrange [50:*]
set format y "%.0f"
set grid y
set ylabel "microseconds of a step"
set key top left
set xlabel "{caption}" font ",11" offset 0,-.8
set bmargin 6
plot {", ".join(bars + numbers)}
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
    share = f"clsample's slowest bar is {100 * worst / STEP_US:.1f} % of a model's step of 50 ms"
    plot(options.chart, titles, rows, f"{what}; {options.caption}\\n{share}; no GPU was measured")
    numbers = "; ".join(f"{name}: {', '.join(map(str, row))}" for name, row in rows.items())
    numbers = numbers.replace("NaN", "not timed")
    print(f"Microseconds of a step of {what} by {', '.join(titles)}. {numbers}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
