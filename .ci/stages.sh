# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# shellcheck disable=SC2317 # stages are called through stage()
# What .ci/run and .ci/release share: stages, how they are run, timed and reported, and the sum of
# their tests. Both scripts go on after a failure.
set -u
cd "$(dirname "$0")/.." || exit 1
top=$PWD
logs=$top/build/ci
passed=0 failed=0 skipped=0 cpu=0
mkdir -p "$logs"
export CLS_TEST_KERNELS=$logs/kernels # compiled ones, from one stage to the next
rm -rf "$CLS_TEST_KERNELS"

declare -A pid # of a stage in the background

# What a stage reads that depends on few files. In CI it runs only where one of them, or this file,
# differs from what it was in the commit with which the stage last passed: .ci/passed names it,
# which both scripts write. If there is no such commit, or git does not know it, the stage runs.
# Kernels are strings to compilers of C: of cl, these read cl/core alone.
declare -A reads=(
    ['kernel syntax']='cl build-aux/cl-order.sh tests/package/kernel-syntax.sh
        tests/stress/selftest_mutants.sh'
    ['gpu resources']='cl build-aux/cl-order.sh build-aux/cl2c.sh lib/programs lib/device
        bench/programs.c bench/gpu-resources.sh'
    ['other machines']='cl/core cli include lib packaging m4 build-aux configure.ac Makefile.am *.mk
        examples/minimal.c tests/package/cross.sh'
    [wheel]='python packaging setup.py pyproject.toml MANIFEST.in configure.ac Makefile.am *.mk
        include lib/clsample.map'
    [mpich]='lib/mpi lib/shard tests/mpi include m4 configure.ac lib/local.mk tests/local.mk'
    [rusticl]='cl lib/device lib/programs lib/context.c tests/scripts/usual.run'
    [distcheck]='m4 build-aux packaging configure.ac Makefile.am *.mk'
)
all=     # whether stages run whatever has changed: the release
ended=() # those of these stages that have run and passed
costs=() # seconds of processor time and name of each stage

# last_passed NAME: the commit.
last_passed() {
    [ ! -f .ci/passed ] || sed -n "s/^\([0-9a-f]*\) $1\$/\1/p" .ci/passed
}

# unchanged NAME: whether the stage need not run.
unchanged() {
    local commit paths
    [ -z "$all" ] && [ -n "${reads[$1]-}" ] || return
    commit=$(last_passed "$1")
    read -r -d '' -a paths <<<"${reads[$1]}"
    [ -n "$commit" ] && git diff --quiet "$commit" -- .ci/stages.sh "${paths[@]}" 2>/dev/null
}

