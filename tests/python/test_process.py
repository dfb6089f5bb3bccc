# SPDX-License-Identifier: MIT
"""Proves what concerns the process: threads, fork(), the end, other loaders, other libraries."""

import ast
import gc
import itertools
import os
import pathlib
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

import clsample
from clsample import _library
from conftest import HOST, SOURCE, VOCAB, opened, token_of

PACKAGE = pathlib.Path(clsample.__file__).parent


def run(code, path=None, **environment):
    """The output of a Python program of its own, which must succeed."""
    found = {**os.environ, "PYTHONPATH": str(path or PACKAGE.parent), **environment}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=found,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout.strip()


OPEN = """
import gc, os, re, sys, threading
import numpy as np
import clsample
row = np.random.default_rng(1).normal(size=1000).astype(np.float32)
context = clsample.Context()
sampler = context.sampler(1000, 4)
one = sampler.begin(seed=1)
def token_of(row):
    with clsample.Context("host") as host, host.sampler(1000) as own, own.begin(seed=1) as request:
        return own.sample(row, request).tokens[0]
token = token_of(row)
"""


def test_a_sampler_for_each_thread(context, logits):
    """Threads with a sampler each draw what one thread draws."""

    def work(number):
        with context.sampler(VOCAB) as sampler, sampler.begin(seed=number) as one:
            return [int(sampler.sample(logits[0], one).tokens.get()[0]) for _ in range(50)]

    with ThreadPoolExecutor(4) as threads:
        for n, tokens in enumerate(threads.map(work, range(4))):
            assert tokens == [token_of(logits[0], seed=n, position=p) for p in range(50)]


@pytest.fixture
def impatient():
    """Threads take turns as often as possible."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


def test_one_sampler_for_all_threads(sampler, logits, impatient):
    """The lock orders the calls: each thread's request gets its own tokens."""

    def work(number):
        with sampler.begin(seed=number) as one:
            try:
                steps = [sampler.sample(logits[1], one) for _ in range(200)]
            except clsample.Busy:
                return []
            return [int(step.tokens.get()[0]) for step in steps]

    with ThreadPoolExecutor(6) as threads:
        for n, tokens in enumerate(threads.map(work, range(6))):
            assert tokens or sampler.context is not HOST
            wanted = [token_of(logits[1], seed=n, position=p) for p in range(len(tokens))]
            assert tokens == wanted


def test_any_order_of_freeing(context, logits):
    for order in itertools.islice(itertools.permutations(range(4)), 0, None, 7):
        one = opened(context)
        sampler = one.sampler(VOCAB)
        request = sampler.begin(seed=3)
        things = [one, sampler, request, sampler.sample(logits[0], request)]
        del one, sampler, request
        for i in order:
            things[i] = None
            gc.collect()


def test_end_of_the_process():
    """Everything may be left open."""
    assert run(OPEN + "print(sampler.sample(row, one).tokens.get()[0] == token)") == "True"
    assert run(OPEN + "step = sampler.sample(row, one); sampler.cycle = step; print(5)") == "5"


def test_a_progress_that_calls_its_context():
    """It is refused with a sentence, and does not wait forever for the lock of its own call."""
    out = run("""
import faulthandler, clsample
faulthandler.dump_traceback_later(120, exit=True)
def progress(*call):
    if opened:
        for call in (opened.compile, opened.programs, opened.export, lambda: opened.sampler(9)):
            try:
                call()
            except RuntimeError as error:
                said.add(str(error))
        assert opened.queue and opened.device
        opened.close()
opened, said = None, set()
opened = clsample.Context(progress=progress)
opened.compile("mask")
print(said)
""")
    assert out == "{'progress must not call the context, which is compiling'}"


