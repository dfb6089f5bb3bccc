#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The lines of results.jsonl, one for each platform and shape, and the table of them in
doc/devices.md. The scripts of this folder add lines:

    results.py inputs FOLDER              what the tokens of all platforms are drawn from
    results.py begin|try|version|note|digest|end ...      a row, as common.sh calls them
    results.py table                      writes the table into doc/devices.md
    results.py check                      whether doc/devices.md has the table of these lines, and
                                          all rows have the same tokens
"""

import datetime
import fcntl
import hashlib
import json
import os
import pathlib
import re
import struct
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
TOP = HERE.parent.parent
RESULTS = HERE / "results.jsonl"
PAGE = TOP / "doc" / "devices.md"
FIRST, LAST = "<!-- made by tests/platforms/results.py -->", "<!-- end of what it made -->"

ACCEPT = "What *accept* reported, of which most seconds are those of the compiler:"

ROWS, PROMPT = 64, 48  # of examples/data/stories260K-logits.npy, of each request


def inputs(folder):
    """64 requests of all kinds of parameters, each with a prompt."""
    kinds = [
        {"temperature": 0},
        {"temperature": 1.3},
        {"temperature": 0.8, "top_k": 50, "top_p": 0.9},
        {"top_p": 0.95, "repetition_penalty": 1.2},
        {"min_p": 0.03, "temperature": 1.5},
        {"typical_p": 0.6},
        {"top_n_sigma": 1.5, "top_k": 100},
        {"top_a": 0.3},
        {"xtc_probability": 0.7, "xtc_threshold": 0.05},
        {"mirostat": 1, "mirostat_tau": 3},
        {"mirostat": 2, "mirostat_tau": 4},
        {"dry_multiplier": 0.8, "dry_allowed_length": 1},
        {"frequency_penalty": 0.4, "presence_penalty": 0.3, "temperature": 0.7},
        {"dynatemp_range": 0.5, "dynatemp_exponent": 1.2},
        {"p_less": True, "temperature": 1.7},
        {"no_repeat_ngram_size": 2, "top_k": 30},
    ]
    requests = [dict(kinds[i % len(kinds)], seed=1000 + i) for i in range(ROWS)]
    (folder / "requests.json").write_text(json.dumps(requests, indent=1))
    header = f"{{'descr': '<i4', 'fortran_order': False, 'shape': ({ROWS}, {PROMPT}), }}"
    ids = [(i * i * 7 + i * 13) % 31 for i in range(ROWS * PROMPT)]
    (folder / "prompts.npy").write_bytes(
        b"\x93NUMPY\x01\x00\x76\x00" + header.ljust(117).encode() + b"\n"
        + struct.pack(f"<{len(ids)}i", *ids))


# What commands print: a pattern, what it counts, and the group of those that failed.
PATTERNS = [
    (r"^(\d+) statements on (\d+) sides: all equal", "statements on {1} sides"),
    (r"^all (\d+) cases agree", "cases"),
    (r"^(\d+) passed, (\d+) failed", "tests"),
    (r"^accepted: ", None),
]


def judge(what, status, seconds, limit, log):
    """What a try's log says: how many passed and failed, and its last words."""
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    said = [line for line in lines if not re.match(r"clsample: \w+, \d+ s", line)]
    result = {"what": what, "passed": 1, "failed": 0, "unit": "", "seconds": seconds}
    for pattern, unit in PATTERNS:
        for line in said:
            match = re.match(pattern, line)
            if match and unit and what != "./bootstrap demo":
                result["passed"] = int(match[1])
                result["unit"] = unit.format(*match.groups())
                if unit == "tests":
                    result["failed"] = int(match[2])
    if what == "accept":
        result["said"] = said[-5:]
    if status in (124, 137):
        result.update(passed=0, failed=0, unit="", said=[f"stopped after {limit} s"])
    elif status != 0:
        result["failed"] = result["failed"] or 1
        if result["unit"] != "tests":
            result.update(passed=0, unit="")
        result["said"] = [line[:300] for line in said[-3:]] or [f"exit status {status}"]
    return result


