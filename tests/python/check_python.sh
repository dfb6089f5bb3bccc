#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs the tests of the Python package that `make python-package` has put together. It needs
# Python 3 with cffi, NumPy and pytest; the tests of pyopencl and of the types are left out where
# pyopencl and mypy are missing. OCL_ICD_VENDORS chooses the device. Arguments go to pytest.
#
#     make check-python                       # in a build folder
#     make check-python PYTHON=venv/bin/python
set -eu
srcdir=$(cd "${srcdir-.}" && pwd)
build=${BUILD-$PWD}
kernels=${CLS_TEST_KERNELS-$build/tests/kernels} own=$build/python/package.pocl
. "$srcdir/tests/support/kernels.sh"
PYTHONPATH=$build/python/package PYTHONDONTWRITEBYTECODE=1
export srcdir PYTHONPATH PYTHONDONTWRITEBYTECODE
log=$build/python/package/tests.log status=0
python=${PYTHON-python3} CACHEDB=$build/python/package/tinygrad.db
export CACHEDB
unset PYTHON # tinygrad takes it for the choice of a device
"$python" -m pytest -q -p no:cacheprovider -rsfE "$srcdir/tests/python" "$@" >"$log" 2>&1 ||
    status=$?
if [ $status = 0 ]; then tail -n 40 "$log"; else cat "$log"; fi
# The last line as that of the other tests: N passed, N failed, N skipped.
awk '/ in [0-9.]+s/ { line = $0 }
    END {
        n["passed"] = n["failed"] = n["error"] = n["skipped"] = 0
        for (i = split(line, w, /[ ,]+/); i > 1; i--) {
            sub(/errors/, "error", w[i])
            if (w[i] in n)
                n[w[i]] = w[i - 1]
        }
        printf "%d passed, %d failed, %d skipped\n", n["passed"], n["failed"] + n["error"],
            n["skipped"]
    }' "$log"
exit $status
