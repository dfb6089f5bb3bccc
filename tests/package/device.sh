#!/bin/sh
# SPDX-License-Identifier: MIT
# bench/device.py joins what three commands print, keeps the sentence of one that fails, passes
# options on, and turns the result into rows of doc/devices.md. A stub stands in for the command.
script=$(cd "${srcdir-.}/bench" && pwd)/device.py
# shellcheck source=tests/support/checks.sh
. "${srcdir-.}/tests/support/checks.sh"
command -v python3 >/dev/null || exit 77

cat >stub <<'END'
#!/bin/sh
echo "$@" >>calls
case $1 in
devices) echo '[{"device": 0}]' ;;
selftest) cat selftest.json; exit 1 ;;
bench) [ -e bench.json ] || { echo "clsample: out of order" >&2; exit 1; }; cat bench.json ;;
esac
END
chmod +x stub
cat >selftest.json <<'END'
{"clsample": "0.10.0", "cases": 1200, "failed": 1, "compile_seconds": 130.2, "stages": [],
 "device": {"name": "A|B", "platform": "P", "type": "GPU", "driver": "1.5",
   "opencl_c": "OpenCL C 1.2", "compute_units": 8, "max_work_group": 1024,
   "local_mem_size": 49152, "subgroups": "Khronos"},
 "shape": {"work_group": 256, "row_group": 128, "vector": 4, "shortlist": 1024, "tier": "int64"}}
END
echo '[{"case": "topk", "ratio": 2.25}, {"case": "plain", "error": "x"}]' >bench.json
cases='--case=greedy --case=topk --case=plain --case=topp_peaked'
cat >calls.expected <<END
devices --json
selftest --dtype=f32 --device 1 --json
bench $cases --batch=4 --vocab=32000 --device 1 --json
END

check() { if run_quietly "$@"; then yes_; else no_ "$*: exit $code, $(head -2 err)"; fi; }
check python3 "$script" --quick ./stub --device 1
cp out device.json
same 'what is called' calls calls.expected
check python3 "$script" --rows device.json
says 'what it is' '^| A/B, P | GPU | 1.5 | OpenCL C 1.2 | 8 | 1,024 | 48 KiB | Khronos |$' out
says 'what it does' '^| A/B, P | 0.10.0 | 256, 128, 4 | 1,024; int64 | 1,199 of 1,200 | ' out
says 'how fast it is' ' | 130 s | - 2.2 - - |$' out

rm bench.json
check python3 "$script" ./stub
cp out failed.json
says 'a part that failed' '"error": "clsample: out of order"' failed.json
check python3 "$script" --rows failed.json
says 'without a bench' ' | - - - - |$' out
echo '{"selftest": {"error": "no"}, "bench": []}' >none.json
refused_by device.py python3 'none.json has no results of a device' "$script" --rows none.json
finish
