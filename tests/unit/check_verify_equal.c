/* SPDX-License-Identifier: MIT */
/* Proves that cls_host_verify(), where it compares drafts with tokens, emits the tokens that
 * repeated calls of cls_host_sample() give. Requests, chains and trees are random. */
#include "batch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 7 };

/* A request with its rows and drafts. */
typedef struct request {
    batch *b; /* its rows; the request is the first one's */
    cls_host_row row;
    cls_params p;
    cls_host_drafts d;
    int32_t ids[MOST], parents[MOST], output[300];
} request;

/* Samples row r after n more output tokens by cls_host_sample(). */
static cls_host_result sampled(request *q, uint32_t r, const int32_t *path, uint32_t n)
{
    cls_host_row row = q->row;
    memcpy(q->output + row.output_count, path, n * sizeof *path);
    row.logits = (const char *)row.logits + r * q->d.logits_stride * dtype_size(row.dtype);
    if (row.mask != NULL)
        row.mask = (const char *)row.mask +
                   (size_t)r * row.mask_width * (row.mask_kind == CLS_MASK_BOOL ? 1 : 4);
    if (row.bias != NULL)
        row.bias = (const char *)row.bias + (size_t)r * row.vocab * dtype_size(row.bias_dtype);
    row.output = q->output;
    row.output_count += n;
    row.position += n;
    const cls_host_result result = host_result(&row);
    return result;
}

/* The tokens on the path to a draft, including the draft. */
static uint32_t path_to(const request *q, int32_t draft, int32_t *path)
{
    if (draft < 0)
        return 0;
    const uint32_t n = path_to(q, q->parents[draft], path);
    path[n] = q->ids[draft];
    return n + 1;
}

/* Chooses drafts that are often right. */
static void choose_drafts(request *q, rng *r, int tree)
{
    for (uint32_t k = 0; k < q->d.draft_count; k++) {
        int32_t path[MOST + 1];
        q->parents[k] = tree ? (int32_t)rng_below(r, k + 1) - 1 : (int32_t)k - 1;
        const uint32_t n = path_to(q, q->parents[k], path), what = rng_below(r, 12);
        q->ids[k] = sampled(q, (uint32_t)(q->parents[k] + 1), path, n).token;
        if (what < 2)
            q->ids[k] = what ? (int32_t)rng_below(r, q->row.vocab)
                             : (int32_t)q->row.vocab - (int32_t)rng_below(r, 2);
    }
    q->d.parents = tree || rng_below(r, 2) ? q->parents : NULL;
}

static int one_token(const request *q)
{
    const cls_params *const p = &q->p;
    if (p->temperature < 1e-5f)
        return 0;
    return p->mirostat != 0 || p->adaptive_target >= 0.0f ||
           (p->top_p_decay < 1.0f && p->top_p < 1.0f);
}

/* Computes the expected tokens row by row, following the draft that equals the row's token. */
static void expect(request *q, cls_host_verified *v)
{
    const int single = one_token(q), ends = CLS_ROW_STOPPED | CLS_ROW_LENGTH;
    int32_t at = -1;
    memset(v, -1, sizeof *v);
    v->accepted = v->emitted = v->status = 0;
    for (;;) {
        const cls_host_result result =
            sampled(q, (uint32_t)(at + 1), v->tokens, (uint32_t)v->emitted);
        int32_t next = -1;
        uint32_t children = 0;
        const int there = result.status < CLS_ROW_STOPPED
                              ? (result.status & CLS_ROW_EMPTY) == 0
                              : (result.status & (CLS_ROW_SKIPPED | CLS_ROW_UNFIT)) == 0;
        v->status |= there ? result.status & ~ends : result.status;
        if (!there)
            return;
        for (int32_t k = (int32_t)q->d.draft_count - 1; k >= 0; k--)
            if (q->parents[k] == at) {
                children++;
                next = q->ids[k] == result.token ? k : next;
            }
        if (children == 0 && q->d.draft_count != 0 && q->d.disable_bonus)
            return;
        if (!single && next >= 0)
            v->nodes[v->accepted++] = next;
        v->tokens[v->emitted++] = result.token;
        v->status |= result.status & ends;
        if (single || next < 0 || (result.status & ends))
            return;
        at = next;
    }
}

