/* SPDX-License-Identifier: MIT */
/* Target cls_slot_load(): the bytes of a saved slot. A slot that was loaded saves the same bytes
 * (of format 7, those of format 8), can be sampled, and can then be saved and loaded again. Bytes
 * that are refused change nothing.
 *
 * The first byte selects the sampler and how the rest is used: as bytes, as bytes whose checksum is
 * corrected, or to begin a request, save it, and change the saved bytes. */
#include "device.h"
#include "fuzz.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { VOCAB = 100, SAMPLERS = 4, MOST = 65536, CHECKSUM = 8 };
enum { RAW, CORRECTED, EDITED, KINDS };

/* A sampler with two slots, and a step with a row for each. */
typedef struct subject {
    cls_sampler *sampler;
    cls_step step;
    int keep;
    uint32_t history, rollback;
} subject;

static subject *make_subject(uint32_t which)
{
    static subject all[SAMPLERS];
    static const struct {
        int keep;
        uint32_t history, rollback;
    } shapes[SAMPLERS] = {{CLS_COUNTS_ALL, 40, 8},
                          {CLS_COUNTS_PRESENCE, 7, 3},
                          {CLS_COUNTS_NONE, 40, 8},
                          {CLS_COUNTS_ALL, 0, 0}};
    subject *const s = &all[which];
    cls_sampler_options o;
    if (s->sampler != NULL)
        return s;
    static const int32_t ends[] = {VOCAB / 3, 2, VOCAB - 1};
    static int32_t prefix_of[VOCAB];
    float logits[2][VOCAB];
    for (int i = 0; i < VOCAB; i++)
        prefix_of[i] = i >= 10 && i % 3 == 0 ? i / 10 : -1;
    row_fill(ROW_NORMAL3, logits[0], VOCAB, 1);
    memcpy(logits[1], logits[0], sizeof logits[0]);
    cls_sampler_options_init(&o);
    o.late_compile = 1;
    o.vocab = VOCAB;
    o.max_rows = o.slot_count = 2;
    o.counts = s->keep = shapes[which].keep;
    o.max_history = s->history = shapes[which].history;
    o.max_rollback = s->rollback = shapes[which].rollback;
    must(cls_sampler_create(the_context(), &o, &s->sampler));
    must(cls_sampler_infill(s->sampler, &(cls_infill){sizeof(cls_infill), {ends, 3}, prefix_of}));
    cls_step_init(&s->step);
    s->step.rows = 2;
    s->step.logits.values.buffer = buffer_of(the_device(), sizeof logits, logits);
    s->step.tokens.buffer = buffer_of(the_device(), 2 * sizeof(int32_t), NULL);
    s->step.status.buffer = buffer_of(the_device(), 2 * sizeof(int32_t), NULL);
    return s;
}

/* ------------------------------------------------------------------- the bytes */

static void correct_checksum(uint8_t *bytes, size_t size)
{
    uint64_t h = 0xcbf29ce484222325u; /* FNV-1a */
    if (size < CHECKSUM)
        return;
    for (size_t i = 0; i < size - CHECKSUM; i++)
        h = (h ^ bytes[i]) * 0x100000001b3u;
    for (size_t i = 0; i < CHECKSUM; i++)
        bytes[size - CHECKSUM + i] = (uint8_t)(h >> 8 * i);
}

/* Saves a slot and returns the size; 0: the slot has no request any more. */
static size_t save(const subject *s, uint32_t slot, uint8_t *bytes)
{
    size_t size = MOST;
    if (cls_slot_save(s->sampler, the_device()->queue, slot, bytes, &size) == CLS_OK)
        return size;
    demand(strstr(cls_error_message(), "no longer has a request") != NULL,
           "the slot cannot be saved: %s", cls_error_message());
    return 0;
}

static void step(const subject *s)
{
    int32_t token[2], status[2];
    must(cls_sample(s->sampler, the_device()->queue, &s->step, 0, NULL, NULL));
    buffer_read(the_device(), s->step.tokens.buffer, sizeof token, token);
    buffer_read(the_device(), s->step.status.buffer, sizeof status, status);
    demand(token[0] >= -1 && token[0] < VOCAB && status[0] >= 0 && status[0] < 1024,
           "token %d, status %d", token[0], status[0]);
    demand(token[1] == token[0] && status[1] == status[0],
           "token %d, status %d, of its copy %d, %d", token[0], status[0], token[1], status[1]);
}