def report(path):
    """What accept's report says, in short."""
    if not path.exists():
        return None
    whole = json.loads(path.read_text())
    one = {name: whole.get(name) for name in ("state", "shapes_planned", "seconds", "finding")}
    one.update(driver=whole.get("device", {}).get("driver"), largest=whole.get("largest"), shapes=[
        {"shape": shape.get("shape"), "programs": len(shape.get("programs", [])),
         **{name: shape.get(name, 0) for name in ("cases", "steps", "texts", "statements")},
         "seconds_a_step": [[step["rows"], step["seconds"]]
                            for step in shape.get("seconds_a_step", [])]}
        for shape in whole.get("shapes", [])])
    return one


def version():
    text = (TOP / "include/clsample/base.h").read_text()
    return re.search(r'CLS_VERSION_STRING "(.*)"', text)[1]


def read():
    lines = RESULTS.read_text().splitlines() if RESULTS.exists() else []
    return [json.loads(line) for line in lines]


def change(path, update):
    path = pathlib.Path(path)
    row = json.loads(path.read_text())
    update(row)
    path.write_text(json.dumps(row))
    return row


def put(things, name, thing):
    """Puts a thing in the place of the one with the same value of that name, or at the end."""
    places = [i for i, other in enumerate(things) if other[name] == thing[name]]
    things[slice(*(places[0], places[0] + 1) if places else (len(things), None))] = [thing]


def commit():
    """That of the sources, which CLSAMPLE_SOURCES names where a system has a clone of its own,
    with a + if files differ, other than what is written here."""
    def git(*words):
        sources = os.environ.get("CLSAMPLE_SOURCES", str(TOP))
        done = subprocess.run(["git", "-C", sources, *words], capture_output=True, text=True)
        return done.stdout.strip() if done.returncode == 0 else ""
    name = git("rev-parse", "--short=8", "HEAD")
    others = [f":!{path.relative_to(TOP)}" for path in (RESULTS, PAGE)]
    return name + ("+" if name and git("status", "--porcelain", "-uno", ".", *others) else "")


def begin(path, words, only):
    """A new row; or, where only some tries run, the older one of the same version."""
    row = dict(zip(["key", "implementation", "version", "machine", "shape"], words),
               clsample=version(), ran=[], day=datetime.date.today().isoformat())
    for old in read():
        same = all(old[name] == row[name] for name in ["key", "version", "clsample"])
        if only and same and not old.get("by_hand"):
            row.update({name: old[name] for name in ("ran", "tokens", "note") if name in old})
    pathlib.Path(path).write_text(json.dumps(row))


def end(path):
    """Puts a finished row into the lines. 1 if something failed; what was stopped did not."""
    row = json.loads(pathlib.Path(path).read_text())
    row["seconds"] = sum(one["seconds"] for one in row["ran"])
    # Scripts may run at once. The lines are read and written while no other script does so.
    with RESULTS.open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        rows = read()
        put(rows, "key", row)
        file.truncate(0)
        file.write("".join(json.dumps(one) + "\n" for one in rows))
    return 1 if any(one["failed"] for one in row["ran"]) else 0


# ------------------------------------------------------------------- the table


def cell(one):
    """A try that passed, in words."""
    return f"{one['what']}: {one['passed']:,} {one['unit']}" if one["unit"] else one["what"]


def failure(one):
    """A try that failed or was stopped, with the last line that it printed."""
    count = [f"{one['failed']:,} {one['unit']}"] if one["unit"] else []
    return f"**{one['what']}**: " + ", ".join(count + one.get("said", [])[-1:])


