/* SPDX-License-Identifier: MIT */
#include "soak.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "brute.h"

enum { RESULT = SOAK_ROWS * sizeof(int32_t) }; /* bytes of one output of a step */

/* --------------------------------------------------------------------- failures */

void soak_fail(const soak *s, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "%s: seed %llu, vocab %u, call %llu: ", s->d->name, (unsigned long long)s->seed,
            (unsigned)s->o.vocab, (unsigned long long)s->n.calls);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    abort();
}

void soak_status(const soak *s, cls_status status, const char *call)
{
    soak_require(s, status == CLS_OK, "%s gives %s: %s", call, cls_status_name(status),
                 cls_error_message());
}

void soak_code(const soak *s, cl_int code, const char *call)
{
    soak_require(s, code == CL_SUCCESS, "%s gives %d", call, (int)code);
}

/* --------------------------------------------------------------------- requests */

int guest_has_adaptive_state(const guest *g)
{
    const cls_params *const p = g->b->params;
    return p->mirostat != 0 || p->adaptive_target >= 0.0f || p->top_p_decay < 1.0f;
}

int guest_stopped(const guest *g)
{
    const cls_host_row h = batch_host_row(g->b, 0);
    cls_host_result result = {0};
    return cls_host_sample(&h, &result) == CLS_OK && (result.status & CLS_ROW_SKIPPED) != 0;
}

void guest_force(guest *g, const int32_t *ids, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        g->forced[i] = ids[i];
    g->n_forced = n;
    g->forced_made = g->made;
    guest_set_forced(g);
}

void guest_set_forced(guest *g)
{
    tokens *const t = g->b->tokens;
    const uint32_t at = g->made - g->forced_made;
    t->forced_count = at < g->n_forced ? g->n_forced - at : 0;
    t->forced = realloc(t->forced, sizeof g->forced);
    ck_assert_msg(t->forced != NULL, "out of memory");
    if (t->forced_count != 0)
        memcpy(t->forced, g->forced + at, t->forced_count * sizeof *t->forced);
}

void guest_push(soak *s, guest *g, int32_t token, const cls_adaptive_state *after)
{
    tokens *const t = g->b->tokens;
    soak_require(s, g->made < SOAK_LIFE, "a request lives too long");
    t->output = realloc(t->output, (t->output_count + 1) * sizeof *t->output);
    soak_require(s, t->output != NULL, "out of memory");
    t->output[t->output_count++] = token;
    g->was[g->made++] = *g->b->adaptive;
    g->longest = g->made > g->longest ? g->made : g->longest;
    *g->b->adaptive = *after;
    guest_set_forced(g);
    s->n.tokens++;
}

void soak_note(soak *s, int32_t token, int32_t status)
{
    s->hash = (s->hash ^ (uint32_t)token ^ (uint64_t)(uint32_t)status << 32) * 0x9e3779b97f4a7c15u;
    s->hash ^= s->hash >> 29;
    s->n.rows++;
}

/* ------------------------------------------------------------------------ steps */

static void drop_mask_and_bias(batch *b)
{
    free(b->mask);
    free(b->mask_map);
    free(b->bias);
    free(b->bias_map);
    b->mask = b->bias = NULL;
    b->mask_map = b->bias_map = NULL;
}

void flight_fill(soak *s, flight *f, uint32_t n)
{
    for (uint32_t row = 0; row < n; row++)
        batch_row(f->rows, row,
                  (row_kind)rng_below(&s->r, rng_below(&s->r, 20) ? ROW_GOOD : ROW_KINDS),
                  rng_bits(&s->r));
}

