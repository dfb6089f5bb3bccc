#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Reads the results of bench/gpu.sh: computes which goals are met, and writes tables and a plot.

    gpu_table.py gpu.json [--plot FILE.svg]

The goals are for a GPU like NVIDIA's H100, vocabulary 128,256 and float32. A time is by the
device's clock unless it is called wall time, which is from enqueue to finish.
"""
import argparse
import json
import math
import sys

VOCAB, DTYPE = 128256, "f32"

# A case, its batches, and the limit: a number, and what it is a multiple of ("us": microseconds).
GOALS = [
    ("topk", [1], 25, "us"),
    ("topk", [16], 30, "us"),
    ("topk", [256], 2, "floor"),
    ("plain", [1, 16, 256], 1, "topk"),
    ("greedy", [1, 16, 256], 1, "topk"),
    ("topp_peaked", [1, 16, 256], 2, "topk"),
    ("topp_flat", [1, 16, 256], 5, "floor"),
    ("penalties", [1, 16, 256], 1.25, "topk"),
    ("mask", [1, 16, 256], 1.25, "topk"),
]


def shape(state):
    """The vocabulary and type of the goals; those of the first bench in a quick run."""
    runs = state.get("bench", [])
    if runs and state["quick"]:
        return runs[0]["vocab"], runs[0]["dtype"]
    return VOCAB, DTYPE


def cases(state):
    """(case, batch) -> what the bench says, for the goals' vocabulary and type."""
    return {
        (case["case"], run["batch"]): case
        for run in state.get("bench", [])
        if (run["vocab"], run["dtype"]) == shape(state)
        for case in run["cases"]
        if "error" not in case
    }


def peers(state):
    """(case, batch) -> what other samplers took, likewise."""
    found = {}
    for p in state.get("peers", []):
        if (p["vocab"], p["dtype"]) == shape(state) and p["case"] and "error" not in p:
            found.setdefault((p["case"], p["batch"]), []).append(p)
    return found


def goals(state):
    at = cases(state)
    batches = sorted({b for _, b in at})
    result = []
    for name, wanted, factor, unit in GOALS:
        for batch in batches if state["quick"] else wanted:
            case, topk = at.get((name, batch)), at.get(("topk", batch))
            goal = {"case": name, "batch": batch, "limit": factor, "unit": unit}
            goal.update(measured=None, wall=None, met=None)
            result.append(goal)
            if case is None or (unit == "topk" and topk is None):
                continue
            step, wall = case["step_device_us"], case["step_us"]
            if unit == "topk":
                unit_us, unit_wall = topk["step_device_us"], topk["step_us"]
            elif unit == "floor":
                unit_us, unit_wall = case["floor_device_us"], case["floor_us"]
            else:
                unit_us = unit_wall = 1
            goal["wall"] = round(wall / unit_wall, 3)
            if step and unit_us:
                goal["measured"] = round(step / unit_us, 3)
                goal["met"] = goal["measured"] <= factor
    for (name, batch), others in sorted(peers(state).items()):
        for other in others:
            case = at.get((name, batch))
            goal = {"case": name, "batch": batch, "limit": 1, "unit": title(other)}
            goal.update(measured=None, wall=None, met=None)
            result.append(goal)
            if case and other["wall_us"]:
                goal["wall"] = round(case["step_us"] / other["wall_us"], 3)
            if case and case["step_device_us"] and other["device_us"]:
                goal["measured"] = round(case["step_device_us"] / other["device_us"], 3)
                goal["met"] = goal["measured"] < 1
    return result


def title(peer):
    return " ".join(filter(None, (peer["library"], peer["function"])))


# ------------------------------------------------------------------------- the tables


def table(head, rows):
    rows = [head] + [["-" if c is None else str(c) for c in r] for r in rows]
    widths = [max(len(r[i]) for r in rows) for i in range(len(head))]
    text = ""
    for first, *others in rows:
        cells = [first.ljust(widths[0])] + [c.rjust(w) for c, w in zip(others, widths[1:])]
        text += "  ".join(cells) + "\n"
    return text


def number(x):
    return None if x is None else f"{x:.1f}"


