/* SPDX-License-Identifier: MIT */
/* Proves that verified drafts give the text that sampling token by token gives. A second
 * request samples on the device; the drafts are its tokens mixed with others. The methods
 * match gives the same tokens, bit for bit, and leaves the requests in the same state. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "verifier.h"

enum { MOST = 16, ROUNDS = 2 };

/* The sampler that has no drafts, and what the other one must give. */
typedef struct twin {
    verifier v;
    cl_mem logits;      /* a row a request */
    uint32_t row[MOST]; /* where each is */
    int alive[MOST];
    int unseen[MOST]; /* it has not looked at the last row, whose token is not wanted */
    cls_host_verified want[MOST];
} twin;

static void twin_open(twin *t, device *d, drafts *of)
{
    const batch *const rows = of->rows;
    memset(t, 0, sizeof *t);
    verifier_open(&t->v, d, fixture_context(d, 0, 0, 0, 0), of, 0, 0);
    t->logits = buffer_of(d, (size_t)of->n * rows->vocab * dtype_size(rows->dtype), NULL);
}

static void twin_close(twin *t)
{
    clReleaseMemObject(t->logits);
    verifier_close(&t->v);
}

/* The rows at which the requests are, in a step. */
static void twin_step(twin *t, int32_t *tokens_, int32_t *status)
{
    const drafts *const of = t->v.of;
    const batch *const rows = of->rows;
    const size_t size = dtype_size(rows->dtype), row_size = rows->vocab * size;
    int32_t slots[MOST], masks[MOST], biases[MOST], positions[MOST];
    cls_step step = t->v.step;
    for (uint32_t i = 0; i < of->n; i++) {
        const uint32_t row = (uint32_t)of->cu[i] + t->row[i];
        uint32_t depth = 0;
        for (int32_t at = (int32_t)t->row[i] - 1; at >= 0; depth++)
            at = of->parents ? of->parents[drafts_first(of, i) + (uint32_t)at] : at - 1;
        slots[i] = t->alive[i] ? of->slots[i] : -1;
        masks[i] = rows->mask_map ? rows->mask_map[row] : (int32_t)row;
        biases[i] = rows->bias_map ? rows->bias_map[row] : (int32_t)row;
        positions[i] = of->positions ? (int32_t)((uint32_t)of->positions[i] + depth) : 0;
        buffer_write(t->v.d, t->logits, i * row_size, row_size,
                     rows->data + rows->offset + row * rows->stride * size);
    }
    step.logits.values.buffer = t->logits;
    step.slots.host = slots;
    step.positions.host = of->positions ? positions : NULL;
    step.draws.host = of->draws;
    step.mask = t->v.call.mask;
    step.mask.rows = rows->rows;
    step.mask.row_map.host = rows->mask ? masks : NULL;
    step.bias = t->v.call.bias;
    step.bias.rows = rows->rows;
    step.bias.row_map.host = rows->bias ? biases : NULL;
    must(cls_sample(t->v.sampler, t->v.d->queue, &step, 0, NULL, NULL));
    buffer_read(t->v.d, step.tokens.buffer, of->n * sizeof(int32_t), tokens_);
    buffer_read(t->v.d, step.status.buffer, of->n * sizeof(int32_t), status);
}

static int32_t another(int32_t id, uint32_t vocab, rng *r)
{
    return rng_below(r, 10) == 0 ? -1
                                 : (id + 1 + (int32_t)rng_below(r, vocab - 1)) % (int32_t)vocab;
}

/* Chooses the drafts that follow a row, and which of them is right: nodes are
 * numbered from 0, -1 is none. */
static int32_t choose_children(drafts *of, uint32_t i, int32_t node, int32_t token, int faithful,
                               rng *r)
{
    const uint32_t first = drafts_first(of, i), n = drafts_count(of, i);
    int32_t right = -1;
    for (uint32_t k = 0; k < n; k++) {
        if ((of->parents ? of->parents[first + k] : (int32_t)k - 1) != node)
            continue;
        const int is_right = right < 0 ? faithful || rng_below(r, 8) != 0
                                       : rng_below(r, 8) == 0 && of->rows->vocab > 1;
        of->ids[first + k] = is_right ? token : another(token, of->rows->vocab, r);
        if (is_right && right < 0)
            right = (int32_t)k;
    }
    return right;
}

static int is_leaf(const drafts *of, uint32_t i, int32_t node)
{
    const uint32_t first = drafts_first(of, i), n = drafts_count(of, i);
    for (uint32_t k = 0; k < n && of->parents; k++)
        if (of->parents[first + k] == node)
            return 0;
    return of->parents || node + 1 == (int32_t)n;
}

/* Samples each request's text, and makes drafts of it. */
static void twin_run(twin *t, rng *r)
{
    drafts *const of = t->v.of;
    int32_t token[MOST], status[MOST];
    int any = 1, faithful[MOST]; /* all of its drafts are right */
    for (uint32_t i = 0; i < of->total; i++)
        of->ids[i] = (int32_t)rng_below(r, of->rows->vocab);
    memset(t->want, -1, sizeof t->want);
    for (uint32_t i = 0; i < of->n; i++) {
        t->want[i].accepted = t->want[i].emitted = t->want[i].status = 0;
        t->alive[i] = 1;
        t->unseen[i] = 0;
        faithful[i] = rng_below(r, 3) == 0;
        t->row[i] = 0;
    }
    while (any) {
        twin_step(t, token, status);
        any = 0;
        for (uint32_t i = 0; i < of->n; i++) {
            cls_host_verified *const want = &t->want[i];
            if (!t->alive[i])
                continue;
            const int32_t node = (int32_t)t->row[i] - 1;
            t->alive[i] = 0;
            want->status |= status[i];
            if (token[i] < 0)
                continue;
            want->tokens[want->emitted++] = token[i];
            const int32_t next = drafts_one_a_call(of, i)
                                     ? -1
                                     : choose_children(of, i, node, token[i], faithful[i], r);
            if (next < 0)
                continue;
            want->nodes[want->accepted++] = next;
            t->row[i] = (uint32_t)next + 1;
            t->unseen[i] =
                !(status[i] & CLS_ROW_STOPPED) && of->disable_bonus && is_leaf(of, i, next);
            t->alive[i] = !(status[i] & CLS_ROW_STOPPED) && !t->unseen[i];
            any |= t->alive[i];
        }
    }
}

