#!/bin/sh
# SPDX-License-Identifier: MIT
# Proves that doc/arithmetic.md suffices to implement the sampling of tokens: sampler.py, which is
# written from that page alone, gives the test vectors, and draws the tokens of cls_host_sample()
# and cls_host_draw() from random rows and lists. CLS_TEST_SIZE=small compares some thousand draws,
# the whole test a million. It needs Python 3 with NumPy.
here=${srcdir-.}/tests/arithmetic program=${BUILD-.}/tests/arithmetic/check_vectors
PYTHONDONTWRITEBYTECODE=1
export PYTHONDONTWRITEBYTECODE
for python in ${PYTHON-python3} /usr/bin/python3 none; do
    "$python" -c 'import numpy' 2>/dev/null && break
done
if [ $python = none ]; then
    echo "there is no Python 3 with NumPy here"
    exit 77
fi
[ -x "$program" ] || make -s tests/arithmetic/check_vectors || exit 99
case ${CLS_TEST_SIZE-} in
small) rows=400 draws=20 ;;
tiny) rows=50 draws=8 ;;
*) rows=8000 draws=125 ;;
esac
failed=0
"$python" "$here/check_sampler.py" "$here/../vectors" || failed=1
"$python" "$here/check_sampler.py" --random "$program" "${CLS_TEST_SEED-1}" $rows $draws || failed=1
exit $failed
