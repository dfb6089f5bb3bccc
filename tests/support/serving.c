/* SPDX-License-Identifier: MIT */
#include "serving.h"

#include <stdlib.h>
#include <string.h>

/* The most rows of `maps` that are written between two looks at how many are left. */
#define WRITES (4 + MOST_ACCEPTED)

static cls_sampler *sampler_new(cls_context *context, const cls_sampler_options *o)
{
    cls_sampler *sampler;
    must(cls_sampler_create(context, o, &sampler));
    return sampler;
}

void server_open(server *s, device *d, const cls_sampler_options *o, uint64_t seed,
                 cl_command_queue first, cl_command_queue second)
{
    /* On flat rows a greedy token shows which ids count, and how often. */
    static const row_kind kinds[] = {ROW_NORMAL1, ROW_EQUAL, ROW_COARSE,  ROW_EQUAL,
                                     ROW_TIES,    ROW_EQUAL, ROW_LANGUAGE};
    const size_t ints = 2 * AHEAD * MAX_ROWS * sizeof(int32_t);
    /* Where larger groups compile at once, work-items share a slot's state. */
    cls_context *const context = fixture_context(d, 1u << CLS_F32, is_oclgrind(d) ? 12 : 0, 0, 0);
    cls_sampler_options one = *o;
    memset(s, 0, sizeof *s);
    s->d = d;
    s->o = *o;
    s->queue[0] = first ? first : d->queue;
    s->queue[1] = second ? second : s->queue[0];
    s->sampler = sampler_new(context, o);
    one.slot_count = one.max_rows = 1;
    for (uint32_t i = 0; i < ALONE; i++)
        s->alone[i] = sampler_new(context, &one);
    for (uint32_t i = 0; i < o->slot_count; i++) {
        s->slot[i].vocab = o->vocab;
        s->slot[i].history = o->max_history;
        s->slot[i].rollback = o->max_rollback;
    }
    s->logits = must_malloc((size_t)LOGITS * o->vocab * sizeof *s->logits);
    for (uint32_t i = 0; i < LOGITS; i++)
        row_fill(i % 16 == 15   ? ROW_ALL_NAN
                 : i % 16 == 14 ? ROW_SPRINKLED
                                : kinds[i % 7],
                 s->logits + (size_t)i * o->vocab, o->vocab, seed + i);
    s->logits_buffer = buffer_of(d, (size_t)LOGITS * o->vocab * sizeof *s->logits, s->logits);
    s->tokens = buffer_of(d, ints, NULL);
    s->status = buffer_of(d, ints, NULL);
    s->maps = buffer_of(d, ints, NULL);
    s->alone_tokens = buffer_of(d, sizeof s->token_alone, NULL);
}

static void finish(server *s)
{
    for (int i = 0; i < 2; i++)
        must_cl(clFinish(s->queue[i]));
    must_cl(clFinish(s->d->queue));
}

void server_close(server *s)
{
    server_settle(s);
    cls_sampler_destroy(s->sampler);
    for (uint32_t i = 0; i < ALONE; i++)
        cls_sampler_destroy(s->alone[i]);
    release_buffers(s->logits_buffer, s->tokens, s->status, s->maps, s->alone_tokens);
    free(s->logits);
}

/* ------------------------------------------------------------------- slot calls */

static cls_sampler *alone_of(server *s, uint32_t slot)
{
    return slot < ALONE && s->is_alone[slot] ? s->alone[slot] : NULL;
}

void server_begin(server *s, uint32_t slot, const cls_params *p, const int32_t *prompt,
                  uint32_t n_prompt, const int32_t *output, uint32_t n_output)
{
    prompt = n_prompt ? prompt : NULL;
    output = n_output ? output : NULL;
    must(cls_slot_begin(s->sampler, slot, p, prompt, n_prompt, output, n_output));
    model_begin(&s->slot[slot], p, prompt, n_prompt, output, n_output);
    s->known[slot] = s->is_alone[slot] = 1;
    s->requests++;
    if (slot < ALONE)
        must(cls_slot_begin(s->alone[slot], 0, p, prompt, n_prompt, output, n_output));
}

void server_append(server *s, uint32_t slot, const int32_t *ids, uint32_t n)
{
    must(cls_slot_append_prompt(s->sampler, slot, ids, n));
    model_append(&s->slot[slot], ids, n);
    if (alone_of(s, slot))
        must(cls_slot_append_prompt(alone_of(s, slot), 0, ids, n));
}

void server_next_turn(server *s, uint32_t slot, const int32_t *ids, uint32_t n)
{
    must(cls_slot_next_turn(s->sampler, slot, ids, n));
    model_next_turn(&s->slot[slot], ids, n);
    if (alone_of(s, slot))
        must(cls_slot_next_turn(alone_of(s, slot), 0, ids, n));
}

