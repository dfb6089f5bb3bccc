/* SPDX-License-Identifier: MIT */
/* Saves and loads slots. The list of doc/design.md, "Saved slots", defines every value of the
 * format by the calls alone, so that a device and the host save the same bytes. Loading checks
 * every value, since the bytes may come from anywhere. */
#include "sampler/sampler.h"

#include <stddef.h>
#include <stdlib.h>

/* The word of the format has the arithmetic's number less 1 in its upper half. Slots that older
 * libraries saved have none there: they are of arithmetic 1. */
#define FORMAT 8u
#define ONE_END_FORMAT 7u /* thinking_ends has the ids of one sequence, without its length */
#define FORMAT_WORD (FORMAT | (CLS_ARITHMETIC_VERSION - 1u) << 16)
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
    int is_cut_short;  /* 1 if a read or write exceeded the size */
    int no_memory;     /* 1 if what was read could not be allocated */
    uint32_t unknown;  /* the id of a field that this library does not have */
    uint32_t needless; /* that of a last field which has its default */
    uint32_t format;   /* of what is read */
    uint32_t
        of_one_end; /* ids of the sequence that comes next, if its length is not in the bytes */
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
    return cls_refuse("bytes are not a saved slot: %s", why);
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

/* Writes or reads whether there are parameters outside the thinking; format 7 has only those that
 * are. */
static uint32_t put_presence(stream *b, const cls_params *p)
{
    uint32_t some = b->reading || p->post_thinking != NULL;
    if (b->format != ONE_END_FORMAT)
        put_u32(b, &some);
    b->is_cut_short |= some > 1;
    return some;
}

/* Writes or reads the fields in the order of their ids, but for post_thinking. Returns its id if it
 * follows them, and 0 if not. */
static int put_fields(stream *b, cls_params *p)
{
    uint32_t n = b->reading ? 0 : params_to_save(p);
    int phase = 0;
    put_u32(b, &n);
    for (uint32_t id = 1; id <= n && !b->is_cut_short; id++) {
        const cls_param *const param = cls_param_by_id(id);
        if (param == NULL) {
            b->unknown = id;
            return 0;
        }
        if (param->type != CLS_PARAM_PARAMS)
            put_param(b, param, p);
        else if (put_presence(b, p))
            phase = (int)id;
    }
    if (b->reading && n != (uint32_t)phase && n > params_to_save(p))
        b->needless = n;
    return phase;
}

static void put_params(stream *b, cls_params *p)
{
    cls_params second;
    if (!put_fields(b, p) || b->is_cut_short)
        return;
    if (b->reading)
        cls_params_init(&second);
    else
        second = *p->post_thinking;
    const int nested = put_fields(b, &second);
    cls_params *const copy = b->reading && !nested ? malloc(sizeof *copy) : NULL;
    b->is_cut_short |= nested; /* there is no phase within a phase */
    b->no_memory = b->reading && !nested && copy == NULL;
    if (copy != NULL)
        *copy = second;
    if (b->reading)
        p->post_thinking = copy;
}

/* Ids that are read are stored after the sequences, where there is space for all bytes that are
 * left. */
