# SPDX-License-Identifier: MIT
"""Builds the Python package: the C library in a temporary folder, and the generated modules.

The wheel contains the library, and is the same for all versions of Python. CLSAMPLE_LIBRARY names
a library of the system, by its soname, that the package opens instead; the wheel then contains
none. CFLAGS, CC and the like are configure's.
"""

import atexit
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:  # before setuptools 70
    from wheel.bdist_wheel import bdist_wheel

TOP = pathlib.Path(__file__).resolve().parent
SYSTEM_LIBRARY = os.environ.get("CLSAMPLE_LIBRARY", "")
# What the copy that is built does not have: repositories, and the results of builds in the tree.
NOT_COPIED = shutil.ignore_patterns(
    ".*",
    "build",
    "autom4te.cache",
    "config.status",
    "Makefile",
    "__pycache__",
    "*.o",
    "*.lo",
    "*.la",
    "*.pocl",
    "*.tar.*",
)
PACKAGES = "gcc make autoconf automake libtool pkg-config opencl-c-headers"


def version():
    header = (TOP / "include" / "clsample" / "base.h").read_text()
    return re.search(r'CLS_VERSION_STRING "([^"]+)"', header)[1]


def run(folder, *command, **environment):
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **environment},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    if done.returncode != 0:
        print(done.stdout[-4000:], file=sys.stderr)
        raise SystemExit(
            f"clsample: {' '.join(command)} failed. The library needs a C compiler, "
            f"Autotools and OpenCL's headers; on Debian: apt install {PACKAGES}"
        )


def build_library(target):
    """Configures and makes the library in a folder of its own, whatever the source folder has."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name) / "source"
        shutil.copytree(TOP, folder, ignore=NOT_COPIED)
        if not (folder / "configure").exists():
            run(folder, "autoreconf", "-fi")
        build = folder.parent / "build"
        build.mkdir()
        flags = {"CFLAGS": os.environ.get("CFLAGS", "-O2")}
        run(build, "../source/configure", "--disable-static", "--without-clblast", **flags)
        run(build, "make", f"-j{os.cpu_count() or 1}", "libclsample.la")
        libraries = (build / ".libs").glob("libclsample*.*")
        library = next(path for path in libraries if path.suffix in (".so", ".dylib", ".dll"))
        shutil.copy(os.path.realpath(library), target / library.name)


class BuildPackage(build_py):
    def run(self):
        super().run()
        sys.path.insert(0, str(TOP / "python"))
        import generate

        package = pathlib.Path(self.build_lib) / "clsample"
        generate.main(TOP / "include", package, SYSTEM_LIBRARY or "libclsample.so")
        if not SYSTEM_LIBRARY:
            build_library(package)


class PlatformPackage(Distribution):
    def has_ext_modules(self):
        return not SYSTEM_LIBRARY


class PlatformWheel(bdist_wheel):
    """One wheel for all versions of Python: it contains a library, but no extension module."""

    def get_tag(self):
        return ("py3", "none", "any" if SYSTEM_LIBRARY else super().get_tag()[2])


# The folder build/ is that of bootstrap.
scratch = tempfile.mkdtemp()
atexit.register(shutil.rmtree, scratch, ignore_errors=True)
setup(
    version=version(),
    distclass=PlatformPackage,
    cmdclass={"build_py": BuildPackage, "bdist_wheel": PlatformWheel},
    options={"build": {"build_base": scratch}, "egg_info": {"egg_base": scratch}},
)
