#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measures clsample on a GPU and checks its tokens there, in steps, without a network: finds the
vendor's OpenCL driver, builds, and runs the steps. A finished step adds its results to gpu.json, so
that a later call with the same --out goes on after it. bench/results/README.md describes that file.
Only Python's standard library is used, and gnuplot for --plot. Exit status: 0 all steps are done, 1
a step failed, 2 it cannot run here, 3 call it again.
"""
import argparse
import atexit
import glob
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import threading
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

FULL = {
    "batches": [1, 4, 16, 64, 256, 512],
    "shapes": [(v, d) for v in (128256, 32000, 151936) for d in ("f32", "bf16", "f16")],
    "runs": 201,
    "profiled": [1, 16, 256],
    "profile_vocab": 128256,
    "texts": None,
    "sides": "device,permuted,ahead",
    "forms": [("subgroups", 128), ("int64", 64)],
    "dtypes": ["f32", "f16", "bf16"],
    "selftests": ["f32", "all"],
    "far_gib": "9",
    "starts": 2,
    "tests": None,
    "size": "small",
    "pool": 14,
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
    texts=["chains", "verify"],
    sides="device",
    forms=[("int64", 1)],
    dtypes=["f32"],
    selftests=["f32"],
    far_gib="0.1",
    starts=1,
    tests="usual.run chains.run check_far check_vectors check_offsets steps.run".split(),
    size="tiny",
    pool=1,
    tuned=[4],
    tune_seconds=20,
)


# ------------------------------------------------------------------------ the machine


def die(*words):
    print("gpu.py:", *words, file=sys.stderr)
    sys.exit(2)


def output_of(*command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def find_driver():
    """Vendors' drivers, where containers and distributions put them."""
    names = ["libnvidia-opencl.so.1", "libamdocl64.so", "libigdrcl.so"]
    folders = [f for f in os.environ.get("LD_LIBRARY_PATH", "").split(":") if f] + (
        "/usr/local/nvidia/lib64 /usr/local/nvidia/lib /usr/lib/x86_64-linux-gnu "
        "/usr/lib/aarch64-linux-gnu /usr/lib64 /usr/lib /usr/lib/wsl/lib /opt/rocm/lib "
        "/usr/lib/x86_64-linux-gnu/intel-opencl"
    ).split()
    ldconfig = shutil.which("ldconfig") or "/sbin/ldconfig"
    known = output_of(ldconfig, "-p") if os.path.exists(ldconfig) else ""
    for name in names:
        paths = [os.path.join(folder, name) for folder in folders]
        paths += re.findall(rf"^\s*{re.escape(name)} .*=> (\S+)", known, re.M)
        for path in filter(os.path.exists, paths):
            return path
    return die(
        f"no OpenCL driver of a GPU was found. Searched for {' '.join(names)} in the folders "
        f"{' '.join(folders)} and in ldconfig's list. A container needs the capability 'compute' "
        "for NVIDIA's. --driver FILE names one."
    )


def add_path(name, folder):
    os.environ[name] = ":".join(filter(None, (os.environ.get(name), folder)))


def use_driver(o):
    """One implementation alone: a folder with its .icd file. Compiled kernels outlive a step, but
    not the build; they may not come from elsewhere."""
    shutil.rmtree(os.path.join(o.build, "icd"), ignore_errors=True)
    for folder in ("icd", "programs", "cuda-cache", "pocl-cache"):
        os.makedirs(os.path.join(o.build, folder), exist_ok=True)
    with open(os.path.join(o.build, "icd", "gpu.icd"), "w", encoding="utf-8") as file:
        file.write(o.driver + "\n")
    os.environ.update(
        OCL_ICD_VENDORS=os.path.join(o.build, "icd", ""),
        CUDA_CACHE_PATH=os.path.join(o.build, "cuda-cache"),
        CUDA_CACHE_MAXSIZE="4294967296",
        CLS_TEST_KERNELS=os.path.join(o.build, "test-kernels"),
    )
    os.environ.setdefault("POCL_CACHE_DIR", os.path.join(o.build, "pocl-cache"))
    # The driver's own parts lie beside it.
    others = os.environ.get("LD_LIBRARY_PATH")
    os.environ["LD_LIBRARY_PATH"] = os.path.dirname(o.driver)
    add_path("LD_LIBRARY_PATH", others)


