#!/bin/sh
# SPDX-License-Identifier: MIT
# Measures the overhead of a Python sample() call over cls_sample(), with an OpenCL that computes
# nothing (tests/support/stub_cl.h). It is called in a build folder, after `make python-package`:
#
#     SOURCE/bench/python.sh [ROUNDS [STEPS]]
#
# PYTHON is the interpreter; it needs cffi, NumPy and a pyopencl that is linked with libOpenCL.so.1,
# as Debian's is. What else pyopencl is linked with does nothing and succeeds.
set -eu
source=$(cd "$(dirname "$0")/.." && pwd)
folder=$PWD/python/bench
make -s libclsample_internal.la
rm -rf "$folder" && mkdir -p "$folder" && cp -r python/package/clsample "$folder"
library=$folder/clsample/libclsample.so
module=$("${PYTHON-python3}" -c 'import importlib.util, pathlib
found = importlib.util.find_spec("pyopencl").submodule_search_locations[0]
print(next(pathlib.Path(found).glob("_cl.*so")))')
nm -D "$module" | sed -n 's/.* U \(cl[A-Z][A-Za-z0-9]*\).*/\1/p' |
    sed 's/.*/__attribute__((weak)) int &(void) { return 0; }/' >"$folder/others.c"
# shellcheck disable=SC2086 # a list of words
${CC-cc} -O2 -fPIC -shared -DCLS_BUILD -DCLS_TEST_HOOKS -DCL_TARGET_OPENCL_VERSION=120 \
    -I"$source/include" \
    -I"$source/lib" -I"$source/cl" -I"$source/tests/support" -o "$library" \
    "$source/bench/python.c" \
    "$source"/tests/support/stub_cl.c "$source"/tests/support/stub_queue.c \
    "$source"/tests/support/stub_kernels.c "$folder/others.c" -Wl,--whole-archive \
    .libs/libclsample_internal.a \
    -Wl,--no-whole-archive -lm -lpthread
ln -s "$library" "$folder/libOpenCL.so.1"
PYTHONPATH=$folder LD_LIBRARY_PATH=$folder exec "${PYTHON-python3}" "$source/bench/python.py" "$@"
