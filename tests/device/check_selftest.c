/* SPDX-License-Identifier: MIT */
/* Proves that cls_selftest() passes and that each of its stages can fail.
 * tests/stress/selftest_mutants.sh runs it on kernels that have a fault.
 *
 *     tests/device/check_selftest --write >lib/selftest/known.c    # new known answers
 *     tests/device/check_selftest --print                          # its report of each device
 *     tests/device/check_selftest --time                           # the same, with times
 *     tests/device/check_selftest --no-proof    # --print, of programs that a proof would refuse */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fixture.h"
#include "selftest/selftest.h"

/* -------------------------------------------------------------- known answers */

/* Returns the number of answers of the whole self-test. */
static uint32_t answers(void)
{
    const cls_selftest_selection selection = cls_selftest_whole();
    return cls_selftest_draft_answer(&selection, SELFTEST_METHODS, 0);
}

/* Opens the host for all types of logits. */
static cls_context *open_host(void)
{
    cls_context_options o = default_context_options();
    cls_context *host;
    o.dtypes = (1u << CLS_DTYPES) - 1;
    must(cls_context_create_host(&o, &host));
    return host;
}

static int write_known(void)
{
    static cls_selftest_known answer[SELFTEST_ANSWERS];
    cls_tested r;
    cls_context *const host = open_host();
    must(cls_selftest_with(host, NULL, answer, &r));
    cls_context_destroy(host);
    printf(
        "/* SPDX-License-Identifier: MIT */\n"
        "/* Made by tests/device/check_selftest --write: known answers of lib/selftest/cases.c.\n"
        " * A change that nobody meant is an error of the library or of its compiler. */\n"
        "#include \"selftest/selftest.h\"\n\nconst cls_selftest_known cls_selftest_table[] = {");
    for (uint32_t i = 0; i < answers(); i++)
        printf("%s{ %d, 0x%08xu },", i % 4 == 0 ? "\n    " : " ", (int)answer[i].token,
               (unsigned)answer[i].digest);
    printf("\n};\nconst uint32_t cls_selftest_table_count = sizeof cls_selftest_table / sizeof "
           "*cls_selftest_table;\n");
    return 0;
}

/* The host alone gives the answers of the table, which has no others. */
START_TEST(table)
{
    cls_context *const host = open_host();
    cls_selftest_stage stages[CLS_SELFTEST_STAGES];
    cls_selftest_report r = {sizeof r, stages, CLS_SELFTEST_STAGES, 0, 0};
    must(cls_selftest(host, &r));
    ck_assert_uint_eq(answers(), cls_selftest_table_count);
    for (uint32_t i = 0; i < r.stage_count; i++)
        ck_assert_msg(i == ST_ARITHMETIC ? r.stages[i].cases == 0 : r.stages[i].cases != 0, "%s",
                      r.stages[i].name);
    cls_context_destroy(host);
}
END_TEST

/* Names are unique, and the stages with a batch of their own come last; the output cases have
 * nothing beside their parameters but a mask and a dense bias. */
START_TEST(names)
{
    for (uint32_t i = 0; i < cls_selftest_case_count; i++)
        ck_assert_msg(cls_selftest_find(cls_selftest_cases[i].name) == i, "two cases are \"%s\"",
                      cls_selftest_cases[i].name);
    for (uint32_t i = 1; i < cls_selftest_case_count; i++)
        ck_assert(cls_selftest_cases[i].stage >= cls_selftest_cases[i - 1].stage);
    for (uint32_t i = 0; i < SELFTEST_OUTPUT_CASES + SELFTEST_REQUESTS; i++) {
        const char *const name = i < SELFTEST_OUTPUT_CASES
                                     ? cls_selftest_output_cases[i]
                                     : cls_selftest_verified_cases[i - SELFTEST_OUTPUT_CASES];
        const cls_selftest_case *const c = &cls_selftest_cases[cls_selftest_find(name)];
        ck_assert_str_eq(c->name, name);
        ck_assert_msg(i >= SELFTEST_OUTPUT_CASES || (c->with & ~(WITH_MASK | WITH_DENSE)) == 0,
                      "\"%s\" has more than parameters", name);
    }
}
END_TEST

