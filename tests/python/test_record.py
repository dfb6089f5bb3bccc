# SPDX-License-Identifier: MIT
"""Proves that what a program does is written as a text that clsample run replays (record)."""

import os
import pathlib
import signal
import subprocess
import sys

import numpy as np
import pytest

import clsample

COMMAND = pathlib.Path(os.environ.get("BUILD", ".")) / "clsample"
ROWS = np.random.default_rng(3).normal(size=(3, 50)).astype(np.float32) * 3


def replay(path):
    """What the command says of a text."""
    if not COMMAND.exists():
        pytest.skip("there is no command")
    done = subprocess.run(
        [str(COMMAND), "run", str(path)], capture_output=True, text=True, timeout=100
    )
    return done.stdout + done.stderr


def serve(context, **options):
    """Some calls of a server; the tokens of all."""
    with context.sampler(50, 3, max_rollback=4, **options) as sampler:
        requests = [
            sampler.begin(prompt=[1, 2, 3], seed=i, repetition_penalty=1.2, logit_bias={4: 1.5})
            for i in range(3)
        ]
        out = [sampler.sample(ROWS, requests).tokens.tolist()]
        requests[1].rollback(1)
        requests[2].force([7, 8])
        mask = np.ones((3, 50), bool)
        mask[:, ::2] = False
        out.append(sampler.sample(ROWS[::-1].copy(), requests, mask=mask).tokens.tolist())
        out.append(sampler.sample(ROWS, requests).tokens.tolist())
    return out


def test_a_text_replays(tmp_path):
    path = tmp_path / "server.run"
    with clsample.Context("host") as context:
        plain = serve(context)
        assert serve(context, record=path, record_arrays=True) == plain
    text = path.read_text()
    assert text.startswith("version ") and text.endswith("\nend\n")
    assert "force 2 ids=7,8\n" in text and "rollback 1 count=1\n" in text
    assert (tmp_path / "server-0-logits.npy").exists()
    assert np.array_equal(np.load(tmp_path / "server-0-logits.npy"), ROWS)
    assert "all equal" in replay(path)
    path.write_text(text.replace("force 2 ids=7,8", "force 2 ids=7,9"))
    assert "differs" in replay(path) or "expected" in replay(path)


def test_of_a_context(tmp_path):
    """Each sampler of a context has a text; the hashes show that logits are others."""
    path = tmp_path / "all.run"
    with clsample.Context("host", record=path) as context:
        serve(context)
        serve(context)
        serve(context, record=tmp_path / "own.run")
    names = sorted(p.name for p in tmp_path.iterdir())
    assert names == ["all-2.run", "all.run", "own.run"]
    assert path.read_text() == (tmp_path / "own.run").read_text()
    assert "hash=" in path.read_text() and "logits=" not in path.read_text()
    assert "have changed since the text was written" in replay(path)


def test_bad_paths(tmp_path):
    with clsample.Context("host") as context:
        with pytest.raises(FileNotFoundError):
            context.sampler(50, record=tmp_path / "no" / "x.run")
        for path in (b"x.run", 3):
            with pytest.raises(TypeError):
                context.sampler(50, record=path)
        with pytest.raises(TypeError, match="record_arrays must be True or False"):
            context.sampler(50, record=tmp_path / "x.run", record_arrays=1)
        with context.sampler(50, record=tmp_path / "two words.run"):
            pass
    assert (tmp_path / "two words.run").read_text().endswith("\nend\n")


def test_a_context_counts_samplers(tmp_path, monkeypatch):
    """A sampler that is refused takes no number; a program may change its folder."""
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path)
    with clsample.Context("host", record="x.run") as context:
        monkeypatch.chdir(tmp_path / "other")
        with pytest.raises(clsample.BadArgument):
            context.sampler(50, 0)
        serve(context)
        serve(context)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["other", "x-2.run", "x.run"]
    assert not list((tmp_path / "other").iterdir())
    with pytest.raises(TypeError):
        clsample.Context("host", record=b"x.run")


def test_ctrl_c(tmp_path, monkeypatch):
    """Ctrl-C while a line is written ends the call's program, not only its text."""
    usual = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in the background
    with clsample.Context("host") as context:
        with context.sampler(50, 3, record=tmp_path / "x.run") as sampler:
            request = sampler.begin(seed=1)

            def stop(*_arguments, **_more):
                raise KeyboardInterrupt

            monkeypatch.setattr("builtins.open", stop)
            with pytest.warns(RuntimeWarning), pytest.raises(KeyboardInterrupt):
                for _ in range(100000):
                    sampler.sample(ROWS[:1], request)
            monkeypatch.undo()
    signal.signal(signal.SIGINT, usual)


def test_a_disk_is_full(tmp_path):
    """A text that cannot be written ends with a warning, and the tokens are the same."""
    if not os.path.exists("/dev/full"):
        pytest.skip("there is no /dev/full")
    path = tmp_path / "full.run"
    path.symlink_to("/dev/full")
    with clsample.Context("host") as context:
        plain = serve(context)
        with pytest.warns(RuntimeWarning, match="the record ends here"):
            assert serve(context, record=path) == plain


def test_the_end_of_a_program(tmp_path):
    """A program that closes nothing, or ends in a child, writes one whole text."""
    code = f"""
import os, numpy as np, clsample
sampler = clsample.Context("host").sampler(50, record={str(tmp_path / 'x.run')!r})
request = sampler.begin(seed=1)
rows = np.zeros((1, 50), np.float32)
sampler.sample(rows, request)
if os.fork() == 0:
    sampler.sample(rows, request)
    raise SystemExit
os.wait()
sampler.sample(rows, request)
"""
    found = {**os.environ, "PYTHONPATH": str(pathlib.Path(clsample.__file__).parent.parent)}
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], env=found, timeout=100)
    assert done.returncode == 0
    text = (tmp_path / "x.run").read_text()
    assert text.count("\nstep ") == 2 and text.count("\nend\n") == 1
