#!/bin/sh
# SPDX-License-Identifier: MIT
# bench/gpu.py says what it lacks; its steps resume, are cut off in time, keep their results when
# they are ended, and record failures; and its table computes goals. Stubs stand in for the command
# and for make, so that neither a device nor a build is needed.
# shellcheck disable=SC2154 # checks.sh sets passed and failed
bench=$(cd "${srcdir-.}/bench" && pwd)
# shellcheck source=tests/support/checks.sh
. "${srcdir-.}/tests/support/checks.sh"
command -v python3 >/dev/null || { echo "no python3"; exit 77; }

ends() { # STATUS PATTERN COMMAND...: the status, and the pattern in what it prints
    wanted=$1 pattern=$2
    shift 2
    code=0
    "$@" >out 2>&1 || code=$?
    if [ $code = "$wanted" ] && grep -q "$pattern" out; then
        yes_
    else
        no_ "$*: status $code, not $wanted, or no '$pattern' in: $(cat out)"
    fi
}
gpu() {
    ${outer-} env PATH="$dir/bin:$PATH" python3 "$bench/gpu.py" --build build --out results "$@"
}
steps() { gpu --driver driver.so --deps "$dir/none" --quick "$@"; }

# A second function of a name would replace the first one, without a word.
if grep -o '^def [a-z_]*' "$bench/gpu.py" | sort | uniq -d | grep .; then no_ 'twice'; else yes_; fi

# ------------------------------------------------------------------- the front
ends 0 '^  --limit LIMIT' gpu --help
ends 2 '^gpu.py: error: unrecognized arguments: --wrong' gpu --wrong
ends 2 '^gpu.py: error: argument --out: expected one argument' gpu --out
ends 2 "^gpu.py: error: argument --limit: invalid int value: '1m'" gpu --limit 1m
ends 2 "^gpu.py: --driver: '.*/nowhere' does not exist" gpu --driver nowhere
ends 0 '^sameness$' gpu --list --quick
if [ "$(head -1 out) $(sort out | uniq -d)" = "machine " ]; then yes_; else no_ "$(cat out)"; fi
ends 0 '^bench 151936 f16 512$' gpu --list
touch driver.so
mkdir -p bin build results
echo 'make: nothing works' >bin/says
printf '#!/bin/sh\ncat "%s/bin/says"; exit 1\n' "$dir" >bin/make
chmod +x bin/make
: >build/Makefile
ends 2 '^gpu.py: the build failed; log: .*results/gpu.log$' steps
if grep -q '^make: nothing works$' out; then yes_; else no_ "$(cat out)"; fi
printf '#!/bin/sh\n' >bin/make

# ------------------------------------------------------------------- the steps
cat >build/clsample <<'END'
#!/bin/sh
case $1 in
--version) echo "clsample 9.8" ;;
devices) cat devices.json; sleep "$(cat wait)" ;;
selftest) echo '{"cases": 7, "failed": 2, "stages": []}'; exit 1 ;;
esac
END
chmod +x build/clsample
echo '[{"default": true, "usable": true, "name": "a stub", "driver": "1"}]' >build/devices.json
field() { # EXPRESSION VALUE: of gpu.json, which is x
    found=$(python3 -c "import json; x = json.load(open('results/gpu.json')); print(($1))")
    if [ "$found" = "$2" ]; then yes_; else no_ "$1 is $found, not $2"; fi
}
echo 60 >build/wait
ends 0 '^machine .* s$' steps --only machine
field 'x["clsample"], x["driver"]' "('9.8', 'driver.so')"
says 'the driver alone' "^$dir/driver.so\$" build/icd/gpu.icd
ends 3 '^devices .* cut off$' steps --only devices --limit 7
field '[s["step"] for s in x["steps"]]' "['machine']"
outer='timeout 3'
ends 124 '^devices' steps --only devices
outer=''
field '[s["step"] for s in x["steps"]], len(x["calls"])' "(['machine'], 3)"
echo 0 >build/wait
ends 0 '^devices .* s$' steps --only devices --only machine
field '[s["step"] for s in x["steps"]], x["device"]["name"]' "(['machine', 'devices'], 'a stub')"
ends 1 'FAILED: 2 of 7 cases differ$' steps --only 'selftest f32'
field 'x["steps"][2]["ok"], x["selftest"]["failed"], x["complete"], len(x["calls"])' \
    '(False, 2, False, 5)'
ends 1 '^3 of [0-9]* steps are done' steps --only 'selftest f32'
field 'len(x["steps"]), len(x["calls"])' '(3, 6)'
sed 's/"quick": true/"quick": false/' results/gpu.json >other.json && mv other.json results/gpu.json
ends 2 'results/gpu.json is of another kind of run; move it away$' steps

# -------------------------------------------------------------------- the table
python3 - <<'END'
import json
cases = {"topk": (24, 12), "greedy": (25, 12), "penalties": (30, 12), "topp_flat": (61, 12)}
bench = [{"vocab": 128256, "dtype": "f32", "batch": batch, "cases": [
    {"case": name, "step_device_us": step * batch**.5, "floor_device_us": floor * batch**.5,
     "step_us": 40.0, "floor_us": 20.0} for name, (step, floor) in cases.items()]}
    for batch in (1, 16, 256)]
peer = {"library": "Other", "version": "1", "case": "topk", "vocab": 128256, "dtype": "f32"}
peers = [dict(peer, function="sampler", batch=1, device_us=48.0, wall_us=80.0, graph_us=None),
         dict(peer, function="broken", batch=1, error="it broke")]
json.dump({"quick": False, "steps": [], "bench": bench, "peers": peers}, open("table.json", "w"))
END
ends 0 '^topk *1 *us *15 *24.0 *40.0 *NO$' gpu --table table.json
for line in '^topk *16 *us *20 *96.0 *40.0 *NO$' '^topk *256 *us *60 *384.0 *40.0 *NO$' \
    '^greedy *1 *topk *1 *1.042 *1.0 *NO$' '^penalties *16 *topk *1.25 *1.25 *1.0 *yes$' \
    '^topp_flat *256 *floor *5 *5.083 *2.0 *NO$' '^plain *1 *topk *1 *- *- *-$' \
    '^topk *1 *Other sampler *1 *0.5 *0.5 *yes$' '^not measured: Other broken: it broke$'; do
    if grep -q "$line" out; then yes_; else no_ "no $line in: $(cat out)"; fi
done
if command -v gnuplot >/dev/null; then
    ends 0 '^topk' gpu --table table.json --plot x.svg
    if [ "$(grep -c '<title>gnuplot_plot' x.svg)" = 4 ]; then yes_; else no_ "the plot"; fi
fi

finish