def unpack_deb(package, folder):
    if shutil.which("dpkg-deb"):
        subprocess.run(["dpkg-deb", "-x", package, folder], check=True)
        return
    data = next(m for m in output_of("ar", "t", package).split() if m.startswith("data.tar"))
    how = {".xz": ["-xJ"], ".zst": ["--zstd", "-x"]}.get(os.path.splitext(data)[1], ["-xz"])
    member = subprocess.run(["ar", "p", package, data], stdout=subprocess.PIPE, check=True).stdout
    subprocess.run(["tar", *how, "-C", folder], input=member, check=True)


def made_once(folder, make):
    """A folder that make() fills; it is whole if it is there."""
    if not os.path.isdir(folder):
        shutil.rmtree(folder + ".new", ignore_errors=True)
        os.makedirs(folder + ".new")
        make(folder + ".new")
        os.rename(folder + ".new", folder)
    return folder


def unpack(o):
    """The headers and libraries of --deps; returns the options that they need of configure."""

    def fill(root):
        for package in glob.glob(os.path.join(o.deps, "*.deb")):
            unpack_deb(package, root)
        for wheel in glob.glob(os.path.join(o.deps, "*.whl")):
            with zipfile.ZipFile(wheel) as file:
                file.extractall(os.path.join(root, "python"))

    root = made_once(os.path.join(o.build, "root"), fill) if os.path.isdir(o.deps) else ""
    found = glob.glob(os.path.join(root, "usr/lib/**/libOpenCL.so"), recursive=True)
    if not root or not found:
        return []
    libraries, headers = os.path.dirname(found[0]), f"-I{root}/usr/include"
    add_path("LD_LIBRARY_PATH", libraries)
    add_path("PYTHONPATH", os.path.join(root, "python"))
    needed = {"OPENCL": "-lOpenCL", "JANSSON": "-ljansson"}
    needed["CHECK"] = "-lcheck -lsubunit -lrt -lm -lpthread"
    return [f"{name}_CFLAGS={headers}" for name in needed] + [
        f"{name}_LIBS=-L{libraries} {flags}" for name, flags in needed.items()
    ]


def build(o):
    """Builds what the steps run; sets o.source, the tree with configure."""
    configure = ["--without-clblast", *unpack(o)]
    o.source = TOP
    if not os.path.exists(os.path.join(TOP, "configure")):
        archives = glob.glob(os.path.join(o.deps, "clsample-*.tar.xz"))
        if not archives:
            die(
                f"there is neither {TOP}/configure nor an archive in {o.deps}; run autoreconf -i "
                "here, or gpu.py --gather on a machine with autotools"
            )
        with tarfile.open(archives[0]) as archive:
            folder = made_once(os.path.join(o.build, "source"), archive.extractall)
        o.source = glob.glob(os.path.join(folder, "clsample-*"))[0]
    make = ["make", "-s", f"-j{os.cpu_count() or 2}"]
    commands = [make, [*make, "bench/profile", "bench/programs"]]
    if not os.path.exists(os.path.join(o.build, "Makefile")):
        commands.insert(0, [os.path.join(o.source, "configure"), "-q", *configure])
    print(f"building in {o.build}", flush=True)
    path = os.path.join(o.out, "gpu.log")
    with open(path, "a", encoding="utf-8") as log:
        for command in commands:
            if subprocess.run(command, cwd=o.build, stdout=log, stderr=log, check=False).returncode:
                log.flush()
                print("".join(read(path).splitlines(True)[-30:]), file=sys.stderr)
                die(f"the build failed; log: {path}")


# ------------------------------------------- what a machine without a network needs


