#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The steps of bench/gpu.sh, which prepares the environment and calls this.

Each finished step adds its results to gpu.json, so a later call with the same --out goes on after
it. bench/results/README.md describes the file. Only Python's standard library is used.
"""
import argparse
import atexit
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import gpu_table

FULL = {
    "batches": [1, 4, 16, 64, 256, 512],
    "shapes": [(v, d) for v in (128256, 32000, 151936) for d in ("f32", "bf16", "f16")],
    "runs": 201,
    "profiled": [1, 16, 256],
    "profile_vocab": 128256,
    "groups": [64, 128, 256],
    "tiers": ["subgroups", "int64"],
    "dtype": "all",
    "far_gib": "9",
    "starts": 2,
    "tests": None,
    "size": "small",
    "pool": 8,
    "tuned": [1, 16, 256],
    "tune_seconds": 60,
}
QUICK = dict(
    FULL,
    batches=[1, 4],
    shapes=[(4000, "f32"), (1000, "bf16")],
    runs=5,
    profiled=[4],
    profile_vocab=4000,
    groups=[1],
    tiers=["int64"],
    dtype="f32",
    far_gib="0.1",
    starts=1,
    tests="check_survey check_draw check_usual check_far check_vectors check_offsets".split(),
    size="tiny",
    pool=1,
    tuned=[4],
    tune_seconds=20,
)


class OutOfTime(Exception):
    """The call's time is over: the step runs again in the next call."""


class Failed(Exception):
    """The step cannot be done; the text says why."""


class Runner:
    def __init__(self, options, state):
        self.options, self.state = options, state
        self.plan = QUICK if options.quick else FULL
        self.end = time.monotonic() + options.limit
        self.log = open(os.path.join(options.out, "gpu.log"), "a", encoding="utf-8")
        self.background = None
        self.children = set()
        self.saving = threading.Lock()

    def left(self):
        return self.end - time.monotonic()

    def path(self, name):
        return os.path.join(self.options.build, name)

    def start(self, command, env=None, **more):
        """Starts a process in a group of its own, so that what it starts can be ended, too."""
        self.log.write("$ " + " ".join(command) + "\n")
        self.log.flush()
        process = subprocess.Popen(
            command,
            cwd=self.options.build,
            env={**os.environ, **(env or {})},
            stdin=subprocess.DEVNULL,
            stderr=self.log,
            text=True,
            start_new_session=True,
            **more,
        )
        self.children.add(process)
        return process

    def end_children(self):
        for process in self.children:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)

    def run(self, command, most, env=None, allowed=(0,)):
        """Runs a command for at most so many seconds; returns its exit status and output."""
        if self.left() < 5:
            raise OutOfTime
        process = self.start(command, env, stdout=subprocess.PIPE)
        limit = min(most, self.left())
        try:
            output, _ = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            if limit < most:
                raise OutOfTime from None
            raise Failed(f"{os.path.basename(command[0])} took more than {most} seconds") from None
        self.children.discard(process)
        self.log.write(output)
        self.log.flush()
        if process.returncode not in allowed:
            raise Failed(
                f"{' '.join(command[:3])} ended with status {process.returncode}: "
                f"{last_line(output)}"
            )
        return process.returncode, output

    def clsample(self, *arguments, most=300, allowed=(0,)):
        return self.run([self.path("clsample"), *map(str, arguments)], most, allowed=allowed)


def last_line(text):
    lines = text.strip().splitlines()
    return lines[-1][:300] if lines else "no output"


# ------------------------------------------------------------------------- the steps
# Each returns what it adds to the state: a value replaces, a list is appended.


