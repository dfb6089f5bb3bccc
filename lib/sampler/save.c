/* SPDX-License-Identifier: MIT */
/* Saves and loads slots. A saved slot consists of these values, little-endian and without padding:
 *
 *     "clsslot\n", format, vocab, keep, history, rollback
 *     the number of parameters, then these in the order of their ids (lib/request/param_table.h)
 *     the logit bias (id, value), stop ids, allowed ids, breakers and bad words (a count
 *     and the ids of each), the ids of the thinking budget
 *     the number of output tokens, position, length and longest length of the history
 *     the adaptive state, the pending token, the adaptive state after that token
 *     the entries of the ring, oldest first
 *     the adaptive state before each token that can be rolled back, oldest first
 *     the tokens that occur: id with IN_CONTEXT_BIT, count
 *     in format 5: with a thinking budget its state, and that before each token that can be rolled
 *     back, oldest first; the number of forced ids, their place in the output, and the ids
 *     FNV-1a, 64 bits, of all bytes before it (Fowler, Noll, Vo)
 *
 * A slot without a thinking budget and without forced ids is saved in format 4, which older
 * libraries read. Loading checks every value, since the bytes may come from anywhere. */
#include "sampler/sampler.h"

#include <stdlib.h>

#define FORMAT 5u
#define OLDEST_FORMAT 2u /* the oldest format that can be read */
#define IN_CONTEXT_BIT 0x80000000u
#define MOST_TOKENS 0x7fffffffu /* of a text that is loaded, so that the next ones have numbers */
static const char magic[8] = {'c', 'l', 's', 's', 'l', 'o', 't', '\n'};

/* ----------------------------------------------------------------- the stream */

/* The bytes of a slot while it is written or read. If `out` is NULL, written bytes are only
 * counted. */
typedef struct stream {
    uint8_t *out;
    const uint8_t *in;
    size_t offset, size;
    int reading;
    int is_cut_short; /* 1 if a read or write exceeded the size */
    uint32_t format;  /* the format of the bytes that are read */
    uint32_t unknown; /* the id of a field that this library does not have */
} stream;

/* The put functions write a value, or read it if `reading` is 1. */
static void put_bytes(stream *b, void *data, size_t n)
{
    if (n > b->size - b->offset) {
        b->is_cut_short = 1;
        if (b->reading)
            memset(data, 0, n);
        return;
    }
    if (b->reading)
        memcpy(data, b->in + b->offset, n);
    else if (b->out != NULL)
        memcpy(b->out + b->offset, data, n);
    b->offset += n;
}

static void put_u32(stream *b, uint32_t *x)
{
    uint8_t byte[4];
    for (int i = 0; i < 4; i++)
        byte[i] = (uint8_t)(*x >> 8 * i);
    put_bytes(b, byte, sizeof byte);
    if (b->reading)
        *x = (uint32_t)byte[0] | (uint32_t)byte[1] << 8 | (uint32_t)byte[2] << 16 |
             (uint32_t)byte[3] << 24;
}

static void put_i32(stream *b, int32_t *x)
{
    uint32_t bits = (uint32_t)*x;
    put_u32(b, &bits);
    memcpy(x, &bits, sizeof bits);
}

static void put_f32(stream *b, float *x)
{
    uint32_t bits;
    memcpy(&bits, x, sizeof bits);
    put_u32(b, &bits);
    memcpy(x, &bits, sizeof bits);
}

static void put_u64(stream *b, uint64_t *x)
{
    uint32_t low = (uint32_t)*x, high = (uint32_t)(*x >> 32);
    put_u32(b, &low);
    put_u32(b, &high);
    *x = (uint64_t)high << 32 | low;
}

static uint64_t hash(const uint8_t *data, size_t n)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < n; i++)
        h = (h ^ data[i]) * 0x100000001b3u;
    return h;
}

