# SPDX-License-Identifier: MIT
"""Proves that doc/arithmetic.md suffices to implement the sampling of tokens: sampler.py, which is
written from that page alone, gives the test vectors.

    check_sampler.py FOLDER   # tests/vectors"""

import os
import sys
import time

import numpy as np

import sampler

U = np.uint64
failures = 0


def check(where, what, given, expected):
    global failures
    if given == expected:
        return
    failures += 1
    if failures <= 20:
        print(f"FAILED: {where}: {what} is {given}, not {expected}")


def hexes(words):
    return np.array([int(x, 16) for x in words], np.uint32)


def floating(word):
    return sampler.float_of(int(word, 16))


# ----------------------------------------------------------------------------- values


def value_of(kind, w):
    """Returns what sampler.py computes for a record, as the record's last words."""
    bits = sampler.bits_of
    if kind == "clean":
        z = sampler.clean(hexes(w[:1]))[0]
        return [f"{bits(z[0]):08x}", str(sampler.key_of(z)[0])]
    if kind == "scale":
        return [f"{bits(sampler.scale_of(floating(w[0]))):08x}"]
    if kind == "top_p":
        return [str(sampler.top_p_of(floating(w[0])))]
    if kind == "min_p":
        return [f"{bits(sampler.min_p_of(floating(w[0]))):08x}"]
    if kind == "split":
        return [str(x) for x in sampler.split(floating(w[0]), floating(w[1]))]
    if kind == "weight":
        z, m, s = (floating(x) for x in w[:3])
        c = np.float32(int(w[3])) * np.float32(2.0**-24)
        return [str(sampler.weight(np.array([z]), m, s, c)[0])]
    if kind == "depth":
        return [f"{bits(sampler.depth(*(floating(x) for x in w[:3]))):08x}"]
    if kind == "row_units":
        return [str(sampler.row_units(np.array([int(w[0])], U), U(w[1]))[0])]
    if kind == "philox":
        words = [np.array([int(x, 16)], U) for x in w[:6]]
        return [f"{int(x[0]):08x}" for x in sampler.philox(words[:4], words[4:])]
    if kind == "bits":
        return [f"{int(sampler.random_bits(*(int(x) for x in w[:5]))[0]):016x}"]
    if kind == "target":
        return [str(sampler.top_p_target(int(w[0]), int(w[1])))]
    if kind == "drawn":
        return [str(sampler.drawn_integer(np.array([int(w[0], 16)], U), int(w[1]))[0])]
    return ["unknown"]


def check_values(lines):
    count = 0
    for number, line in enumerate(lines, 1):
        if not line.startswith("#"):
            kind, *words = line.split()
            value = value_of(kind, words)
            check(f"values.txt:{number}", kind, value, words[-len(value) :])
            count += 1
    return count


# ------------------------------------------------------------------------------ blocks


def blocks_of(lines):
    """Yields the name of each row or list, and its records: lists of words by their first word."""
    records, name = {}, ""
    for line in lines:
        kind, _, rest = line.partition(" ")
        if kind in ("row", "list"):
            records, name = {"kind": kind}, rest.strip()
        elif kind.strip() == "end":
            yield name, records
        elif kind != "#":
            records.setdefault(kind, []).append(rest.split())


def params_of(records):
    chain, *stages = records["chain"][0]
    return {
        "stages": stages if chain == "3" else sampler.STAGES[int(chain)],
        "temperature": floating(records["temperature"][0][0]),
        "top_k": int(records["top_k"][0][0]),
        "top_p": floating(records["top_p"][0][0]),
        "min_p": floating(records["min_p"][0][0]),
        "min_keep": int(records["min_keep"][0][0]),
    }


def random_of(records):
    """Returns the random bits of a block's draws, Philox's first and then the given ones."""
    seed, stream = (int(x) for x in records["seed"][0])
    draws, given = records.get("draw", []), records.get("given", [])
    numbers = [np.array([int(d[i]) for d in draws], U) for i in (0, 1)]
    bits = np.array([int(g[0], 16) for g in given], U)
    return np.concatenate([sampler.random_bits(0, seed, stream, *numbers), bits])