def is_needed(name):
    """Of FlashInfer's wheel, which has the sources of all its kernels: its Python files, and those
    that sampling includes."""
    part = name.split("/")
    if part[:2] != ["flashinfer", "data"]:
        return name.endswith(".py") or ".dist-info/" in name
    if part[2] == "csrc":
        return len(part) == 4 or part[3] == "cake_sampling"
    if part[2] == "cutlass":
        return part[3] == "include"
    return part[2] in ("include", "cccl", "spdlog")


def trim(path):
    with zipfile.ZipFile(path) as whole:
        with zipfile.ZipFile(path + ".new", "w", zipfile.ZIP_DEFLATED, compresslevel=9) as kept:
            for entry in filter(lambda e: is_needed(e.filename), whole.infolist()):
                kept.writestr(entry.filename, whole.read(entry))
    os.replace(path + ".new", path)


def mib(folder):
    return sum(e.stat().st_size for e in os.scandir(folder)) // 2**20


def commit_of(o):
    describe = ("describe", "--always", "--dirty", "--abbrev=40", "--exclude=*")
    found, path = output_of("git", "-C", TOP, *describe), os.path.join(o.deps, "commit")
    return found or (read(path).strip() if os.path.exists(path) else "unknown")


def gather(o):
    """Fills --deps: the archive of the tree (so that no autotools are needed there), the headers
    and libraries of OpenCL, Check and jansson, and FlashInfer for sampling. PyTorch is not carried:
    its wheel alone is larger than the limit. PYTHON_VERSION (3.12) is the other machine's Python,
    LIMIT_MIB (56) the most that the folder may take."""
    python = os.environ.get("PYTHON_VERSION", "3.12")
    limit = int(os.environ.get("LIMIT_MIB", "56"))
    packages = "ocl-icd-libopencl1 ocl-icd-opencl-dev opencl-c-headers check libsubunit-dev"
    platforms = ["2014", "_2_17", "_2_24", "_2_28"]
    if not os.path.exists(os.path.join(o.gather, "Makefile")):
        die(f"--gather: {o.gather} has no Makefile; name a folder in which configure has run")
    shutil.rmtree(o.deps, ignore_errors=True)
    os.makedirs(o.deps)
    for old in glob.glob(os.path.join(o.gather, "clsample-*.tar.xz")):
        os.remove(old)
    subprocess.run(["make", "-s", "-C", o.gather, "dist"], stdout=subprocess.DEVNULL, check=True)
    for new in glob.glob(os.path.join(o.gather, "clsample-*.tar.xz")):
        shutil.copy(new, o.deps)
    with open(os.path.join(o.deps, "commit"), "w", encoding="utf-8") as file:
        file.write(commit_of(o) + "\n")
    if shutil.which("apt-get"):
        packages = [*packages.split(), "libjansson4", "libjansson-dev"]
        subprocess.run(["apt-get", "-q", "download", *packages], cwd=o.deps, check=True)
    else:
        print("no apt-get: the other machine must have OpenCL's, Check's and jansson's headers")
    for wheel in ("apache-tvm-ffi", "flashinfer-python"):
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", o.deps]
        command += ["--only-binary=:all:", "--implementation=cp", f"--python-version={python}"]
        command += [f"--platform=manylinux{p}_x86_64" for p in platforms]
        before = set(os.listdir(o.deps))
        if subprocess.run([*command, wheel], check=False).returncode != 0:
            print(f"left out: {wheel}, which pip does not download")
            continue
        for path in (os.path.join(o.deps, n) for n in set(os.listdir(o.deps)) - before):
            if wheel.startswith("flashinfer"):
                trim(path)
            if mib(o.deps) > limit:
                print(f"left out: {wheel}: the folder would take more than {limit} MiB")
                os.remove(path)
    print(f"{o.deps}: {mib(o.deps)} MiB, of commit {commit_of(o)}")
    return 0


# ------------------------------------------------------------------------- the runner


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


