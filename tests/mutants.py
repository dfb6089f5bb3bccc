# SPDX-License-Identifier: MIT
"""Changes the sources in one place at a time, by named operators, and prints which tests see it.

    python3 SOURCE/tests/mutants.py [--list] [--count N] [--minutes N] [GROUP...]

It is run by hand in the folder `build` of the sources, which it copies to a temporary folder and
builds there. A group has files and the checks that concern them. N places in its files are changed:
an equal share of each operator, evenly spread, so the same arguments give the same mutants. Proofs
of programs compare nothing here; otherwise they would refuse most mutants of kernels.

A line of the output is a mutant and the tests that fail with it. `-` means that none does: the
change is without effect, or a test is lacking. At the end, for each test: the number of mutants
that it sees, and of those that no other test sees."""

import argparse
import collections
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

OPERATORS = [  # name, pattern, replacement
    ("bound", r" < (?!<)", " <= "),
    ("bound", r" <= ", " < "),
    ("bound", r" > (?!>)", " >= "),
    ("bound", r" >= ", " > "),
    ("equal", r" == ", " != "),
    ("equal", r" != ", " == "),
    ("sign", r" \+ (?=[\w(])", " - "),
    ("sign", r" - (?=[\w(])", " + "),
    ("logic", r" && ", " || "),
    ("logic", r" \|\| ", " && "),
    ("shift", r" >> (\w+)", r" >> (\1 + 1)"),
    ("extreme", r"\bmin\(", "max("),
    ("extreme", r"\bmax\(", "min("),
    ("constant", r"(?<=[ (\[,])(\d+)(?=u?[ ;,)\]])", lambda m: str(int(m[1]) + 1)),
    ("constant", r"(?<=[ (])(\d+\.\d+)f", r"(\1f * 1.001f)"),
    ("condition", r"\bif \(([^()]*)\)$", r"if (!(\1))"),
    ("branch", r" \? (?=[^:]* : )", " && 0 ? "),
    ("call", r"^(    +)[a-z_]\w*\([^=]*\);$", r"\1;"),
]


def texts(names):
    return [f"tests/scripts/{name}.run" for name in names.split()]


UNIT = "select reference modes_host samplers arithmetic goldens"
HOST = [f"tests/unit/check_{name}" for name in UNIT.split()]
HOST += ["tests/arithmetic/check_vectors", "tests/device/check_selftest --write"]
HOST += texts("history adjust chains")
DEVICE = [f"tests/device/check_{name}" for name in ("selftest",)]
DEVICE += texts("chains outputs modes")
# What compiles the functions of a changed header; all else is left as it is.
USERS = ["lib/request/*.c", "lib/host/*.c", "lib/host/stages/*.c"]
USERS += ["tests/unit/check_[as][ra][im]*.c", "tests/arithmetic/*.c", "tests/support/requests.c"]
GROUPS = {  # files and checks
    "host": (["lib/host/[acds]*.c", "lib/host/stages/*.c"], HOST),
    "shared": (["cl/core/samplers.h", "cl/core/arithmetic.h"], HOST),
    "history": (["cl/row/re*.cl", "cl/row/effects.cl"], texts("history")),
    "request": (["lib/request/*.c"], texts("adjust budgets grammar saved") + HOST[:2]),
    "sampler": (["lib/sampler/*.c"], texts("slots calls accept saved forced")),
    "step": (["lib/step/*.c"], texts("steps outputs masks verify drafts")),
    "shard": (["lib/shard/*.c"], [*texts("shards"), "tests/device/check_shards"]),
    "kernels": (["cl/stages/*.cl", "cl/row/*.cl", "cl/draw/*.cl"], DEVICE),
}


def places(path):
    """Yields the places of a file that operators change: line number, operator, new line."""
    inside = False
    for number, line in enumerate(open(path, encoding="utf-8").read().split("\n"), 1):
        inside = inside or line.lstrip().startswith("/*")
        code = line.split("/*")[0]
        if not inside and line.startswith("    ") and not code.rstrip().endswith("\\"):
            for name, pattern, new in OPERATORS:
                for found in re.finditer(pattern, code):
                    end = re.compile(pattern).sub(new, code[found.start() :], count=1)
                    if name in ("call", "constant"):  # these look behind
                        end = found.expand(new) if isinstance(new, str) else new(found)
                        end += code[found.end() :]
                    yield number, name, code[: found.start()] + end + line[len(code) :]
        inside = inside and "*/" not in line


