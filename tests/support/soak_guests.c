/* SPDX-License-Identifier: MIT */
/* The requests of a soak test: how they arrive, change, roll back, move and leave. */
#include "soak.h"

#include <stdlib.h>
#include <string.h>

static batch *new_request(soak *s)
{
    batch *const b = batch_new(1, s->o.vocab, CLS_F32, 0, 0);
    b->history = SOAK_HISTORY;
    batch_row(b, 0, ROW_NORMAL1, rng_bits(&s->r));
    params_random(b->params, b->vocab, &s->r);
    if (rng_below(&s->r, 12) == 0)
        params_infill(b->params, b->vocab, &s->r);
    b->forces = rng_below(&s->r, 2) == 0;
    batch_requests(b, &s->r);
    b->tokens->forced_count = 0; /* force() forces ids */
    s->n.grammars += b->params->grammar != NULL;
    if (rng_below(&s->r, 2)) { /* most do not stop soon */
        b->params->stop_ids = (cls_ids){NULL, 0};
    }
    if (b->params->max_tokens != 0)
        b->params->max_tokens += rng_below(&s->r, 40);
    return b;
}

static void come(soak *s, uint32_t slot)
{
    guest *const g = &s->guest[slot];
    memset(g, 0, sizeof *g);
    g->b = new_request(s);
    const tokens *const t = g->b->tokens;
    soak_require_ok(s, cls_slot_begin(s->sampler, slot, g->b->params,
                                      t->prompt_count ? t->prompt : NULL, t->prompt_count,
                                      t->output_count ? t->output : NULL, t->output_count));
    s->n.guests++;
}

void guest_leave(soak *s, uint32_t slot)
{
    if (rng_below(
            &s->r,
            4)) /* otherwise the next request begins in a used slot, which it must not notice */
        soak_require_ok(s, cls_slot_reset(s->sampler, slot));
    batch_free(s->guest[slot].b);
    s->guest[slot].b = NULL;
}

/* Forks a request; the copy has another stream. */
static void fork_from(soak *s, uint32_t slot, const guest *parent)
{
    guest *const g = &s->guest[slot];
    *g = *parent;
    g->b = batch_pick(parent->b, 1, NULL, CLS_F32, 0, 0);
    g->b->params->stream = rng_bits(&s->r);
    soak_require_ok(s, cls_slot_copy(s->sampler, slot, (uint32_t)(parent - s->guest)));
    soak_require_ok(s, cls_slot_params(s->sampler, slot, g->b->params));
    s->n.guests++;
    s->n.forks++;
}

/* Saves a request and loads it into a free slot. */
static void move(soak *s, uint32_t from, uint32_t to)
{
    size_t size;
    soak_require_ok(s, cls_slot_save(s->sampler, s->queue, from, NULL, &size));
    void *const bytes = malloc(size);
    soak_require(s, bytes != NULL, "out of memory");
    soak_require_ok(s, cls_slot_save(s->sampler, s->queue, from, bytes, &size));
    soak_require_ok(s, cls_slot_reset(s->sampler, from));
    soak_require_ok(s,
                    cls_slot_load(s->sampler, to, bytes, size, s->guest[from].b->params->grammar));
    free(bytes);
    s->guest[to] = s->guest[from];
    s->guest[from].b = NULL;
    s->n.moves++;
}

static void roll_back(soak *s, uint32_t slot)
{
    guest *const g = &s->guest[slot];
    const uint32_t kept = g->made + SOAK_ROLLBACK - g->longest,
                   can = g->made < kept ? g->made : kept;
    const uint32_t n = rng_below(&s->r, can + 1);
    soak_require_ok(s, cls_slot_rollback(s->sampler, slot, n));
    g->made -= n;
    g->b->tokens->output_count -= n;
    if (n > 0)
        *g->b->adaptive = g->was[g->made];
    if (g->made < g->forced_made) { /* a row knows forced ids only if they are due next */
        soak_require_ok(s, cls_slot_force(s->sampler, slot, NULL, 0));
        guest_force(g, NULL, 0);
    }
    guest_set_forced(g);
    s->n.rollbacks += n > 0;
}