START_TEST(equal_to_samples)
{
    static const uint32_t sizes[] = {1, 3, 31, 111, 1025};
    const uint32_t vocab = sizes[_i], rounds = fixture_by_size(20, 60, vocab > 500 ? 100 : 200);
    rng r = {fixture_seed() + 100 + (uint64_t)_i};
    uint32_t accepted = 0, offered = 0;
    for (uint32_t round = 0; round < rounds; round++) {
        request *const q = must_calloc(1, sizeof *q);
        cls_host_verified v = {0}, wanted;
        cls_host_drafts_init(&q->d);
        q->d.draft_count = rng_below(&r, MOST + 1);
        batch *const b = q->b = batch_new(q->d.draft_count + 1, vocab, (int)rng_below(&r, 3),
                                          vocab + rng_below(&r, 4), 0);
        b->mask_kind = (int)rng_below(&r, 2);
        b->history = 20;
        batch_random(b, &r);
        for (uint32_t row = 0; row < b->rows; row++) /* mostly rows that have a token */
            if (b->kind[row] >= ROW_GOOD && rng_below(&r, 4)) {
                const cls_params p = b->params[row];
                batch_row(b, row, ROW_NORMAL3, rng_bits(&r));
                b->params[row] = p;
            }
        batch_requests(b, &r);
        if (rng_below(&r, 3) == 0)
            batch_mask(b, &r, 70, 0);
        if (rng_below(&r, 4) == 0)
            batch_bias(b, &r, (int)rng_below(&r, 3));
        q->p = b->params[0];
        if (rng_below(&r, 3)) { /* nothing that keeps it short */
            q->p.max_tokens = 0;
            q->p.stop_ids = (cls_ids){NULL, 0};
            q->p.mirostat = 0;
            q->p.adaptive_target = -1.0f;
            q->p.top_p_decay = 1.0f;
        }
        q->row = batch_host_row(b, 0);
        q->row.bias = b->bias;
        q->row.draw = rng_below(&r, 3);
        q->row.params = &q->p;
        memcpy(q->output, b->tokens[0].output, b->tokens[0].output_count * sizeof *q->output);
        q->d.row = &q->row;
        q->p.temperature = rng_below(&r, 2) ? q->p.temperature : 0.0f;
        q->d.method = CLS_VERIFY_MATCH;
        q->d.logits_stride = b->stride;
        q->d.ids = q->ids;
        q->d.disable_bonus = (int32_t)rng_below(&r, 2);
        choose_drafts(q, &r, rng_below(&r, 2) != 0);
        if (q->p.temperature < 1e-5f && q->d.parents == NULL) /* whatever the method */
            q->d.method = (int)rng_below(&r, CLS_VERIFY_TYPICAL + 1);
        expect(q, &wanted);
        must(cls_host_verify(&q->d, &v));
        ck_assert_msg(
            memcmp(&v, &wanted, sizeof v) == 0,
            "round %u, %s: method %d, %u drafts: %d of %d accepted, status %d; not %d of %d, %d",
            round, batch_words(b, 0), (int)q->d.method, q->d.draft_count, v.accepted, v.emitted,
            v.status, wanted.accepted, wanted.emitted, wanted.status);
        accepted += (uint32_t)v.accepted;
        offered += q->d.draft_count;
        batch_free(b);
        free(q);
    }
    printf("%u of %u drafts of %u tokens accepted\n", accepted, offered, vocab);
    ck_assert(accepted * 16 > offered || (vocab == 1 && accepted > 0)); /* of one id most end */
}
END_TEST

/* Drafts that come from the target's own distribution are all accepted, whatever the random
 * numbers. */
START_TEST(all_of_the_same)
{
    const uint32_t vocab = 2500, rounds = fixture_by_size(5, 20, 60);
    rng r = {fixture_seed() + 120 + (uint64_t)_i};
    for (uint32_t round = 0; round < rounds; round++) {
        batch *const b = batch_new(MOST, vocab, _i, 0, 0); /* the last row is the bonus */
        int32_t ids[MOST - 1];
        cls_host_drafts d;
        cls_host_verified v = {0};
        for (uint32_t row = 0; row < MOST; row++) {
            batch_row(b, row, (row_kind)rng_below(&r, ROW_GOOD), rng_bits(&r));
            cls_host_row drawn = batch_host_row(b, row);
            const cls_host_result result = host_result(&drawn);
            if (row < MOST - 1)
                ids[row] = result.token;
        }
        const cls_host_row row = batch_host_row(b, 0);
        cls_host_drafts_init(&d);
        d.row = &row;
        d.draft_count = MOST - 1;
        d.method = round % 2 ? CLS_VERIFY_BLOCK : CLS_VERIFY_STANDARD;
        d.ids = ids;
        d.draft = row.logits;
        d.draft_kind = CLS_DRAFT_LOGITS;
        must(cls_host_verify(&d, &v));
        ck_assert_msg(v.accepted == MOST - 1 && v.emitted == MOST, "%d accepted", (int)v.accepted);
        batch_free(b);
    }
}
END_TEST

int main(void)
{
    fixture_begin(ON_HOST);
    add_loop_test(equal_to_samples, 5);
    add_loop_test(all_of_the_same, 3);
    return fixture_end();
}