static void put_sequences(stream *b, cls_ids *sequences, uint32_t n)
{
    int32_t *room = b->reading ? (int32_t *)(void *)(sequences + n) : NULL;
    for (uint32_t i = 0; i < n; i++) {
        cls_ids *const s = &sequences[i];
        if (b->of_one_end != 0)
            s->count = b->of_one_end;
        else
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
    uint32_t n = cls_list_count(l, p);
    if (b->format == ONE_END_FORMAT && l->at == offsetof(cls_params, thinking_ends)) {
        b->of_one_end = n;
        p->thinking_ends.count = n = n != 0;
    }
    const size_t left = b->size - b->offset;
    const uint64_t size = n * (uint64_t)l->size + (l->kind == CLS_LIST_sequences ? left : 0);
    if (n == 0)
        return CLS_OK;
    if (n > left / sizeof(uint32_t))
        return damaged("they are cut short");
    void *const array = size <= SIZE_MAX ? malloc((size_t)size) : NULL;
    if (array == NULL)
        return cls_no_memory("a slot's lists");
    cls_list_set_array(l, p, array);
    put_list(b, l, p);
    b->of_one_end = 0;
    return b->is_cut_short ? damaged("they are cut short") : CLS_OK;
}

/* Reads which grammar the request follows, and where it begins. Fails if it is not the given one,
 * which may be NULL. */
static cls_status read_grammar(stream *b, const cls_grammar *grammar, cls_params *p)
{
    static const uint8_t none[CLS_DIGEST_SIZE];
    uint8_t digest[CLS_DIGEST_SIZE];
    put_bytes(b, digest, sizeof digest);
    put_u32(b, &p->grammar_state);
    p->grammar = grammar;
    if (b->is_cut_short)
        return damaged("they are cut short");
    if (memcmp(digest, none, sizeof digest) == 0)
        return grammar == NULL ? CLS_OK
                               : cls_refuse("grammar is set, but bytes are a slot without one");
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
    cls_status status = b->no_memory      ? cls_no_memory("a slot's parameters")
                        : b->is_cut_short ? damaged("they are cut short")
                                          : CLS_OK;
    if (b->unknown != 0)
        status = cls_refuse("bytes are a slot with parameter %u, which this library does not know; "
                            "a newer library saved it",
                            (unsigned)b->unknown);
    else if (status == CLS_OK && b->needless != 0)
        status = damaged("their last parameter has its default");
    for (const cls_list_param *l = NULL; status == CLS_OK && (l = cls_list_after(l)) != NULL;)
        status = read_list(b, l, &p);
    if (status == CLS_OK)
        status = cls_checked_params_create(s, &p, checked);
    cls_arrays_free(&p);
    return status;
}

/* ------------------------------------------------------------------------ state */

/* Returns the index of the oldest entry that is still in the ring. */
static uint32_t oldest_entry(const cls_host_slot *h)
{
    const uint32_t n = CLS_LAYOUT_RING(h->layout);
    return h->slot.longest > n ? h->slot.longest - n : 0;
}

/* Returns `why` if what was read is cut short or impossible, and NULL if it is not or was written.
 */
static const char *fault_if(const stream *b, int impossible, const char *why)
{
    return !b->reading ? NULL : b->is_cut_short ? "they are cut short" : impossible ? why : NULL;
}

/* Returns 1 if the entries that were read have more marks of output than the text has output
 * tokens, or fewer than those in the ring must have. A rollback trusts the marks. */
static int has_other_outputs(const cls_host_slot *h)
{
    const uint32_t oldest = oldest_entry(h);
    uint32_t marks = 0;
    for (uint32_t i = oldest; i < h->slot.length; i++)
        marks += (*cls_host_slot_entry(h, i) & CLS_ENTRY_OUTPUT) != 0;
    return marks > h->slot.outputs || h->slot.outputs - marks > oldest;
}

/* Returns 1 if an entry that was read has CLS_ENTRY_FIRST where none is saved. */
static int has_stray_marks(const cls_host_slot *h)
{
    const uint32_t length = h->slot.length,
                   first = h->slot.window != 0 ? length : length - cls_host_slot_removable(h);
    int stray = 0;
    for (uint32_t i = oldest_entry(h); i < first; i++)
        stray |= (*cls_host_slot_entry(h, i) & CLS_ENTRY_FIRST) != 0;
    return stray;
}

/* Writes or reads the entries of the ring. */
static const char *put_entries(stream *b, const cls_host_slot *h)
{
    const uint32_t length = h->slot.length, removable = b->reading ? 0 : cls_host_slot_removable(h);
    int impossible = 0;
    for (uint32_t i = oldest_entry(h); i < length && !b->is_cut_short; i++) {
        uint32_t *const entry = cls_host_slot_entry(h, i), written = *entry;
        if (h->slot.window != 0 || i < length - removable)
            written &= ~CLS_ENTRY_FIRST;
        put_u32(b, b->reading ? entry : &written);
        impossible |= (*entry & CLS_ENTRY_ID) >= h->vocab ||
                      (*entry & ~(CLS_ENTRY_ID | CLS_ENTRY_OUTPUT | CLS_ENTRY_FIRST)) != 0;
    }
    const char *const fault = fault_if(b, impossible, "the history has an impossible token");
    return fault == NULL ? fault_if(b, has_other_outputs(h) || has_stray_marks(h),
                                    "a token has an impossible mark")
                         : fault;
}

/* Writes or reads how much of the text there is, and its entries. */
static const char *put_text(stream *b, cls_host_slot *h)
{
    cls_slot *const slot = &h->slot;
    put_u32(b, &slot->outputs);
    put_u32(b, &slot->position);
    put_u32(b, &slot->length);
    put_u32(b, &slot->longest);
    const char *const fault =
        fault_if(b,
                 slot->longest > MOST_TOKENS || slot->length > slot->longest ||
                     slot->outputs > slot->length || slot->length < oldest_entry(h) ||
                     slot->longest - slot->length > CLS_LAYOUT_ROLLBACK(h->layout),
                 "the history's length is impossible");
    return fault == NULL ? put_entries(b, h) : fault;
}

static uint32_t count_in_text(const cls_host_slot *h)
{
    uint32_t n = 0;
    for (uint32_t id = 0; id < h->vocab; id++)
        n += cls_host_slot_count(h, id) != 0 || cls_host_slot_in_context(h, id);
    return n;
}

/* Writes or reads the tokens that count or are in context. */
static const char *put_counts(stream *b, const cls_host_slot *h)
{
    const uint32_t counting = CLS_LAYOUT_COUNTS(h->layout);
    const uint32_t most = counting == CLS_COUNTS_PRESENCE ? 1 : CLS_MAX_COUNT;
    uint32_t n = b->reading ? 0 : count_in_text(h), next = 0;
    put_u32(b, &n);
    if (b->reading && n != 0 && counting == CLS_COUNTS_NONE)
        return "the sampler does not count tokens";
    for (uint32_t i = 0; i < n; i++) {
        uint32_t word = 0, count = 0;
        while (!b->reading && cls_host_slot_count(h, next) == 0 &&
               !cls_host_slot_in_context(h, next))
            next++;
        if (!b->reading) {
            count = cls_host_slot_count(h, next);
            word = next | (cls_host_slot_in_context(h, next) ? IN_CONTEXT_BIT : 0);
        }
        put_u32(b, &word);
        put_u32(b, &count);
        const uint32_t id = word & ~IN_CONTEXT_BIT;
        if (b->is_cut_short)
            return "they are cut short";
        if (b->reading &&
            (id < next || id >= h->vocab || count > most || (count == 0 && word == id)))
            return "a token's count is impossible";
        if (b->reading)
            cls_host_slot_set_count(h, id, count, word != id);
        next = id + 1;
    }
    return NULL;
}

static const char *put_adaptive(stream *b, const cls_host_slot *h, cls_slot_adaptive *m)
{
    put_words(b, m, CLS_ADAPTIVE_WORDS);
    const char *const fault = cls_adaptive_fault(&h->slot, m);
    return fault_if(b, fault != NULL, fault);
}

static const char *put_adaptive_states(stream *b, cls_host_slot *h)
{
    cls_slot *const slot = &h->slot;
    const char *fault = NULL;
    if (!(slot->flags & (CLS_SLOT_STATEFUL | CLS_SLOT_DECAYS)))
        return NULL;
    fault = put_adaptive(b, h, &slot->adaptive);
    for (uint32_t n = cls_host_slot_removable(h); n > 0 && fault == NULL; n--)
        fault = put_adaptive(b, h, cls_host_slot_adaptive(h, slot->length - n));
    put_words(b, &slot->pending, 1);
    if (slot->pending != -1 && fault == NULL)
        fault = put_adaptive(b, h, &slot->next_adaptive);
    return fault;
}

/* Returns the largest state of the thinking that the text has without its latest `back` tokens: it
 * counts tokens of the output, up to the budget, which a loop may have used up, and then ids that
 * were emitted, of which the last one ends it. */
static uint32_t most_thinking(const cls_host_slot *h, uint32_t back)
{
    const uint32_t forced = h->params->thinking_forced.count, outputs = h->slot.outputs - back;
    return forced == 0 ? outputs + 1
                       : h->slot.thinking_budget + (outputs < forced ? outputs + 1 : forced);
}

static uint32_t most_grammar(const cls_host_slot *h, uint32_t back)
{
    (void)back;
    return h->params->grammar->states - 1;
}

/* Writes or reads a state now, and before each token that can be removed; none is above what `most`
 * returns, except those of a grammar that allow nothing. */
static const char *put_states(stream *b, const cls_host_slot *h, uint32_t *now,
                              uint32_t *(*before)(const cls_host_slot *, uint32_t),
                              uint32_t (*most)(const cls_host_slot *, uint32_t), const char *why)
{
    const uint32_t removable = cls_host_slot_removable(h);
    int impossible = 0;
    for (uint32_t i = 0; i <= removable; i++) {
        const uint32_t back = i == 0 ? 0 : removable + 1 - i;
        uint32_t *const at = i == 0 ? now : before(h, h->slot.length - back);
        put_u32(b, at);
        impossible |=
            *at > most(h, back) && !(before == cls_host_slot_grammar &&
                                     (*at == CLS_GRAMMAR_ENDED || *at == CLS_GRAMMAR_DEAD));
    }
    return fault_if(b, impossible, why);
}

/* Writes or reads the states of the thinking and those of the grammar. */
static const char *put_text_states(stream *b, cls_host_slot *h)
{
    cls_slot *const slot = &h->slot;
    const char *fault = NULL;
    if (slot->flags & CLS_SLOT_THINKING)
        fault = put_states(b, h, &slot->thinking, cls_host_slot_thinking, most_thinking,
                           "the state of the thinking budget is impossible");
    if (fault == NULL && (slot->flags & CLS_SLOT_GRAMMAR))
        fault = put_states(b, h, &slot->grammar_state, cls_host_slot_grammar, most_grammar,
                           "a state of the grammar is impossible");
    return fault;
}

/* ------------------------------------------------------------------------ save */

/* Returns how many forced ids no rollback can make due again. */
static uint32_t used_forced(const cls_host_slot *h)
{
    const cls_slot *const slot = &h->slot;
    const uint32_t earliest = slot->outputs - cls_host_slot_removable(h),
                   used = earliest > slot->forced_from ? earliest - slot->forced_from : 0;
    return used < slot->n_forced ? used : slot->n_forced;
}

/* Writes the forced ids that are due, or that a rollback can make due again. */
static void write_forced(stream *b, const cls_host_slot *h)
{
    const cls_slot *const slot = &h->slot;
    const uint32_t skipped = used_forced(h);
    uint32_t n = slot->n_forced - skipped, from = n != 0 ? slot->forced_from + skipped : 0;
    put_u32(b, &n);
    put_u32(b, &from);
    if (n != 0)
        put_words(b, (int32_t *)(uintptr_t)h->forced + skipped, n);
}

static void write_slot(stream *b, const cls_sampler *s, cls_host_slot *h)
{
    uint32_t head[] = {FORMAT_WORD, s->vocab, s->counts, s->history, s->rollback};
    uint8_t digest[CLS_DIGEST_SIZE] = {0};
    cls_params p = *h->params;
    if (p.grammar != NULL)
        memcpy(digest, p.grammar->digest, sizeof digest);
    put_bytes(b, (void *)(uintptr_t)slot_magic, sizeof slot_magic);
    put_words(b, head, sizeof head / sizeof head[0]);
    put_bytes(b, digest, sizeof digest);
    put_u32(b, &p.grammar_state);
    put_params(b, &p);
    for (const cls_list_param *l = NULL; (l = cls_list_after(l)) != NULL;)
        put_list(b, l, &p);
    put_text(b, h);
    put_counts(b, h);
    put_adaptive_states(b, h);
    put_text_states(b, h);
    write_forced(b, h);
    uint64_t sum = b->out != NULL ? hash(b->out, b->offset) : 0;
    put_u64(b, &sum);
}

/* Reads a slot, its state and its forced ids from the device, after the steps and slot calls
 * before. The caller frees *forced. */
static cls_status fetch(cls_sampler *s, cl_command_queue queue, uint32_t slot,
                        cls_slot *device_slot, uint32_t *state, int32_t **forced)
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
            return cls_no_memory("the forced ids of a slot");
        code = clEnqueueReadBuffer(queue, s->lists.buffer, CL_TRUE,
                                   device_slot->forced * sizeof **forced, bytes, *forced, n, wait,
                                   NULL);
    }
    return cls_opencl_status(code, "cannot read the slot");
}