static void put_param(stream *b, const cls_param *param, cls_params *p)
{
    void *const at = cls_param_in(param, p);
    switch (param->type) {
    case CLS_PARAM_FLOAT:
        put_f32(b, at);
        break;
    case CLS_PARAM_INT:
        put_i32(b, at);
        break;
    case CLS_PARAM_UINT:
        put_u32(b, at);
        break;
    case CLS_PARAM_UINT64:
        put_u64(b, at);
        break;
    case CLS_PARAM_BYTES:
        put_bytes(b, at, param->size);
        break;
    }
}

/* Returns the number of fields to save. The last fields are left out if they have their defaults,
 * so that an older library can load a slot that does not use newer parameters. */
static uint32_t params_to_save(cls_params *p)
{
    cls_params neutral;
    uint32_t n = 0;
    cls_params_default(&neutral, sizeof neutral);
    for (uint32_t id = 1; cls_param_by_id(id) != NULL; id++) {
        const cls_param *const param = cls_param_by_id(id);
        if (memcmp(cls_param_in(param, p), cls_param_in(param, &neutral), param->size) != 0)
            n = id;
    }
    return n;
}

/* Writes or reads the fields in the order of their ids. Formats before 4 have a fixed number. */
static void put_params(stream *b, cls_params *p)
{
    uint32_t n = b->format == 2 ? 42 : 43;
    if (!b->reading)
        n = params_to_save(p);
    if (b->format >= 4)
        put_u32(b, &n);
    for (uint32_t id = 1; id <= n && !b->is_cut_short; id++) {
        const cls_param *const param = cls_param_by_id(id);
        if (param == NULL) {
            b->unknown = id;
            return;
        }
        put_param(b, param, p);
    }
}

/* Ids that are read are stored in *pool, which has space for all bytes that are left. */
static void put_sequences(stream *b, cls_sequence *sequences, uint32_t n, int32_t **pool)
{
    for (uint32_t i = 0; i < n; i++) {
        cls_sequence *const s = &sequences[i];
        put_u32(b, &s->count);
        if (b->reading) {
            b->is_cut_short |= s->count > (b->size - b->offset) / sizeof(int32_t);
            s->count = b->is_cut_short ? 0 : s->count;
            s->ids = *pool;
            *pool += s->count;
        }
        for (uint32_t k = 0; k < s->count; k++)
            put_i32(b, (int32_t *)(uintptr_t)&s->ids[k]);
    }
}

/* Writes or reads n ids. What is read lies in memory that can be written. */
static void put_ids(stream *b, const int32_t *ids, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        put_i32(b, (int32_t *)(uintptr_t)&ids[i]);
}

static void put_lists(stream *b, const cls_params *p, int32_t *pool)
{
    for (uint32_t i = 0; i < p->logit_bias_count; i++) {
        cls_logit_bias *const bias = (cls_logit_bias *)(uintptr_t)&p->logit_bias[i];
        put_i32(b, &bias->id);
        put_f32(b, &bias->bias);
    }
    put_ids(b, p->stop_ids, p->stop_count);
    put_ids(b, p->allowed_ids, p->allowed_count);
    put_sequences(b, (cls_sequence *)(uintptr_t)p->dry_breakers, p->dry_breaker_count, &pool);
    put_sequences(b, (cls_sequence *)(uintptr_t)p->bad_words, p->bad_word_count, &pool);
    put_ids(b, p->thinking_start, p->thinking_start_count);
    put_ids(b, p->thinking_end, p->thinking_end_count);
    put_ids(b, p->thinking_forced, p->thinking_forced_count);
}

static void put_counters(stream *b, cls_slot *slot)
{
    put_u32(b, &slot->outputs);
    put_u32(b, &slot->position);
    put_u32(b, &slot->length);
    put_u32(b, &slot->longest);
}

static void put_adaptive(stream *b, cls_slot_adaptive *m)
{
    put_i32(b, &m->mu);
    put_u32(b, &m->sum);
    put_u32(b, &m->weight);
    put_u32(b, &m->top_p);
}