/* Chooses the slots of the rows and the step's other inputs. */
static void choose_rows(soak *s, flight *f)
{
    uint32_t order[SOAK_SLOTS];
    f->n = 1 + rng_below(&s->r, SOAK_ROWS);
    f->deferred = rng_below(&s->r, 8) == 0;
    f->reports = rng_below(&s->r, 4) == 0;
    for (uint32_t i = 0; i < SOAK_SLOTS; i++) {
        const uint32_t other = rng_below(&s->r, i + 1);
        order[i] = order[other];
        order[other] = i;
    }
    for (uint32_t row = 0; row < f->n; row++) {
        const uint32_t slot =
            f->deferred && row > 0 && rng_below(&s->r, 2) ? order[row - 1] : order[row];
        order[row] = slot;
        const guest *const g = &s->guest[slot];
        f->guest[row] =
            g->b != NULL && g->made < SOAK_LIFE && rng_below(&s->r, 12) ? &s->guest[slot] : NULL;
        f->slot[row] = f->guest[row] != NULL ? (int32_t)slot : -1;
        f->draw[row] = (int32_t)rng_below(&s->r, 1u << 24);
        f->position[row] = (int32_t)rng_bits(&s->r);
        f->random[row] = rng_bits(&s->r);
    }
    flight_fill(s, f, f->n);
    drop_mask_and_bias(f->rows);
    if (rng_below(&s->r, 4) == 0) {
        static const uint32_t shares[] = {50, 5, 90};
        f->rows->mask_kind = (int)rng_below(&s->r, 2);
        const uint32_t whole =
            f->rows->mask_kind == CLS_MASK_BOOL ? s->o.vocab : (s->o.vocab + 31) / 32;
        batch_mask(f->rows, &s->r, shares[rng_below(&s->r, 3)],
                   rng_below(&s->r, 3) ? 0 : 1 + rng_below(&s->r, whole));
        f->rows->mask_map = malloc(SOAK_ROWS * sizeof *f->rows->mask_map);
        soak_require(s, f->rows->mask_map != NULL, "out of memory");
        for (uint32_t row = 0; row < SOAK_ROWS; row++)
            f->rows->mask_map[row] = (int32_t)rng_below(&s->r, SOAK_ROWS + 1) - 1;
        s->n.masks++;
    }
    if (rng_below(&s->r, 6) == 0) {
        batch_bias(f->rows, &s->r, (int)rng_below(&s->r, 3));
        s->n.biases++;
    }
}

/* Enqueues a write to a flight's part of a buffer, which is returned. */
static cls_buffer put(soak *s, const flight *f, cl_mem buffer, size_t part, const void *data,
                      size_t size)
{
    const cls_buffer b = {.buffer = buffer, .offset = (uint64_t)(f - s->flight) * part};
    soak_require_cl(
        s, clEnqueueWriteBuffer(s->queue, buffer, CL_FALSE, b.offset, size, data, 0, NULL, NULL));
    return b;
}

static cls_ints ints(soak *s, flight *f, int32_t *values, uint32_t which)
{
    cls_ints map = {.host = values};
    if (rng_below(&s->r, 2))
        return map;
    map.host = NULL;
    map.device =
        (cls_buffer){.buffer = s->ints, .offset = ((uint64_t)(f - s->flight) * 3 + which) * RESULT};
    soak_require_cl(s, clEnqueueWriteBuffer(s->queue, s->ints, CL_FALSE, map.device.offset,
                                            f->n * sizeof *values, values, 0, NULL, NULL));
    return map;
}

static void make_step(soak *s, flight *f, cls_step *step, cls_outputs *outputs)
{
    const batch *const rows = f->rows;
    const size_t part = (size_t)SOAK_ROWS * s->o.vocab;
    const cls_buffer logits =
        put(s, f, s->input, part * sizeof(float), rows->data, f->n * s->o.vocab * sizeof(float));
    const uint64_t out = (uint64_t)(f - s->flight) * 4 * RESULT;
    cls_step_init(step);
    cls_outputs_init(outputs);
    step->outputs = outputs;
    step->rows = f->n;
    step->logits.values.buffer = logits.buffer;
    step->logits.values.offset = logits.offset;
    step->defer_accept = f->deferred;
    step->invalid_token = f->deferred || rng_below(&s->r, 4) ? -1 : 7;
    step->slots = ints(s, f, f->slot, 0);
    if (rng_below(&s->r, 8) == 0 || f->deferred)
        step->draws = ints(s, f, f->draw, 1);
    if (rng_below(&s->r, 12) == 0)
        step->positions = ints(s, f, f->position, 2);
    if (rng_below(&s->r, 16) == 0)
        step->random_bits =
            put(s, f, s->random, sizeof f->random, f->random, f->n * sizeof *f->random);
    if (rows->mask) {
        const size_t size =
            (size_t)SOAK_ROWS * rows->mask_width * (rows->mask_kind == CLS_MASK_PACKED ? 4 : 1);
        step->mask.kind = rows->mask_kind;
        step->mask.width = rows->mask_width;
        step->mask.rows = SOAK_ROWS;
        step->mask.row_map.host = rows->mask_map;
        if (rng_below(&s->r, 2))
            step->mask.host = rows->mask;
        else
            step->mask.words =
                put(s, f, s->masks, (part + 63) / 64 * 64 + 64 * SOAK_ROWS, rows->mask, size);
    }
    if (rows->bias) {
        step->bias.values = put(s, f, s->biases, part * sizeof(float), rows->bias,
                                part * dtype_size(rows->bias_dtype));
        step->bias.dtype = rows->bias_dtype;
        step->bias.factor = rows->bias_factor;
        step->bias.rows = SOAK_ROWS;
        step->bias.row_map.host = rows->bias_map;
    }
    step->tokens = (cls_buffer){.buffer = s->output, .offset = out};
    step->status = (cls_buffer){.buffer = s->output, .offset = out + RESULT};
    if (f->reports) {
        outputs->logprob_kind = rng_below(&s->r, 2) ? CLS_LOGPROB_RAW : CLS_LOGPROB_FINAL;
        outputs->logprobs = (cls_buffer){.buffer = s->output, .offset = out + 2 * RESULT};
        outputs->kept_set.capacity = rng_below(&s->r, 2) ? 1 + rng_below(&s->r, 40) : 0;
        *(outputs->kept_set.capacity != 0 ? &outputs->kept_set.counts : &outputs->kept.counts) =
            (cls_buffer){.buffer = s->output, .offset = out + 3 * RESULT};
        if (rng_below(&s->r, 8) == 0)
            outputs->probs.buffer = s->other;
        s->n.reports++;
    }
}