/* Writes a slot, or only counts its bytes. */
static cls_status save_state(const cls_sampler *s, uint32_t slot, cls_host_slot *h, void *out,
                             size_t *size)
{
    stream count = {.size = SIZE_MAX};
    if (!(h->slot.flags & CLS_SLOT_BEGUN))
        return cls_refuse(
            "slot %u no longer has a request: a rollback was to remove more tokens than it could",
            (unsigned)slot);
    write_slot(&count, s, h);
    const size_t room = *size;
    *size = count.offset;
    if (out != NULL && room < count.offset)
        return cls_refuse("*size is %zu, but the slot requires %zu bytes", room, count.offset);
    stream b = {.out = out, .size = count.offset};
    if (out != NULL)
        write_slot(&b, s, h);
    return CLS_OK;
}

static cls_status save_slot(cls_sampler *s, cl_command_queue queue, uint32_t slot, void *out,
                            size_t *size)
{
    int32_t *forced = NULL;
    int ordered;
    cls_status status = cls_slot_check(s, slot, 1);
    if (status == CLS_OK && size == NULL)
        status = cls_refuse("size is NULL");
    if (status == CLS_OK && s->host != NULL)
        status = cls_queue_check(NULL, NULL, queue, &ordered);
    if (status != CLS_OK)
        return status;
    if (s->host != NULL)
        return save_state(s, slot, &s->host->slot[slot], out, size);
    cls_host_slot h = {.params = &s->request[slot].params, .vocab = s->vocab, .layout = s->layout};
    h.state = malloc(state_words(s->vocab, s->layout) * sizeof *h.state);
    if (h.state == NULL)
        return cls_no_memory("a slot's state");
    status = fetch(s, queue, slot, &h.slot, h.state, &forced);
    h.forced = forced;
    if (status == CLS_OK)
        status = save_state(s, slot, &h, out, size);
    free(h.state);
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
    b->format = theirs & 0xffffu;
    if (!b->is_cut_short && b->format != FORMAT && b->format != ONE_END_FORMAT)
        return cls_refuse("bytes are a slot saved in format %u; this library reads formats %u and "
                          "%u",
                          (unsigned)b->format, ONE_END_FORMAT, FORMAT);
    if (!b->is_cut_short && theirs >> 16 != FORMAT_WORD >> 16)
        return cls_refuse("bytes are a slot of arithmetic %u; this library has arithmetic %u, "
                          "which may draw other tokens",
                          (unsigned)(theirs >> 16) + 1, (unsigned)CLS_ARITHMETIC_VERSION);
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
            return cls_refuse(
                "bytes are a slot of a sampler with options->%s of %u; this sampler has %u",
                name[i], (unsigned)theirs, (unsigned)ours[i]);
    }
    return CLS_OK;
}