def machine(r):
    def first_line(*command):
        if shutil.which(command[0]) is None:
            return None
        return last_line(r.run(list(command), 60, allowed=range(256))[1].split("\n", 1)[0])

    gpu = None
    if shutil.which("nvidia-smi"):
        keys = (
            "name,driver_version,memory.total,clocks.max.sm,clocks.max.mem,clocks.sm,clocks.mem,"
            "power.limit,temperature.gpu,ecc.mode.current"
        )
        _, output = r.run(
            ["nvidia-smi", f"--query-gpu={keys}", "--format=csv,noheader"], 60, allowed=range(256)
        )
        values = [v.strip() for v in output.strip().split("\n")[0].split(",")]
        gpu = dict(zip(keys.split(","), values))
    with open("/proc/meminfo", encoding="ascii") as file:
        memory = int(file.readline().split()[1]) // 1024
    return {
        "machine": {
            "system": platform.system(),
            "release": platform.release(),
            "machine": platform.machine(),
            "processors": os.cpu_count(),
            "memory_mib": memory,
            "python": platform.python_version(),
            "compiler": first_line(os.environ.get("CC", "cc"), "--version"),
            "nvidia_smi": gpu,
        },
        "clsample": r.clsample("--version")[1].split()[-1],
        "commit": r.options.commit,
        "driver": os.path.basename(r.options.driver),
    }


def devices(r):
    found = json.loads(r.clsample("devices", "--json")[1])
    usable = [d for d in found if d["default"]]
    if not usable:
        raise Failed("no device is usable: " + "; ".join(d.get("reason", "") for d in found))
    return {"device": usable[0]}


def selftest(r):
    _, output = r.clsample(
        "selftest", "--json", "--dtype", r.plan["dtype"], most=500, allowed=(0, 1, 2)
    )
    result = json.loads(output)
    if result["failed"] != 0 or "error" in result:
        r.state["selftest"] = result
        raise Failed(f"{result['failed']} of {result['cases']} cases differ")
    return {"selftest": result}


def bench(r, vocab, dtype, batch):
    _, output = r.clsample(
        *("bench", "--json", "--vocab", vocab, "--dtype", dtype, "--batch", batch),
        *("--runs", r.plan["runs"], "--cache-dir", r.path("programs")),
        most=240,
        allowed=(0, 1),
    )
    cases = json.loads(output)
    wrong = [f"{c['case']}: {c['error']}" for c in cases if "error" in c]
    added = {"bench": [{"vocab": vocab, "dtype": dtype, "batch": batch, "cases": cases}]}
    if wrong:
        add(r.state, added)
        raise Failed("; ".join(wrong))
    return added


def tests(r):
    """`make check`, in calls of some tests, so that a later call can go on."""
    known = r.state.setdefault("tests", {})
    names = r.plan["tests"]
    if names is None:
        _, output = r.run(
            ["make", "-s", "-f", os.path.join(r.options.source, "bench/show-tests.mk")], 60
        )
        names = output.split()
    else:
        makefile = read(r.path("Makefile"))
        names = [re.search(rf"\btests/\w+/{n}\b", makefile).group(0) for n in names]
    if r.left() < 60:
        raise OutOfTime
    jobs = f"-j{min(os.cpu_count() or 2, 2 * r.plan['pool'])}"
    programs = [n for n in names if not n.endswith(".sh")]
    r.run(["make", "-s", "-k", jobs, *programs], 400, allowed=(0, 2))
    if r.background is None:
        start_peers(r)
    env = {"CLS_TEST_SIZE": r.plan["size"]}
    waiting = [n for n in names if n not in known]
    while waiting:
        some, waiting = waiting[: r.plan["pool"]], waiting[r.plan["pool"] :]
        stems = [n.removesuffix(".sh") for n in some]
        for stem in stems:
            for suffix in (".trs", ".log"):
                if os.path.exists(r.path(stem + suffix)):
                    os.remove(r.path(stem + suffix))
        r.run(
            ["make", "-s", "-k", jobs, "check-TESTS", "check_PROGRAMS=", "TESTS=" + " ".join(some)],
            300,
            env,
            allowed=(0, 1, 2),
        )
        for name, stem in zip(some, stems):
            known[name] = test_result(r.path(stem))
        save(r)
    wrong = [n for n in names if known[n]["result"] not in ("PASS", "SKIP")]
    if wrong:
        raise Failed("failed: " + ", ".join(wrong))
    return {}