def test_a_progress_that_raises_in_threads():
    """Each thread gets what was raised in its own call."""
    out = run("""
import threading, clsample
def progress(*call):
    raise Exception(threading.current_thread().name)
try:
    clsample.Context(progress=progress)
except Exception as error:
    print(error)
names = set()
def work(context, feature):
    try:
        context.compile(feature)
    except Exception as error:
        names.add((threading.current_thread().name, str(error)))
raising = False
context = clsample.Context(progress=lambda *call: raising and progress())
raising = True
threads = [threading.Thread(target=work, args=(context, f), name=f) for f in ("mask", "probs")]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(sorted(names))
""")
    assert out.splitlines() == ["MainThread", "[('mask', 'mask'), ('probs', 'probs')]"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork() here")
def test_fork():
    """The child cannot use, and does not free, what its parent opened on a device. What its parent
    opened on the host goes on, and what the child opens there is freed."""
    out = run(OPEN + """
import weakref
host = clsample.Context("host").sampler(1000)
text = host.begin(seed=1)
first = host.sample(row, text).tokens[0]
pid = os.fork()
if pid == 0:
    for call in (lambda: sampler.sample(row, one), lambda: sampler.begin(), clsample.Context,
                 lambda: context.sampler(5), lambda: sampler.check(), lambda: one.save()):
        try:
            call()
            os._exit(1)
        except RuntimeError as error:
            assert "fork()" in str(error)
    one.end(), sampler.close(), context.close()
    del one, sampler, context
    gc.collect()
    second = host.sample(row, text).tokens[0]
    text.end()
    with host.begin((), [0], seed=1) as other:
        assert host.sample(row, other).tokens[0] == second
    begun = int(re.search(r"VmRSS:[^0-9]*([0-9]+)", open("/proc/self/status").read())[1])
    for _ in range(200):
        with clsample.Context("host") as one, one.sampler(1 << 20) as large:
            large.begin()
    grown = int(re.search(r"VmRSS:[^0-9]*([0-9]+)", open("/proc/self/status").read())[1]) - begun
    os._exit(0 if first == token == token_of(row) and grown < 100000 else 2)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]),
      sampler.sample(row, one).tokens.get()[0] == token)
""")
    assert out == "0 True"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork() here")
def test_fork_during_a_call():
    """A process is forked while another thread is in calls of a sampler of the host. No child waits
    for the lock: it makes other samplers of the context, and the one in use works, or says why it
    does not; its parent's goes on."""
    out = run("""
import os, signal, threading, clsample, numpy as np
context = clsample.Context("host")
sampler, idle = context.sampler(200000), context.sampler(9)
row = np.arange(200000, dtype=np.float32)
request, over, interrupted = sampler.begin(temperature=0), False, 0
def work():
    while not over:
        sampler.sample(row, request)
thread = threading.Thread(target=work)
thread.start()
codes = []
for _ in range(20):
    pid = os.fork()
    if pid == 0:
        signal.alarm(60)
        code = 0
        for each in (idle, context.sampler(9)):
            with each.begin(temperature=0) as one:
                code |= each.sample(row[:9], one).tokens[0] != 8
        try:
            code |= 2 * (sampler.sample(row, request).tokens[0] != 199999)
        except RuntimeError as error:
            code |= 4 if "forked while another thread" in str(error) else 8
        request.end(), sampler.close()
        del request, sampler
        os._exit(code)
    codes.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
over = True
thread.join()
print(set(codes) <= {0, 4} and 4 in codes, sampler.sample(row, request).tokens[0])
""")
    assert out == "True 199999"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork() here")
def test_fork_before_opencl():
    """A child that was forked before OpenCL was used is free."""
    out = run("""
import os, clsample, numpy as np
pid = os.fork()
if pid == 0:
    with clsample.Context() as context:
        os._exit(0)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
""")
    assert out == "0"


def test_without_pyopencl():
    """The import and the host work, a device is refused with a sentence that names the package, and
    only sample() draws on the host instead, with one warning."""
    out = run("""
import sys, warnings
sys.modules["pyopencl"] = None
import clsample, numpy as np
row = np.arange(9, dtype=np.float32)
with clsample.Context("host") as context, context.sampler(9) as sampler:
    with sampler.begin(temperature=0, grammar=clsample.Grammar([{8: 0}], vocab=9)) as request:
        step = sampler.sample(row, request, logprobs=True)
        print(step.tokens[0], clsample.chain_stages("vllm")[0])
for call in (clsample.Context, clsample.devices, lambda: clsample.Context(device="pocl")):
    try:
        call()
    except clsample.OpenCLNotFound as error:
        assert isinstance(error, ImportError)
        print(error)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    tokens = [clsample.sample(row, temperature=0, device=d) for d in (None, None, "host")]
    print(*tokens, *(warning.message for warning in caught))
try:
    clsample.sample(row, device="pocl")
except clsample.OpenCLNotFound:
    print("no other device")
""")
    lines = out.splitlines()
    assert lines[0] == "8 TEMPERATURE" and lines[1] == lines[2] == lines[3]
    assert lines[1].startswith("a device needs pyopencl, which pip install 'clsample[opencl]' ")
    assert "clsample.Context('host') needs no device: there a row of 128,256 logits" in lines[1]
    assert lines[1].endswith(" takes 0.05 to 2.5 ms")
    warned = f"clsample.sample() draws on the host, as with device='host': {lines[1]}"
    assert lines[4] == f"8 8 8 {warned}"
    assert lines[5] == "no other device" and len(lines) == 6


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="libOpenCL.so.1 is Linux's")
@pytest.mark.parametrize(
    "module, lacking", [("transformers", "torch"), ("transformers", "transformers"),
                        ("tinygrad", "tinygrad"), ("tinygrad", "pyopencl")]
)
def test_a_module_without_what_it_needs(module, lacking):
    """The message names the extra, whichever package is missing."""
    out = run(f"""
import sys
for name in ("torch", "transformers", "tinygrad", "pyopencl"):
    sys.modules.setdefault(name, type(sys)(name))
sys.modules["{lacking}"] = None
try:
    import clsample.{module}
except ImportError as error:
    print(error, error.name)
""")
    assert f"pip install 'clsample[{module}]' brings: " in out
    assert out.split()[-1] in (lacking, module), out