/* Returns the adaptive state before a token of the history, in a slot's state. */
static cls_slot_adaptive *adaptive_before(const cls_sampler *s, uint32_t *state, uint32_t at)
{
    return (cls_slot_adaptive *)(void *)(state + state_adaptive(s->vocab, s->layout) +
                                         at % s->rollback * CLS_ADAPTIVE_WORDS);
}

/* Returns the state of the thinking budget before a token of the history, in a slot's state. */
static uint32_t *thinking_before(const cls_sampler *s, uint32_t *state, uint32_t at)
{
    return state + state_thinking(s->vocab, s->layout) + at % s->rollback;
}

/* Returns the index of the oldest token whose adaptive state is stored. */
static uint32_t oldest_adaptive(const cls_sampler *s, const cls_slot *slot)
{
    return slot->length > s->rollback ? slot->length - s->rollback : 0;
}

/* Returns the index of the oldest entry that is still in the ring. */
static uint32_t oldest_entry(const cls_slot *slot, uint32_t n_ring)
{
    return slot->longest > n_ring ? slot->longest - n_ring : 0;
}

/* ------------------------------------------------------------------------ save */

static uint32_t count_in(const cls_sampler *s, const uint32_t *state, uint32_t id)
{
    const uint32_t *const counts = state + state_counts(s->vocab, s->layout);
    uint16_t count;
    if (s->keep == CLS_KEEP_PRESENCE)
        return counts[id / 32] >> (id % 32) & 1u;
    memcpy(&count, (const char *)counts + 2 * (size_t)id, sizeof count);
    return count;
}

static void put_tokens(stream *b, const cls_sampler *s, const uint32_t *state)
{
    const uint32_t *const in_context = state + state_in_context(s->vocab, s->layout);
    const size_t count_offset = b->offset;
    uint32_t n = 0;
    put_u32(b, &n);
    for (uint32_t id = 0; s->keep != CLS_KEEP_NONE && id < s->vocab; id++) {
        uint32_t count = count_in(s, state, id), word = id;
        if (in_context[id / 32] >> (id % 32) & 1u)
            word |= IN_CONTEXT_BIT;
        if (count == 0 && word == id)
            continue;
        put_u32(b, &word);
        put_u32(b, &count);
        n++;
    }
    if (b->out != NULL && !b->is_cut_short) {
        stream head = {.out = b->out + count_offset, .size = sizeof n};
        put_u32(&head, &n);
    }
}

/* Writes what format 5 has beyond format 4. `forced`: the ids, or NULL while bytes are counted. */
static void write_forced(stream *b, const cls_sampler *s, cls_slot *slot, uint32_t *state,
                         uint32_t *forced)
{
    const int thinks = (slot->flags & CLS_SLOT_THINKING) != 0;
    if (thinks)
        put_u32(b, &slot->thinking);
    for (uint32_t i = oldest_adaptive(s, slot); i < slot->length && thinks; i++)
        put_u32(b, thinking_before(s, state, i));
    put_u32(b, &slot->n_forced);
    put_u32(b, &slot->forced_from);
    for (uint32_t i = 0; i < slot->n_forced; i++)
        put_u32(b, forced != NULL ? &forced[i] : &slot->n_forced);
}

static void write_slot(stream *b, const cls_sampler *s, const cls_request *r, cls_slot *slot,
                       uint32_t *state, uint32_t *forced)
{
    const uint32_t n_ring = CLS_LAYOUT_RING(s->layout);
    const uint32_t format =
        (slot->flags & CLS_SLOT_THINKING) || slot->n_forced != 0 ? FORMAT : FORMAT - 1;
    uint32_t head[] = {format, s->vocab, s->keep, s->history, s->rollback};
    cls_params p = r->params;
    b->format = format;
    put_bytes(b, (void *)(uintptr_t)magic, sizeof magic);
    for (size_t i = 0; i < sizeof head / sizeof head[0]; i++)
        put_u32(b, &head[i]);
    put_params(b, &p);
    put_lists(b, &p, NULL);
    put_counters(b, slot);
    put_adaptive(b, &slot->adaptive);
    put_i32(b, &slot->pending);
    put_adaptive(b, &slot->next_adaptive);
    for (uint32_t i = oldest_entry(slot, n_ring); i < slot->length; i++)
        put_u32(b, &state[state_ring(s->vocab, s->layout) + i % n_ring]);
    for (uint32_t i = oldest_adaptive(s, slot); i < slot->length; i++)
        put_adaptive(b, adaptive_before(s, state, i));
    put_tokens(b, s, state);
    if (format == FORMAT)
        write_forced(b, s, slot, state, forced);
    uint64_t sum = b->out != NULL ? hash(b->out, b->offset) : 0;
    put_u64(b, &sum);
}