def cells(row):
    passed = [cell(one) for one in row["ran"] if one["passed"]]
    failed = [failure(one) for one in row["ran"] if one["failed"] or not one["passed"]]
    if row.get("tokens"):
        passed.append(f"tokens `{row['tokens'][:12]}`")
    if row.get("note"):
        failed.append(row["note"])
    day = row["day"] + (", by hand" if row.get("by_hand") else "")
    commits = {one.get("commit") for one in row["ran"]} - {""}
    for name in sorted(commits - {None}):
        day += f", {name}" + (" in part" if len(commits) > 1 else "")
    if row["clsample"] != version():
        day += f", version {row['clsample']}"
    return [
        f"{row['implementation']} {row['version']}",
        row["machine"],
        row["shape"],
        "; ".join(passed) or "nothing",
        "; ".join(failed) or "none",
        "not taken" if row["seconds"] is None else f"{row['seconds']:,}",
        day,
    ]


def accepted(row, one):
    """What accept reported of a platform, in cells: a line for each shape."""
    for shape in one["shapes"]:
        chosen = shape["shape"] or {}
        yield [
            f"{row['implementation']} {row['version']}",
            row["machine"],
            f"{chosen.get('work_group')}, {chosen.get('row_group')}, {chosen.get('vector')}; "
            + chosen.get("subgroups", ""),
            f"{one['state']}, {len(one['shapes'])} of {one['shapes_planned']}",
            *(f"{shape[name]:,}" for name in
              ("programs", "cases", "texts", "statements", "steps")),
            f"{one['seconds']:,.0f}",
        ]


def lines_of(head, rows):
    rows = [head, ["---"] * len(head)] + rows
    lines = ["| " + " | ".join(one.replace("|", "/") for one in row) + " |" for row in rows]
    lines[1] = lines[1].replace(" ", "")
    return lines


def table():
    rows = read()
    first = lines_of(["implementation", "machine", "shape", "passed", "failed, or did not run",
                      "seconds", "day, commit"], [cells(row) for row in rows])
    second = lines_of(
        ["implementation", "machine", "work-group, row-group, vector; sub-groups",
         "state, shapes run", "programs", "cases", "texts", "statements", "steps ahead",
         "seconds"],
        [line for row in rows for one in row["ran"]
         if one.get("report") and one["report"]["state"] != "running"  # killed: its row says so
         for line in accepted(row, one["report"])])
    return "\n".join([FIRST, ""] + first + ["", ACCEPT, ""] + second + ["", LAST])


def with_table(text):
    before, _, rest = text.partition(FIRST)
    _, _, after = rest.partition(LAST)
    return before + table() + after


def check():
    faults = []
    if with_table(PAGE.read_text()) != PAGE.read_text():
        faults.append("doc/devices.md has another table: run tests/platforms/results.py table")
    digests = {row["tokens"] for row in read() if row.get("tokens")}
    if len(digests) != 1:
        faults.append(f"the rows have different tokens: {sorted(digests)}")
    for fault in faults:
        print(f"FAILED: {fault}")
    print(f"{2 - len(faults)} passed, {len(faults)} failed")
    return 1 if faults else 0


def main(verb, *words):
    if verb == "inputs":
        inputs(pathlib.Path(words[0]))
    elif verb == "begin":
        begin(words[0], words[1:6], only=words[6:] != ("",))
    elif verb == "try":
        one = judge(words[1], *map(int, words[2:5]), pathlib.Path(words[5]))
        one["commit"] = commit()
        if one["what"] == "accept" and len(words) > 6:
            one["report"] = report(pathlib.Path(words[6]))
        change(words[0], lambda row: put(row["ran"], "what", one))
        print(f"   {cell(one) if one['passed'] else failure(one)}, {one['seconds']} s", flush=True)
    elif verb == "version":
        change(words[0], lambda row: row.update(version=words[1]))
    elif verb == "note":
        change(words[0], lambda row: row.update(note=words[1]))
    elif verb == "digest":
        file = pathlib.Path(words[1])
        if file.exists():
            value = hashlib.sha256(file.read_bytes()).hexdigest()
            change(words[0], lambda row: row.update(tokens=value))
            print("   tokens", value[:12])
    elif verb == "end":
        return end(words[0])
    elif verb == "table":
        PAGE.write_text(with_table(PAGE.read_text()))
    elif verb == "check":
        return check()
    else:
        sys.exit(__doc__)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