/* Adds a thinking budget or a loop stop that the sampler's history allows. */
static void make_ends(const subject *s, cls_params *p, rng *r)
{
    static int32_t ids[8];
    static cls_ids ends[2];
    const uint32_t longest = s->history < 3 ? s->history + 1 : 4;
    for (int i = 0; i < 8; i++)
        ids[i] = (int32_t)rng_below(r, 6);
    p->thinking_start.ids = ids + rng_below(r, 4);
    p->thinking_start.count = rng_below(r, longest + 1);
    for (int i = 0; i < 2; i++)
        ends[i] = (cls_ids){ids + rng_below(r, 4), 1 + rng_below(r, longest)};
    p->thinking_ends = (cls_sequences){ends, rng_below(r, 3)};
    p->thinking_forced.ids = ids + rng_below(r, 4);
    p->thinking_forced.count = 1 + rng_below(r, 4);
    p->thinking_budget = rng_below(r, 8);
    p->loop_repeats = s->history >= 6 ? 2 + rng_below(r, 2) : 0;
    p->loop_max = 1 + rng_below(r, 2);
}

/* Adds penalties and lists that the sampler has room for. */
static void make_lists(const subject *s, cls_params *p, rng *r)
{
    static const float amounts[] = {0.0f, 0.5f, -0.3f, 100.0f},
                       biases[] = {-INFINITY, -1.0f, 3.0f, 0.0f};
    enum { LISTED = 20 };
    static int32_t ids[4][LISTED];
    static cls_logit_bias bias[LISTED];
    static cls_ids sequences[2][4];
    const uint32_t longest = s->history < 4 ? s->history : 4;
    for (int i = 0; i < 4 * LISTED; i++)
        ids[i / LISTED][i % LISTED] = (int32_t)rng_below(r, i % 3 ? 12 : VOCAB);
    for (int i = 0; i < LISTED; i++)
        bias[i] = (cls_logit_bias){ids[3][i], biases[rng_below(r, 4)]};
    if (s->keep != CLS_COUNTS_NONE) {
        p->repetition_penalty = rng_below(r, 2) ? 1.3f : 1.0f;
        p->presence_penalty = amounts[rng_below(r, 4)];
        p->frequency_penalty = s->keep == CLS_COUNTS_ALL ? amounts[rng_below(r, 4)] : 0.0f;
        p->penalty_scope = (int32_t)rng_below(r, 2);
        p->penalty_window = rng_below(r, 2) ? 0 : rng_below(r, s->history + 1);
    }
    p->logit_bias = (cls_biases){bias, rng_below(r, 2) ? rng_below(r, LISTED + 1) : 0};
    p->stop_ids = (cls_ids){ids[0], rng_below(r, 5)};
    p->allowed_ids = (cls_ids){ids[1], rng_below(r, 10) ? 0 : 1 + rng_below(r, LISTED)};
    p->max_tokens = rng_below(r, 8) ? 0 : 201 + rng_below(r, 3);
    p->min_tokens = rng_below(r, 5) ? 0 : rng_below(r, 203);
    if (longest == 0)
        return;
    for (int i = 0; i < 8; i++)
        sequences[i / 4][i % 4] = (cls_ids){ids[2] + i, 1 + rng_below(r, longest)};
    if (rng_below(r, 4) == 0) {
        p->dry_multiplier = rng_below(r, 2) ? 0.8f : 1e30f;
        p->dry_allowed_length = rng_below(r, 4);
        p->dry_window = rng_below(r, s->history + 1);
        p->dry_breakers = (cls_sequences){sequences[0], rng_below(r, 5)};
    }
    if (rng_below(r, 6) == 0) {
        p->no_repeat_ngram = 1 + rng_below(r, longest);
        p->ngram_window = rng_below(r, s->history + 1);
        p->ngram_output_only = (int32_t)rng_below(r, 2);
        p->ngram_exempt_ids = (cls_ids){ids[2], rng_below(r, LISTED + 1)};
    }
    p->bad_words = (cls_sequences){sequences[1], rng_below(r, 5) ? 0 : rng_below(r, 5)};
}

/* Begins a random request in slot 0 and saves it after up to two tokens. */
static size_t save_random(const subject *s, rng *r, uint8_t *bytes)
{
    static const uint32_t lengths[] = {0, 1, 3, 17, 60, 200};
    int32_t ids[2][200];
    const uint32_t prompts = lengths[rng_below(r, 6)], outputs = lengths[rng_below(r, 6)];
    cls_params params = default_params();
    rng many = {rng_bits(r)};
    params.seed = rng_bits(r);
    params_kind(&params, rng_below(r, PARAMS_PENALTIES), VOCAB);
    params.infill = params.chain != CLS_CHAIN_CUSTOM && rng_below(r, 8) == 0;
    make_lists(s, &params, &many);
    for (int i = 0; i < 400; i++) /* few, and some that are no tokens */
        ids[i / 200][i % 200] = (int32_t)rng_below(&many, rng_below(&many, 2) ? 12 : VOCAB + 1);
    if (rng_below(r, 4) == 0)
        make_ends(s, &params, r);
    must(cls_slot_begin(s->sampler, 0, &params, TEXT(ids[0], prompts, ids[1], outputs)));
    if (rng_below(r, 4) == 0)
        must(cls_slot_force(s->sampler, 0, (const int32_t[]){3, 99, 1, 0}, rng_below(r, 5)));
    must(cls_slot_copy(s->sampler, 1, 0));
    for (uint32_t n = rng_below(r, 3); n > 0; n--)
        step(s);
    return save(s, 0, bytes);
}