/* Compares both samplers' slots byte for byte, except slots with an adaptive state, which also
 * store the state that a deferred draw would lead to. */
static void same_states(verifier *v, twin *t, const char *where)
{
    const drafts *const of = v->of;
    for (uint32_t i = 0; i < of->n; i++) {
        size_t size, other;
        if (drafts_one_a_call(of, i))
            continue;
        const uint32_t slot = (uint32_t)of->slots[i];
        unsigned char *const a = slot_saved(v->sampler, v->d->queue, slot, &size),
                             *const b = slot_saved(t->v.sampler, v->d->queue, slot, &other);
        ck_assert_msg(size == other, "%s: %s: states of %zu and %zu bytes", where,
                      drafts_words(of, i), size, other);
        size_t at = 0;
        while (at < size && a[at] == b[at])
            at++;
        ck_assert_msg(at == size, "%s: %s: states differ in byte %zu of %zu", where,
                      drafts_words(of, i), at, size);
        free(a);
        free(b);
    }
}

/* Turns relaxed acceptance off, which accepts what sampling would not draw. */
static void accept_exactly(batch *requests)
{
    for (uint32_t i = 0; i < requests->rows; i++) {
        cls_params *const p = &requests->params[i];
        p->relaxed_top_k = 0;
        p->relaxed_delta = 0.0f;
        if (p->thinking_forced.count == 0)
            p->thinking_start.count = p->thinking_end.count = 0;
    }
}

START_TEST(as_without_drafts)
{
    static const uint32_t sizes[] = {100, 16, 1000, 5000, 1025, 32000};
    device *const d = fixture_device(_i);
    const uint32_t most = fixture_by_size(10, 200, 1000);
    uint32_t requests = 0, right = 0, emitted = 0, trees = 0, all = 0, stopped = 0;
    rng r = {fixture_seed() + 61};
    for (uint32_t i = 0; requests < most; i++) {
        const uint32_t vocab = sizes[rng_below(&r, fixture_by_size(2, 5, 6))];
        const uint32_t n = fixture_by_size(4, 8, vocab > 5000 ? 4 : MOST);
        drafts *const of = drafts_random(n, vocab, CLS_VERIFY_MATCH, &r);
        for (uint32_t k = 0; k < n && i % 3 == 0; k++)
            of->requests->params[k].temperature = 0.0f;
        accept_exactly(of->requests);
        char where[240];
        verifier v;
        twin t;
        verifier_open(&v, d, fixture_context(d, 0, 0, 0, 0), of, (int)(i % 2), 0);
        twin_open(&t, d, of);
        cls_sampler_force_search(v.sampler, i % 4 == 0);
        cls_sampler_force_search(t.v.sampler, i % 4 == 1);
        for (uint32_t round = 0; round < ROUNDS; round++) {
            snprintf(where, sizeof where, "%s, call %u, round %u", d->name, i, round);
            for (uint32_t k = 0; k < n; k++)
                for (uint32_t c = 0; c < drafts_count(of, k) && of->parents; c++)
                    of->parents[drafts_first(of, k) + c] =
                        (int32_t)(rng_below(&r, 3) ? c : rng_below(&r, c + 1)) - 1;
            twin_run(&t, &r);
            memcpy(of->host, t.want, n * sizeof *of->host);
            verifier_run(&v);
            for (uint32_t k = 0; k < n; k++) {
                const int32_t read = v.status[k] & (CLS_ROW_NAN | CLS_ROW_INF);
                of->host[k].status |= t.unseen[k] ? read | (v.status[k] & CLS_ROW_EMPTY)
                                      : t.want[k].status & CLS_ROW_LOOP
                                          ? read /* the rows behind the loop were read, too */
                                          : 0;
            }
            verifier_equal(&v, where);
            if (of->method == CLS_VERIFY_MATCH)
                same_states(&v, &t, where);
            for (uint32_t k = 0; k < n; k++) {
                right += (uint32_t)t.want[k].accepted;
                emitted += (uint32_t)t.want[k].emitted;
                all += t.want[k].accepted > 0 &&
                       is_leaf(of, k, t.want[k].nodes[t.want[k].accepted - 1]);
                stopped += (t.want[k].status & CLS_ROW_STOPPED) != 0;
            }
        }
        trees += of->parents != NULL;
        requests += n;
        twin_close(&t);
        verifier_close(&v);
        drafts_free(of);
    }
    printf("%s: %u requests, twice each, %u calls with trees: %u drafts right, %u tokens, %u to "
           "the end, %u stopped\n",
           d->name, requests, trees, right, emitted, all, stopped);
    ck_assert(right > requests && all > requests / 20);
}
END_TEST

int main(void)
{
    fixture_random(CLS_FEATURE_VERIFY);
    fixture_begin(ON_DEVICES);
    add_device_test(as_without_drafts);
    return fixture_end();
}