/* Reads the forced ids, which follow the other lists. */
static cls_status read_forced(stream *b, const cls_sampler *s, cls_checked_params *p)
{
    cls_slot *const slot = &p->slot;
    put_u32(b, &slot->n_forced);
    put_u32(b, &slot->forced_from);
    if (b->is_cut_short || slot->n_forced > (b->size - b->offset) / sizeof(uint32_t))
        return damaged("they are cut short");
    if (slot->n_forced == 0)
        return CLS_OK;
    uint32_t *const words =
        realloc(p->words, ((size_t)p->n_words + slot->n_forced) * sizeof *words);
    if (words == NULL)
        return cls_no_memory("the forced ids of a slot");
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
    cls_host_slot h = {.slot = p->slot,
                       .params = &p->params,
                       .state = state,
                       .vocab = s->vocab,
                       .layout = s->layout};
    const char *fault = put_text(b, &h);
    if (fault == NULL)
        fault = put_counts(b, &h);
    if (fault == NULL)
        fault = put_adaptive_states(b, &h);
    if (fault == NULL)
        fault = put_text_states(b, &h);
    p->slot = h.slot;
    cls_status status = fault == NULL ? read_forced(b, s, p) : damaged(fault);
    h.slot = p->slot;
    if (status == CLS_OK &&
        (used_forced(&h) != 0 || (h.slot.n_forced == 0 && h.slot.forced_from != 0)))
        status = damaged("the place of the forced ids is impossible");
    if (status == CLS_OK && b->offset != b->size)
        status = damaged("there are bytes after the end");
    return status;
}

