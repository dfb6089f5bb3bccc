#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Describes, checks and measures a device by the command clsample, and prints one JSON object.

    device.py [--quick] COMMAND [OPTION]... >device.json    options of selftest and of bench
    device.py --rows device.json...                         rows of the tables in doc/devices.md

A part that fails has an error, and the next one runs. --quick: one type, and small steps.
"""
import json
import subprocess
import sys

CASES = ["greedy", "topk", "plain", "topp_peaked"]
QUICK = ["--batch=4", "--vocab=32000"]


def run(command, *arguments):
    """What the command prints as JSON; or {"error": its last sentence}."""
    print("device.py: clsample", *arguments, file=sys.stderr)
    done = subprocess.run([command, *arguments, "--json"], capture_output=True, text=True)
    try:
        return json.loads(done.stdout)
    except ValueError:
        lines = done.stderr.strip().splitlines() or [f"it ended with status {done.returncode}"]
        return {"error": lines[-1]}


def measure(quick, command, options):
    cases = [f"--case={case}" for case in CASES] if quick else []
    return {
        "devices": run(command, "devices"),
        "selftest": run(command, "selftest", *(["--dtype=f32"] if quick else []), *options),
        "bench": run(command, "bench", *cases, *(QUICK if quick else []), *options),
    }


def size(n):
    return f"{n // 2**20} MiB" if n % 2**20 == 0 else f"{n / 2**10:g} KiB"


def rows(found):
    """What the device is, and what it does; a part that failed is "-"."""
    test, bench = found["selftest"], found["bench"]
    d, shape = test["device"], test.get("shape") or {}
    name = f"{d['name']}, {d['platform']}"
    ratios = {c["case"]: c.get("ratio") for c in bench} if isinstance(bench, list) else {}
    agree = f"{test['cases'] - test['failed']:,} of {test['cases']:,}"
    yield (
        *(name, d["type"], d["driver"], d["opencl_c"], d["compute_units"]),
        *(f"{d['max_work_group']:,}", size(d["local_mem_size"]), d["subgroups"]),
    )
    yield (
        *(name, test["clsample"]),
        ", ".join(str(shape.get(key, "-")) for key in ("work_group", "row_group", "vector")),
        f"{shape.get('shortlist', 0):,}; {shape.get('tier', '-')}",
        agree + (f"; {test['error']}" if "error" in test else ""),
        f"{test['compile_seconds']:.3g} s",
        " ".join(f"{ratios[case]:.1f}" if ratios.get(case) else "-" for case in CASES),
    )


def main(arguments):
    quick = arguments[:1] == ["--quick"]
    if arguments[:1] == ["--rows"]:
        for path in arguments[1:]:
            try:
                with open(path, encoding="utf-8") as file:
                    found = list(rows(json.load(file)))
            except (OSError, ValueError, KeyError, TypeError) as error:
                sys.exit(f"device.py: {path} has no results of a device: {error!r}")
            for cells in found:
                print("| " + " | ".join(str(c).replace("|", "/") for c in cells) + " |")
    elif len(arguments) > quick:
        json.dump(measure(quick, arguments[quick], arguments[quick + 1 :]), sys.stdout, indent=1)
        print()
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