/* Changes of words, of bytes and of the size. */
typedef struct edits {
    uint32_t n, at[8], word[8], bytes, longer;
} edits;

static edits take_edits(rng *r)
{
    static const uint32_t edges[] = {0,          1,      0x7fffffff, 0x80000000,
                                     0xffffffff, 0xffff, VOCAB,      VOCAB - 1};
    edits e = {.n = rng_below(r, 8), .bytes = rng_below(r, 256)};
    for (uint32_t i = 0; i < e.n; i++) {
        e.at[i] = rng_below(r, 65536);
        e.word[i] = rng_below(r, 2) ? (uint32_t)rng_bits(r) : edges[rng_below(r, 8)];
    }
    e.longer = rng_below(r, 8) == 0 ? rng_below(r, 33) : 16;
    return e;
}

static size_t edit(const edits *e, uint8_t *bytes, size_t size)
{
    const size_t words = (size - CHECKSUM) / 4;
    for (uint32_t i = 0; i < e->n; i++)
        memcpy(bytes + e->at[i] % words * 4, &e->word[i],
               e->bytes >> i & 1 ? 1 : sizeof e->word[i]);
    memset(bytes + size, 0, 16);
    return size + e->longer - 16;
}

/* ------------------------------------------------------------------ after loading */

/* Checks slot 0 after loading. same: slot 1 has the same state, without saving and loading. */
static void continue_loaded(const subject *s, const uint8_t *bytes, size_t size, int same)
{
    static uint8_t again[MOST];
    const size_t saved = save(s, 0, again);
    const int older = size > 8 && bytes[8] == 7; /* it is saved in today's format, 8 */
    demand(older || (saved == size && memcmp(again, bytes, size) == 0),
           "%zu bytes are saved as %zu different bytes", size, saved);
    if (!same)
        must(cls_slot_copy(s->sampler, 1, 0));
    step(s);
    must(cls_slot_rollback(s->sampler, 0, s->rollback < 1 ? 0 : 1));
    must(cls_slot_rollback(s->sampler, 1, s->rollback < 1 ? 0 : 1));
    step(s);
    const size_t later = save(s, 0, again);
    /* The bytes may claim as many tokens as a text that is loaded may have, 2^31 - 1. */
    demand(later == 0 || cls_slot_load(s->sampler, 1, again, later, NULL) == CLS_OK ||
               strstr(cls_error_message(), "the history's length is impossible") != NULL,
           "the slot is saved after a step, but cannot be loaded: %s", cls_error_message());
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t data_size)
{
    static uint8_t before[MOST];
    input in = {data, data_size};
    const uint8_t how = take_byte(&in);
    const subject *const s = make_subject(how / KINDS % SAMPLERS);
    rng r = {how};
    size_t size = in.size < MOST ? in.size : MOST, had = 0;
    int same = 0;
    uint8_t *const room = calloc(MOST + 64, 1);
    demand(room != NULL, "out of memory");
    if (how % KINDS == EDITED) {
        rng_feed(&r, in.data, in.size);
        const edits e = take_edits(&r);
        had = save_random(s, &r, before);
        memcpy(room, before, had);
        size = had > 0 ? edit(&e, room, had) : 0;
        same = had > 0 && size == had && memcmp(room, before, had) == 0;
        rng_feed(NULL, NULL, 0);
    } else {
        memcpy(room, in.data, size);
    }
    if (how % KINDS != RAW)
        correct_checksum(room, size);
    uint8_t *const bytes = malloc(
        size + (size == 0)); /* of exactly this size, so that a sanitizer finds reads beyond it */
    demand(bytes != NULL, "out of memory");
    memcpy(bytes, room, size);
    const cls_status status = cls_slot_load(s->sampler, 0, bytes, size, NULL);
    demand(status == CLS_OK || !same, "a saved slot is refused: %s", cls_error_message());
    if (status == CLS_OK)
        continue_loaded(s, bytes, size, same);
    else if (had > 0)
        demand(save(s, 0, room) == had && memcmp(room, before, had) == 0,
               "bytes that are refused change the slot: %s", cls_error_message());
    must(cls_slot_reset(s->sampler, 0));
    must(cls_slot_reset(s->sampler, 1));
    free(bytes);
    free(room);
    return 0;
}
