# SPDX-License-Identifier: MIT
"""Changes the sources in one place at a time, by named operators, and prints which tests see it.

    python3 SOURCE/tests/mutants.py [OPTION...] [GROUP...]

It is run by hand in the folder `build` of the sources, which it copies to a temporary folder and
builds there. A group has files and the checks that concern them. N places in its files are changed:
an equal share of each operator, evenly spread, so the same arguments give the same mutants. Proofs
of programs compare nothing here, except in the tests that are about them: otherwise they would
refuse most mutants of kernels, and no other test would be judged.

To see what is lost when a test is shortened or moved, run what remains with --first, which ends a
mutant with the first test that sees it, and then the moved test alone on the mutants that are left:

    mutants.py --first --proofs --check judge.sh:small --check texts.sh:small step >left
    mutants.py --only left --proofs --together --check judge.sh:full step

--together changes all these places at once and runs the tests once. If they see that, it does the
same with each half, down to single mutants: where few are seen, it takes few runs.

A line of the output is a mutant and the tests that fail with it. `-` means that none does: the
change is without effect, or a test is lacking. At the end, for each test: the number of mutants
that it sees, and of those that no other test sees."""

import argparse
import glob
import os
import re
import resource
import shutil
import signal
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


def devices(names):
    return [f"tests/device/check_{name}" for name in names.split()]