/* Computes the expected results by the reference. */
static void expect(soak *s, flight *f, uint32_t row, const cls_step *step)
{
    soak_row *const want = &f->row[row];
    const cls_host_row at = batch_host_row(f->rows, row);
    cls_host_result result = {0};
    *want = (soak_row){step->invalid_token, CLS_ROW_SKIPPED, -INFINITY, 0};
    if (f->guest[row] == NULL)
        return;
    cls_host_row h = batch_host_row(f->guest[row]->b, 0);
    h.logits = at.logits;
    h.mask = at.mask;
    h.mask_kind = at.mask_kind;
    h.mask_width = at.mask_width;
    h.bias = at.bias;
    h.bias_dtype = at.bias_dtype;
    h.bias_factor = at.bias_factor;
    h.invalid_token = step->invalid_token;
    if (step->draws.host || step->draws.device.buffer)
        h.draw = (uint32_t)f->draw[row];
    if (step->positions.host || step->positions.device.buffer)
        h.position = (uint32_t)f->position[row];
    if (step->random_bits.buffer)
        h.random_bits = &f->random[row];
    result.kept_capacity = step->outputs->kept_set.capacity;
    soak_require_ok(s, cls_host_sample(&h, &result));
    *want = (soak_row){result.token, result.status,
                       step->outputs->logprob_kind == CLS_LOGPROB_RAW ? result.logprob_raw
                                                                      : result.logprob_final,
                       (int32_t)result.kept_count};
    f->adaptive[row] = result.adaptive;
}

static int has_token(const soak_row *row)
{
    return (row->status & (CLS_ROW_EMPTY | CLS_ROW_SKIPPED | CLS_ROW_UNFIT)) == 0;
}

/* Accepts one of each request's rows, by an index into the step's tokens or by an id. For a request
 * with an adaptive state it is the first row, whose token updates the state. */
static void accept_some(soak *s, flight *f, const cls_step *step)
{
    int32_t slots[SOAK_ROWS], id[SOAK_ROWS];
    cls_ints ids = {.host = id};
    for (uint32_t row = 0; row < f->n; row++) {
        slots[row] = f->slot[row];
        id[row] = f->row[row].token;
        for (uint32_t other = 0; other < f->n && f->guest[row] != NULL; other++)
            if (other != row && f->slot[other] == f->slot[row] &&
                (guest_has_adaptive_state(f->guest[row]) ? other < row : other > row))
                slots[row] = -1;
    }
    if (s->computes && rng_below(&s->r, 2)) {
        ids.host = NULL;
        ids.device = step->tokens;
    }
    const cls_ints map = {.host = slots};
    soak_retry(s, accept_ints(s->sampler, s->queue, f->n, 1, &ids, &map, 0, NULL, NULL));
    for (uint32_t row = 0; row < f->n; row++)
        if (slots[row] >= 0 && has_token(&f->row[row]) && !guest_stopped(f->guest[row]))
            guest_push(s, f->guest[row], f->row[row].token, &f->adaptive[row]);
    s->n.accepts++;
}

