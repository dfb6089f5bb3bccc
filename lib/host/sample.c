/* SPDX-License-Identifier: MIT */
/* Samples a row on the host in plain C, from its logits to its token. The tests compare every
 * kernel with it. */
#include "host/host.h"

/* ---------------------------------------------------------------- adaptive state */

/* Returns the state after the token that was drawn, but for the decay of top-p, which every token
 * continues. */
static cls_slot_adaptive adaptive_after(const cls_sampled *w)
{
    const cls_slot *const slot = &w->slot;
    const cls_row *const trace = &w->trace;
    const uint32_t id = (uint32_t)trace->token;
    cls_slot_adaptive state = slot->adaptive;
    if (slot->flags & CLS_SLOT_MIROSTAT)
        state.mu = mirostat_next(state.mu,
                                 cls_token_depth(w, id) + mass_q20(trace->mass, w->top, w->scale),
                                 slot->tau, slot->eta);
    if (slot->flags & CLS_SLOT_ADAPTIVE)
        adaptive_p_accept(&state, probability_q30(cls_token_mass(w, id), trace->mass),
                          slot->adaptive_decay);
    return state;
}

/* ------------------------------------------------------------------------- draw */

/* Draws from the whole row. As on the device, it selects a tile first, and then the first token of
 * it at which the sum of weights exceeds what is left. */
static void draw_from_row(cls_sampled *w, uint64_t random)
{
    cls_row *const trace = &w->trace;
    trace->mass = trace->total = cls_row_mass(w);
    trace->drawn = u64_mul_hi(random, trace->mass);
    uint64_t rest = trace->drawn;
    uint32_t t = 0;
    for (; w->tile_mass[t] <= rest; t++)
        rest -= w->tile_mass[t];
    uint32_t i = t * CLS_TILE;
    uint64_t sum = cls_token_weight(w, i);
    while (to_row_units(sum, w->unit[t].shift) <= rest)
        sum += cls_token_weight(w, ++i);
    trace->token = (int32_t)i;
}

uint64_t cls_drawn_weight(const cls_sampled *w, uint32_t id)
{
    const uint64_t mass = cls_token_mass(w, id);
    return cls_is_adaptive(w) ? adaptive_weight(probability_q30(mass, w->trace.mass), w->trace.aim,
                                                w->trace.min_depth)
                              : mass;
}
uint64_t cls_drawn_sum(const cls_sampled *w)
{
    return cls_is_adaptive(w) ? w->trace.adapted : w->trace.mass;
}

static void set_adaptive_weights(cls_sampled *w)
{
    cls_row *const trace = &w->trace;
    trace->aim = adaptive_aim(w->slot.target, w->slot.adaptive.sum, w->slot.adaptive.weight);
    trace->min_depth = UINT32_MAX;
    for (uint32_t i = 0; i < w->n; i++) {
        const uint32_t d =
            adaptive_depth(probability_q30(cls_token_mass(w, w->set[i]), trace->mass), trace->aim);
        trace->min_depth = d < trace->min_depth ? d : trace->min_depth;
    }
    for (uint32_t i = 0; i < w->n; i++)
        trace->adapted += cls_drawn_weight(w, w->set[i]);
}

/* Marks the tokens of the set, and no others. */
static void mark_set(cls_sampled *w)
{
    if (w->listed == w->n) {
        memset(w->mark, 0, w->vocab);
        for (uint32_t i = 0; i < w->n; i++)
            w->mark[w->set[i]] = 1;
    } else {
        for (uint32_t i = 0; i < w->vocab; i++)
            w->mark[i] = w->z[i] > CLS_MASKED;
    }
}

/* Draws from the set in ascending order of ids. */
static void draw_from_set(cls_sampled *w, uint64_t random)
{
    w->trace.mass = cls_need(w, CLS_SUM_MASS);
    if (cls_is_adaptive(w))
        set_adaptive_weights(w);
    w->trace.drawn = u64_mul_hi(random, cls_drawn_sum(w));
    uint64_t rest = w->trace.drawn;
    for (uint32_t i = cls_next_marked(w, 0); i < w->vocab; i = cls_next_marked(w, i + 1)) {
        const uint64_t mass = cls_drawn_weight(w, i);
        if (rest < mass) {
            w->trace.token = (int32_t)i;
            return;
        }
        rest -= mass;
    }
}

/* ---------------------------------------------------------------------- the row */