# run NAME COMMAND...: runs a stage, with its output in its log. Keeps its exit status, its seconds
# and the seconds of processor time that it took. A stage that need not run is skipped.
run() {
    local name=$1 log=$logs/${1//[ ,]/-}.log begun=$SECONDS status TIMEFORMAT='%0U %0S'
    shift
    ! unchanged "$name" || set -- skip "nothing has changed since $(last_passed "$name")"
    printf '== %s: %s\n' "$name" "$*"
    # Subshells: stages set the environment, and stages that end in the background are not timed.
    (time { ("$@") >"$log" 2>&1 </dev/null; }) 2>"$log.cpu"
    status=$?
    echo $status $((SECONDS - begun)) "$(cat "$log.cpu")" >"$log.end"
}

# skip WHY: a stage that does not run.
skip() { printf '%s\n0 passed, 0 failed, 1 skipped\n' "$1"; }

# report NAME: the last line of the stage's log counts if it says "N passed, N failed[,
# N skipped]"; otherwise the stage itself is one test.
report() {
    local name=$1 log=$logs/${1//[ ,]/-}.log line p=1 f=0 s=0 word='passed'
    local status seconds user system
    [ -z "${pid[$name]-}" ] || wait "${pid[$name]}"
    read -r status seconds user system <"$log.end"
    line=$(grep -E '^[0-9]+ passed, [0-9]+ failed' "$log" | tail -n 1)
    if [[ $line =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed(,\ ([0-9]+)\ skipped)? ]]; then
        p=${BASH_REMATCH[1]} f=${BASH_REMATCH[2]} s=${BASH_REMATCH[4]:-0}
    fi
    if [ "$status" != 0 ]; then
        word=FAILED
        [ "$f" != 0 ] || { f=1; [ -n "$line" ] || p=0; }
        tail -n 60 "$log"
    elif [ "$f" = 0 ] && [ "$p" != 0 ] && [ -n "${reads[$name]-}" ]; then
        ended+=("$name")
    fi
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
    cpu=$((cpu + user + system))
    costs+=("$((user + system)) $name")
    printf '   %s: %s in %d s (CPU %d s); %d passed, %d failed, %d skipped; %s\n' "$name" "$word" \
        "$seconds" $((user + system)) "$p" "$f" "$s" "$log"
    return "$status"
}

stage() {
    run "$@"
    report "$1"
}

# start NAME COMMAND...: begins a stage in the background; report NAME waits for it.
start() {
    run "$@" &
    pid[$1]=$!
}

# lane FUNCTION NAME...: begins a function in the background that runs these stages.
lane() {
    local function=$1 name
    shift
    $function &
    for name; do
        pid[$name]=$!
    done
}

# note_passed: writes into .ci/passed which stages have passed with the last commit, and prints it,
# since a machine that clones the sources loses the file.
note_passed() {
    local name commit
    [ ${#ended[@]} != 0 ] || return 0
    if [ -n "$(git status --porcelain)" ] || ! commit=$(git rev-parse HEAD); then
        echo '.ci/passed stays as it is: these sources are no commit'
        return
    fi
    touch .ci/passed
    for name in "${ended[@]}"; do
        sed -i "/^[0-9a-f]* $name\$/d" .ci/passed
        echo "$commit $name" >>.ci/passed
    done
    sort -k 2 -o .ci/passed .ci/passed
    printf '.ci/passed is now:\n%s\n' "$(cat .ci/passed)"
}

finish() {
    wait
    echo 'The stages that took the most processor time, in seconds:'
    printf '%s\n' "${costs[@]}" | sort -rn | head -n 10
    printf '%d s in all (CPU %d s)\n' $SECONDS $cpu
    printf '%d passed, %d failed, %d skipped\n' $passed $failed $skipped
    [ $failed = 0 ]
    exit
}

install_tools() {
    local package missing=() sudo=()
    for package in clang clang-15 clang-format-14 libclc-15 mesa-opencl-icd oclgrind xz-utils \
        python3-numpy python3-cffi python3-pytest python3-pyopencl python3-pip python3-venv \
        python3-wheel mpich libmpich-dev g++ cmake doxygen gnuplot-nox intel-opencl-icd time \
        $(sh tests/package/cross.sh --packages); do
        dpkg-query -W -f='${db:Status-Status}\n' "$package" 2>/dev/null | grep -qx installed ||
            missing+=("$package")
    done
    [ ${#missing[@]} != 0 ] || return 0
    [ "$(id -u)" = 0 ] || sudo=(sudo --)
    "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get update -q &&
        "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install \
            -y -q --no-install-recommends "${missing[@]}"
}

# One OpenCL implementation alone: a folder with its .icd.
only() {
    mkdir -p "$logs/icd-$1" && cp "/etc/OpenCL/vendors/$1.icd" "$logs/icd-$1/" &&
        export OCL_ICD_VENDORS=$logs/icd-$1/
}

# configured DIRECTORY FLAGS...: a separate build in build/DIRECTORY.
configured() {
    mkdir -p "build/$1" && (cd "build/$1" && shift && "$top/configure" --enable-werror "$@")
}

# tests DIRECTORY TARGET [MAKE'S ARGUMENTS]: the tests of a build, and their sum.
tests() {
    local dir=$1 status results
    shift
    make -C "$dir" -j2 check TESTS= && find "$dir/tests" "$dir/fuzz" "$dir/examples" \
        -name '*.trs' -exec rm {} + && make -C "$dir" "$@"
    status=$?
    [ "$status" = 0 ] || cat "$dir/test-suite.log"
    results=$(find "$dir/tests" "$dir/fuzz" "$dir/examples" -name '*.trs')
    # Where the devices are chosen, "no device" is a failure.
    # shellcheck disable=SC2086 # a list of words
    grep -l '^:global-test-result: SKIP' $results && status=1
    # shellcheck disable=SC2086
    sh build-aux/summary.sh $results
    return "$status"
}

# What `make check`, which bootstrap runs, leaves out, without faults, which the sanitizers run, and
# without what would repeat the quick set: groups.sh for one seed, and the watermark's logarithm.
# Texts run for one seed, and on sides that the quick set leaves out. To compile kernels of many
# shapes is most of what shape_tests do: PoCL does it in half the time if it need not optimize.
long_tests() {
    export CLS_TEST_SEEDS=1 CLS_TEST_SIDES=each,ahead,svm,shards-2
    tests build -j2 check-long host_check= whole_units= whole_scripts= shape_flags=-cl-opt-disable
}

full_tests() {
    tests build -j2 check-full
}

# The tests of the stages that run on a device: programs, and texts of calls or what runs them.
programs() {
    local name
    for name; do
        case $name in
        *.run | *.sh) printf 'tests/scripts/%s ' "$name" ;;
        *) printf 'tests/device/check_%s ' "$name" ;;
        esac
    done
}

# Also without CLBlast, where the LM head multiplies all weights by its own kernel. Clang's warnings
# do not depend on optimization.
clang_build() {
    only pocl || return
    export CLS_TEST_SIZE=tiny
    configured clang CC=clang CFLAGS=-O0 --without-clblast --disable-static &&
        make -C build/clang -j2 && fuzzers &&
        tests build/clang check TESTS="$(programs head head_calls)"
}

# Each fuzzer starts and makes some inputs of its own: `make check` replays the kept ones only, and
# gcc's sanitizers, which others run under, see less than clang's.
fuzzers() {
    local target name
    make -C build/clang fuzz || return
    for target in build/clang/fuzz/*.fuzzer; do
        name=$(basename "$target" .fuzzer)
        mkdir -p "$logs/found/$name" &&
            "$target" -runs=2000 -seed=1 "$logs/found/$name" "fuzz/corpus/$name" || return
    done
}

# The MPI that bootstrap does not take. Only what its tests need is built, and not optimized.
mpich() {
    only pocl || return
    export CLS_TEST_SIZE=tiny MPI_RANKS='2 4'
    local dir=build/mpi status=1
    configured mpi --disable-shared --with-mpi MPICC=mpicc.mpich CFLAGS=-O0 &&
        make -C $dir -j2 tests/mpi/check_protocol tests/mpi/check_ranks &&
        make -C $dir check-TESTS check_PROGRAMS= TESTS=tests/mpi/check_mpi.sh
    status=$?
    cat $dir/tests/mpi/check_mpi.log
    return $status
}

# Sanitizers do not see into kernels. PoCL and LLVM keep memory until exit, so leaks are not looked
# for. sanitized ARGUMENTS: builds by gcc, and runs the tests that make's arguments name.
sanitized() {
    only pocl || return
    export CLS_TEST_SIZE=tiny ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1
    local flags='-fsanitize=address,undefined -fno-sanitize-recover=undefined'
    configured sanitize --disable-static CFLAGS="-O1 -g $flags -fno-omit-frame-pointer" &&
        make -C build/sanitize -j2 && "$@" && tests build/sanitize -j2 "${what[@]}"
}

# The host's code without a device: texts on the host, units, what replays the fuzzers' inputs, an
# OpenCL that computes nothing; and on a device what lets calls and allocations fail.
sanitizers() {
    # shellcheck disable=SC2016 # make's variables
    local names='tests/stress/check_threads_stub $(host_check) $(error_tests)'
    # shellcheck disable=SC2016
    local what=(check TESTS="$names"' $(short_units) $(unit_tests) $(fuzz_host)')
    sanitized texts_on_host build/sanitize
}

# Each test that reaches the host's code.
sanitizers_whole() {
    local what=(check-host)
    sanitized true
}

# texts_on_host BUILD: exit status 77 says that there was no device.
texts_on_host() {
    OCL_ICD_VENDORS=$logs/nothing/ BUILD=$top/$1 CLSAMPLE=$top/$1/clsample \
        sh tests/scripts/run.sh tests/scripts/*.run
    [ $? = 77 ]
}

# The library's half in threads, with an OpenCL that computes nothing: drivers
# know nothing of ThreadSanitizer.
threads() {
    configured threads CFLAGS='-O1 -g -fsanitize=thread' --without-clblast --disable-shared &&
        make -C build/threads -j2 tests/stress/check_threads_stub &&
            CK_FORK=no build/threads/tests/stress/check_threads_stub
}

on_oclgrind() {
    local stages=$1
    shift
    export CLS_TEST_SIZE=tiny OCLGRIND_FLAGS=$* CLS_TEST_LAUNCHER=$top/tests/support/oclgrind.sh
    # shellcheck disable=SC2086 # a list of words
    tests build -j2 check TESTS="$(programs $stages)" LOG_COMPILER="$CLS_TEST_LAUNCHER"
}

# Texts in one process, which compiles and proves the programs once, for some 50 s: twelve take
# 780 s of processor time and 5 GB.
texts_on_oclgrind() {
    local texts=$1
    shift
    export CLS_TEST_SIZE=tiny OCLGRIND_FLAGS=$* CLS_TEST_LAUNCHER=$top/tests/support/oclgrind.sh
    # shellcheck disable=SC2046,SC2086 # lists of words
    BUILD=$top/build CLSAMPLE=$top/build/clsample sh tests/scripts/run.sh $(programs $texts)
}

# The Python package on the library of the build, by Debian's Python, with two sources of
# grammars (5 MB), tinygrad (45 MB), and what a small model's file and tokenizer need (10 MB), where
# pip finds them. XGrammar, the third source, needs torch. The tests of a real model, which need
# 350 MB, run where CLSAMPLE_GEMMA is set (doc/testing.md).
python_package() {
    local folder=$logs/python
    only pocl || return
    [ -d "$folder" ] || /usr/bin/python3 -m venv --system-site-packages "$folder" || return
    "$folder/bin/pip" install -q outlines-core llguidance tinygrad==0.14.0 gguf sentencepiece \
        protobuf || echo 'pip lacks a package; the tests that need one of them are skipped'
    make -C build check-python PYTHON="$folder/bin/python"
}

# pip builds the wheel from this folder, and the wheel's package computes a token, on the host where
# pyopencl is hidden, too.
python_wheel() {
    /usr/bin/python3 -m pip wheel -q --no-deps --no-build-isolation -w "$logs/wheel" . &&
        cd "$logs/wheel" && /usr/bin/python3 -m zipfile -e clsample-*-py3-none-*.whl . &&
        /usr/bin/python3 -c 'import sys, clsample, numpy
row = numpy.arange(9, dtype="float32")
assert clsample.sample(row, temperature=0, device="host") == 8
sys.modules["pyopencl"] = None
assert clsample.sample(row, temperature=0) == 8
try:
    sys.exit(f"{clsample.Context()} was opened without pyopencl")
except clsample.OpenCLNotFound as error:
    assert "clsample[opencl]" in str(error)'
}

# Registers, stack and spills that GPU compilers give each program, and how long Intel's takes.
gpu_resources() {
    WITHOUT_GEN9=1 make -C build gpu-resources
}

# Another compiler, which takes vectors apart: the usual kernels, in float32.
rusticl() {
    only rusticl || return
    export RUSTICL_ENABLE=llvmpipe
    build/clsample run tests/scripts/usual.run --device 0
}

# One more, with real barriers and sub-groups: only where CI_INTEL is set, since it
# is a Python package of 200 MB.
intel() {
    local folder=$logs/intel library
    if [ -z "${CI_INTEL-}" ]; then
        skip 'CI_INTEL is not set'
        return
    fi
    [ -d "$folder" ] || { python3 -m venv "$folder" &&
        "$folder/bin/pip" install -q intel-opencl-rt tbb tcmlib intel-cmplr-lib-rt; } || return
    library=$(find "$folder" -name libintelocl.so)
    mkdir -p "$logs/icd-intel" && echo "$library" >"$logs/icd-intel/intel.icd"
    export OCL_ICD_VENDORS=$logs/icd-intel/ LD_LIBRARY_PATH=${library%/*} CLS_TEST_SIZE=tiny
    build/clsample selftest --dtype f32 || return
    for group in 8 64 256; do
        build/clsample selftest --dtype f32 --work-group "$group" --row-group "$group" || return
    done
    for group in 4 16; do
        CLS_TEST_GROUP=$group tests build check \
            TESTS="$(programs {chains,verify,grammar,drafts,shards,watermark}.run)" || return
    done
}

# llama.cpp's OpenCL backend with the logits in place, on the same runtime: some 450 MB that pip
# downloads, and a compilation of llama.cpp, which stays in build/ci.
llamacpp() {
    if [ -z "${CI_INTEL-}" ]; then
        skip 'CI_INTEL is not set'
        return
    fi
    CLSAMPLE_LLAMACPP=$logs/llamacpp sh tests/llamacpp/run.sh
}

# What depends on the files of the archive: the tests that read some, and one that runs kernels.
# bootstrap has run the others on the same sources; the archive has them all (complete_dist).
distcheck() {
    only pocl || return
    local tests programs
    programs="tests/unit/check_goldens tests/arithmetic/check_vectors examples/server"
    tests="$(cd tests && printf 'tests/%s ' package/{layers,headers,numbers,symbols,portable}.sh \
        package/{gpu_script,gpu_resources,pages,links,versions}.sh) $programs $(programs usual.run)"
    # Not optimized, which takes half the time: other stages compile the same files with -O2.
    CLS_TEST_SIZE=tiny make -C build -j2 distcheck DISTCHECK_CONFIGURE_FLAGS=CFLAGS=-O0 \
        check_PROGRAMS="$programs tests/scripts/hooked" TESTS="$tests" && return
    cat build/clsample-*/_build/sub/test-suite.log # if it came to its tests, why they failed
    return 1
}

# The archive depends on the sources alone, not on where and when it was made.
reproducible_dist() {
    sleep 1
    make -C build dist && make -C build/clang dist &&
        cmp build/clsample-*.tar.xz build/clang/clsample-*.tar.xz && complete_dist
}

# It has every file of the repository but what is for the repository alone, and no others but those
# that Autotools and Doxygen make.
complete_dist() {
    local tracked=$logs/dist.tracked files=$logs/dist.files missing added
    git ls-files | sort >"$tracked" || return
    tar -tf build/clsample-*.tar.xz | sed 's,^[^/]*/,,; /^$/d; /\/$/d' | sort >"$files"
    missing=$(grep -vx -e '\.ci/.*' -e .gitignore "$tracked" | comm -23 - "$files")
    added=$(comm -13 "$tracked" "$files" |
        grep -vx -e Makefile.in -e aclocal.m4 -e configure -e 'm4/l.*m4' -e build-aux/ltmain.sh \
            -e 'build-aux/[a-z-]*' -e 'build-aux/config\..*' -e 'doc/man3/.*' \
            -e 'amalgamation/.*')
    [ -z "$added" ] || { printf 'only in the archive:\n%s\n' "$added"; return 1; }
    [ -z "$missing" ] || { printf 'not in the archive:\n%s\n' "$missing"; return 1; }
}
