#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs check_sampler.py with a Python 3 that has NumPy.
here=${srcdir-.}/tests/arithmetic
PYTHONDONTWRITEBYTECODE=1
export PYTHONDONTWRITEBYTECODE
for python in ${PYTHON-python3} /usr/bin/python3; do
    if "$python" -c "import numpy" 2>/dev/null; then
        exec "$python" "$here/check_sampler.py" "$here/../vectors"
    fi
done
echo "there is no Python 3 with NumPy here"
exit 77