def mutants(group, count):
    paths = [p for pattern in GROUPS[group][0] for p in sorted(glob.glob(pattern))]
    found = [(path, *place) for path in paths for place in places(path)]
    chosen, names = set(), sorted({place[2] for place in found})
    for turn, name in enumerate(names):
        of = [i for i, place in enumerate(found) if place[2] == name]
        n = min(len(of), count * (turn + 1) // len(names) - count * turn // len(names))
        chosen |= {of[(2 * i + 1) * len(of) // (2 * n)] for i in range(n)}
    return [found[i] for i in sorted(chosen)]


def targets(check):
    return ["clsample", "tests/scripts/hooked"] if check.endswith(".run") else [check.split()[0]]


def replace(path, old, new):
    text = open(path, encoding="utf-8").read()
    assert old in text, path
    open(path, "w", encoding="utf-8").write(text.replace(old, new))


class Copy:
    """A copy of the sources and of their build."""

    def __init__(self):
        self.top = tempfile.mkdtemp(prefix="mutants-")
        self.source = os.path.join(self.top, "source")
        skip = shutil.ignore_patterns(".git", "corpus", "autom4te.cache")
        shutil.copytree("..", self.source, symlinks=True, ignore=skip)
        self.move(os.getcwd())
        os.chdir(self.source)
        self.environment = dict(os.environ, CK_FORK="no", srcdir="..")
        self.environment["POCL_EXTRA_BUILD_FLAGS"] = "-cl-opt-disable"
        self.environment["BUILD"] = os.path.join(self.source, "build")
        self.environment["CLSAMPLE"] = os.path.join(self.source, "build", "clsample")
        for name in ("POCL_CACHE_DIR", "CLS_TEST_PROGRAMS"):
            self.environment[name] = f"{self.top}/{name}"
            os.mkdir(self.environment[name])
        replace("lib/selftest/prove.c", "cls_test_proofs_compare_nothing", "1")

    def move(self, build):
        """What was configured by an absolute path would build the sources there, unchanged."""
        old, build = os.path.dirname(build), os.path.join(self.source, "build")
        for path in [f"{build}/Makefile", *glob.glob(f"{build}/**/.deps/*", recursive=True)]:
            text, when = open(path, encoding="utf-8").read(), os.stat(path)
            open(path, "w", encoding="utf-8").write(text.replace(old, self.source))
            os.utime(path, ns=(when.st_atime_ns, when.st_mtime_ns))

    def run(self, command, seconds):
        try:
            return subprocess.run(
                command, cwd="build", env=self.environment, timeout=seconds, text=True,
                errors="replace", stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        except subprocess.TimeoutExpired:
            return subprocess.CompletedProcess(command, 1, ":E:case:too_long:0:")

    def build(self, checks, path=None):
        command = ["make", "-s", "-j2", "CFLAGS=-O1", *sum(map(targets, checks), [])]
        if path and path.endswith(".h"):
            command += ["-o", "../" + path]
            for user in [user for pattern in USERS for user in glob.glob(pattern)]:
                os.utime(user)
        return self.run(command, 900)

    def failures(self, check):
        """Returns the names of a check's tests that fail."""
        small = "device" not in check and "scripts" not in check
        self.environment["CLS_TEST_SIZE"] = "small" if small else "tiny"
        command = ["./" + check.split()[0], *check.split()[1:]]
        if check.endswith(".run"):
            command = ["sh", "../tests/scripts/run.sh", "../" + check]
        done = self.run(command, 300)
        failed = set(re.findall(r":[FE]:[^:]*:(\w+):\d+:", done.stdout))
        failed |= set(re.findall(r"FAILED: \S*?(\w+)\.txt", done.stdout))
        if "--write" in check:
            known = open("lib/selftest/known.c", encoding="utf-8").read()
            answers = [re.findall(r"-?\d+, 0x\w+", text) for text in (known, done.stdout)]
            failed = set() if answers[0] == answers[1] else {"known"}
        elif done.returncode not in (0, 77) and not failed:
            failed = {"fails"}
        name = os.path.basename(check.split()[0]).replace("check_", "")
        return {f"{name}:{test}" for test in failed if not re.match("spoiled|arguments", test)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--list", action="store_true", help="print the mutants and run nothing")
    parser.add_argument("--count", type=int, default=20, help="mutants of a group")
    parser.add_argument("--minutes", type=float, default=35)
    parser.add_argument("group", nargs="*", default=list(GROUPS))
    o = parser.parse_args()
    if o.list:
        os.chdir("..")
        for group in o.group:
            for path, number, name, new in mutants(group, o.count):
                print(f"{path}:{number}: {name}: {new.strip()}")
        return 0
    copy, began, seen, tested = Copy(), time.time(), collections.defaultdict(set), 0
    for group in o.group:
        checks = GROUPS[group][1]
        built = copy.build(checks)
        broken = set().union(*(copy.failures(c) for c in checks))
        if built.returncode != 0 or broken:
            print(built.stdout, "without a change fail:", broken)
            return 1
        for path, number, name, new in mutants(group, o.count):
            if time.time() - began > 60 * o.minutes:
                break
            where = f"{path}:{number} {name}: {new.strip()}"
            text = open(path, encoding="utf-8").read()
            lines = text.split("\n")
            lines[number - 1] = new
            open(path, "w", encoding="utf-8").write("\n".join(lines))
            if copy.build(checks, path).returncode != 0:
                print(f"{where}: does not compile", flush=True)
            else:
                tested += 1
                found = set().union(*(copy.failures(c) for c in checks))
                print(f"{where}: {' '.join(sorted(found)) or '-'}", flush=True)
                for test in found:
                    seen[test].add(where)
            open(path, "w", encoding="utf-8").write(text)
    found = len(set().union(*seen.values()))
    print(f"\n{tested} mutants, {found} seen, {time.time() - began:.0f} s")
    for test, of in sorted(seen.items(), key=lambda x: -len(x[1])):
        alone = sum(not any(w in s for t, s in seen.items() if t != test) for w in of)
        print(f"{test:40} {len(of):4} {alone:4}")
    shutil.rmtree(copy.top)
    return 0


if __name__ == "__main__":
    sys.exit(main())