/* All types of logits hold the rows: float16's and bfloat16's bits give float32's. */
START_TEST(rows)
{
    static float wide[SELFTEST_VOCAB];
    static uint16_t half[SELFTEST_VOCAB], brain[SELFTEST_VOCAB];
    for (int kind = ROW_PEAKED; kind <= ROW_ONE; kind++) {
        cls_selftest_row(7, kind, CLS_F32, SELFTEST_VOCAB, wide);
        cls_selftest_row(7, kind, CLS_F16, SELFTEST_VOCAB, half);
        cls_selftest_row(7, kind, CLS_BF16, SELFTEST_VOCAB, brain);
        for (uint32_t i = 0; i < SELFTEST_VOCAB; i++) {
            uint32_t bits;
            memcpy(&bits, &wide[i], sizeof bits);
            const uint32_t exponent = half[i] >> 10 & 31u;
            const uint32_t back = (half[i] & 0x8000u) << 16 | (half[i] & 0x3ffu) << 13 |
                                  (exponent == 31  ? 255u
                                   : exponent == 0 ? 0
                                                   : exponent + 112)
                                      << 23;
            ck_assert_msg((uint32_t)brain[i] << 16 == bits && back == bits,
                          "kind %d, token %u: 0x%08x", kind, i, bits);
        }
    }
}
END_TEST

/* -------------------------------------------------------------------- devices */

static cls_selftest_report report_of(cls_selftest_stage stages[CLS_SELFTEST_STAGES])
{
    cls_selftest_report r = {sizeof r, stages, CLS_SELFTEST_STAGES, 0x5a5a5a5au, 0x5a5a5a5au};
    memset(stages, 0x5a, CLS_SELFTEST_STAGES * sizeof *stages);
    return r;
}

static uint32_t types(const cls_context *context)
{
    uint32_t n = 0;
    for (int i = 0; i < CLS_DTYPES; i++)
        n += cls_context_dtypes(context) >> i & 1u;
    return n;
}

START_TEST(passes)
{
    device *const d = fixture_device(_i);
    cls_context *const c =
        fixture_context(d, fixture_size() != TEST_FULL ? 1u << CLS_F32 : 0, 0, 0, 0);
    cls_selftest_stage stages[CLS_SELFTEST_STAGES];
    cls_selftest_report r = report_of(stages);
    const cls_status status = cls_selftest(c, &r);
    ck_assert_msg(status == CLS_OK, "%s: %s", d->name, cls_error_message());
    ck_assert_uint_eq(r.struct_size, sizeof r);
    ck_assert_uint_eq(r.stage_count, ST_STAGES);
    ck_assert_uint_eq(r.failed, 0);
    for (uint32_t i = 0; i < r.stage_count; i++) {
        ck_assert_msg(r.stages[i].cases != 0 && r.stages[i].cases % types(c) == 0, "%s: %u cases",
                      r.stages[i].name, r.stages[i].cases);
        ck_assert_msg(r.stages[i].failed == 0 && r.stages[i].message[0] == '\0', "%s: %s",
                      r.stages[i].name, r.stages[i].message);
    }
    must(cls_selftest(c, NULL));
}
END_TEST

/* The stage of an entry of the table. */
static int stage_of(uint32_t entry)
{
    const uint32_t requests = cls_selftest_case_count * SELFTEST_STEPS;
    return entry >= requests ? ST_MATCH + (int)((entry - requests) / SELFTEST_REQUESTS)
                             : cls_selftest_cases[entry / SELFTEST_STEPS].stage;
}

/* One wrong entry a stage, its token or its digest, of the first or the second
 * step: that many failures, there and nowhere else. */