/* Reads a slot, its state and its forced ids from the device, after the steps and slot calls
 * before. The caller frees *forced. */
static cls_status fetch(cls_sampler *s, cl_command_queue queue, uint32_t slot,
                        cls_slot *device_slot, uint32_t *state, uint32_t **forced)
{
    const size_t size = state_words(s->vocab, s->layout) * sizeof *state;
    cls_commands c;
    int ordered = 0;
    cls_status status = cls_queue_check(s->context, queue, &ordered);
    if (status == CLS_OK && s->rounds != 0) {
        cl_event end = NULL;
        status = cls_commands_begin(&c, s, queue, ordered, 0, NULL, 0, NULL);
        if (status == CLS_OK) {
            const cl_int code = clEnqueueMarkerWithWaitList(
                queue, c.previous != NULL, c.previous != NULL ? &c.previous : NULL, &end);
            status =
                cls_commands_end(&c, code, "cannot enqueue the changes of slot calls", end, NULL);
        }
    }
    if (status != CLS_OK)
        return status;
    cls_sampler_flush(s, queue);
    const cl_uint n = s->last_event != NULL;
    const cl_event *const wait = n != 0 ? &s->last_event : NULL;
    cl_int code = clEnqueueReadBuffer(queue, s->slot_buffer, CL_TRUE, slot * sizeof *device_slot,
                                      sizeof *device_slot, device_slot, n, wait, NULL);
    if (code == CL_SUCCESS)
        code =
            clEnqueueReadBuffer(queue, s->state, CL_TRUE, slot * size, size, state, n, wait, NULL);
    if (code == CL_SUCCESS && device_slot->n_forced != 0) {
        const size_t bytes = device_slot->n_forced * sizeof **forced;
        *forced = malloc(bytes);
        if (*forced == NULL)
            return cls_fail(CLS_OUT_OF_MEMORY, CL_SUCCESS,
                            "out of host memory for the forced ids of a slot");
        code = clEnqueueReadBuffer(queue, s->lists.buffer, CL_TRUE,
                                   device_slot->forced * sizeof **forced, bytes, *forced, n, wait,
                                   NULL);
    }
    return code == CL_SUCCESS ? CLS_OK : cls_fail(CLS_OPENCL_ERROR, code, "cannot read the slot");
}

static cls_status save_slot(cls_sampler *s, cl_command_queue queue, uint32_t slot, void *out,
                            size_t *size)
{
    cls_slot device_slot;
    cls_status status = cls_slot_check(s, slot, 1);
    if (status != CLS_OK)
        return status;
    if (size == NULL)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "size is NULL");
    uint32_t *const state = malloc(state_words(s->vocab, s->layout) * sizeof *state),
                    *forced = NULL;
    if (state == NULL)
        return cls_fail(CLS_OUT_OF_MEMORY, CL_SUCCESS, "out of host memory for a slot's state");
    status = fetch(s, queue, slot, &device_slot, state, &forced);
    if (status == CLS_OK && !(device_slot.flags & CLS_SLOT_BEGUN))
        status =
            cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS,
                     "slot %u no longer has a request: a rollback removed more tokens than it had",
                     (unsigned)slot);
    if (status == CLS_OK) {
        stream count = {.size = SIZE_MAX};
        write_slot(&count, s, &s->request[slot], &device_slot, state, forced);
        if (out != NULL && *size < count.offset) {
            status = cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS,
                              "*size is %zu, but the slot requires %zu bytes", *size, count.offset);
        } else if (out != NULL) {
            stream b = {.out = out, .size = count.offset};
            write_slot(&b, s, &s->request[slot], &device_slot, state, forced);
        }
        *size = count.offset;
    }
    free(state);
    free(forced);
    return status;
}