static void collect(soak *s)
{
    const flight *const f = &s->flight[s->taken % SOAK_AHEAD];
    const void *data;
    soak_require_ok(s, cls_readback_get(s->readback, s->taken, 1, &data));
    const int32_t *const token = data, *const status = token + SOAK_ROWS,
                         *const kept = status + 2 * SOAK_ROWS;
    const float *const logprob = (const float *)(const void *)(status + SOAK_ROWS);
    for (uint32_t row = 0; row < f->n && s->computes; row++) {
        const soak_row *const want = &f->row[row];
        const char *const words = f->guest[row] ? "" : " (skipped)";
        if (token[row] != want->token || status[row] != want->status)
            soak_fail(s, "row %u%s: token %d, status %d; it must be %d, %d: %s", row, words,
                      token[row], status[row], want->token, want->status,
                      f->guest[row] && f->guest[row]->b ? batch_words(f->guest[row]->b, 0) : "");
        soak_require(s, !f->reports || brute_near((double)logprob[row], (double)want->logprob),
                     "row %u%s: logprob %.9g, not %.9g", row, words, (double)logprob[row],
                     (double)want->logprob);
        soak_require(s, !f->reports || kept[row] == want->kept, "row %u%s: %d are kept, not %d",
                     row, words, kept[row], want->kept);
        s->n.compared++;
    }
    for (uint32_t row = 0; row < f->n; row++)
        soak_note(s, s->computes ? token[row] : f->row[row].token,
                  s->computes ? status[row] : f->row[row].status);
    s->taken++;
}

void soak_settle(soak *s)
{
    while (s->taken < s->started)
        collect(s);
}

/* Every fifth step is on the other queue and is ordered by events. */
static void enqueue(soak *s, const cls_step *step, const cls_buffer *output)
{
    const int across = s->n.calls % 5 == 2;
    cl_event ready = NULL, done = NULL;
    uint64_t ticket;
    if (across) {
        soak_require_cl(s, clEnqueueMarkerWithWaitList(s->queue, 0, NULL, &ready));
        soak_require_cl(s, clFlush(s->queue));
    }
    soak_retry(s, cls_sample(s->sampler, across ? s->other_queue : s->queue, step, across ? 1 : 0,
                             across ? &ready : NULL, across ? &done : NULL));
    s->n.searches += cls_sampler_launches(s->sampler) >= 4;
    if (across)
        soak_require_cl(s, clFlush(s->other_queue));
    soak_require_ok(s, cls_readback_start(s->readback, s->queue, output, 4 * RESULT, across ? 1 : 0,
                                          across ? &done : NULL, &ticket));
    soak_require(s, ticket == s->started, "ticket %llu", (unsigned long long)ticket);
    if (across) {
        clReleaseEvent(ready);
        clReleaseEvent(done);
    }
}

static void sample(soak *s)
{
    flight *const f = &s->flight[s->started % SOAK_AHEAD];
    const cls_buffer output = {.buffer = s->output,
                               .offset = (uint64_t)(f - s->flight) * 4 * RESULT};
    cls_step step;
    cls_outputs outputs;
    if (s->started - s->taken == SOAK_AHEAD)
        collect(s);
    choose_rows(s, f);
    make_step(s, f, &step, &outputs);
    enqueue(s, &step, &output);
    for (uint32_t row = 0; row < f->n; row++)
        expect(s, f, row, &step);
    for (uint32_t row = 0; row < f->n && !f->deferred; row++)
        if (f->guest[row] != NULL && has_token(&f->row[row]))
            guest_push(s, f->guest[row], f->row[row].token, &f->adaptive[row]);
    s->n.deferred += (uint64_t)f->deferred;
    s->started++;
    if (f->deferred && rng_below(&s->r, 3))
        accept_some(s, f, &step);
    soak_require_cl(s, clFlush(s->queue));
}

void soak_step(soak *s)
{
    const uint32_t what = rng_below(&s->r, 32);
    soak_visit(s);
    if (what < 3)
        soak_verify(s);
    else if (what == 3 && rng_below(&s->r, 4) == 0)
        soak_score(s);
    else
        sample(s);
    s->n.calls++;
}

/* ------------------------------------------------------------------ open, close */

static cl_mem room(const soak *s, size_t size)
{
    cl_int code;
    cl_mem const buffer = clCreateBuffer(s->d->context, CL_MEM_READ_WRITE, size, NULL, &code);
    soak_require_cl(s, code);
    return buffer;
}

static void new_sampler(soak *s)
{
    soak_require_ok(s, cls_sampler_create(s->context, &s->o, &s->sampler));
    soak_require_ok(s, cls_sampler_infill(s->sampler, &s->flight[0].rows->infill));
    s->n.samplers++;
}

