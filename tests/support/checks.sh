# SPDX-License-Identifier: MIT
# shellcheck shell=sh
# What the shell tests share: a folder of their own, checks that count, the sum.
set -u
dir=$(mktemp -d) || exit 99
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 99
passed=0
failed=0

yes_() { passed=$((passed + 1)); }
no_() { failed=$((failed + 1)); echo "FAILED: $*"; }

same() { # WHAT A B: the files are equal, and not empty
    if [ -s "$2" ] && cmp -s "$2" "$3"; then yes_; else no_ "$1: $2 and $3 differ"; fi
}

differ() {
    if [ -s "$2" ] && [ -s "$3" ] &&
        ! cmp -s "$2" "$3"; then yes_; else no_ "$1: $2 and $3 are equal"; fi
}

says() { # WHAT PATTERN FILE
    if grep -q -e "$2" "$3"; then yes_; else no_ "$1: no '$2' in: $(head -3 "$3")"; fi
}

# After a library to preload did not compile: a failure, unless this compiler makes none at all.
no_library() {
    echo 'int nothing;' >nothing.c
    if ${CC:-cc} -shared -fPIC -o nothing.so nothing.c 2>nothing.err; then
        no_ "the library to preload does not compile: $(grep -m 1 error cc.err)"
    else
        echo "left out: no shared library could be made: $(head -1 nothing.err)"
    fi
}

# Runs a command with its output in out and err, and its status in code. The lines that clsample
# writes every ten seconds are not kept.
run_quietly() {
    "$@" >out 2>err.all
    code=$?
    grep -v '^clsample: [a-z]*, [0-9]*0 s' err.all >err
    return $code
}

# NAME PROGRAM PATTERN ARGUMENTS...: exit 1, one sentence with the pattern, nothing else
refused_by() {
    name=$1 program=$2 pattern=$3
    shift 3
    run_quietly "$program" "$@"
    if [ $code -eq 1 ] && [ ! -s out ] && [ "$(wc -l <err)" -eq 1 ] &&
        grep -q -e "^$name: .*$pattern" err; then
        yes_
    else
        no_ "$name $*: exit $code, $(head -2 err), not '$pattern'"
    fi
}

finish() {
    echo "$passed passed, $failed failed"
    [ $failed -eq 0 ]
    exit
}