cls_status cls_slot_save(cls_sampler *s, cl_command_queue queue, uint32_t slot, void *out,
                         size_t *size)
{
    return CLS_GUARDED_CALL(s, save_slot(s, queue, slot, out, size));
}

/* ------------------------------------------------------------------------ load */

static cls_status damaged(const char *why)
{
    return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "bytes are not a saved slot: %s", why);
}

static cls_status read_header(stream *b, const cls_sampler *s)
{
    static const char *const name[] = {"vocab", "keep", "history", "rollback"};
    const uint32_t ours[] = {s->vocab, s->keep, s->history, s->rollback};
    uint32_t theirs = 0;
    char start[sizeof magic];
    put_bytes(b, start, sizeof start);
    if (b->is_cut_short || memcmp(start, magic, sizeof magic) != 0)
        return damaged("bad magic");
    put_u32(b, &theirs);
    if (!b->is_cut_short && (theirs < OLDEST_FORMAT || theirs > FORMAT))
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS,
                        "bytes are a slot saved in format %u; this library reads %u to %u",
                        (unsigned)theirs, OLDEST_FORMAT, FORMAT);
    b->format = theirs;
    uint64_t sum = 0;
    if (b->size < b->offset + sizeof sum)
        return damaged("they are cut short");
    stream tail = {.in = b->in, .offset = b->size - sizeof sum, .size = b->size, .reading = 1};
    put_u64(&tail, &sum);
    if (hash(b->in, b->size - sizeof sum) != sum)
        return damaged("the checksum is wrong (they are damaged or cut short)");
    b->size -= sizeof sum;
    for (int i = 0; i < 4; i++) {
        put_u32(b, &theirs);
        if (theirs != ours[i])
            return cls_fail(
                CLS_BAD_ARGUMENT, CL_SUCCESS,
                "bytes are a slot of a sampler with options->%s of %u; this sampler has %u",
                name[i], (unsigned)theirs, (unsigned)ours[i]);
    }
    return CLS_OK;
}

static cls_status read_params(stream *b, const cls_sampler *s, cls_checked_params *checked)
{
    enum { BIAS, STOP, ALLOWED, BREAKERS, BAD_WORDS, START, END, FORCED, POOL, ROOMS };
    void *room[ROOMS] = {NULL};
    cls_params p;
    cls_status status = CLS_OK;
    cls_params_default(&p, sizeof p);
    put_params(b, &p);
    if (b->unknown != 0)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS,
                        "bytes are a slot with parameter %u, which this library does not know; "
                        "a newer library saved it",
                        (unsigned)b->unknown);
    const uint64_t words = (b->size - b->offset) / sizeof(uint32_t);
    const uint64_t size[ROOMS] = {
        [BIAS] = p.logit_bias_count * (uint64_t)sizeof *p.logit_bias,
        [STOP] = p.stop_count * (uint64_t)sizeof *p.stop_ids,
        [ALLOWED] = p.allowed_count * (uint64_t)sizeof *p.allowed_ids,
        [BREAKERS] = p.dry_breaker_count * (uint64_t)sizeof(cls_sequence),
        [BAD_WORDS] = p.bad_word_count * (uint64_t)sizeof(cls_sequence),
        [START] = p.thinking_start_count * (uint64_t)sizeof *p.thinking_start,
        [END] = p.thinking_end_count * (uint64_t)sizeof *p.thinking_end,
        [FORCED] = p.thinking_forced_count * (uint64_t)sizeof *p.thinking_forced,
        [POOL] = p.dry_breaker_count != 0 || p.bad_word_count != 0 ? words * sizeof(int32_t) : 0,
    };
    if (b->is_cut_short || 2ull * p.logit_bias_count + p.stop_count + p.allowed_count +
                                   2ull * p.dry_breaker_count + 2ull * p.bad_word_count +
                                   p.thinking_start_count + p.thinking_end_count +
                                   p.thinking_forced_count >
                               words)
        return damaged("they are cut short");
    for (int i = 0; i < ROOMS && status == CLS_OK; i++)
        if (size[i] != 0 && (room[i] = calloc(1, (size_t)size[i])) == NULL)
            status =
                cls_fail(CLS_OUT_OF_MEMORY, CL_SUCCESS, "out of host memory for a slot's lists");
    if (status == CLS_OK) {
        p.logit_bias = room[BIAS];
        p.stop_ids = room[STOP];
        p.allowed_ids = room[ALLOWED];
        p.dry_breakers = room[BREAKERS];
        p.bad_words = room[BAD_WORDS];
        p.thinking_start = room[START];
        p.thinking_end = room[END];
        p.thinking_forced = room[FORCED];
        put_lists(b, &p, room[POOL]);
        status = b->is_cut_short ? damaged("they are cut short")
                                 : cls_checked_params_create(s, &p, checked);
    }
    for (int i = 0; i < ROOMS; i++)
        free(room[i]);
    return status;
}

