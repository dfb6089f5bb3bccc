#!/bin/sh
# SPDX-License-Identifier: MIT
# Proves that the self-test sees faults of kernels: builds kernels that are wrong in one place for
# each stage, and runs it on them. It is run by hand, in a build folder where
# tests/device/check_selftest is built, on the devices that OCL_ICD_VENDORS leaves. Each group of
# faults compiles all kernels:
#
#     sh SOURCE/tests/stress/selftest_mutants.sh [GROUP...]
#
# With --texts it builds nothing, and fails where a text to replace stands in no kernel.
#
# Most of these faults are found earlier, by the proof of the program, which is left out here;
# check_proofs has a fault of each program that its proof finds.
# (There is no fault of the arithmetic: a context refuses a device that fails it.)
set -u
dir=$(mktemp -d) || exit 99
trap 'rm -rf "$dir"' EXIT
of() { sed -n "s/^$1 = //p" Makefile | head -n 1; }
passed=0 failed=0

# GROUP@STAGE@WHAT IS REPLACED@BY WHAT: plain text, on one line of the kernels.
# Faults of a group touch different stages.
cat >"$dir/table" <<'END'
1@random numbers@c[2] = stream[0];@c[2] = stream[1];
1@survey@flags |= ANY(nan) ? CLS_ROW_NAN : 0u;@flags |= ANY(nan) ? CLS_ROW_INF : 0u;
1@biases@return x + bias;@return x - bias;
1@p-less@at_key(w, depth_q20_key(w->top, w->scale, p_less_depth(@at_key(w, 0x00400000 + depth_q20_key(w->top, w->scale, p_less_depth(
1@infill@u32 shares = only_ends ? 0 : 5,@u32 shares = only_ends ? 0 : 2,
1@report@: u64_to_f32(sum[1]) / u64_to_f32(sum[0]))@: u64_to_f32(sum[0]) / u64_to_f32(sum[1]))
1@verify: match@at = child_with(v, w->row, token, &children);@at = child_with(v, w->row, token + 1, &children);
1@verify: block@prefix_prob = ratio_q63(prefix_prob, p, q);@prefix_prob = ratio_q63(prefix_prob, q, p);
2@masks@const IV allowed = CAT(convert_int, VEC)(VLOAD((__global const uchar *)r->mask + i));@const IV allowed = CAT(convert_int, VEC)(VLOAD((__global const uchar *)r->mask + (i ^ VEC)));
2@penalties@const f32 often = frequency * (f32)count;@const f32 often = frequency * (f32)(count + 1);
2@top-a@return mass_q20(mass, top, scale) + a + 8;@return mass_q20(mass, top, scale) / 2 + a + 8;
2@top-n-sigma@sigma_limit(w->tokens, sum[0], sum[1], w->slot->sigma)@sigma_limit(w->tokens, sum[0], sum[1], w->slot->sigma * 0.5f)
2@typical@w->mean = mean_depth_q20(@w->mean = 1000000u + mean_depth_q20(
2@XTC@row_bits(s, CLS_PURPOSE_XTC, slot_of(s, w->slot_index), w->row)) >> 1 <@row_bits(s, CLS_PURPOSE_XTC, slot_of(s, w->slot_index), w->row)) >> 1 >=
2@logprobs@report_raw(r, max_key, total, &t);@report_raw(r, max_key, total / 2, &t);
1@forced tokens@return (state << 13 | state >> 19) * 5u + 0xE6546B64u;@return (state << 13 | state >> 19) * 5u + 0xE6546B65u;
2@forced tokens@found |= (u32)(loop * repeats <= all);@found |= (u32)(loop * repeats > all);
2@verify: standard@accepts(row_bits(s, CLS_PURPOSE_ACCEPT, v->slot, row - 1), p, q);@accepts(row_bits(s, CLS_PURPOSE_ACCEPT, v->slot, row - 1), q, p);
3@history@length - h->allowed + 1;@length - h->allowed + 2;
3@shortlist@count += (k > key) | ((k == key) & (LANES + (IV)((i32)v) < (IV)((i32)i)));@count += (k > key) | ((k == key) & (LANES + (IV)((i32)v) > (IV)((i32)i)));
3@min-p@at_key(w, depth_key(w->top, w->scale, w->slot->min_p));@at_key(w, depth_key(w->top, w->scale, w->slot->min_p * 0.5f));
3@temperature@w->c.scale = w->tokens > 1 && !(t < 1e-5f) ? scale_of(t) : w->slot->scale;@w->c.scale = w->slot->scale;
3@forced tokens@return answer_of(s, slot);@return slot;
3@mirostat@mu = surprise > tau ? mu - by : mu + by;@mu = surprise > tau ? mu + by : mu - by;
3@verify: typical@whole < max(args->epsilon, args->delta + entropy);@whole > max(args->epsilon, args->delta + entropy);
3@verify: match@ended = text_follow(slot, s->lists, &t, (u32)token, 1, v->scratch);@ended = 1u;
4@top-k@reach(w, 1, (u32)w->slot->top_k);@reach(w, 1, (u32)w->slot->top_k + 1);
4@top-p@return list_reach(w->list, 0, w->c.kept, 0, w->target);@return 1 + list_reach(w->list, 0, w->c.kept, 0, w->target);
4@search@list_reach(list, 0, list->n, base, target) : list->n + 1;@1 + list_reach(list, 0, list->n, base, target) : list->n + 1;
5@forced tokens@return due + 1 < slot->n_thinking_forced ? thinking + 1 : 0;@return 0;
5@draw@rest = *drawn - sum;@rest = (*drawn - sum) >> 1;
5@shards@m->z[id] = float_of_key(key);@m->z[id ^ 1] = float_of_key(key);
5@XTC@return wg_uor(found, w->list->scratch) != 0;@return 0;
5@report@set.cut = out->cut;@set.cut = out->cut; t->set.cut.key += 4096;
4@adaptive p@const u32 twice = 2 * target;@const u32 twice = target;
4@top-p decay@top_p = u64_hi((u64)top_p * decay);@top_p = u64_hi((u64)top_p * (decay / 2));
4@forced tokens@forced = emits = mask_allows(&s, row, (u32)due) &&@forced = emits = due >= 0 &&
2@shards@at[2] = u64_hi(mass[i]);@at[2] = u64_hi(mass[i]) + 0x40000000u;
4@slots@state_rollback(slot, s, c->tokens, a->rollback, scratch)@state_rollback(slot, s, c->tokens + 1, a->rollback, scratch)
END

if [ "${1-}" = --texts ]; then
    while IFS='@' read -r group stage from _; do
        if grep -rqF -e "$from" "$(dirname "$0")/../../cl"; then
            passed=$((passed + 1))
        else
            failed=$((failed + 1))
            echo "group $group: $stage: no kernel has: $from"
        fi
    done <"$dir/table"
    echo "$passed passed, $failed failed"
    exit $((failed > 0))
fi
if [ ! -f lib/kernels.c ] || [ ! -f tests/device/check_selftest.o ]; then
    echo "run me in a build folder, after make check TESTS="
    exit 99
fi

# Replaces plain text wherever it is; the kernels are strings in C.
replace() { # FROM TO FILE
    awk -v from="$1" -v to="$2" '{ out = ""
          while ((i = index($0, from)) > 0) {
              out = out substr($0, 1, i - 1) to
              $0 = substr($0, i + length(from))
          }
          print out $0 }' "$3" >"$3.new"
    if cmp -s "$3" "$3.new"; then return 1; fi
    mv "$3.new" "$3"
}

run() { # GROUP
    cp lib/kernels.c "$dir/kernels.c"
    grep "^$1@" "$dir/table" >"$dir/group"
    while IFS='@' read -r _ stage from to; do
        if ! replace "$from" "$to" "$dir/kernels.c"; then
            echo "group $1: $stage: nothing to replace: $from"
            failed=$((failed + 1))
        fi
    done <"$dir/group"
    # The program's own kernels come before the library's.
    # shellcheck disable=SC2046
    ${CC:-$(of CC)} -o "$dir/mutant" tests/device/check_selftest.o "$dir/kernels.c" \
        libtests.a .libs/libclsample_internal.a \
        $(of CHECK_LIBS) $(of OPENCL_LIBS) $(of LIBS) -lpthread -lm || exit 99
    CLS_TEST_SIZE=tiny "$dir/mutant" --no-proof >"$dir/out" 2>&1
    while IFS='@' read -r _ stage _; do
        if grep "^$stage " "$dir/out" | grep -q 'device: '; then
            passed=$((passed + 1))
        else
            failed=$((failed + 1))
            echo "group $1: $stage: nothing was seen"
        fi
    done <"$dir/group"
    echo "--- group $1: $(cut -d@ -f2 "$dir/group" | paste -sd, -)"
    grep -e ': CLS_' -e 'device: ' "$dir/out"
}

[ $# -gt 0 ] || set -- 1 2 3 4 5
for group; do run "$group"; done
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