def page(state):
    vocab, dtype = shape(state)
    at = cases(state)
    batches = sorted({b for _, b in at})
    names = list(dict.fromkeys(name for name, _ in at))
    device = state.get("device", {})
    text = [
        f"{device.get('name', 'no device yet')}, driver {device.get('driver', '?')}; "
        f"clsample {state.get('clsample', '?')}, commit {state.get('commit', '?')}\n"
    ]
    if state["quick"]:
        text.append("A quick run, to try the script: its times mean nothing.\n")
    if at:
        for key, what in (("step_device_us", "the device's clock"), ("step_us", "wall time")):
            text.append(f"microseconds by {what}, vocabulary {vocab}, {dtype}, by batch\n")
            rows = [[n] + [number(at.get((n, b), {}).get(key)) for b in batches] for n in names]
            floor = key.replace("step", "floor")
            rows.append(["(floor)"] + [number(at.get(("topk", b), {}).get(floor)) for b in batches])
            text.append(table(["case"] + [str(b) for b in batches], rows))
    others = [p for p in state.get("peers", []) if "error" not in p]
    if others:
        text.append("other samplers, microseconds by the device's clock, and wall time\n")
        text.append(
            table(
                ["function", "for", "vocab", "dtype", "batch", "device", "wall", "graph"],
                [
                    [title(p), p["case"], p["vocab"], p["dtype"], p["batch"]]
                    + [number(p[k]) for k in ("device_us", "wall_us", "graph_us")]
                    for p in others
                ],
            )
        )
    text.append("goals: a case's time in its unit\n")
    text.append(
        table(
            ["case", "batch", "unit", "limit", "measured", "wall", "met"],
            [
                [g["case"], g["batch"], g["unit"], g["limit"], g["measured"], g["wall"]]
                + [{True: "yes", False: "NO"}.get(g["met"])]
                for g in state.get("goals", [])
            ],
        )
    )
    for key in ("tests", "sameness"):
        results = [t["result"] for t in state.get(key, {}).values()]
        counts = [f"{results.count(r)} {r}" for r in sorted(set(results))]
        if counts:
            text.append(f"{key}: {', '.join(counts)}")
    missing = sorted({f"{title(p)}: {p['error']}" for p in state.get("peers", []) if "error" in p})
    text += [f"not measured: {m}" for m in missing]
    text += [f"FAILED: {s['step']}: {s['error']}" for s in state["steps"] if not s["ok"]]
    return "\n".join(text) + "\n"


# --------------------------------------------------------------------------- the plot

COLOURS = ["#000000", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#999999"]


def curves(state):
    """Name -> [(batch, microseconds by the device's clock)]."""
    at = cases(state)
    lines = {}
    for (name, batch), case in sorted(at.items()):
        if name == "topk" and case["floor_device_us"]:
            lines.setdefault("one read (floor)", []).append((batch, case["floor_device_us"]))
        if name in ("greedy", "topk", "plain", "topp_peaked") and case["step_device_us"]:
            lines.setdefault("clsample " + name, []).append((batch, case["step_device_us"]))
    for (name, batch), others in sorted(peers(state).items()):
        for p in others:
            if p["device_us"] and name in ("topk", "topp_peaked"):
                lines.setdefault(f"{title(p)} ({name})", []).append((batch, p["device_us"]))
    return lines


def plot(state):
    lines = curves(state)
    if not lines:
        return None
    width, height, left, top, right, bottom = 1020, 480, 60, 20, 490, 50
    batches = sorted({b for points in lines.values() for b, _ in points})
    times = [t for points in lines.values() for _, t in points]
    low, high = math.floor(math.log10(min(times))), math.ceil(math.log10(max(times)))
    span = max(math.log2(batches[-1] / batches[0]), 1)

    def x(batch):
        return left + (width - left - right) * math.log2(batch / batches[0]) / span

    def y(time):
        return height - bottom - (height - top - bottom) * (math.log10(time) - low) / (high - low)

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
    ]
    for power in range(low, high + 1):
        at = y(10.0**power)
        out.append(
            f'<line x1="{left}" y1="{at:.1f}" x2="{width - right}" y2="{at:.1f}" stroke="#ddd"/>'
            f'<text x="{left - 6}" y="{at + 4:.1f}" text-anchor="end">{10.0**power:g}</text>'
        )
    for batch in batches:
        place = f'x="{x(batch):.1f}" y="{height - bottom + 18}"'
        out.append(f'<text {place} text-anchor="middle">{batch}</text>')
    out.append(
        f'<text x="{(left + width - right) / 2}" y="{height - 12}" text-anchor="middle">'
        "rows of a step</text>"
        f'<text transform="translate(14 {height / 2}) rotate(-90)" text-anchor="middle">'
        "microseconds by the device's clock</text>"
    )
    for i, (name, points) in enumerate(lines.items()):
        colour = COLOURS[i % len(COLOURS)]
        dash = ' stroke-dasharray="6 4"' if not name.startswith("clsample") else ""
        path = " ".join(f"{x(b):.1f},{y(t):.1f}" for b, t in points)
        at = top + 18 * i + 10
        out.append(
            f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"{dash}/>'
            f'<line x1="{width - right + 12}" y1="{at}" x2="{width - right + 36}" y2="{at}" '
            f'stroke="{colour}" stroke-width="2"{dash}/>'
            f'<text x="{width - right + 42}" y="{at + 4}">{name}</text>'
        )
    return "\n".join(out + ["</svg>\n"])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("results")
    parser.add_argument("--plot")
    options = parser.parse_args()
    with open(options.results, encoding="utf-8") as file:
        state = json.load(file)
    state["goals"] = goals(state)
    print(page(state), end="")
    if options.plot:
        text = plot(state)
        if text is None:
            print("there are no times by the device's clock to plot", file=sys.stderr)
            return 1
        with open(options.plot, "w", encoding="utf-8") as file:
            file.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
