/* SPDX-License-Identifier: MIT */
/* Saves and loads slots. A saved slot consists of these values, little-endian and without padding:
 *
 *     "clsslot\n", format, vocab, keep, history, rollback
 *     in format 6: the digest of the grammar, and the state in which it begins
 *     the number of parameters, then these in the order of their ids (lib/base/param_table.h)
 *     the logit bias (id, value), stop ids, allowed ids, breakers and bad words (a count
 *     and the ids of each), the ids of the thinking budget
 *     the number of output tokens, position, length and longest length of the history
 *     the adaptive state, the pending token, the adaptive state after that token
 *     the entries of the ring, oldest first
 *     the adaptive state before each token that can be rolled back, oldest first
 *     the tokens that occur: id with IN_CONTEXT_BIT, count
 *     in format 5: with a thinking budget its state, and that before each token that can be rolled
 *     back, oldest first; the number of forced ids, their place in the output, and the ids
 *     in format 6: the state of the grammar, and that before each token that can be rolled back,
 *     oldest first
 *     FNV-1a, 64 bits, of all bytes before it (Fowler, Noll, Vo)
 *
 * A slot is saved in the oldest format that has what it needs, which older libraries read: 6 with a
 * grammar, 5 with a thinking budget or forced ids, else 4. Loading checks every value, since the
 * bytes may come from anywhere. */
#include "sampler/sampler.h"

#include <stdlib.h>

#define FORMAT 6u
#define OLDEST_FORMAT 2u /* the oldest format that can be read */
#define IN_CONTEXT_BIT 0x80000000u
#define MOST_TOKENS 0x7fffffffu /* of a text that is loaded, so that the next ones have numbers */
static const char slot_magic[8] = {'c', 'l', 's', 's', 'l', 'o', 't', '\n'};

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

/* Words are numbers of 32 bits of any type. */
static void put_words(stream *b, void *words, size_t n)
{
    uint32_t x;
    for (unsigned char *at = words; n > 0; n--, at += sizeof x) {
        uint8_t byte[4];
        memcpy(&x, at, sizeof x);
        for (int i = 0; i < 4; i++)
            byte[i] = (uint8_t)(x >> 8 * i);
        put_bytes(b, byte, sizeof byte);
        x = (uint32_t)byte[0] | (uint32_t)byte[1] << 8 | (uint32_t)byte[2] << 16 |
            (uint32_t)byte[3] << 24;
        if (b->reading)
            memcpy(at, &x, sizeof x);
    }
}

static void put_u32(stream *b, uint32_t *x) { put_words(b, x, 1); }

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

static cls_status damaged(const char *why)
{
    return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "bytes are not a saved slot: %s", why);
}

/* ------------------------------------------------------------------ parameters */

static void put_param(stream *b, const cls_param *param, cls_params *p)
{
    void *const at = cls_param_in(param, p);
    if (param->type == CLS_PARAM_BYTES)
        put_bytes(b, at, param->size);
    else if (param->type == CLS_PARAM_UINT64)
        put_u64(b, at);
    else
        put_words(b, at, 1);
}

/* Returns the number of fields to save. The last fields are left out if they have their defaults,
 * so that an older library can load a slot that does not use newer parameters. */