def test_without_a_system_loader(cl, tmp_path):
    """Where libOpenCL.so.1 cannot be opened the loader is pyopencl's, whose wheels bring one, for
    the library, too. Debian's pyopencl brings none, and a sentence says so. Context() names the
    same functions once more, and finds them equal."""
    for name in ("libOpenCL.so.1", "libOpenCL.so"):
        (tmp_path / name).write_bytes(b"")
    without = {"LD_LIBRARY_PATH": str(tmp_path)}
    brings = run(
        "try:\n    import pyopencl\n    print(True)\nexcept ImportError:\n    print(False)",
        **without,
    )
    out = run(
        OPEN[: OPEN.index("context =")]
        + OPEN[OPEN.index("def token_of") : OPEN.index("token =")]
        + """
try:
    with clsample.Context() as context, context.sampler(1000, 4) as sampler:
        token = sampler.sample(row, sampler.begin(seed=1)).tokens.get()[0]
        clsample.Context().close()
    print(token == token_of(row))
except clsample.OpenCLNotFound as error:
    print("libOpenCL.so.1: file too short" not in str(error))
""",
        **without,
    )
    assert out == brings


def test_the_loader_of_pyopencl(cl):
    """Both orders of importing work."""
    test = OPEN.replace("import clsample\n", "{}") + (
        "print(sampler.sample(row, one).tokens.get()[0] == token)\n"
    )
    assert run(test.format("import pyopencl, pyopencl.array, clsample\n")) == "True"
    out = run(test.format("import clsample\n") + """
import pyopencl as cl, pyopencl.array
device = cl.Device.from_int_ptr(context.device.int_ptr, retain=False)
theirs = cl.Context([device])
queue = cl.CommandQueue(theirs)
with clsample.Context(theirs) as second, second.sampler(1000) as other, other.begin(seed=1) as two:
    print(other.sample(cl.array.to_device(queue, row), two).tokens.as_pyopencl().get()[0] == token)
""")
    assert out.split() == ["True", "True"]


def other_package(tmp_path, edit, library=None):
    """The package as generated from edited headers, with the same library or another."""
    include = tmp_path / "include"
    shutil.copytree(SOURCE / "include", include)
    edit(include / "clsample")
    folder = tmp_path / "clsample"
    shutil.copytree(PACKAGE, folder, ignore=shutil.ignore_patterns("__pycache__"))
    subprocess.run(
        [sys.executable, str(SOURCE / "python" / "generate.py"), str(include), str(folder)],
        check=True,
    )
    return tmp_path


TELL = """
try:
    import clsample
    print("imported")
except ImportError as error:
    print(type(error).__name__, error)
"""


def test_a_new_parameter_needs_no_line_of_python(tmp_path):
    """A field that is added to the header is a keyword argument, and the library, which is older,
    is refused by a sentence that says so."""

    def edit(headers):
        text = (headers / "params.h").read_text()
        added = "    /* Of a later version. */\n    double later_p;\n} cls_params;"
        (headers / "params.h").write_text(text.replace("} cls_params;", added))

    path = other_package(tmp_path, edit)
    assert "    later_p: float\n" in (path / "clsample" / "_types.py").read_text()
    out = run(TELL, path)
    assert re.match(
        r"LibraryError the library .*libclsample.so is version [0-9.]+, but its "
        r"cls_params has no field 'later_p': it is older than this package",
        out,
    ), out
    (path / "clsample" / "_library.py").write_text(
        (path / "clsample" / "_library.py").read_text().replace("check(lib, path)", "")
    )
    out = run(
        "import clsample\n"
        "sampler = clsample.Context('host').sampler(9)\n"
        "sampler.begin(later_p=0.0)\n"
        "try:\n    sampler.check(later_p=1.0)\n"
        "except clsample.BadArgument as error:\n    print(error)\n",
        path,
    )
    assert "this version of the library" in out and "does not know" in out


