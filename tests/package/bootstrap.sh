#!/bin/sh
# SPDX-License-Identifier: MIT
# Proves that ./bootstrap check is not silent for more than ten seconds where its output is a
# pipe, and that it says which tests run and why one was skipped; that each word of the command
# line is taken or named; that Doxygen, which makes the man pages, is installed, and not for the
# demonstration; and that configure runs again after packages were installed. Programs that only
# take time stand in for make and the package manager.
here=$(cd "$(dirname "$0")" && pwd) || exit 99
# shellcheck source=tests/support/checks.sh
. "$here/../support/checks.sh"

mkdir -p bin build/tests/device build/tests/package build/fuzz build/examples build-aux
cp "$here/../../bootstrap" .
cp "$here/../../build-aux/summary.sh" build-aux
printf '#!/bin/sh\necho configured >Makefile\n' >configure
chmod +x configure
: >build/Makefile
printf '#!/bin/sh\necho "$*" >>installed\n' >bin/apt-get
printf '#!/bin/sh\n[ "$3" = doxygen ] && [ ! -e installed ] || echo installed\n' >bin/dpkg-query
printf '#!/bin/sh\nwhile [ "$1" != -- ]; do shift; done; shift; exec "$@"\n' >bin/sudo
cat >bin/make <<'STOP'
#!/bin/sh
ended() { # RESULT TEST
    : >"build/${2%.sh}.trs"
    echo "$1: $2"
}
case $* in
*show-tests.mk) echo tests/device/first tests/package/second.sh tests/third tests/fourth ;;
*TESTS=) ;;
*check)
    rm -f build/tests/*/*.trs
    : >build/tests/device/first.log
    mkdir -p build/tests/kernels/program
    : >build/tests/kernels/program/build.log
    printf 'no such tool\nSKIP tests/package/second.sh (exit status: 77)\n' \
        >build/tests/package/second.log
    sleep 12
    ended PASS tests/device/first
    ended SKIP tests/package/second.sh
    sleep 1
    ended FAIL tests/third
    exit 1
    ;;
*) sleep "$SLOW"; exit "$FAILS" ;;
esac
STOP
chmod +x bin/*
run() { # SECONDS STATUS: of make, and then of the whole as the file `code`
    {
        env PATH="$dir/bin:$PATH" SLOW="$1" FAILS="$2" sh ./bootstrap check 2>err
        echo $? >code
    } | cat >out
}

run 12 0
says "make" '^make \.\.\.  *1[0-9] s$' out
says "make" '^make \.\.\.  *done, 1[2-9] s$' out
says "tests" '^\.\.\. 0 of 4, running \(first second\|second first\), 1[0-9] s$' out
says "tests" '^PASS: tests/device/first$' out
says "tests" '^SKIP: tests/package/second.sh: no such tool$' out
says "tests" '^FAIL: tests/third$' out
says "what is installed" '^install .* doxygen$' installed
says "configure, after packages came" '^configured$' build/Makefile
if [ "$(cat code)" -ne 0 ]; then yes_; else no_ "a test that fails: exit 0"; fi
# On a terminal the line changes every second, and what ends overwrites it.
if command -v script >/dev/null && script -qec true /dev/null >/dev/null 2>&1; then
    PATH=$dir/bin:$PATH SLOW=0 FAILS=0 script -qec 'sh ./bootstrap check' /dev/null >out
    tr '\r' '\n' <out >lines
    for second in '[23]' '[45]' '[89]'; do
        says "a terminal" "^\.\.\. 0 of 4, running [a-z]* [a-z]*, $second s *\$" lines
    done
    says "a terminal" '^PASS: tests/device/first$' lines
fi
run 0 1
says "make that fails" '^make \.\.\.  *failed$' out
says "make that fails" "bootstrap: 'make .*' failed; the whole log is build/bootstrap.log" err
if [ "$(cat code)" -eq 1 ]; then yes_; else no_ "make that fails: exit $(cat code)"; fi

word() { # STATUS PATTERN WORD...
    wanted=$1 pattern=$2
    shift 2
    env PATH="$dir/bin:$PATH" SLOW=0 FAILS=0 sh ./bootstrap "$@" >out 2>&1
    code=$?
    says "bootstrap $*" "$pattern" out
    if [ $code -eq "$wanted" ]; then yes_; else no_ "bootstrap $*: exit $code"; fi
}
word 0 '^    ./bootstrap check  *does the same' --help
word 0 '^Makes a working build' -h
word 1 "^bootstrap: 'chek' is neither demo nor check; ./bootstrap --help says" chek
rm installed
mkdir examples
echo 'echo shown by "$1"' >examples/demo.sh
word 0 '^shown by build/clsample$' demo
if [ -e installed ]; then no_ "bootstrap demo installs $(cat installed)"; else yes_; fi
word 1 "^bootstrap: 'check' is one word too many; " demo check
finish
