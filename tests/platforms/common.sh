# SPDX-License-Identifier: MIT
# shellcheck shell=sh
# What the scripts of this folder share: a row is a platform in one shape, and each try of it is a
# command with a limit of time. results.py reads what the commands printed. CLSAMPLE_TRIES, an
# extended regular expression, names the tries that run; the others keep what the row says of them.
set -u
here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)
folder=${CLSAMPLE_PLATFORMS:-${TMPDIR:-/tmp}/clsample-platforms}
# shellcheck disable=SC2034 # of the scripts
texts=$(cd "$top" && echo tests/scripts/*.run)
mkdir -p "$folder/logs" "$folder/inputs"
python3 "$here/results.py" inputs "$folder/inputs" || exit 1

# The command that draws the tokens whose digest is the same everywhere: its arguments, in the
# sources and in a folder that results.py has filled.
tokens_of() { # SOURCES INPUTS
    printf 'sample --logits %s/examples/data/stories260K-logits.npy --params %s/requests.json ' \
        "$1" "$2"
    printf -- '--prompt %s/prompts.npy --draws 64 --tokens' "$2"
}

# row KEY IMPLEMENTATION VERSION MACHINE SHAPE
row() {
    key=$1
    tries=$folder/logs/$key.tries
    # Two runs of one row would share its folder.
    exec 9>"$folder/logs/$key.lock"
    flock -n 9 || { echo "another run has the row $key"; exit 2; }
    rm -f "$tries"
    printf '== %s: %s %s, %s, %s\n' "$@"
    python3 "$here/results.py" begin "$tries" "$@" "${CLSAMPLE_TRIES-}"
}

wanted() { echo "$1" | grep -Eq "${CLSAMPLE_TRIES:-.}"; }

# try WHAT SECONDS COMMAND...
try() {
    wanted "$1" || return 0
    what=$1 limit=$2
    shift 2
    log=$folder/logs/$key-$(echo "$what" | tr -c 'a-zA-Z0-9\n' -).log
    begun=$(date +%s)
    timeout -k 10 "$limit" "$@" >"$log" 2>&1 </dev/null 9>&-
    judged $?
}

# judged STATUS: a try has ended. What accept reports is in $report.
judged() {
    python3 "$here/results.py" try "$tries" "$what" "$1" $(($(date +%s) - begun)) "$limit" "$log" \
        "$report"
}

# note WORDS: why something did not run, or what was cut.
note() { python3 "$here/results.py" note "$tries" "$1"; }

# digest FILE.npy: the row's tokens.
digest() { python3 "$here/results.py" digest "$tries" "$1"; }

# The row takes the place of an older one.
end_row() { python3 "$here/results.py" end "$tries"; }

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo -- "$@"; fi
}

# need PACKAGE...: installs what is missing of Debian's packages.
need() {
    missing=
    for one; do
        dpkg-query -W -f='${db:Status-Status}\n' "$one" 2>/dev/null | grep -qx installed ||
            missing="$missing $one"
    done
    [ -n "$missing" ] || return 0
    # shellcheck disable=SC2086 # a list of words
    as_root apt-get update -q >"$folder/logs/apt.log" 2>&1 &&
        as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends \
            $missing >>"$folder/logs/apt.log" 2>&1 && return
    echo "apt-get did not install$missing; $folder/logs/apt.log says why"
    return 1
}

mirror() { sed -n 's/^URIs: *//p; s/^deb \(http[^ ]*\) .*/\1/p' /etc/apt/sources.list.d/*.sources \
    /etc/apt/sources.list 2>/dev/null | grep -v security | head -n 1; }