/* Returns 1 if there can be a state of the thinking budget: tokens that count and ids that were
 * emitted, of which the last one ends the thinking. */
static int thinking_is_valid(const cls_slot *slot, uint32_t thinking)
{
    return thinking <= slot->thinking_budget + slot->n_thinking_forced;
}

/* Reads what format 5 has beyond format 4. The forced ids follow the other lists. */
static cls_status read_forced(stream *b, const cls_sampler *s, cls_checked_params *p,
                              uint32_t *state)
{
    cls_slot *const slot = &p->slot;
    const int thinks = (slot->flags & CLS_SLOT_THINKING) != 0;
    if (thinks)
        put_u32(b, &slot->thinking);
    int valid = thinking_is_valid(slot, slot->thinking);
    for (uint32_t i = oldest_adaptive(s, slot); i < slot->length && thinks; i++) {
        put_u32(b, thinking_before(s, state, i));
        valid &= thinking_is_valid(slot, *thinking_before(s, state, i));
    }
    put_u32(b, &slot->n_forced);
    put_u32(b, &slot->forced_from);
    if (b->is_cut_short || !valid)
        return damaged("the state of the thinking budget is impossible");
    if (slot->n_forced > (b->size - b->offset) / sizeof(uint32_t))
        return damaged("they are cut short");
    if (slot->n_forced == 0)
        return CLS_OK;
    uint32_t *const words =
        realloc(p->words, ((size_t)p->n_words + slot->n_forced) * sizeof *words);
    if (words == NULL)
        return cls_fail(CLS_OUT_OF_MEMORY, CL_SUCCESS,
                        "out of host memory for the forced ids of a slot");
    p->words = words;
    slot->forced = p->n_words;
    for (uint32_t i = 0; i < slot->n_forced; i++) {
        put_u32(b, &words[p->n_words]);
        if (words[p->n_words++] >= s->vocab)
            return damaged("a forced id is not a token");
    }
    return CLS_OK;
}

/* Reads an adaptive state and checks it. */
static cls_status read_adaptive(stream *b, const cls_slot *slot, cls_slot_adaptive *state)
{
    put_adaptive(b, state);
    const char *const fault = cls_adaptive_fault(slot, state);
    return b->is_cut_short ? damaged("they are cut short")
           : fault != NULL ? damaged(fault)
                           : CLS_OK;
}

