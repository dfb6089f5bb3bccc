#!/bin/sh
# SPDX-License-Identifier: MIT
# bench/devices.py turns a report into rows of doc/devices.md: it adds them, replaces those of the
# same device, leaves a part out that the report has not, and refuses what is no report. It turns
# what bench/gpu-resources.sh prints into rows of programs and of compilers, without those of
# targets that were left out.
top=$(cd "$srcdir" && pwd)
# shellcheck source=tests/support/checks.sh
. "$srcdir/tests/support/checks.sh"
command -v python3 >/dev/null || exit 77
devices() { python3 "$top/bench/devices.py" "$@"; }

cat >report.json <<'EOJ'
{"clsample": "0.10.0", "failures": [], "selftest": {"cases": 1200, "failed": 1},
 "device": {"name": "A|B", "platform": "P", "type": "GPU", "driver": "1.5",
   "version": "OpenCL 3.0 x", "opencl_c": "OpenCL C 1.2 y", "compute_units": 8,
   "max_work_group": 1024, "subgroups": "khr",
   "local_mem_bytes": 49152, "infinities": true, "subnormals": false},
 "start": {"context_seconds": 1, "sampler_seconds": 2, "first_step_seconds": 0.25},
 "shape": {"work_group": 256, "row_group": 128, "vector": 4, "shortlist": 1024, "tier": "int64"},
 "compile": [{"seconds": 60}, {"seconds": 70.4}],
 "bench": {"cases": [{"case": "topk", "ratio": 2.25}]}}
EOJ
devices report.json >rows
says 'what it is' '^| A/B, P | GPU | 1.5 | 3.0; 1.2 | 8 | 1,024 | 48 KiB | yes; no | khr |$' rows
says 'what it does' '^| A/B, P | 0.10.0 | 256, 128, 4 | 1,024; int64 | 1,199 of 1,200 ' rows
says 'how fast it is' ' | 3.2 s | 130 s | - 2.2 - - |$' rows

cp "$top/doc/devices.md" page.md
devices --page page.md report.json
sed 's/0.10.0/0.11.0/; s/"start": {[^}]*}/"start": null/; s/"failures": \[\]/"failures": ["x"]/' \
    report.json >later.json
devices --page page.md later.json
if [ "$(grep -c '^| A/B, P |' page.md)" = 2 ]; then yes_; else no_ 'a row was not replaced'; fi
says 'a later report' '^| A/B, P | 0.11.0 .* 1,199 of 1,200; failed: 1 | - | 130 s |' page.md
grep -v '^| A/B, P |' page.md >without
same 'the rest of the page' without "$top/doc/devices.md"

# As bench/gpu-resources.sh prints it; tests/package/gpu_resources.sh proves its columns.
intel='s MB simd stack scratch'
cat >resources <<EOT
groups of 256, vectors of 4, float32
compilers: clang 15.0.6, ptxas 13.0.88, ocloc 22.43.24595

|sm_90|gfx90a|gfx1100|dg2|
program|reg stack spills local occ bar wide|vgpr scratch sp occ|vgpr scratch sp occ|$intel|
survey|64 0 0 3840 50% 2 4|53 0 0 8|55 0 0 16|0 160 16 0 0|
    survey exceeds its limit: 64 registers, at most 60
search|128 88 1296 26624 25% 89 55|134 0 0 3|128 8 2 8|4 1368 8 392 16384|

2 programs
EOT
devices resources >rows
says 'NVIDIA' '^| sm_90 | clang 15.0.6, ptxas 13.0.88 | 2 | 128 | 1; 1,296 | 88 | 25 % | - |$' rows
says 'AMD' '^| gfx1100 | clang 15.0.6 | 2 | 128 | 1; 8 | - | 8 waves | - |$' rows
says 'Intel' '^| dg2 | ocloc 22.43.24595 | 2 | - | 1; 16,384 | 392 | 8 lanes | 4; 1,368 |$' rows
says program '^| `search` | 128 | 88 | 1296 | 26624 | 25 % | 89 | 55 | 134 | 128 .*8), 8 |$' rows
says 'of Intel' '^| `survey` | < 1, 160 | 16 | 0 | 0 |$' rows
sed 's/|53 0 0 8|/|left out|/' resources >less
devices less >rows
says 'without a target' '^| dg2 | ' rows
says 'of what is left' '^| gfx90a | clang 15.0.6 | 1 |' rows
if grep -q '^| `survey`' rows; then no_ 'a row of what was left out'; else yes_; fi
sed '/^s/s/|[^|]*|$/|/' resources >less # as without Intel's compiler
devices less >rows
says "without Intel's" '^| gfx1100 .* | 2 |' rows
if grep -q '^| dg2' rows; then no_ 'a row of a target that was left out'; else yes_; fi
for page in devices performance; do
    cp "$top/doc/$page.md" page.md
    devices --page page.md resources
    cp page.md once.md
    devices --page page.md resources
    same "rows of $page.md that are there" page.md once.md
done
says 'the page of programs' '^| `search` | 4, 1368 | 8 | 392 | 16,384 |$' page.md

echo '{"clsample": 1}' >none.json
refused_by devices.py "$top/bench/devices.py" 'none.json is no report of clsample report' none.json
echo 'no table' >other.md
refused_by devices.py "$top/bench/devices.py" "the page has no table after" --page other.md \
    report.json
finish