void server_params(server *s, uint32_t slot, const cls_params *p)
{
    must(cls_slot_params(s->sampler, slot, p));
    model_params(&s->slot[slot], p);
    if (alone_of(s, slot))
        must(cls_slot_params(alone_of(s, slot), 0, p));
}

void server_copy(server *s, uint32_t to, uint32_t from)
{
    must(cls_slot_copy(s->sampler, to, from));
    s->slot[to] = s->slot[from];
    s->known[to] = 1;
    s->forks++;
    if (to >= ALONE || to == from)
        return;
    s->is_alone[to] = s->slot[from].begun;
    if (s->slot[from].begun) { /* the copy is saved and loaded */
        size_t size;
        void *const bytes = server_save(s, from, &size);
        must(cls_slot_load(s->alone[to], 0, bytes, size, NULL));
        free(bytes);
    }
}

void server_rollback(server *s, uint32_t slot, uint32_t n)
{
    const int begun = s->slot[slot].begun;
    must(cls_slot_rollback(s->sampler, slot, n));
    model_rollback(&s->slot[slot], n);
    s->rollbacks++;
    s->ended += begun && !s->slot[slot].begun;
    if (alone_of(s, slot))
        must(cls_slot_rollback(alone_of(s, slot), 0, n));
}

void server_reset(server *s, uint32_t slot)
{
    must(cls_slot_reset(s->sampler, slot));
    s->slot[slot].begun = s->known[slot] = s->is_alone[slot] = 0;
}

void server_force(server *s, uint32_t slot, const int32_t *ids, uint32_t n)
{
    must(cls_slot_force(s->sampler, slot, n ? ids : NULL, n));
    model_force(&s->slot[slot], ids, n);
    if (alone_of(s, slot))
        must(cls_slot_force(alone_of(s, slot), 0, n ? ids : NULL, n));
}

void *server_save(server *s, uint32_t slot, size_t *size)
{
    s->saves++;
    return slot_saved(s->sampler, s->queue[0], slot, size);
}

void server_load(server *s, uint32_t slot, const void *bytes, size_t size, const model *saved)
{
    must(cls_slot_load(s->sampler, slot, bytes, size, NULL));
    s->slot[slot] = *saved;
    s->known[slot] = s->is_alone[slot] = 1;
    s->requests++;
    if (slot < ALONE)
        must(cls_slot_load(s->alone[slot], 0, bytes, size, NULL));
}

/* ------------------------------------------------------------------------ steps */

static uint64_t output_offset(uint32_t step) { return (uint64_t)step * MAX_ROWS * sizeof(int32_t); }

/* Writes int32 values to a buffer that a step reads as a map or as tokens. */
static cls_buffer upload(server *s, const int32_t *values, uint32_t n)
{
    const cls_buffer b = {.buffer = s->maps, .offset = output_offset(s->writes++)};
    buffer_write(s->d, b.buffer, (size_t)b.offset, n * sizeof *values, values);
    s->writes += (n - 1) / MAX_ROWS;
    return b;
}

