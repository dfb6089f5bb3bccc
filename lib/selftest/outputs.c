/* SPDX-License-Identifier: MIT */
/* The self-test of the outputs of rows: those of a step, and of cls_logprobs(). The device's are
 * the host's, bit for bit but for quotients, whose last bit may differ. */
#include "selftest/selftest.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROWS = SELFTEST_OUTPUT_CASES, N = 8, GIVEN = 3, SET = 100, V = SELFTEST_MOST_VOCAB };
#define FACTOR (-0.5f) /* of the bias, in the steps with packed sets */

/* The outputs: each with its field of cls_outputs, the words of a row, how they are compared, and
 * the name in messages. V stands for the vocabulary's length. */
enum { INTEGER, REAL, QUOTIENT };
/* clang-format off */
#define REPORTED(X) \
    X(top_ids, top.ids, N, INTEGER, "a likeliest token") \
    X(top_logprobs, top.logprobs, N, REAL, "a likeliest token's logprob") \
    X(given_ranks, given.ranks, GIVEN, INTEGER, "a given token's rank") \
    X(given_logprobs, given.logprobs, GIVEN, REAL, "a given token's logprob") \
    X(probs, probs, V, QUOTIENT, "a probability") \
    X(final_logits, final_logits, V, REAL, "a logit of the kept set") \
    X(entropy, entropy, 1, QUOTIENT, "the entropy") \
    X(kept_mass, kept_mass, 1, QUOTIENT, "the kept mass") \
    X(kept, kept.counts, 1, INTEGER, "tokens kept") \
    X(candidate_ids, kept.ids, N, INTEGER, "a candidate") \
    X(candidate_logits, kept.logits, N, REAL, "a candidate's logit") \
    X(candidate_probs, kept.probs, N, QUOTIENT, "a candidate's probability") \
    X(logprobs, logprobs, 1, REAL, "the token's logprob") \
    X(ranks, ranks, 1, INTEGER, "the token's rank")
#define KEPT_SETS(X) \
    X(set_ids, kept_set.ids, SET, INTEGER, "a token of the kept set") \
    X(set_counts, kept_set.counts, 1, INTEGER, "the number of the kept set")
/* clang-format on */

/* The outputs as they are in the buffer, and the ids that are given. */
typedef struct row_outputs {
    int32_t given_ids[ROWS][GIVEN];
    uint32_t set_offsets[ROWS + 1], status[ROWS];
#define MEMBER(member, field, n, kind, name) uint32_t member[ROWS * (n)];
    REPORTED(MEMBER) KEPT_SETS(MEMBER)
#undef MEMBER
} row_outputs;

/* ------------------------------------------------------------------- comparing */

/* The message of the first difference, or "". */
typedef struct finding {
    char text[120];
} finding;

/* Compares the n words of row r with the host's. OpenCL allows a quotient an error of 2.5 units in
 * the last place. */
static void compare_words(finding *f, const char *name, int kind, uint32_t r, uint32_t n,
                          const uint32_t *ours, const uint32_t *hosts)
{
    for (uint32_t i = r * n; i < (r + 1) * n && f->text[0] == '\0'; i++) {
        float a, b;
        memcpy(&a, &ours[i], sizeof a);
        memcpy(&b, &hosts[i], sizeof b);
        if (ours[i] == hosts[i] || (kind == QUOTIENT && fabsf(a - b) <= 1e-6f * fabsf(b)))
            continue;
        if (kind == INTEGER)
            snprintf(f->text, sizeof f->text, "device: %s %d, not %d", name, (int)ours[i],
                     (int)hosts[i]);
        else
            snprintf(f->text, sizeof f->text, "device: %s %.9g, not %.9g", name, (double)a,
                     (double)b);
    }
}

/* Compares all outputs of row r. What a call does not write is equal, too. */
static void compare_row(finding *f, uint32_t r, uint32_t vocab, const row_outputs *ours,
                        const row_outputs *hosts)
{
#define COMPARE(member, field, n, kind, name) \
    compare_words(f, name, kind, r, (n) == V ? vocab : (n), ours->member, hosts->member);
    compare_words(f, "an offset of a packed set", INTEGER, r, 1, ours->set_offsets,
                  hosts->set_offsets);
    compare_words(f, "an offset of a packed set", INTEGER, r + 1, 1, ours->set_offsets,
                  hosts->set_offsets);
    compare_words(f, "the status", INTEGER, r, 1, ours->status, hosts->status);
    REPORTED(COMPARE) KEPT_SETS(COMPARE)
#undef COMPARE
}