static void spoil(device *d, int digests, uint32_t step)
{
    cls_context *const c = fixture_context(d, 1u << CLS_F32, 0, 0, 0);
    cls_selftest_known *const known = must_malloc(cls_selftest_table_count * sizeof *known);
    uint32_t spoiled[ST_STAGES] = {0}, n = 0;
    cls_tested r;
    memcpy(known, cls_selftest_table, cls_selftest_table_count * sizeof *known);
    for (uint32_t i = 0; i < cls_selftest_table_count; i++)
        if (i % SELFTEST_STEPS == step && !spoiled[stage_of(i)]) {
            known[i].token += digests ? 0 : 1;
            known[i].digest ^= digests ? 1u << 31 : 0;
            spoiled[stage_of(i)] = 1;
            n++;
        }
    /* Arithmetic, report, logprobs and look-up have no entries. */
    ck_assert_uint_eq(n, ST_STAGES - 4);
    must_fail(cls_selftest_with(c, known, NULL, &r), CLS_SELF_TEST_FAILED,
              "failed at random numbers (1 of 6): ");
    ck_assert_uint_eq(r.failed, n);
    for (uint32_t i = 0; i < ST_STAGES; i++) {
        ck_assert_msg(r.stage[i].failed == spoiled[i], "%s: %u failed: %s", r.stage[i].name,
                      r.stage[i].failed, r.stage[i].message);
        ck_assert_msg(!spoiled[i] || strstr(r.stage[i].message, "host: ") != NULL, "%s: %s",
                      r.stage[i].name, r.stage[i].message);
        ck_assert_msg(spoiled[i] || r.stage[i].message[0] == '\0', "%s: %s", r.stage[i].name,
                      r.stage[i].message);
    }
    free(known);
}

START_TEST(spoiled_tokens)
{
    for (uint32_t step = 0; step < fixture_by_size(SELFTEST_STEPS, 1, SELFTEST_STEPS); step++)
        spoil(fixture_device(_i), 0, step);
}
END_TEST

START_TEST(spoiled_digests)
{
    for (uint32_t step = fixture_by_size(0, 1, 0); step < SELFTEST_STEPS; step++)
        spoil(fixture_device(_i), 1, step);
}
END_TEST

/* A caller with memory for few stages, or none; no report at all. */
START_TEST(arguments)
{
    cls_context *const c = fixture_context(fixture_device(_i), 1u << CLS_F32, 0, 0, 0);
    cls_selftest_stage stages[CLS_SELFTEST_STAGES];
    cls_selftest_report r = report_of(stages);
    r.stage_capacity = 1;
    must(cls_selftest(c, &r));
    ck_assert_uint_eq(r.stage_count, ST_STAGES);
    ck_assert_str_eq(r.stages[0].name, "arithmetic");
    ck_assert_uint_eq(r.stages[1].cases, 0x5a5a5a5au);
    r.stages = NULL;
    must_refuse(cls_selftest(c, &r), "report->stage_capacity is 1, but report->stages is NULL");
    r.struct_size = 0;
    must_refuse(cls_selftest(c, &r), "report->struct_size is 0");
    ck_assert_int_eq(cls_selftest(NULL, NULL), CLS_BAD_ARGUMENT);
    ck_assert_str_eq(cls_error_message(), "context is NULL");
}
END_TEST

/* ------------------------------------------------------------------- by hand */

static int wants_time;

static double now(void)
{
    struct timespec t;
    timespec_get(&t, TIME_UTC);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

START_TEST(print)
{
    device *const d = fixture_device(_i);
    cls_context *const c = fixture_context(d, wants_time ? 0 : 1u << CLS_F32, 0, 0, 0);
    cls_selftest_stage stages[CLS_SELFTEST_STAGES];
    cls_selftest_report r = report_of(stages);
    for (int i = 0; i < (wants_time ? 5 : 1); i++) {
        const double start = now();
        const cls_status status = cls_selftest(c, &r);
        printf("%s: %s, %.3f s\n", d->name, cls_status_name(status), now() - start);
    }
    for (uint32_t i = 0; i < r.stage_count; i++)
        printf("%-17s %5u %5u  %s\n", r.stages[i].name, r.stages[i].cases, r.stages[i].failed,
               r.stages[i].message);
}
END_TEST

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--write") == 0)
        return write_known();
    cls_test_proofs_compare_nothing = argc > 1 && strcmp(argv[1], "--no-proof") == 0;
    wants_time = argc > 1 && strcmp(argv[1], "--time") == 0;
    fixture_begin(ON_DEVICES);
    if (argc > 1) {
        add_device_test(print);
    } else {
        add_test(table);
        add_test(names);
        add_test(rows);
        add_device_test(passes);
        add_device_test(arguments);
        add_device_test(spoiled_tokens);
        add_device_test(spoiled_digests);
    }
    return fixture_end();
}
