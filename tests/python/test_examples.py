# SPDX-License-Identifier: MIT
"""Runs the examples, and the lines of Python of README and of the package's page."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

import clsample
from conftest import SOURCE


def run(*arguments):
    path = pathlib.Path(clsample.__file__).parents[1]
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": str(path)},
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.mark.parametrize("page", ["README.md", "python/README.md"])
def test_readme(device, page):
    text = (SOURCE / page).read_text()
    lines = re.search(r"(\n    import clsample.*?)\n\n(?=\S)", text, re.S)[1].splitlines()
    code = "\n".join(line[4:] for line in lines)
    assert len([line for line in lines if line.strip()]) == 5
    outs = [run("-c", code.replace('"host"', "progress=print")), run("-c", code)]
    # On the device the programs that are compiled come first.
    assert re.fullmatch(r"([a-z-]+ \d+ \d+\n)*\[ *\d+ +\d+\]\n", outs[0])
    assert outs[0].splitlines()[-1] == outs[1].strip()


def test_loop(device):
    out = run(SOURCE / "examples" / "python" / "loop.py")
    assert [line.split(":")[0] for line in out.splitlines()] == [
        "greedy",
        "usual",
        "varied",
        "a line",
    ]


def test_buffer(device, cl):
    out = run(SOURCE / "examples" / "python" / "buffer.py")
    lines = dict(line.split(":") for line in out.splitlines())
    assert lines["tokens of one call"].split() == lines["tokens of the last step"].split(), out
    assert len(lines["mean token of each row"].split()) == 4


def test_drafts(device):
    """On the device and, where it cannot be opened, on the host: the same number of steps."""
    path = SOURCE / "examples" / "python" / "drafts.py"
    out = run(path)
    lines = re.findall(r"(.*): 3 of 3 texts are the same, (\d+) steps for (\d+) tokens\n", out)
    assert [name for name, _, _ in lines] == ["n-grams of the text", "a smaller model"], out
    for _, steps, tokens in lines:
        assert int(steps) < 0.6 * int(tokens), out
    code = "import sys, runpy; sys.modules['pyopencl'] = None; "
    assert run("-c", f"{code}runpy.run_path({str(path)!r}, run_name='__main__')") == out


def test_guided(device):
    pytest.importorskip("outlines_core")
    out = run(SOURCE / "examples" / "python" / "guided.py", 70, 1500)
    same = "70 of 70 texts are accepted, 70 are the same with masks"
    assert out.count(same) == 3, out


def test_tensors(device):
    pytest.importorskip("torch")
    out = run(SOURCE / "examples" / "python" / "tensors.py")
    assert re.search(r"clsample.sample\(\): \[\d+, \d+, \d+, \d+\] torch.int32\n", out), out
    assert len(out.splitlines()) == 4


def test_chain(tmp_path):
    pytest.importorskip("matplotlib")
    run(SOURCE / "examples" / "python" / "chain.py", tmp_path / "chain.png")
    assert (tmp_path / "chain.png").read_bytes()[:4] == b"\x89PNG"