/* ----------------------------------------------------------------------- calls */

/* The rows of the calls: the output cases of the selection with a mask or a bias, or those without.
 */
typedef struct output_rows {
    int guided;
    uint32_t n;
    const char *name[ROWS];
    int32_t slots[ROWS], masks[ROWS], biases[ROWS];
    cls_buffer logits[SIDES], out[SIDES];
} output_rows;

/* Makes a step that requests the outputs of the device's kernels and leaves the slots unchanged. */
static void request_outputs(cls_step *step, cls_outputs *outputs, const cls_selftest_run *t,
                            const output_rows *rows, int side)
{
#define REQUEST(member, field, n, kind, name) \
    outputs->field = cls_selftest_at(rows->out[side], offsetof(row_outputs, member));
    cls_outputs_init(outputs);
    cls_step_init(step);
    step->outputs = outputs;
    step->rows = rows->n;
    step->logits.dtype = t->dtype;
    step->logits.values = rows->logits[side];
    step->slots.host = rows->slots;
    step->defer_accept = 1;
    step->status = cls_selftest_at(rows->out[side], offsetof(row_outputs, status));
    if (rows->guided)
        cls_selftest_guide(t, &t->side[side], 1, rows->masks, rows->biases, step);
    if (cls_selftest_has(t, CLS_FEATURE_KEPT_SETS)) {
        outputs->kept_set.capacity = SET;
        KEPT_SETS(REQUEST)
    }
    if (!cls_selftest_has(t, CLS_FEATURE_LOGPROBS))
        return;
    outputs->logprob_kind = CLS_LOGPROB_FINAL;
    outputs->top.count = outputs->kept.count = N;
    outputs->given.count = GIVEN;
    outputs->given.ids = cls_selftest_at(rows->out[side], offsetof(row_outputs, given_ids));
    REPORTED(REQUEST)
#undef REQUEST
}

static cls_status logprobs_of(const cls_selftest_side *s, const cls_step *step)
{
    cls_logprobs_call call;
    cls_logprobs_call_init(&call);
    call.rows = step->rows;
    call.logits = step->logits;
    call.given = step->outputs->given;
    call.top = step->outputs->top;
    return cls_logprobs(s->sampler, s->queue, &call, 0, NULL, NULL);
}

/* Makes a step's kept sets lie one behind the other, with the bias in bfloat16 and a factor, and
 * removes its other outputs. */
static void pack_sets(cls_step *step, cls_outputs *outputs, const cls_selftest_side *s,
                      cls_buffer offsets)
{
    const cls_kept_set set = outputs->kept_set;
    cls_outputs_init(outputs);
    outputs->kept_set = set;
    outputs->kept_set.offsets = offsets;
    if (step->bias.rows != 0) {
        step->bias.values = s->in[IN_DENSE + CLS_BF16];
        step->bias.dtype = CLS_BF16;
        step->bias.factor = FACTOR;
    }
}

enum { RAW_ROWS, FINAL_ROWS, PACKED_SETS }; /* the calls */

/* Makes a call on a side and reads all outputs so far. */
static cls_status call_outputs(const cls_selftest_run *t, const output_rows *rows, int side,
                               int call, row_outputs *o)
{
    const cls_selftest_side *const s = &t->side[side];
    cls_step step;
    cls_outputs outputs;
    request_outputs(&step, &outputs, t, rows, side);
    if (call == PACKED_SETS)
        pack_sets(&step, &outputs, s,
                  cls_selftest_at(rows->out[side], offsetof(row_outputs, set_offsets)));
    const cls_status status = call == RAW_ROWS
                                  ? logprobs_of(s, &step)
                                  : cls_sample(s->sampler, s->queue, &step, 0, NULL, NULL);
    return status == CLS_OK ? cls_selftest_read(s, &rows->out[side], sizeof *o, o) : status;
}