static uint32_t params_to_save(cls_params *p)
{
    cls_params neutral;
    uint32_t n = 0;
    cls_params_init(&neutral);
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

/* Ids that are read are stored after the sequences, where there is space for all bytes that are
 * left. */
static void put_sequences(stream *b, cls_ids *sequences, uint32_t n)
{
    int32_t *room = b->reading ? (int32_t *)(void *)(sequences + n) : NULL;
    for (uint32_t i = 0; i < n; i++) {
        cls_ids *const s = &sequences[i];
        put_u32(b, &s->count);
        if (b->reading) {
            b->is_cut_short |= s->count > (b->size - b->offset) / sizeof *room;
            s->count = b->is_cut_short ? 0 : s->count;
            s->ids = room;
            room += s->count;
        }
        put_words(b, (int32_t *)(uintptr_t)s->ids, s->count);
    }
}

static void put_list(stream *b, const cls_list_param *l, const cls_params *p)
{
    void *const array = cls_list_array(l, p);
    const uint32_t n = cls_list_count(l, p);
    if (l->kind == CLS_LIST_sequences)
        put_sequences(b, array, n);
    else
        put_words(b, array, n * (l->size / sizeof(uint32_t)));
}

/* Allocates a list, of which *p has the length, and reads it. */
static cls_status read_list(stream *b, const cls_list_param *l, cls_params *p)
{
    const uint32_t n = cls_list_count(l, p);
    const size_t left = b->size - b->offset;
    const uint64_t size = n * (uint64_t)l->size + (l->kind == CLS_LIST_sequences ? left : 0);
    if (n == 0)
        return CLS_OK;
    if (n > left / sizeof(uint32_t))
        return damaged("they are cut short");
    void *const array = size <= SIZE_MAX ? malloc((size_t)size) : NULL;
    if (array == NULL)
        return cls_fail(CLS_OUT_OF_MEMORY, CL_SUCCESS, "out of host memory for a slot's lists");
    cls_list_set_array(l, p, array);
    put_list(b, l, p);
    return b->is_cut_short ? damaged("they are cut short") : CLS_OK;
}

/* Reads which grammar the request follows, and where it begins. Fails if it is not the given one,
 * which may be NULL. */
static cls_status read_grammar(stream *b, const cls_grammar *grammar, cls_params *p)
{
    uint8_t digest[CLS_DIGEST_SIZE];
    if (b->format < 6)
        return grammar == NULL ? CLS_OK
                               : cls_refuse("grammar is set, but bytes are a slot without one");
    put_bytes(b, digest, sizeof digest);
    put_u32(b, &p->grammar_state);
    p->grammar = grammar;
    if (b->is_cut_short)
        return damaged("they are cut short");
    return grammar != NULL && memcmp(digest, grammar->digest, sizeof digest) == 0
               ? CLS_OK
               : cls_refuse(grammar == NULL
                                ? "grammar is NULL, but bytes are a slot that follows one"
                                : "grammar is not the one that the saved slot follows");
}

static cls_status read_params(stream *b, const cls_sampler *s, const cls_grammar *grammar,
                              cls_checked_params *checked)
{
    cls_params p;
    cls_params_init(&p);
    const cls_status follows = read_grammar(b, grammar, &p);
    if (follows != CLS_OK)
        return follows;
    put_params(b, &p);
    if (b->unknown != 0)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS,
                        "bytes are a slot with parameter %u, which this library does not know; "
                        "a newer library saved it",
                        (unsigned)b->unknown);
    cls_status status = b->is_cut_short ? damaged("they are cut short") : CLS_OK;
    for (const cls_list_param *l = NULL; status == CLS_OK && (l = cls_list_after(l)) != NULL;)
        status = read_list(b, l, &p);
    if (status == CLS_OK)
        status = cls_checked_params_create(s, &p, checked);
    cls_arrays_free(&p);
    return status;
}

/* ------------------------------------------------------------------------ state */

/* Returns the adaptive state before a token of the history, in a slot's state. */
static cls_slot_adaptive *ring_adaptive(const cls_sampler *s, uint32_t *state, uint32_t at)
{
    return (cls_slot_adaptive *)(void *)(state + state_adaptive(s->vocab, s->layout) +
                                         at % s->rollback * CLS_ADAPTIVE_WORDS);
}

/* Returns the state of the thinking budget before a token of the history, in a slot's state. */
static uint32_t *thinking_before(const cls_sampler *s, uint32_t *state, uint32_t at)
{
    return state + state_thinking(s->vocab, s->layout) + at % s->rollback;
}