void soak_open(soak *s, device *d, cls_context *context, int computes, uint32_t vocab,
               uint64_t seed)
{
    cl_int code;
    const size_t rows = (size_t)SOAK_AHEAD * SOAK_ROWS * vocab;
    memset(s, 0, sizeof *s);
    s->d = d;
    s->context = context;
    s->computes = computes;
    s->r.state = s->seed = seed;
    cls_sampler_options_init(&s->o);
    s->o.vocab = vocab;
    s->o.slot_count = SOAK_SLOTS;
    s->o.max_rows = 2 * SOAK_ROWS;
    s->o.max_history = SOAK_HISTORY;
    s->o.max_rollback = SOAK_ROLLBACK;
    for (int i = 0; i < SOAK_AHEAD; i++)
        s->flight[i].rows = batch_new(SOAK_ROWS, vocab, CLS_F32, 0, 0);
    s->queue = clCreateCommandQueue(d->context, d->id, 0, &code);
    soak_require_cl(s, code);
    s->other_queue = clCreateCommandQueue(d->context, d->id, 0, &code);
    soak_require_cl(s, code);
    s->input = room(s, rows * sizeof(float) + 65536);
    s->biases = room(s, rows * sizeof(float) + 65536);
    s->masks = room(s, rows + SOAK_AHEAD * (64 + 64 * SOAK_ROWS));
    s->ints = room(s, SOAK_AHEAD * 3 * RESULT);
    s->random = room(s, SOAK_AHEAD * sizeof s->flight[0].random);
    s->output = room(s, SOAK_AHEAD * 4 * RESULT);
    s->other = room(s, (size_t)SOAK_ROWS * vocab * sizeof(float) + 65536);
    soak_require_ok(s, cls_readback_create(context, 4 * RESULT, SOAK_AHEAD, &s->readback));
    new_sampler(s);
}

void soak_move_all(soak *s)
{
    void *bytes[SOAK_SLOTS] = {NULL};
    size_t size[SOAK_SLOTS] = {0};
    soak_settle(s);
    for (uint32_t slot = 0; slot < SOAK_SLOTS; slot++) {
        if (s->guest[slot].b == NULL)
            continue;
        soak_require_ok(s, cls_slot_save(s->sampler, s->queue, slot, NULL, &size[slot]));
        bytes[slot] = malloc(size[slot]);
        soak_require(s, bytes[slot] != NULL, "out of memory");
        soak_require_ok(s, cls_slot_save(s->sampler, s->queue, slot, bytes[slot], &size[slot]));
    }
    cls_sampler_destroy(s->sampler);
    new_sampler(s);
    for (uint32_t slot = 0; slot < SOAK_SLOTS; slot++) {
        if (bytes[slot] != NULL)
            soak_require_ok(s, cls_slot_load(s->sampler, slot, bytes[slot], size[slot],
                                             s->guest[slot].b->params->grammar));
        free(bytes[slot]);
    }
}

void soak_close(soak *s)
{
    const cl_mem buffers[] = {s->input,  s->masks,  s->biases, s->ints,
                              s->random, s->output, s->other};
    soak_settle(s);
    for (uint32_t slot = 0; slot < SOAK_SLOTS; slot++)
        if (s->guest[slot].b != NULL)
            guest_leave(s, slot);
    cls_sampler_destroy(s->sampler);
    cls_readback_destroy(s->readback);
    for (unsigned i = 0; i < sizeof buffers / sizeof *buffers; i++)
        clReleaseMemObject(buffers[i]);
    clReleaseCommandQueue(s->queue);
    clReleaseCommandQueue(s->other_queue);
    for (int i = 0; i < SOAK_AHEAD; i++)
        batch_free(s->flight[i].rows);
}

void soak_add(soak_counts *sum, const soak_counts *more)
{
    const uint64_t *const from = (const uint64_t *)(const void *)more;
    uint64_t *const to = (uint64_t *)(void *)sum;
    for (size_t i = 0; i < sizeof *sum / sizeof *to; i++)
        to[i] += from[i];
}

void soak_print(const soak_counts *n, const char *who)
{
#define N(x) (unsigned long long)n->x
    printf("%s: %llu calls, %llu rows (%llu of steps compared), %llu tokens; %llu requests (%llu "
           "forks, %llu with grammars), %llu moves, "
           "%llu rollbacks, %llu changes of parameters, %llu times forced ids; %llu steps "
           "deferred, %llu acceptances, "
           "%llu verifications (%llu of "
           "%llu drafts accepted), %llu scored; %llu with masks, %llu with biases, "
           "%llu with reports, %llu with "
           "a search; %llu samplers, %llu times busy\n",
           who, N(calls), N(rows), N(compared), N(tokens), N(guests), N(forks), N(grammars),
           N(moves), N(rollbacks), N(changes), N(forced), N(deferred), N(accepts), N(verified),
           N(accepted), N(drafts), N(scored), N(masks), N(biases), N(reports), N(searches),
           N(samplers), N(busy));
#undef N
}