/* Makes a call on both sides and compares. */
static cls_status compare_calls(const cls_selftest_run *t, const output_rows *rows, int call,
                                row_outputs o[SIDES], finding f[ROWS])
{
    cls_status status = CLS_OK;
    for (int side = 0; side < SIDES && status == CLS_OK && rows->n != 0; side++)
        status = call_outputs(t, rows, side, call, &o[side]);
    for (uint32_t r = 0; r < rows->n && status == CLS_OK; r++)
        compare_row(&f[r], r, t->selection.vocab, &o[SIDE_DEVICE], &o[SIDE_HOST]);
    return status;
}

/* Counts the rows and what was found out about them. */
static void count_rows(cls_selftest_run *t, int stage, const output_rows *rows,
                       const finding f[ROWS])
{
    for (uint32_t r = 0; r < rows->n; r++) {
        char name[64], message[200] = "";
        cls_selftest_name(t, rows->name[r], 0, name, sizeof name);
        if (f[r].text[0] != '\0')
            snprintf(message, sizeof message, "%s: %s", name, f[r].text);
        cls_selftest_count(t, stage, message);
    }
}

/* Lists the rows, and uploads their logits and the given ids. */
static cls_status open_rows(const cls_selftest_run *t, output_rows *rows, row_outputs *o)
{
    const uint32_t vocab = t->selection.vocab;
    const size_t size = vocab * cls_dtype_size(t->dtype);
    char *const logits = malloc(size * ROWS);
    cls_status status = CLS_OK;
    if (logits == NULL)
        return cls_no_memory("the self-test");
    for (int i = 0; i < ROWS; i++) {
        const int32_t at = cls_selftest_position(&t->selection, cls_selftest_output_cases[i]);
        if (at < 0 || (cls_selftest_cases[t->selection.cases[at]].with != 0) != rows->guided)
            continue;
        const uint32_t r = rows->n++, which = t->selection.cases[at];
        rows->name[r] = cls_selftest_output_cases[i];
        rows->slots[r] = at;
        rows->masks[r] = t->maps[1][at];
        rows->biases[r] = t->maps[2][at];
        cls_selftest_row(cls_selftest_seed(which), cls_selftest_cases[which].row, t->dtype, vocab,
                         logits + r * size);
        o->given_ids[r][0] = 900 + (int32_t)r;
        o->given_ids[r][1] = -1;
        o->given_ids[r][2] = (int32_t)vocab - 1;
    }
    for (int i = 0; i < SIDES && status == CLS_OK; i++)
        status = cls_selftest_buffer(&t->side[i], size * ROWS, logits, &rows->logits[i]);
    for (int i = 0; i < SIDES && status == CLS_OK; i++)
        status = cls_selftest_buffer(&t->side[i], sizeof *o, o, &rows->out[i]);
    free(logits);
    return status;
}

static cls_status test_rows(cls_selftest_run *t, output_rows *rows, row_outputs o[SIDES])
{
    const int has_logprobs = cls_selftest_has(t, CLS_FEATURE_LOGPROBS);
    finding raw[ROWS] = {{""}}, final[ROWS] = {{""}};
    cls_status status = open_rows(t, rows, o);
    if (status == CLS_OK && has_logprobs)
        status = compare_calls(t, rows, RAW_ROWS, o, raw);
    if (status == CLS_OK && has_logprobs)
        count_rows(t, ST_LOGPROBS, rows, raw);
    if (status == CLS_OK)
        status = compare_calls(t, rows, FINAL_ROWS, o, final);
    if (status == CLS_OK && cls_selftest_has(t, CLS_FEATURE_KEPT_SETS))
        status = compare_calls(t, rows, PACKED_SETS, o, final);
    if (status == CLS_OK)
        count_rows(t, ST_REPORT, rows, final);
    for (int i = 0; i < SIDES; i++) {
        cls_selftest_release(&rows->logits[i]);
        cls_selftest_release(&rows->out[i]);
    }
    return status;
}

cls_status cls_selftest_outputs(cls_selftest_run *t)
{
    row_outputs *const o = calloc(SIDES, sizeof *o);
    cls_status status = CLS_OK;
    if (o == NULL)
        return cls_no_memory("the self-test");
    for (int guided = 0; guided < 2 && status == CLS_OK; guided++)
        status = test_rows(t, &(output_rows){.guided = guided}, o);
    free(o);
    return status;
}