def check_tiles(name, weights, records):
    for t, *expected in records.get("tile", []):
        t = int(t)
        given = [f"{sampler.bits_of(weights.max[t]):08x}", str(weights.E[t]), str(weights.c[t])]
        given += [str(weights.tile_sum[t]), str(weights.d[t]), str(weights.tile_mass[t])]
        check(name, f"tile {t}", given, expected)


def check_set(name, row, records):
    """Compares what is kept, and for a row that is not greedy its masses."""
    kept, *first = records["kept"][0]
    check(name, "the number of kept tokens", len(row.kept), int(kept))
    check(name, "the first kept tokens", [str(i) for i in row.kept[:16]], first)
    check(name, "the last kept token", str(row.kept[-1]), records["last"][0][0])
    if row.greedy:
        return
    check(name, "the scale", f"{sampler.bits_of(row.weights.s):08x}", records["scale"][0][0])
    check_tiles(name, row.weights, records)
    target = records.get("top_p_target", [["0", "0"]])[0]
    if row.target != 0 or target[1] != "0":
        check(name, "top-p's mass and target", [str(row.total), str(row.target)], target)
    check(name, "the mass", str(row.mass), records["mass"][0][0])


def check_row(name, records):
    bits = hexes([x for words in records["logits"] for x in words])
    masked = [int(x) for x in records.get("masked", [[]])[0]]
    row = sampler.Row(bits, params_of(records), masked)
    draws = records.get("draw", []) + records.get("given", [])
    check(name, "the status", row.status, int(records["status"][0][0]))
    random = random_of(records)
    expected = [d[-3] for d in draws]
    check(name, "the random bits", [f"{r:016x}" for r in random.tolist()], expected)
    if row.status & sampler.EMPTY_STATUS:
        u, tokens = np.zeros(len(draws), U), np.full(len(draws), -1)
    else:
        check_set(name, row, records)
        u, tokens = np.zeros(len(draws), U), np.full(len(draws), row.kept[0])
        if not row.greedy:
            u, tokens = row.draw(random)
    check(name, "the drawn integers", u.tolist(), [int(d[-2]) for d in draws])
    check(name, "the tokens", tokens.tolist(), [int(d[-1]) for d in draws])
    return len(draws)


def check_list(name, records):
    entries = records.get("entry", [])
    draws = records.get("draw", []) + records.get("given", [])
    tokens = sampler.draw_from_list(
        [int(e[0]) for e in entries],
        hexes([e[1] for e in entries]),
        int(records["vocab"][0][0]),
        random_of(records),
    )
    check(name, "the tokens", tokens.tolist(), [int(d[-1]) for d in draws])
    return len(draws)


def check_blocks(lines):
    """Returns the numbers of rows, lists and draws."""
    rows = lists = draws = 0
    for name, records in blocks_of(lines):
        if records["kind"] == "row":
            rows += 1
            draws += check_row(f"row {rows} {name}", records)
        else:
            lists += 1
            draws += check_list(f"list {lists} {name}", records)
    return rows, lists, draws


# -------------------------------------------------------------------------------- main


def main():
    began, parts = time.time(), []
    with open(os.path.join(sys.argv[1], "values.txt"), encoding="ascii") as f:
        parts.append(f"{check_values(f)} values")
    rows = lists = draws = 0
    for name in ("rows.txt", "lists.txt"):
        with open(os.path.join(sys.argv[1], name), encoding="ascii") as f:
            counts = check_blocks(f)
        rows, lists, draws = rows + counts[0], lists + counts[1], draws + counts[2]
    parts += [f"{draws} draws from {rows} rows and {lists} lists"]
    print(f"{', '.join(parts)}: {failures} differ ({time.time() - began:.1f} s)")
    if draws == 0:
        print("FAILED: nothing was compared")
    return 1 if failures or draws == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