static cls_status load_slot(cls_sampler *s, uint32_t slot, const void *saved, size_t size,
                            const cls_grammar *grammar)
{
    cls_checked_params p;
    stream b = {.in = saved, .size = size, .reading = 1};
    memset(&p, 0, sizeof p);
    cls_status status = cls_slot_check(s, slot, 0);
    if (status == CLS_OK && saved == NULL)
        status = cls_refuse("bytes is NULL");
    if (status == CLS_OK)
        status = read_header(&b, s);
    if (status == CLS_OK)
        status = read_params(&b, s, grammar, &p);
    if (status != CLS_OK)
        return status;
    uint32_t *const state = calloc(state_words(s->vocab, s->layout), sizeof *state);
    if (state == NULL)
        status = cls_no_memory("a slot's state");
    if (status == CLS_OK)
        status = read_state(&b, s, &p, state);
    if (status == CLS_OK)
        status = cls_slot_put(s, slot, &p, state);
    cls_checked_params_free(&p);
    free(state);
    return status;
}

cls_status cls_slot_load(cls_sampler *s, uint32_t slot, const void *saved, size_t size,
                         const cls_grammar *grammar)
{
    return CLS_SLOT_CALL(s, load_slot(s, slot, saved, size, grammar),
                         cls_record_load(s->record, slot, saved, size, grammar));
}