def selftest(r, dtype):
    _, output = r.clsample("selftest", "--json", "--dtype", dtype, most=500, allowed=(0, 1, 2))
    result = json.loads(output)
    if result["failed"] != 0 or "error" in result:
        r.state["selftest"] = result
        raise Failed(f"{result['failed']} of {result['cases']} cases differ")
    return {"selftest": result}


def bench(r, vocab, dtype, batch):
    _, output = r.clsample(
        *("bench", "--json", "--vocab", vocab, "--dtype", dtype, "--batch", batch),
        *("--runs", r.plan["runs"], "--cache-dir", r.path("programs")),
        most=150,
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
        shown = os.path.join(r.options.source, "bench/show-tests.mk")
        _, output = r.run(["make", "-s", "-f", shown, "show-single-tests"], 60)
        names = output.split()
    else:
        makefile = read(r.path("Makefile"))
        names = [re.search(rf"\btests/\w+/{re.escape(n)}\b", makefile).group(0) for n in names]
    if r.left() < 60:
        raise OutOfTime
    jobs = f"-j{min(os.cpu_count() or 2, 2 * r.plan['pool'])}"
    programs = [n for n in names if "." not in n] + ["tests/scripts/hooked"]
    r.run(["make", "-s", "-k", jobs, *programs], 400, allowed=(0, 2))
    env = {"CLS_TEST_SIZE": r.plan["size"]}
    waiting = [n for n in names if n not in known]
    while waiting:
        some, waiting = waiting[: r.plan["pool"]], waiting[r.plan["pool"] :]
        stems = [n.partition(".")[0] for n in some]
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
    """All texts in the shape that the device gets; then known answers and random requests in
    others, and rows far apart in memory."""
    known = r.state.setdefault("sameness", {})
    folder = os.path.join(r.options.source, "tests/scripts")
    texts = sorted(os.path.basename(p)[:-4] for p in glob.glob(os.path.join(folder, "*.run")))
    run = [r.path("clsample"), "run", "--device", "0", "--cache-dir", r.path("programs")]
    run += ["--calls", "25"] if r.options.quick else []
    jobs = []

    def add_text(text, name, *options):
        path = os.path.join(folder, text + ".run")
        jobs.append((f"{text}.run{name}", [*run, *options, path], {}))

    for text in r.plan["texts"] or texts:
        add_text(text, "", "--all-features", "--sides", r.plan["sides"])
    for tier, group in r.plan["forms"]:
        name = f", groups of {group}, tier {tier}"
        shape = ["--tier", tier, "--work-group", str(group), "--row-group", str(group)]
        command = [r.path("clsample"), "selftest", "--dtype", "f32", *shape]
        jobs.append(("selftest" + name, command, {}))
        for text in ("chains", "verify"):
            add_text(text, name, *shape)
    jobs.append(("check_tiers", [r.path("tests/device/check_tiers")], {}))
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
    """FlashInfer compiles its kernels for minutes: beside the programs and the self-test, where no
    time is measured."""
    if "peers_built" not in r.state and r.background is None:
        r.background = r.start(peers_command(r, "--build"), stdout=r.log)


def peers_build(r):
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


def each_program(r, jobs, known):
    """Runs bench/programs for each of the jobs, (name, arguments), as many at a time as there are
    processors; adds to `known` what each took and printed."""
    late = []

    def one(job):
        name, arguments = job
        begun = time.monotonic()
        result = {}
        try:
            _, result["log"] = r.run([r.path("bench/programs"), *arguments], 150, allowed=(0, 1))
        except OutOfTime:
            late.append(name)
            return
        except Failed as failure:
            result["error"] = str(failure)
        known[name] = {"seconds": round(time.monotonic() - begun, 2), **result}

    with ThreadPoolExecutor(os.cpu_count() or 2) as pool:
        list(pool.map(one, jobs))
    if late:
        raise OutOfTime
    wrong = [known[name]["error"] for name, _ in jobs if "error" in known[name]]
    if wrong:
        raise Failed("; ".join(wrong))


def program_names(r):
    return [line.split()[0] for line in r.run([r.path("bench/programs")], 60)[1].splitlines()]


def programs(r):
    """Each program compiled by a process of its own, so that the driver's cache has it: one process
    that compiles them one after another takes as long as all of them."""
    start_peers(r)
    names, known = program_names(r), {}
    try:
        for dtype in r.plan["dtypes"]:
            each_program(r, [(f"{n} {dtype}", ["--build", n, dtype]) for n in names], known)
    finally:
        r.state["compiled"] = {name: entry["seconds"] for name, entry in known.items()}
    return {}


def resources(r):
    """What the driver's compiler says of each program; NVIDIA's names registers and spills."""
    found, known = [], {}
    each_program(r, [(n, ["--log", n]) for n in program_names(r)], known)
    for entry in known.values():
        head, _, log = entry["log"].partition("program ")[2].partition("\n")
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
    come first, then other samplers, then what proves the tokens, then the rest: a lent GPU may be
    there for some minutes only."""
    first, rest = plan["shapes"][0], plan["shapes"][1:]

    def benches(shape):
        vocab, dtype = shape
        for batch in plan["batches"]:
            yield f"bench {vocab} {dtype} {batch}", bench, (vocab, dtype, batch), 30

    yield "machine", machine, (), 5
    yield "devices", devices, (), 5
    yield "programs", programs, (), 30
    yield from benches(first)
    yield "selftest f32", selftest, ("f32",), 30
    yield "peers-build", peers_build, (), 30
    for vocab, dtype in plan["shapes"]:
        if (vocab, dtype) == first or dtype == "f32" or vocab == first[0]:
            yield f"peers {vocab} {dtype}", peers, (vocab, dtype), 60
    for batch in plan["profiled"]:
        yield f"profile {batch}", profile, (batch,), 30
    yield "sameness", sameness, (), 60
    yield "start", start, (), 60
    yield "resources", resources, (), 30
    for dtype in plan["selftests"][1:]:
        yield f"selftest {dtype}", selftest, (dtype,), 60
    yield "tests", tests, (), 60
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
        r.state["goals"] = goals(r.state)
        texts = {
            "gpu.json": json.dumps(r.state, indent=1) + "\n",
            "gpu.txt": page(r.state),
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


# ------------------------------------------------------------------------ the goals

VOCAB, DTYPE = 128256, "f32"

# The goals are for a GPU like NVIDIA's H100. A time is by the device's clock unless it is called
# wall time, which is from enqueue to finish. A case, its batches, and the limit: a number, and what
# it is a multiple of ("us": microseconds).
GOALS = [
    ("topk", [1], 15, "us"),
    ("topk", [16], 20, "us"),
    ("topk", [256], 60, "us"),
    ("plain", [1, 16, 256], 1, "topk"),
    ("greedy", [1, 16, 256], 1, "topk"),
    ("topp_peaked", [1, 16, 256], 2, "topk"),
    ("topp_flat", [1], 45, "us"),
    ("topp_flat", [16, 256], 5, "floor"),
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


def peer_times(state):
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
    for (name, batch), others in sorted(peer_times(state).items()):
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


def curves(state):
    """Name -> [(batch, microseconds by the device's clock)]."""
    at = cases(state)
    lines = {}
    for (name, batch), case in sorted(at.items()):
        if name == "topk" and case["floor_device_us"]:
            lines.setdefault("one read (floor)", []).append((batch, case["floor_device_us"]))
        if name in ("greedy", "topk", "plain", "topp_peaked") and case["step_device_us"]:
            lines.setdefault("clsample " + name, []).append((batch, case["step_device_us"]))
    for (name, batch), others in sorted(peer_times(state).items()):
        for p in others:
            if p["device_us"] and name in ("topk", "topp_peaked"):
                lines.setdefault(f"{title(p)} ({name})", []).append((batch, p["device_us"]))
    return lines


def plot(state, path):
    """Draws the curves by gnuplot, those of other samplers with dashes."""
    data, shown, batches = "", [], set()
    for i, (name, points) in enumerate(curves(state).items()):
        data += f"$c{i} << END\n" + "".join(f"{b} {t}\n" for b, t in points) + "END\n"
        dash = 1 if name.startswith("clsample") else 2
        shown.append(f'$c{i} with linespoints linewidth 2 dashtype {dash} title "{name}"')
        batches.update(b for b, _ in points)
    if not shown:
        die("there are no times by the device's clock to plot")
    commands = f"""
set terminal svg size 1020,480 noenhanced
set output "{path}"
{data}set logscale xy
set xtics ({", ".join(map(str, sorted(batches)))})
set grid
set key outside right
set xlabel "rows of a step"
set ylabel "microseconds by the device's clock"
plot {", ".join(shown)}
"""
    subprocess.run(["gnuplot"], input=commands, text=True, check=True)


# ---------------------------------------------------------------------- the command


def options_of(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    text = {
        "out": ("gpu-results", "results: gpu.json, gpu.txt, gpu.log; a gpu.json is continued"),
        "driver": (None, "the OpenCL driver, in place of the one that is searched for"),
        "deps": (os.path.join(TOP, "deps"), "what --gather has gathered, where it exists"),
        "build": (os.path.join(TOP, "build-gpu"), "of the build"),
        "gather": (None, "only fills --deps for a machine without a network; a build of this tree"),
        "table": (None, "only prints the tables of a gpu.json"),
        "plot": (None, "with --table: draws the times by batch size, an SVG file, by gnuplot"),
    }
    for name, (default, about) in text.items():
        parser.add_argument("--" + name, metavar="PATH", default=default, help=about)
    parser.add_argument(
        "--limit", type=int, default=540, help="ends after about so many seconds (540)"
    )
    parser.add_argument("--quick", action="store_true", help="small sizes, to try it on a CPU")
    parser.add_argument("--list", action="store_true", help="prints the steps and ends")
    parser.add_argument(
        "--only", action="append", default=[], metavar="STEP", help="steps whose names begin so"
    )
    o = parser.parse_args(arguments)
    for name in ("out", "driver", "deps", "build"):
        setattr(o, name, getattr(o, name) and os.path.abspath(getattr(o, name)))
    return o


def run_all(o, begun):
    path = os.path.join(o.out, "gpu.json")
    state = {"format": 1, "quick": o.quick, "complete": False, "steps": []}
    if os.path.exists(path):
        state = json.loads(read(path))
        if state.get("quick") != o.quick or state.get("format") != 1:
            die(f"{path} is of another kind of run; move it away")
    o.commit, o.limit = commit_of(o), o.limit - (time.monotonic() - begun)
    r = Runner(o, state)
    atexit.register(r.end_children)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))
    steps = list(all_steps(r.plan))
    # The tree may have changed since the last call.
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    state.setdefault("calls", []).append({"time": now, "commit": o.commit})
    try:
        cut = run_steps(r, steps, tuple(o.only))
    finally:
        save(r)
    done = {s["step"] for s in state["steps"]}
    state["complete"] = all(s[0] in done for s in steps)
    save(r)
    print("\n" + page(state))
    print(f"{len(done)} of {len(steps)} steps are done; results: {path}")
    if cut:
        return 3
    return 0 if all(s["ok"] for s in state["steps"]) else 1


def print_tables(o):
    state = json.loads(read(o.table))
    state["goals"] = goals(state)
    print(page(state), end="")
    if o.plot:
        plot(state, o.plot)
    return 0


def main(arguments):
    begun = time.monotonic()
    o = options_of(arguments)
    if o.list:
        print("\n".join(step[0] for step in all_steps(QUICK if o.quick else FULL)))
        return 0
    if o.table or o.gather:
        return print_tables(o) if o.table else gather(o)
    o.driver = o.driver or find_driver()
    if not os.path.exists(o.driver):
        die(f"--driver: '{o.driver}' does not exist")
    for folder in (o.out, o.build):
        os.makedirs(folder, exist_ok=True)
    use_driver(o)
    build(o)
    return run_all(o, begun)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