static void force(soak *s, uint32_t slot)
{
    int32_t ids[4];
    const uint32_t n = rng_below(&s->r, 5);
    for (uint32_t i = 0; i < n; i++)
        ids[i] = (int32_t)rng_below(&s->r, s->o.vocab);
    soak_require_ok(s, cls_slot_force(s->sampler, slot, n ? ids : NULL, n));
    guest_force(&s->guest[slot], ids, n);
    s->n.forced++;
}

/* Changes the chain. Penalties, lists and bans stay, and requests with an adaptive state are not
 * changed. */
static void change(soak *s, uint32_t slot)
{
    guest *const g = &s->guest[slot];
    cls_params *const p = g->b->params, fresh;
    if (guest_has_adaptive_state(g) || p->infill)
        return;
    cls_params_init(&fresh);
    params_random(&fresh, s->o.vocab, &s->r);
    p->chain = fresh.chain;
    memcpy(p->stages, fresh.stages, sizeof p->stages);
    p->temperature = fresh.temperature;
    p->top_k = fresh.top_k;
    p->top_p = fresh.top_p;
    p->min_p = fresh.min_p;
    p->top_n_sigma = fresh.top_n_sigma;
    p->typical_p = fresh.typical_p;
    p->xtc_probability = fresh.xtc_probability;
    p->xtc_threshold = fresh.xtc_threshold;
    p->p_less = fresh.p_less;
    p->top_a = fresh.top_a;
    p->dynatemp_range = fresh.dynatemp_range;
    p->dynatemp_exponent = fresh.dynatemp_exponent;
    p->min_keep = fresh.min_keep;
    p->stream = fresh.stream;
    p->max_tokens = rng_below(&s->r, 2) ? 0 : p->max_tokens;
    soak_require_ok(s, cls_slot_params(s->sampler, slot, p));
    s->n.changes++;
}

/* Appends another part to a prompt that has no output yet. */
static void append(soak *s, uint32_t slot)
{
    tokens *const t = s->guest[slot].b->tokens;
    int32_t ids[20];
    const uint32_t n = 1 + rng_below(&s->r, 20);
    if (t->output_count != 0 || t->prompt_count > 300)
        return;
    for (uint32_t i = 0; i < n; i++)
        ids[i] = (int32_t)rng_below(&s->r, s->o.vocab + 1);
    t->prompt = realloc(t->prompt, (t->prompt_count + n) * sizeof *ids);
    soak_require(s, t->prompt != NULL, "out of memory");
    memcpy(t->prompt + t->prompt_count, ids, n * sizeof *ids);
    t->prompt_count += n;
    soak_require_ok(s, cls_slot_append_prompt(s->sampler, slot, ids, n));
}

static void visit(soak *s, uint32_t slot)
{
    const guest *const g = &s->guest[slot], *const other = &s->guest[rng_below(&s->r, SOAK_SLOTS)];
    const uint32_t what = rng_below(&s->r, 32);
    if (g->b == NULL && other->b != NULL && rng_below(&s->r, 4) == 0) {
        fork_from(s, slot, other);
    } else if (g->b == NULL) {
        come(s, slot);
    } else if (g->made > SOAK_LIFE - 16 || what == 0 || (guest_stopped(g) && what < 16)) {
        guest_leave(s, slot);
    } else if (what < 6) {
        roll_back(s, slot);
    } else if (what < 12) {
        change(s, slot);
    } else if (what < 18) {
        append(s, slot);
    } else if (what == 18 && other->b == NULL) {
        move(s, slot, (uint32_t)(other - s->guest));
    } else if (what == 19) {
        force(s, slot);
    }
}

void soak_visit(soak *s)
{
    uint32_t there = 0;
    for (uint32_t n = rng_below(&s->r, 4); n > 0; n--)
        visit(s, rng_below(&s->r, SOAK_SLOTS));
    for (uint32_t slot = 0; slot < SOAK_SLOTS; slot++)
        there += s->guest[slot].b != NULL;
    if (there == 0)
        come(s, 0);
}