/* Reads a slot's state, which is all zero before. */
static cls_status read_state(stream *b, const cls_sampler *s, cls_checked_params *p,
                             uint32_t *state)
{
    const uint32_t n_ring = CLS_LAYOUT_RING(s->layout),
                   counts_at = state_counts(s->vocab, s->layout);
    cls_slot *const slot = &p->slot;
    uint32_t n = 0, next = 0;
    put_counters(b, slot);
    if (b->is_cut_short || slot->longest > MOST_TOKENS || slot->length > slot->longest ||
        slot->outputs > slot->length || slot->length < oldest_entry(slot, n_ring) ||
        slot->longest - slot->length > s->rollback)
        return damaged("the history's length is impossible");
    cls_status status = read_adaptive(b, slot, &slot->adaptive);
    put_i32(b, &slot->pending);
    if (status == CLS_OK)
        status = read_adaptive(b, slot, &slot->next_adaptive);
    if (status != CLS_OK)
        return status;
    for (uint32_t i = oldest_entry(slot, n_ring); i < slot->length; i++) {
        uint32_t entry = 0;
        put_u32(b, &entry);
        if (b->is_cut_short || (entry & CLS_ENTRY_ID) >= s->vocab ||
            (entry & ~(CLS_ENTRY_ID | CLS_ENTRY_OUTPUT | CLS_ENTRY_FIRST)) != 0)
            return damaged("the history has an impossible token");
        state[state_ring(s->vocab, s->layout) + i % n_ring] = entry;
    }
    for (uint32_t i = oldest_adaptive(s, slot); i < slot->length && status == CLS_OK; i++)
        status = read_adaptive(b, slot, adaptive_before(s, state, i));
    if (status != CLS_OK)
        return status;
    put_u32(b, &n);
    if (b->is_cut_short || (n != 0 && s->keep == CLS_KEEP_NONE))
        return damaged("they are cut short");
    for (uint32_t i = 0; i < n; i++) {
        uint32_t word = 0, count = 0;
        put_u32(b, &word);
        put_u32(b, &count);
        const uint32_t id = word & ~IN_CONTEXT_BIT, bit = 1u << (id % 32);
        if (b->is_cut_short || id < next || id >= s->vocab ||
            count > (s->keep == CLS_KEEP_PRESENCE ? 1 : CLS_MAX_COUNT) ||
            (count == 0 && word == id))
            return damaged("a token's count is impossible");
        next = id + 1;
        state[id / 32] |= bit;
        if (word != id)
            state[state_in_context(s->vocab, s->layout) + id / 32] |= bit;
        if (s->keep == CLS_KEEP_PRESENCE) {
            state[counts_at + id / 32] |= count != 0 ? bit : 0;
        } else {
            const uint16_t narrow = (uint16_t)count;
            memcpy((char *)(state + counts_at) + 2 * (size_t)id, &narrow, sizeof narrow);
        }
    }
    slot->thinking = 0;
    if (b->format >= 5)
        status = read_forced(b, s, p, state);
    if (status != CLS_OK)
        return status;
    return b->offset == b->size ? CLS_OK : damaged("there are bytes after the end");
}

static cls_status load_slot(cls_sampler *s, uint32_t slot, const void *saved, size_t size)
{
    cls_checked_params p;
    stream b = {.in = saved, .size = size, .reading = 1};
    memset(&p, 0, sizeof p);
    cls_status status = cls_slot_check(s, slot, 0);
    if (status == CLS_OK && saved == NULL)
        status = cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "bytes is NULL");
    if (status == CLS_OK)
        status = read_header(&b, s);
    if (status == CLS_OK)
        status = read_params(&b, s, &p);
    if (status != CLS_OK)
        return status;
    uint32_t *const state = calloc(state_words(s->vocab, s->layout), sizeof *state);
    if (state == NULL)
        status = cls_fail(CLS_OUT_OF_MEMORY, CL_SUCCESS, "out of host memory for a slot's state");
    if (status == CLS_OK)
        status = read_state(&b, s, &p, state);
    if (status == CLS_OK)
        status = cls_slot_put(s, slot, &p, state);
    cls_checked_params_free(&p);
    free(state);
    return status;
}

cls_status cls_slot_load(cls_sampler *s, uint32_t slot, const void *saved, size_t size)
{
    return CLS_GUARDED_CALL(s, load_slot(s, slot, saved, size));
}
