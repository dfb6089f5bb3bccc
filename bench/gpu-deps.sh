#!/bin/sh
# SPDX-License-Identifier: MIT
# Fills a folder with what bench/gpu.sh needs on a machine without a network, on a Debian machine
# that has one: the release archive (so that no autotools are needed there), the headers and
# libraries of OpenCL, Check and jansson as Debian packages, and FlashInfer as Python wheels, of
# which only the parts for sampling are kept.
#
#     sh bench/gpu-deps.sh BUILD [FOLDER]     BUILD: a build of this tree; FOLDER: deps
#
# PYTHON_VERSION (3.12) is the Python of the other machine, LIMIT_MIB (56) the most that the folder
# may take; what does not fit is left out and named. PyTorch is not carried: its wheel alone is
# larger than that. The GPU's driver, a C compiler, make and Python must be on the other machine.
set -eu
build=${1:?usage: gpu-deps.sh BUILD [FOLDER]}
top=$(cd "$(dirname "$0")/.." && pwd)
folder=${2:-$top/deps}
python=${PYTHON_VERSION:-3.12}
limit=${LIMIT_MIB:-56}
packages="ocl-icd-libopencl1 ocl-icd-opencl-dev opencl-c-headers check libsubunit-dev
    libjansson4 libjansson-dev"
wheels="apache-tvm-ffi flashinfer-python"

say() { printf 'gpu-deps: %s\n' "$*"; }
mib() { du -sm "$1" | cut -f1; }

build=$(cd "$build" && pwd)
rm -rf "$folder"
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)

# ------------------------------------------------------------------ the sources
rm -f "$build"/clsample-*.tar.xz
make -s -C "$build" dist >"$folder/dist.log" 2>&1 || { tail "$folder/dist.log"; exit 1; }
rm "$folder/dist.log"
cp "$build"/clsample-*.tar.xz "$folder/"
commit=$(git -C "$top" describe --always --dirty --abbrev=40 --exclude='*')
echo "$commit" >"$folder/commit"

# ------------------------------------------------------------- Debian's packages
if command -v apt-get >/dev/null; then
    # shellcheck disable=SC2086 # a list of words
    if ! (cd "$folder" && apt-get -q download $packages >apt.log 2>&1); then
        cat "$folder/apt.log"
        say "apt-get cannot download the packages; is its list up to date?"
        exit 1
    fi
    rm "$folder/apt.log"
else
    say "no apt-get: the other machine must have OpenCL's, Check's and jansson's headers, libraries"
fi

# ---------------------------------------------------------------- Python's wheels
download() { # PACKAGE: into $folder
    set -- "$1" --no-deps --only-binary=:all: --implementation cp --python-version "$python"
    for platform in 2_28 2_24 2_17; do set -- "$@" --platform "manylinux_${platform}_x86_64"; done
    python3 -m pip download -q --disable-pip-version-check --platform manylinux2014_x86_64 \
        -d "$folder" "$@"
}

# FlashInfer's wheel has the sources of all its kernels. Keeps its Python files, and of the others
# those that sampling includes.
trim() { # WHEEL
    python3 - "$1" <<'END'
import os
import sys
import zipfile


def is_needed(name):
    part = name.split("/")
    if part[:2] != ["flashinfer", "data"]:
        return name.endswith(".py") or ".dist-info/" in name
    if part[2] == "csrc":
        return len(part) == 4 or part[3] == "cake_sampling"
    if part[2] == "cutlass":
        return part[3] == "include"
    return part[2] in ("include", "cccl", "spdlog")


path = sys.argv[1]
with zipfile.ZipFile(path) as whole:
    with zipfile.ZipFile(path + ".new", "w", zipfile.ZIP_DEFLATED, compresslevel=9) as kept:
        for entry in whole.infolist():
            if is_needed(entry.filename):
                kept.writestr(entry.filename, whole.read(entry))
os.replace(path + ".new", path)
END
}

for wheel in $wheels; do
    if ! download "$wheel" 2>"$folder/pip.log"; then
        say "left out: $wheel, which pip does not download: $(tail -n 1 "$folder/pip.log")"
        continue
    fi
    file=$(find "$folder" -name "$(echo "$wheel" | tr - _)-*.whl")
    case $wheel in flashinfer*) trim "$file" ;; esac
    if [ "$(mib "$folder")" -gt "$limit" ]; then
        say "left out: $wheel, $(mib "$file") MiB: the folder would take more than $limit MiB"
        rm "$file"
    fi
done
rm -f "$folder/pip.log"

(cd "$folder" && du -k -- * | sort -rn | awk '{ printf "%8d KiB  %s\n", $1, $2 }')
say "$folder: $(mib "$folder") MiB, of commit $commit"
