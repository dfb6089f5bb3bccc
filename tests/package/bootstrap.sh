#!/bin/sh
# SPDX-License-Identifier: MIT
# Proves that ./bootstrap check is not silent for more than ten seconds where its output is a pipe.
# Programs that only take time stand in for make and the package manager.
here=$(cd "$(dirname "$0")" && pwd) || exit 99
# shellcheck source=tests/support/checks.sh
. "$here/../support/checks.sh"

mkdir -p bin build/tests build/fuzz build/examples build-aux
cp "$here/../../bootstrap" .
cp "$here/../../build-aux/summary.sh" build-aux
: >configure
: >build/Makefile
printf '#!/bin/sh\n' >bin/apt-get
printf '#!/bin/sh\necho installed\n' >bin/dpkg-query
cat >bin/make <<'STOP'
#!/bin/sh
case $* in
*TESTS=) ;;
*check) sleep 12; echo "PASS: tests/first"; sleep 1; echo "FAIL: tests/second"; exit 1 ;;
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
says "tests" '^\.\.\. 0 tests have ended, 1[0-9] s$' out
says "tests" '^PASS: tests/first$' out
says "tests" '^FAIL: tests/second$' out
if [ "$(cat code)" -ne 0 ]; then yes_; else no_ "a test that fails: exit 0"; fi
run 0 1
says "make that fails" '^make \.\.\.  *failed$' out
says "make that fails" "bootstrap: 'make .*' failed; the whole log is build/bootstrap.log" err
if [ "$(cat code)" -eq 1 ]; then yes_; else no_ "make that fails: exit $(cat code)"; fi
finish