/* Repeats a call that finds the staging ring full. */
#define soak_retry(call) \
    do { \
        cls_status status_; \
        while ((status_ = (call)) == CLS_BUSY) { \
            finish(s); \
            s->busy++; \
        } \
        must_status(status_, #call, __FILE__, __LINE__); \
    } while (0)

static void step_alone(server *s, const cls_step *all, const step_request *w, uint32_t row)
{
    cls_step step = *all;
    cls_sampler *const alone = alone_of(s, (uint32_t)w->slots[row]);
    if (alone == NULL)
        return;
    step.rows = 1;
    step.logits.values.offset += (uint64_t)row * s->o.vocab * sizeof(float);
    memset(&step.slots, 0, sizeof step.slots);
    step.positions.host = w->positions ? w->positions + row : NULL;
    step.status.buffer = NULL;
    step.tokens.buffer = s->alone_tokens;
    step.tokens.offset = s->n_alone * sizeof(int32_t);
    s->token_alone[s->n_alone++] = s->token[s->n][row];
    soak_retry(cls_sample(alone, s->queue[0], &step, 0, NULL, NULL));
}

void server_step(server *s, const step_request *w)
{
    if (s->n == AHEAD || s->writes + WRITES > 2 * AHEAD)
        server_settle(s);
    for (uint32_t row = 0; row < w->rows; row++) {
        const int32_t slot = w->slots[row];
        const uint32_t position = w->positions ? (uint32_t)w->positions[row] : 0;
        int32_t *const token = &s->token[s->n][row], *const status = &s->row_status[s->n][row];
        s->slot_of[s->n][row] = slot;
        *token = w->invalid_token;
        *status = slot == -1 ? CLS_ROW_SKIPPED : CLS_ROW_NO_SLOT;
        if (slot < 0 || (uint32_t)slot >= s->o.slot_count)
            continue;
        model_next(&s->slot[slot], s->logits + (size_t)(w->first_logits + row) * s->o.vocab,
                   w->positions ? &position : NULL, w->invalid_token, token, status);
        s->stopped += (*status & CLS_ROW_STOPPED) != 0;
        s->forced += (*status & CLS_ROW_FORCED) != 0;
        s->loops += (*status & CLS_ROW_LOOP) != 0;
    }
    cls_step step = default_step(w->rows, s->logits_buffer);
    step.logits.values.offset = (uint64_t)w->first_logits * s->o.vocab * sizeof(float);
    if (w->device_map)
        step.slots.device = upload(s, w->slots, w->rows);
    else
        step.slots.host = w->slots;
    step.positions.host = w->positions;
    step.defer_accept = w->defer;
    step.invalid_token = w->invalid_token;
    step.tokens = (cls_buffer){.buffer = s->tokens, .offset = output_offset(s->n)};
    step.status = (cls_buffer){.buffer = s->status, .offset = output_offset(s->n)};
    soak_retry(cls_sample(s->sampler, s->queue[s->n % 2], &step, 0, NULL, NULL));
    for (uint32_t row = 0; row < w->rows; row++) {
        const int32_t slot = w->slots[row];
        if (slot < 0 || (uint32_t)slot >= s->o.slot_count)
            continue;
        step_alone(s, &step, w, row);
        if (w->defer || !s->slot[slot].begun || (s->row_status[s->n][row] & CLS_ROW_EMPTY))
            continue;
        s->sampled += !model_stopped(&s->slot[slot]);
        model_accept(&s->slot[slot], s->token[s->n][row]);
    }
    s->rows[s->n++] = w->rows;
    s->steps++;
}

void server_accept(server *s, uint32_t rows, uint32_t per_row, const int32_t *slots, int device_map,
                   const int32_t *ids)
{
    cls_ints map = {.host = device_map ? NULL : slots};
    const cls_ints last = {.device = {.buffer = s->tokens, .offset = output_offset(s->n - 1)}};
    const int32_t *const tokens = ids ? ids : s->token[s->n - 1];
    const cls_ints uploaded = {.device = upload(s, tokens, rows * per_row)},
                   given = {.host = tokens};
    if (device_map)
        map.device = upload(s, slots, rows);
    soak_retry(accept_ints(s->sampler, s->queue[s->n % 2], rows, per_row,
                           !ids             ? &last
                           : s->accepts % 2 ? &given
                                            : &uploaded,
                           &map, 0, NULL, NULL));
    for (uint32_t row = 0; row < rows; row++) {
        const int32_t slot = slots[row];
        if (slot < 0 || (uint32_t)slot >= s->o.slot_count)
            continue;
        for (uint32_t i = 0; i < per_row; i++) {
            const int32_t *const id = &tokens[row * per_row + i];
            model_accept(&s->slot[slot], *id);
            if (alone_of(s, (uint32_t)slot)) { /* one after another */
                const cls_ints one = {.host = id};
                soak_retry(
                    accept_ints(s->alone[slot], s->queue[0], 1, 1, &one, NULL, 0, NULL, NULL));
            }
        }
    }
    s->accepts++;
    if (s->writes + WRITES > 2 * AHEAD)
        server_settle(s);
}

void server_settle(server *s)
{
    int32_t tokens[AHEAD * MAX_ROWS], status[AHEAD * MAX_ROWS], alone[ALONE * AHEAD * MAX_ROWS];
    finish(s);
    buffer_read(s->d, s->tokens, sizeof tokens, tokens);
    buffer_read(s->d, s->status, sizeof status, status);
    buffer_read(s->d, s->alone_tokens, sizeof alone, alone);
    for (uint32_t i = 0; i < s->n; i++)
        for (uint32_t row = 0; row < s->rows[i]; row++) {
            const uint32_t at = i * MAX_ROWS + row;
            const int32_t slot = s->slot_of[i][row];
            ck_assert_msg(
                tokens[at] == s->token[i][row] && status[at] == s->row_status[i][row],
                "%s: step %u, row %u, slot %d (by now %s): token %d, status %d; the model: %d, %d",
                s->d->name, s->steps - s->n + i, row, slot,
                slot >= 0 && (uint32_t)slot < s->o.slot_count ? model_words(&s->slot[slot])
                                                              : "none",
                tokens[at], status[at], s->token[i][row], s->row_status[i][row]);
        }
    for (uint32_t i = 0; i < s->n_alone; i++)
        ck_assert_msg(alone[i] == s->token_alone[i],
                      "%s: before step %u: token %d of a request alone, %d among others",
                      s->d->name, s->steps, alone[i], s->token_alone[i]);
    s->n = s->n_alone = s->writes = 0;
}