/* Returns the state of the grammar before a token of the history, in a slot's state. */
static uint32_t *grammar_before(const cls_sampler *s, uint32_t *state, uint32_t at)
{
    return state + state_grammar(s->vocab, s->layout) + at % s->rollback;
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

/* Returns `why` if what was read is cut short or impossible, and NULL if it is not or was written.
 */
static const char *fault_if(const stream *b, int impossible, const char *why)
{
    return b->reading && (b->is_cut_short || impossible) ? why : NULL;
}

static const char *put_adaptive(stream *b, const cls_slot *slot, cls_slot_adaptive *m)
{
    put_words(b, m, CLS_ADAPTIVE_WORDS);
    const char *const fault = cls_adaptive_fault(slot, m);
    return fault_if(b, fault != NULL, b->is_cut_short ? "they are cut short" : fault);
}

/* Writes or reads a slot and its state but for the tokens that occur. Returns what is impossible in
 * what was read, or NULL. */
static const char *put_state(stream *b, const cls_sampler *s, cls_slot *slot, uint32_t *state)
{
    const uint32_t n_ring = CLS_LAYOUT_RING(s->layout);
    put_u32(b, &slot->outputs);
    put_u32(b, &slot->position);
    put_u32(b, &slot->length);
    put_u32(b, &slot->longest);
    const char *fault =
        fault_if(b,
                 slot->longest > MOST_TOKENS || slot->length > slot->longest ||
                     slot->outputs > slot->length || slot->length < oldest_entry(slot, n_ring) ||
                     slot->longest - slot->length > s->rollback,
                 "the history's length is impossible");
    if (fault == NULL)
        fault = put_adaptive(b, slot, &slot->adaptive);
    put_words(b, &slot->pending, 1);
    if (fault == NULL)
        fault = put_adaptive(b, slot, &slot->next_adaptive);
    for (uint32_t i = oldest_entry(slot, n_ring); i < slot->length && fault == NULL; i++) {
        uint32_t *const entry = &state[state_ring(s->vocab, s->layout) + i % n_ring];
        put_u32(b, entry);
        fault = fault_if(b,
                         (*entry & CLS_ENTRY_ID) >= s->vocab ||
                             (*entry & ~(CLS_ENTRY_ID | CLS_ENTRY_OUTPUT | CLS_ENTRY_FIRST)) != 0,
                         "the history has an impossible token");
    }
    for (uint32_t i = oldest_adaptive(s, slot); i < slot->length && fault == NULL; i++)
        fault = put_adaptive(b, slot, ring_adaptive(s, state, i));
    return fault;
}

static uint32_t count_in(const cls_sampler *s, const uint32_t *state, uint32_t id)
{
    const uint32_t *const counts = state + state_counts(s->vocab, s->layout);
    uint16_t count;
    if (s->counts == CLS_COUNTS_PRESENCE)
        return counts[id / 32] >> (id % 32) & 1u;
    memcpy(&count, (const char *)counts + 2 * (size_t)id, sizeof count);
    return count;
}

static void write_tokens(stream *b, const cls_sampler *s, const uint32_t *state)
{
    const uint32_t *const in_context = state + state_in_context(s->vocab, s->layout);
    const size_t count_offset = b->offset;
    uint32_t n = 0;
    put_u32(b, &n);
    for (uint32_t id = 0; s->counts != CLS_COUNTS_NONE && id < s->vocab; id++) {
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

static const char *read_tokens(stream *b, const cls_sampler *s, uint32_t *state)
{
    uint32_t *const counts = state + state_counts(s->vocab, s->layout), *const in_context =
                                                                            state +
                                                                            state_in_context(
                                                                                s->vocab,
                                                                                s->layout);
    uint32_t n = 0, next = 0;
    put_u32(b, &n);
    if (b->is_cut_short || (n != 0 && s->counts == CLS_COUNTS_NONE))
        return "they are cut short";
    for (uint32_t i = 0; i < n; i++) {
        uint32_t word = 0, count = 0;
        put_u32(b, &word);
        put_u32(b, &count);
        const uint32_t id = word & ~IN_CONTEXT_BIT, bit = 1u << (id % 32);
        if (b->is_cut_short || id < next || id >= s->vocab ||
            count > (s->counts == CLS_COUNTS_PRESENCE ? 1 : CLS_MAX_COUNT) ||
            (count == 0 && word == id))
            return "a token's count is impossible";
        next = id + 1;
        state[id / 32] |= bit;
        if (word != id)
            in_context[id / 32] |= bit;
        if (s->counts == CLS_COUNTS_PRESENCE) {
            counts[id / 32] |= count != 0 ? bit : 0;
        } else {
            const uint16_t narrow = (uint16_t)count;
            memcpy((char *)counts + 2 * (size_t)id, &narrow, sizeof narrow);
        }
    }
    return NULL;
}

/* Writes or reads what format 5 has beyond format 4, but for the forced ids. A state of the
 * thinking budget counts tokens, then ids that were emitted, of which the last one ends the
 * thinking. */
static const char *put_forced(stream *b, const cls_sampler *s, cls_slot *slot, uint32_t *state)
{
    const int thinks = (slot->flags & CLS_SLOT_THINKING) != 0;
    const uint32_t most = slot->thinking_budget + slot->n_thinking_forced;
    int impossible = 0;
    if (thinks)
        put_u32(b, &slot->thinking);
    for (uint32_t i = oldest_adaptive(s, slot); i < slot->length && thinks; i++) {
        put_u32(b, thinking_before(s, state, i));
        impossible |= *thinking_before(s, state, i) > most;
    }
    put_u32(b, &slot->n_forced);
    put_u32(b, &slot->forced_from);
    return fault_if(b, impossible || slot->thinking > most,
                    "the state of the thinking budget is impossible");
}

/* Writes or reads the states of the grammar. */
static const char *put_grammar_states(stream *b, const cls_sampler *s, cls_slot *slot,
                                      uint32_t states, uint32_t *state)
{
    int impossible = 0;
    for (uint32_t i = oldest_adaptive(s, slot); i <= slot->length; i++) {
        uint32_t *const at = i < slot->length ? grammar_before(s, state, i) : &slot->grammar_state;
        put_u32(b, at);
        impossible |= *at >= states && *at != CLS_GRAMMAR_ENDED && *at != CLS_GRAMMAR_DEAD;
    }
    return fault_if(b, impossible, "a state of the grammar is impossible");
}

/* ------------------------------------------------------------------------ save */

static void write_slot(stream *b, const cls_sampler *s, const cls_request *r, cls_slot *slot,
                       uint32_t *state, uint32_t *forced)
{
    const uint32_t format = slot->flags & CLS_SLOT_GRAMMAR                             ? 6
                            : (slot->flags & CLS_SLOT_THINKING) || slot->n_forced != 0 ? 5
                                                                                       : 4;
    uint32_t head[] = {format, s->vocab, s->counts, s->history, s->rollback};
    cls_params p = r->params;
    b->format = format;
    put_bytes(b, (void *)(uintptr_t)slot_magic, sizeof slot_magic);
    put_words(b, head, sizeof head / sizeof head[0]);
    if (format >= 6) {
        put_bytes(b, (void *)(uintptr_t)p.grammar->digest, CLS_DIGEST_SIZE);
        put_u32(b, &slot->grammar_begin);
    }
    put_params(b, &p);
    for (const cls_list_param *l = NULL; (l = cls_list_after(l)) != NULL;)
        put_list(b, l, &p);
    put_state(b, s, slot, state);
    write_tokens(b, s, state);
    if (format >= 5) {
        put_forced(b, s, slot, state);
        put_words(b, forced, slot->n_forced);
    }
    if (format >= 6)
        put_grammar_states(b, s, slot, p.grammar->states, state);
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
    cls_status status = cls_queue_check(s->context->cl, s->context->device, queue, &ordered);
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

static cls_status read_header(stream *b, const cls_sampler *s)
{
    static const char *const name[] = {"vocab", "counts", "max_history", "max_rollback"};
    const uint32_t ours[] = {s->vocab, s->counts, s->history, s->rollback};
    uint32_t theirs = 0;
    char start[sizeof slot_magic];
    put_bytes(b, start, sizeof start);
    if (b->is_cut_short || memcmp(start, slot_magic, sizeof slot_magic) != 0)
        return damaged("bad slot_magic");
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

/* Reads the forced ids, which follow the other lists. */
static cls_status read_forced_ids(stream *b, const cls_sampler *s, cls_checked_params *p)
{
    cls_slot *const slot = &p->slot;
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
    put_words(b, words + p->n_words, slot->n_forced);
    for (uint32_t i = 0; i < slot->n_forced; i++)
        if (words[p->n_words++] >= s->vocab)
            return damaged("a forced id is not a token");
    return CLS_OK;
}

/* Reads a slot's state, which is all zero before. */
static cls_status read_state(stream *b, const cls_sampler *s, cls_checked_params *p,
                             uint32_t *state)
{
    const char *fault = put_state(b, s, &p->slot, state);
    cls_status status = CLS_OK;
    if (fault == NULL)
        fault = read_tokens(b, s, state);
    p->slot.thinking = 0;
    if (fault == NULL && b->format >= 5)
        fault = put_forced(b, s, &p->slot, state);
    if (fault != NULL)
        return damaged(fault);
    if (b->format >= 5)
        status = read_forced_ids(b, s, p);
    if (status == CLS_OK && b->format >= 6) {
        fault = put_grammar_states(b, s, &p->slot, p->params.grammar->states, state);
        status = fault == NULL ? CLS_OK : damaged(fault);
    }
    if (status == CLS_OK && b->offset != b->size)
        status = damaged("there are bytes after the end");
    return status;
}

cls_status cls_try_load(cls_sampler *s, uint32_t slot, const void *saved, size_t size,
                        const cls_grammar *grammar)
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
        status = read_params(&b, s, grammar, &p);
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