/* Draws a token from the adjusted row. Returns 0 if the chain leaves no token. */
static int draw_token(cls_sampled *w)
{
    const cls_slot *const slot = &w->slot;
    cls_row *const trace = &w->trace;
    const int plain = row_is_untruncated(slot);
    const uint64_t random = w->row.random_bits != NULL
                                ? *w->row.random_bits
                                : philox_bits(CLS_PURPOSE_TOKEN, slot->seed, slot->stream,
                                              w->row.position, w->row.draw);
    trace->max_key = key_of(w->top);
    w->scale = slot->scale;
    cls_set_begin(w);
    if (slot->flags & CLS_SLOT_GREEDY)
        cls_set_cut(w, 1);
    else
        cls_chain_run(w);
    if (w->n == 0)
        return 0;
    cls_weigh(w);
    if (!plain)
        cls_select(w, w->n);
    const uint32_t last = plain ? 0 : w->set[w->n - 1];
    trace->kept = w->n;
    trace->scale = w->scale;
    trace->top_key = key_of(w->top);
    trace->cut.key = plain ? CLS_KEY_NONE : key_of(w->z[last]);
    trace->cut.id = plain ? CLS_MAX_ID : (int32_t)last;
    mark_set(w);
    if (slot->flags & CLS_SLOT_GREEDY)
        trace->token = (int32_t)last;
    else if (plain)
        draw_from_row(w, random);
    else
        draw_from_set(w, random);
    if (slot->watermark != 0)
        cls_watermark_draw(w);
    return 1;
}

static void begin_record(cls_sampled *w)
{
    cls_row *const trace = &w->trace;
    memset(trace, 0, sizeof *trace);
    trace->token = w->row.invalid_token;
    trace->max_key = trace->top_key = trace->cut.key = CLS_KEY_NONE;
    trace->cut.id = trace->cut.upper_last = CLS_MAX_ID;
    trace->cut.upper_key = CLS_KEY_INF;
    trace->scale = CLS_LOG2E;
    trace->no_token = 1;
    w->n = 0;
    w->drew = 0;
}

/* Emits an id in place of the token that was drawn, if one was. The adaptive state follows only
 * what was drawn. */
static void replace_token(cls_sampled *w, int32_t id)
{
    cls_row *const trace = &w->trace;
    if (trace->token != id)
        trace->next = w->slot.adaptive;
    trace->token = id;
    trace->forced = 1;
}

/* Sets the status of a row that emits a token. */
static void set_status(cls_sampled *w, int forced)
{
    cls_row *const trace = &w->trace;
    const uint32_t id = (uint32_t)trace->token;
    trace->status = (trace->status & (CLS_ROW_NAN | CLS_ROW_INF)) | (forced ? CLS_ROW_FORCED : 0u) |
                    cls_text_end(w->request, id);
}

static void run_request(cls_sampled *w, int forces)
{
    cls_row *const trace = &w->trace;
    const int32_t forced = forces ? cls_text_due(w->request) : -1;
    const int forbidden = forced >= 0 && !cls_sampled_allows(w, (uint32_t)forced);
    trace->next = w->slot.adaptive;
    trace->status = cls_sampled_read(w, 0);
    if (forbidden || w->available == 0) {
        trace->status |= CLS_ROW_EMPTY;
    } else if (draw_token(w)) {
        trace->no_token = 0;
        trace->next = w->after_drawn = adaptive_after(w);
        w->drew = 1;
        w->drawn = trace->token;
    }
    if (forced >= 0 && !forbidden)
        replace_token(w, forced);
    if (!trace->no_token || trace->forced)
        set_status(w, forced >= 0);
}

/* Takes the parameters outside the thinking. */
static void answer_rules(cls_sampled *w)
{
    const cls_slot own = w->slot;
    w->slot = w->request->answer;
    memcpy(&w->slot, &own, offsetof(cls_slot, flags));
    w->slot.flags |= own.flags & CLS_SLOT_BIAS_ROW;
    w->params = w->request->answer_params;
}

void cls_sampled_run(cls_sampled *w, const cls_host_slot *request, const cls_row_inputs *row,
                     int forces)
{
    w->row = *row;
    w->request = row->slot >= 0 && (request->slot.flags & CLS_SLOT_BEGUN) ? request : NULL;
    begin_record(w);
    if (w->request == NULL) {
        w->trace.status = row->slot == -1 ? CLS_ROW_SKIPPED : CLS_ROW_NO_SLOT;
        return;
    }
    w->slot = request->slot;
    w->params = *request->params;
    if (w->params.post_thinking != NULL && w->slot.thinking == 0)
        answer_rules(w);
    if (forces && request->slot.stopped)
        w->trace.status = CLS_ROW_STOPPED | CLS_ROW_SKIPPED;
    else
        run_request(w, forces);
}

void cls_sampled_emit(cls_sampled *w, int32_t token, int forced)
{
    if (forced || token != w->trace.token)
        replace_token(w, token);
    set_status(w, forced);
}