def test_comments_are_docstrings_alone(tmp_path):
    """Whatever the headers' comments say, the package has the same names, types and shapes."""

    def edit(headers):
        for path in headers.glob("*.h"):
            text = re.sub(r"(?s)/\*.*?\*/", "/* a cls_chain [vocab] */", path.read_text())
            path.write_text(text)

    def generated(folder):
        tree = ast.parse((folder / "_types.py").read_text())
        manuals = [node for node in tree.body if "_MANUAL" in ast.dump(node)]
        assert len(manuals) == 4
        classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
        assert sum(ast.get_docstring(node) is not None for node in classes) == len(classes)
        for node in classes:
            del node.body[0]
        code = [ast.dump(node) for node in tree.body if node not in manuals]
        return (folder / "_cffi.py").read_text(), code

    assert generated(other_package(tmp_path, edit) / "clsample") == generated(PACKAGE)


def test_an_older_version_and_another_layout(tmp_path):
    def later(headers):
        base = (headers / "base.h").read_text()
        base = re.sub(r"(VERSION_NUMBER) \d+", r"\1 990000", base)
        (headers / "base.h").write_text(re.sub(r'(VERSION_STRING) ".*"', r'\1 "99.0.0"', base))

    out = run(TELL, other_package(tmp_path / "a", later))
    assert re.search(r"is version [0-9.]+, older than this package, which is version 99.0.0", out)

    def moved(headers):
        text = (headers / "params.h").read_text()
        (headers / "params.h").write_text(
            text.replace("    float temperature;", "    uint64_t wide;\n    float temperature;")
        )

    out = run(TELL, other_package(tmp_path / "b", moved))
    assert "does not fit this package: its cls_params" in out or "no field 'wide'" in out


def test_a_library_without_the_table(tmp_path):
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler here")
    folder = tmp_path / "clsample"
    shutil.copytree(PACKAGE, folder, ignore=shutil.ignore_patterns("__pycache__"))
    source = tmp_path / "old.c"
    source.write_text("unsigned cls_version_number(void) { return 700; }\n")
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-o", str(folder / "libclsample.so"), str(source)],
        check=True,
    )
    assert "is older than this package" in run(TELL, tmp_path)
    os.remove(folder / "libclsample.so")
    (folder / "_types.py").write_text(
        re.sub('LIBRARY = ".*"', 'LIBRARY = "libno-such.so.9"', (folder / "_types.py").read_text())
    )
    assert "LibraryError clsample cannot open its library" in run(TELL, tmp_path)


def test_the_table_is_complete():
    """Every struct of the package is in the library's table with all its fields."""
    from clsample import _types
    from clsample._cffi import ffi

    table = _library.table(_library.lib)
    for structure in _types.STRUCTS:
        assert set(dict(ffi.typeof(structure).fields)) <= set(table[structure]), structure


def test_types(tmp_path):
    """mypy accepts the package, strictly, and a use of it."""
    pytest.importorskip("mypy")

    def errors(*lines):
        use = tmp_path / "use.py"
        use.write_text("import clsample\n\n\ndef use(sampler: clsample.Sampler) -> int:\n    ")
        use.write_text(use.read_text() + "\n    ".join(lines) + "\n    return 0\n")
        options = "-m", "mypy", "--config-file", str(SOURCE / "pyproject.toml"), "--strict"
        command = [sys.executable, *options, "clsample", str(use)]
        done = subprocess.run(command, cwd=PACKAGE.parent, stdout=subprocess.PIPE, text=True)
        found = [line for line in done.stdout.splitlines() if "error:" in line]
        assert done.returncode == bool(found), done.stdout
        return found

    assert not errors(
        "request = sampler.begin([1], top_k=5, chain='vllm', seed=None)",
        "sampler.context.sampler(9, features='all', late_compile=False)",
        "step = sampler.sample(0, [request], logprobs=True, top=5)",
        "if step.finish_reasons()[0] == 'stop' or clsample.RowStatus(96).finish_reason:",
        "    return 0",
        "clsample.Context('host').empty(5).get()",
        "return int(step.tokens.get()[0])",
    )
    wrong = "sampler.begin(top_k='five')", "sampler.begin(topk=5)"
    assert len(errors(*wrong, "sampler.context.sampler(9, late_compile='no')")) == 3