JUDGE = "tests/scripts/judge.sh"
UNIT = "select reference modes_host samplers arithmetic goldens watermark"
HOST = [f"tests/unit/check_{name}" for name in UNIT.split()]
HOST += ["tests/arithmetic/check_vectors", "tests/device/check_selftest --write"]
HOST += [*texts("history adjust chains"), JUDGE]
# Proofs compare in these.
PROVING = devices("proofs programs quiet")
DEVICE = devices("selftest proofs far") + texts("chains outputs modes")
# What compiles the functions of a changed header; all else is left as it is.
USERS = ["lib/request/*.c", "lib/host/*.c", "lib/host/stages/*.c"]
USERS += ["tests/unit/check_[as][ra][im]*.c", "tests/arithmetic/*.c"]
USERS += ["tests/support/oracle_rounded.c", "tests/unit/check_watermark.c"]
GROUPS = {  # files and checks
    "host": (["lib/host/[acds]*.c", "lib/host/stages/*.c"], HOST),
    "shared": ([f"cl/core/{name}.h" for name in ("samplers", "arithmetic", "watermark")], HOST),
    "history": (["cl/slot/re*.cl", "cl/slot/effects.cl"], texts("history")),
    "request": (["lib/request/*.c"], texts("adjust budgets grammar saved") + HOST[:2]
                + ["tests/command/check_command.sh"]),
    "sampler": (["lib/sampler/*.c"], [*texts("slots calls accept saved forced"), JUDGE]),
    "step": (["lib/step/*.c"], [*texts("steps outputs masks verify drafts"), JUDGE]),
    "shard": (["lib/shard/*.c"], [*texts("shards"), *devices("shards")]),
    "kernels": (["cl/stages/*.cl", "cl/slot/*.cl", "cl/row/*.cl", "cl/draw/*.cl", "cl/kernels/*.cl",
                 "cl/core/groups.cl"], DEVICE),
    "programs": (["lib/programs/*.c", "lib/context.c"], PROVING),
    "head": (["lib/head/*.c"], devices("head head_calls")),
    "command": (["cli/*.c"], [f"tests/command/check_{name}.sh"
                              for name in ("command", "run", "explain", "pages")]),
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


def together(all_of):
    """Parts whose mutants are each in a line of their own."""
    parts = []
    for mutant in all_of:
        for part in parts:
            if all(mutant[:2] != other[:2] for other in part):
                part.append(mutant)
                break
        else:
            parts.append([mutant])
    return parts


def name_of(mutant):
    path, number, name, new = mutant
    return f"{path}:{number} {name}: {new.strip()}"


def targets(check):
    program = check.split()[0].partition(":")[0]
    return ["clsample", "tests/scripts/hooked"] if program.endswith(("sh", ".run")) else [program]


def find(name):
    """The check of a name as `tests/run` takes it, with its size: NAME[:tiny|small|full]."""
    name, _, size = name.partition(":")
    stem, end = os.path.splitext(name)
    ends = (end,) if end else (".c", ".run", ".sh")
    found = [p for p in glob.glob(f"../tests/*/{stem}.*") if p.endswith(ends)]
    if len(found) != 1 or size not in ("", "tiny", "small", "full"):
        sys.exit(f"mutants.py: {name}:{size} is no test of a size, or several: {found}")
    check = found[0][3:].removesuffix(".c")
    return f"{check}:{size}" if size else check


def replace(path, old, new):
    text = open(path, encoding="utf-8").read()
    assert old in text, path
    open(path, "w", encoding="utf-8").write(text.replace(old, new))


class Copy:
    """A copy of the sources and of their build."""

    def __init__(self, group, proofs, first, kernels):
        self.top = tempfile.mkdtemp(prefix="mutants-")
        self.source = os.path.join(self.top, "source")
        skip = shutil.ignore_patterns(".git", "corpus", "autom4te.cache", "tempfile_*")
        shutil.copytree("..", self.source, symlinks=True, ignore=skip)
        self.move(os.getcwd())
        os.chdir(self.source)
        self.environment = dict(os.environ, CK_FORK="no", srcdir="..")
        self.environment.setdefault("POCL_EXTRA_BUILD_FLAGS", "-cl-opt-disable")
        self.environment["BUILD"] = os.path.join(self.source, "build")
        self.environment["CLSAMPLE"] = os.path.join(self.source, "build", "clsample")
        if group:
            self.environment["CLS_TEST_GROUP"] = str(group)
        for name in ("POCL_CACHE_DIR", "CLS_TEST_PROGRAMS", "proved"):
            self.environment[name] = os.path.join(kernels or self.top, name)
            os.makedirs(self.environment[name], exist_ok=True)
        if not proofs:
            replace("lib/selftest/prove.c", "cls_test_proofs_compare_nothing",
                    '(getenv("PROOFS_COMPARE") == NULL)')
            replace("lib/selftest/prove.c", "#include", "#include <stdlib.h>\n#include")
        # Nobody reads the shortest text that differs, which takes minutes.
        replace("cli/run.c", "c->shrinks = !keeps", "c->shrinks = false")
        if first:  # scripts of several runs end with the first that fails
            replace("tests/scripts/judge.sh", "        failed=1", "        exit 1")
            replace("tests/scripts/run.sh", "        failed=$((failed + 1))",
                    "        printf '%s: FAILED: %s' \"$what\" \"$out\" && exit 1")

    def move(self, build):
        """What was configured by an absolute path would build the sources there, unchanged. So
        would a Makefile that is made again."""
        old, build = os.path.dirname(build), os.path.join(self.source, "build")
        made = [f"{build}/Makefile", f"{build}/config.status"]
        for path in [*made, *glob.glob(f"{build}/**/.deps/*", recursive=True)]:
            text, when = open(path, encoding="utf-8").read(), os.stat(path)
            open(path, "w", encoding="utf-8").write(text.replace(old, self.source))
            os.utime(path, ns=(when.st_atime_ns, when.st_mtime_ns))

    def run(self, command, seconds, **more):
        """Runs a command for at most some seconds of processor time, since the machine may be busy,
        and ten times that by the clock."""
        with subprocess.Popen(
                command, cwd="build", env={**self.environment, **more}, text=True, errors="replace",
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
        ) as process:
            try:
                output = process.communicate(timeout=10 * seconds)[0]
                return subprocess.CompletedProcess(command, process.returncode, output)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                return subprocess.CompletedProcess(command, 1, ":E:case:too_long:0:")

    def build(self, checks, headers=()):
        command = ["make", "-s", "-j2", "CFLAGS=-O1", *sum(map(targets, checks), [])]
        for path in headers:
            command += ["-o", "../" + path]
        if headers:
            for user in [user for pattern in USERS for user in glob.glob(pattern)]:
                os.utime(user)
        return self.run(command, 900)

    def failures(self, check):
        """Returns the names of a check's tests that fail."""
        check, _, size = check.partition(":")
        size = size or ("tiny" if re.search("device|scripts", check) else "small")
        more = {} if size == "full" else {"CLS_TEST_SIZE": size}
        if check in PROVING:
            more.update(PROOFS_COMPARE="1", CLS_TEST_PROGRAMS=self.environment["proved"])
        command = ["./" + check.split()[0], *check.split()[1:]]
        if check.endswith(".run"):
            command = ["sh", "../tests/scripts/run.sh", "../" + check]
        elif check.endswith(".sh"):
            command = ["sh", "../" + check]
        done = self.run(command, 1800 if size == "full" else 600, **more)
        failed = set(re.findall(r":[FE]:[^:]*:(\w+):\d+:", done.stdout))
        failed |= set(re.findall(r"^([^:\n]+): FAILED:", done.stdout, re.M))  # of texts
        failed |= set(re.findall(r"^FAILED: ([^:\n]{1,50})", done.stdout, re.M))  # of the command
        if "--write" in check:
            known = open("lib/selftest/known.c", encoding="utf-8").read()
            answers = [re.findall(r"-?\d+, 0x\w+", text) for text in (known, done.stdout)]
            failed = set() if answers[0] == answers[1] else {"known"}
        elif done.returncode not in (0, 77) and not failed:
            failed = {"fails"}
        name = re.sub("check_|[.].*", "", os.path.basename(check.split()[0]))
        return {f"{name}:{test.replace(' ', '_')}" for test in failed
                if not re.match("spoiled|arguments", test)}

    def judge(self, changes, checks, first):
        """Makes changes, and returns the tests that see them; None: they do not compile."""
        texts = {}
        for path, number, _, new in changes:
            if path not in texts:
                texts[path] = open(path, encoding="utf-8").read()
            lines = open(path, encoding="utf-8").read().split("\n")
            lines[number - 1] = new
            open(path, "w", encoding="utf-8").write("\n".join(lines))
        built = self.build(checks, [path for path in texts if path.endswith(".h")])
        found = self.seen_by(checks, first) if built.returncode == 0 else None
        for path, text in texts.items():
            open(path, "w", encoding="utf-8").write(text)
        return found

    def seen_by(self, checks, first):
        """Returns the tests that fail; if first is set, those of the first check that has some."""
        found = set()
        for check in checks:
            found |= self.failures(check)
            if found and first:
                break
        return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--list", action="store_true", help="print the mutants and run nothing")
    parser.add_argument("--count", type=int, default=20, help="mutants of a group")
    parser.add_argument("--minutes", type=float, default=35)
    parser.add_argument("--check", action="append", metavar="NAME[:SIZE]",
                        help="run this test, not the group's: check_far:full, slots.run")
    parser.add_argument("--first", action="store_true",
                        help="end a mutant with the first test that sees it")
    parser.add_argument("--together", action="store_true",
                        help="change all places at once, and halve what is seen")
    parser.add_argument("--proofs", action="store_true",
                        help="proofs compare in all tests, as they do for users")
    parser.add_argument("--kernels", metavar="FOLDER",
                        help="keep compiled kernels there for the next run")
    parser.add_argument("--only", metavar="FILE",
                        help="an earlier output: only the mutants that no test has seen there")
    parser.add_argument("--work-group", type=int, metavar="N",
                        help="groups of N on devices (CLS_TEST_GROUP), with vectors of 4 in texts")
    parser.add_argument("group", nargs="*", default=list(GROUPS))
    o = parser.parse_args()
    kernels = o.kernels and os.path.abspath(o.kernels)
    chosen = [find(name) for name in o.check or []]
    left = set()
    if o.only:
        with open(o.only, encoding="utf-8") as f:
            left = {line[:-3] for line in f.read().split("\n") if line.endswith(": -")}
    if o.list:
        os.chdir("..")
        for group in o.group:
            for path, number, name, new in mutants(group, o.count):
                print(f"{path}:{number}: {name}: {new.strip()}")
        return 0
    copy = Copy(o.work_group, o.proofs, o.first or o.together, kernels)
    began, seen, tested = time.time(), {}, 0
    for group in o.group:
        checks = chosen or GROUPS[group][1]
        built = copy.build(checks)
        broken = copy.seen_by(checks, first=False)
        print(f"{group}: {time.time() - began:.0f} s without a change", flush=True)
        if built.returncode != 0 or broken:
            print(built.stdout, "without a change fail:", broken)
            return 1
        all_of = [mutant for mutant in mutants(group, o.count)
                  if not o.only or name_of(mutant) in left]
        parts = together(all_of) if o.together else [[mutant] for mutant in all_of]
        while parts and time.time() - began <= 60 * o.minutes:
            part = parts.pop(0)
            names, tests = [name_of(mutant) for mutant in part], copy.judge(part, checks, o.first)
            if tests is None or (tests and len(part) > 1):
                half = len(part) // 2
                if half == 0:
                    print(f"{names[0]}: does not compile", flush=True)
                else:
                    parts[:0] = [part[:half], part[half:]]
                continue
            tested += len(part)
            for name in names:
                print(f"{name}: {' '.join(sorted(tests)) or '-'}", flush=True)
                for test in tests:
                    seen.setdefault(test, set()).add(name)
    found = len(set().union(*seen.values()))
    print(f"\n{tested} mutants, {found} seen, {time.time() - began:.0f} s")
    for test, of in sorted(seen.items(), key=lambda x: -len(x[1])):
        alone = sum(not any(w in s for t, s in seen.items() if t != test) for w in of)
        print(f"{test:40} {len(of):4} {alone:4}")
    shutil.rmtree(copy.top)
    return 0


if __name__ == "__main__":
    sys.exit(main())