def read(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def test_result(stem):
    if not os.path.exists(stem + ".trs"):
        return {"result": "ERROR", "seconds": None, "note": "it did not run"}
    text = read(stem + ".trs")
    found = re.search(r"^:global-test-result: (\w+)", text, re.M)
    seconds = re.search(r"^:seconds: (\d+)", text, re.M)
    result = {
        "result": found.group(1) if found else "ERROR",
        "seconds": int(seconds.group(1)) if seconds else None,
    }
    if result["result"] != "PASS":
        result["note"] = last_line(read(stem + ".log"))
    return result


def sameness(r):
    """Known answers and random requests in several shapes, and rows far apart in memory."""
    known = r.state.setdefault("sameness", {})
    jobs = []
    for tier in r.plan["tiers"]:
        for group in r.plan["groups"]:
            name = f"groups of {group}, tier {tier}"
            shape = ["--tier", tier, "--work-group", str(group), "--row-group", str(group)]
            jobs.append(
                (
                    f"selftest, {name}",
                    [r.path("clsample"), "selftest", "--dtype", r.plan["dtype"], *shape],
                    {},
                )
            )
            env = {"CLS_TEST_GROUP": str(group), "CLS_TEST_TIER": tier}
            for test in ("check_chains", "check_verify_twin"):
                jobs.append((f"{test}, {name}", [r.path("tests/device/" + test)], env))
    jobs.append(("check_tiers", [r.path("tests/device/check_tiers")], {}))
    jobs.append(("check_invariance", [r.path("tests/device/check_invariance")], {}))
    far = [r.path("tests/device/check_far"), r.plan["far_gib"]]
    jobs.append((f"check_far {r.plan['far_gib']}", far, {}))
    if r.left() < 60:
        raise OutOfTime
    programs = sorted({os.path.relpath(j[1][0], r.options.build) for j in jobs} - {"clsample"})
    r.run(["make", "-s", "-k", "-j8", *programs], 400)
    size = {"CLS_TEST_SIZE": r.plan["size"]} if r.options.quick else {}
    late = []

    def work(job):
        name, command, env = job
        begun = time.monotonic()
        try:
            status, output = r.run(
                command, 500, {"CK_FORK": "no", **size, **env}, allowed=range(-64, 256)
            )
            result = {0: "same", 1: "different", 77: "left out"}.get(status, "did not run")
            note = last_line(output)
        except OutOfTime:
            late.append(name)
            return
        except Failed as failure:
            result, note = "did not run", str(failure)
        known[name] = {
            "result": result,
            "seconds": round(time.monotonic() - begun, 1),
            "note": note,
        }
        save(r)

    with ThreadPoolExecutor(r.plan["pool"]) as pool:
        list(pool.map(work, [j for j in jobs if j[0] not in known]))
    if late:
        raise OutOfTime
    wrong = [n for n, k in known.items() if k["result"] not in ("same", "left out")]
    if wrong:
        raise Failed("; ".join(f"{n}: {known[n]['result']}" for n in wrong))
    return {}


def peers_command(r, *more):
    peers = os.path.join(os.path.dirname(os.path.abspath(__file__)), "peers.py")
    return [sys.executable, peers, *map(str, more)]


def start_peers(r):
    """FlashInfer compiles its kernels for minutes: beside the tests, where no time is measured."""
    if "peers_built" not in r.state:
        r.background = r.start(peers_command(r, "--build"), stdout=r.log)


def peers_build(r):
    if r.background is None:
        start_peers(r)
    if r.background is not None:
        try:
            r.background.wait(timeout=max(1, min(400, r.left())))
        except subprocess.TimeoutExpired:
            os.killpg(r.background.pid, signal.SIGKILL)
            raise OutOfTime from None
    return {"peers_built": True}


def peers(r, vocab, dtype):
    _, output = r.run(
        peers_command(
            r,
            *("--vocab", vocab, "--dtype", dtype, "--runs", r.plan["runs"]),
            *("--batches", ",".join(map(str, r.plan["batches"]))),
        ),
        400,
    )
    return {"peers": json.loads(output)}


def profile(r, batch):
    added = []
    for case in ("greedy", "topk", "plain", "penalties", "mask", "topp_peaked", "topp_flat"):
        _, output = r.run(
            [
                *(r.path("bench/profile"), "--case", case, "--batch", str(batch), "--json"),
                *("--vocab", str(r.plan["profile_vocab"]), "--runs", str(r.plan["runs"])),
                *("--cache-dir", r.path("programs")),
            ],
            120,
        )
        _, end = json.JSONDecoder().raw_decode(output)
        kernels = json.loads(output[end:])
        added.append({"case": case, "batch": batch, "kernels": kernels})
    return {"kernels": added}


def resources(r):
    """What the driver's compiler says of each program; NVIDIA's names registers and spills."""
    _, output = r.run([r.path("bench/programs"), "--log"], 300, allowed=(0, 1))
    found = []
    for part in re.split(r"^program ", output, flags=re.M)[1:]:
        head, _, log = part.partition("\n")
        name, _, options = head.partition(" ")
        numbers = {
            "registers": r"Used (\d+) registers",
            "stack_bytes": r"(\d+) bytes stack frame",
            "spill_store_bytes": r"(\d+) bytes spill stores",
            "spill_load_bytes": r"(\d+) bytes spill loads",
            "local_bytes": r"(\d+) bytes smem",
        }
        entry = {"program": name, "options": options.strip()}
        for key, pattern in numbers.items():
            match = re.search(pattern, log)
            entry[key] = int(match.group(1)) if match else None
        group = re.search(r"-DWGS=(\d+)", options)
        entry["occupancy"] = occupancy(entry["registers"], int(group.group(1)) if group else 1)
        found.append(entry)
    return {"resources": found}


def occupancy(registers, group):
    """The share of 2,048 work-items that 65,536 registers leave, as NVIDIA's large GPUs have."""
    if not registers:
        return None
    warps = -(-group // 32)
    of_group = warps * (-(-registers * 32 // 256) * 256)
    return round(min(65536 // of_group * warps, 64) / 64, 3)


def start(r):
    """The first token of a process, with caches of drivers that are empty, and with warm ones."""
    caches = ("POCL_CACHE_DIR", "MESA_SHADER_CACHE_DIR", "CUDA_CACHE_PATH", "NEO_CACHE_DIR")
    found = []

    def measure(name, case, cache, folder=None):
        path = r.path("starts/" + cache)
        os.makedirs(path, exist_ok=True)
        command = [r.path("clsample"), "bench", "--json", "--case", case]
        command += ["--vocab", str(r.plan["profile_vocab"])]
        if folder is not None:
            os.makedirs(r.path("starts/" + folder), exist_ok=True)
            command += ["--cache-dir", r.path("starts/" + folder)]
        _, output = r.run(command, 300, dict.fromkeys(caches, path))
        found.extend({"start": name, **entry} for entry in json.loads(output))

    for run in range(r.plan["starts"]):
        shutil.rmtree(r.path("starts"), ignore_errors=True)
        for case in ("start_plain", "start", "start_search", "start_all"):
            measure(f"{case}, no cache", case, case)
            measure(f"{case}, driver cache", case, case)
        measure("empty cache-dir", "start", f"driver-{run}", "dir")
        measure("cache-dir and driver cache", "start", f"driver-{run}", "dir")
        measure("cache-dir alone", "start", f"none-{run}", "dir")
    return {"start": found}


def tune(r, batch):
    vocab = ["--vocab", r.plan["profile_vocab"]]
    _, output = r.clsample(
        *("bench", "--tune", "--json", "--batch", batch, *vocab),
        *("--seconds", r.plan["tune_seconds"]),
        most=240,
    )
    return {"tune": [json.loads(output)]}


def all_steps(plan):
    """Name, function, arguments and the seconds that should be left. Figures of the usual rows
    come first, then what proves the tokens, then the rest."""
    first, rest = plan["shapes"][0], plan["shapes"][1:]

    def benches(shape):
        vocab, dtype = shape
        for batch in plan["batches"]:
            yield f"bench {vocab} {dtype} {batch}", bench, (vocab, dtype, batch), 30

    yield "machine", machine, (), 5
    yield "devices", devices, (), 5
    yield "selftest", selftest, (), 60
    yield from benches(first)
    yield "tests", tests, (), 60
    yield "sameness", sameness, (), 60
    yield "peers-build", peers_build, (), 30
    for vocab, dtype in plan["shapes"]:
        if (vocab, dtype) == first or dtype == "f32" or vocab == first[0]:
            yield f"peers {vocab} {dtype}", peers, (vocab, dtype), 60
    for batch in plan["profiled"]:
        yield f"profile {batch}", profile, (batch,), 30
    yield "resources", resources, (), 30
    yield "start", start, (), 60
    for batch in plan["tuned"]:
        yield f"tune {batch}", tune, (batch,), plan["tune_seconds"] + 10
    for shape in rest:
        yield from benches(shape)


# ------------------------------------------------------------------------- the state


def add(state, results):
    for key, value in results.items():
        if isinstance(value, list) and key in state:
            state[key] = state[key] + value
        else:
            state[key] = value


def save(r):
    """Writes gpu.json and the page of tables; each is whole at any time."""
    with r.saving:
        r.state["goals"] = gpu_table.goals(r.state)
        texts = {
            "gpu.json": json.dumps(r.state, indent=1) + "\n",
            "gpu.txt": gpu_table.page(r.state),
        }
        for name, text in texts.items():
            path = os.path.join(r.options.out, name)
            with open(path + ".new", "w", encoding="utf-8") as file:
                file.write(text)
            os.replace(path + ".new", path)


def run_step(r, name, function, arguments):
    begun = time.monotonic()
    entry = {"step": name, "ok": True}
    try:
        add(r.state, function(r, *arguments))
    except OutOfTime:
        return None
    except Failed as failure:
        entry.update(ok=False, error=str(failure))
    except (OSError, ValueError, KeyError, AttributeError, IndexError) as error:
        entry.update(ok=False, error=f"{type(error).__name__}: {error}")
    entry["seconds"] = round(time.monotonic() - begun, 1)
    r.state["steps"].append(entry)
    return entry


def run_steps(r, steps, only):
    """Runs the steps that are not done; returns whether one is left for want of time."""
    done = {s["step"] for s in r.state["steps"]}
    for name, function, arguments, least in steps:
        if name in done or (only and not name.startswith(only)):
            continue
        if r.left() < min(least, r.options.limit / 2):
            return True
        print(f"{name} ...", end=" ", flush=True)
        entry = run_step(r, name, function, arguments)
        if entry is None:
            print("cut off")
            return True
        failed = "" if entry["ok"] else f", FAILED: {entry['error']}"
        print(f"{entry['seconds']} s{failed}", flush=True)
        save(r)
    return False


def main():
    parser = argparse.ArgumentParser()
    for name in ("build", "source", "out", "driver", "commit"):
        parser.add_argument("--" + name, default="")
    parser.add_argument("--limit", type=float, default=540)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--only", default="", help="beginnings of names, separated by /")
    options = parser.parse_args()
    if options.list:
        print("\n".join(step[0] for step in all_steps(QUICK if options.quick else FULL)))
        return 0
    options.build, options.out = map(os.path.abspath, (options.build, options.out))
    path = os.path.join(options.out, "gpu.json")
    state = {"format": 1, "quick": options.quick, "complete": False, "steps": []}
    if os.path.exists(path):
        state = json.loads(read(path))
        if state.get("quick") != options.quick or state.get("format") != 1:
            print(f"gpu.sh: {path} is of another kind of run; move it away", file=sys.stderr)
            return 2
    r = Runner(options, state)
    atexit.register(r.end_children)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))
    steps = list(all_steps(r.plan))
    only = tuple(filter(None, options.only.split("/")))
    # The tree may have changed since the last call.
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    state.setdefault("calls", []).append({"time": now, "commit": options.commit})
    try:
        cut = run_steps(r, steps, only)
    finally:
        save(r)
    done = {s["step"] for s in state["steps"]}
    state["complete"] = all(s[0] in done for s in steps)
    save(r)
    print("\n" + gpu_table.page(state))
    print(f"{len(done)} of {len(steps)} steps are done; results: {path}")
    if cut:
        return 3
    return 0 if all(s["ok"] for s in state["steps"]) else 1


if __name__ == "__main__":
    sys.exit(main())
