# SPDX-License-Identifier: MIT
"""Modules that need other packages: where those are missing, the message names the extra."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize("module, package", [("transformers", "torch"), ("tinygrad", "pyopencl")])
def test_extra_that_is_missing(module, package):
    code = (
        f"import sys; sys.modules[{package!r}] = None\n"
        f"try:\n    import clsample.{module}\n"
        f"except ImportError as error:\n    print(error, '/', repr(error.__cause__))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.startswith(f"clsample.{module} needs ")
    assert f"pip install 'clsample[{module}]'" in run.stdout
    assert "ModuleNotFoundError" in run.stdout and package in run.stdout
