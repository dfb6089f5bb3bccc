/* SPDX-License-Identifier: MIT */
/* Target: the arrays of cls_grammar_create(). They are accepted if and only if they are as the
 * header demands; the grammar then allows the same ids and goes to the same states as a table of
 * them, and a sampler on the host draws by it.
 *
 * The first byte selects how the arrays are changed; the next ones are the vocabulary and the
 * numbers of states and end ids. Then follow the end ids and, for each state, its kind and its
 * transitions; and the draft tokens. */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "clsample.h"

enum { MOST_VOCAB = 256, MOST_STATES = 16, MOST_ENDS = 3, MOST_TEXT = 8 };
enum { OUTSIDE = 1, SMALL = 2, MOVED = 4, NO_FINAL = 8, DRAFTS = 16 }; /* of the first byte */

/* The arrays, each of exactly the size that its reader may assume, and the table that they make. */
typedef struct arrays {
    cls_grammar_options o;
    uint64_t *offsets;
    int32_t *ids, ends[MOST_ENDS];
    uint32_t *next;
    uint8_t *final_states;
    int32_t drafts[MOST_STATES];
    uint32_t to[MOST_STATES][MOST_VOCAB]; /* filled if the arrays are valid */
    uint8_t is_end[MOST_VOCAB];
} arrays;

static void *allocated(size_t n, size_t size)
{
    void *const memory = calloc(n != 0 ? n : 1, size);
    demand(memory != NULL, "out of memory");
    return memory;
}

/* ------------------------------------------------------------------- the arrays */

static void add(arrays *a, uint64_t *n, uint32_t id, uint32_t next)
{
    a->ids[*n] = (int32_t)id;
    a->next[(*n)++] = next;
}

/* Takes a state's transitions: all ids that do not end the text, or those whose distances from each
 * other follow. */
static uint64_t take_state(arrays *a, input *in, uint64_t n, uint32_t targets)
{
    const uint8_t kind = take_byte(in);
    const uint64_t end = n + a->o.vocab;
    uint32_t id = take_byte(in);
    if (kind & 1) {
        const uint32_t factor = id, divisor = 1u + take_byte(in);
        for (id = 0; id < a->o.vocab; id++)
            if (!a->is_end[id])
                add(a, &n, id, id * factor / divisor % targets);
    } else {
        for (uint32_t count = kind >> 3; count > 0 && n < end; count--, id += take_byte(in) % 32)
            add(a, &n, id, take_byte(in) % targets);
    }
    return n;
}

static void take_arrays(arrays *a, uint8_t how, input *in)
{
    cls_grammar_options *const o = &a->o;
    cls_grammar_options_init(o);
    o->vocab = 1u + take_byte(in);
    const uint8_t counts = take_byte(in);
    o->states = 1u + counts % MOST_STATES;
    o->end_ids = (cls_ids){a->ends, counts / MOST_STATES % (MOST_ENDS + 1)};
    for (uint32_t i = 0; i < o->end_ids.count; i++) {
        a->ends[i] = how & OUTSIDE ? take_byte(in) - 1 : (int32_t)(take_byte(in) % o->vocab);
        if (a->ends[i] >= 0)
            a->is_end[a->ends[i]] = 1;
    }
    const uint64_t most = (uint64_t)o->states * o->vocab;
    a->offsets = allocated(o->states + 1, sizeof *a->offsets);
    a->final_states = how & NO_FINAL ? NULL : allocated(o->states, 1);
    a->ids = allocated(most, sizeof *a->ids);
    a->next = allocated(most, sizeof *a->next);
    for (uint32_t s = 0; s < o->states; s++) {
        a->offsets[s + 1] = take_state(a, in, a->offsets[s], o->states + ((how & OUTSIDE) != 0));
        if (a->final_states != NULL)
            a->final_states[s] = (uint8_t)(take_byte(in) % (how & OUTSIDE ? 3 : 2));
    }
    if (how & MOVED)
        a->offsets[take_byte(in) % (o->states + 1)] += take_u32(in);
    if (how & SMALL)
        o->max_bytes = take_u32(in) % 65536;
    const uint64_t n = a->offsets[o->states] < most ? a->offsets[o->states] : most;
    a->ids = realloc(a->ids, (n + (n == 0)) * sizeof *a->ids);
    a->next = realloc(a->next, (n + (n == 0)) * sizeof *a->next);
    demand(a->ids != NULL && a->next != NULL, "out of memory");
    o->offsets = a->offsets;
    o->ids = a->ids;
    o->next = a->next;
    o->final_states = a->final_states;
    for (uint32_t s = 0; s < o->states; s++)
        a->drafts[s] = how & DRAFTS ? take_byte(in) - 1 : -1;
    o->draft_ids = how & DRAFTS ? a->drafts : NULL;
}

static int is_final(const arrays *a, uint32_t s)
{
    return a->final_states != NULL && a->final_states[s] != 0;
}

/* Fills the table. Returns 0 if the arrays break a rule of the header. */
static int fill_table(arrays *a)
{
    const cls_grammar_options *const o = &a->o;
    int valid = a->offsets[0] == 0;
    for (uint32_t i = 0; i < o->end_ids.count; i++)
        valid = valid && a->ends[i] >= 0 && a->ends[i] < (int32_t)o->vocab;
    for (uint32_t s = 0; s < o->states; s++)
        valid = valid && a->offsets[s + 1] >= a->offsets[s] &&
                a->offsets[s + 1] - a->offsets[s] <= o->vocab;
    for (uint32_t s = 0; s < o->states && valid; s++) {
        for (uint32_t id = 0; id < o->vocab; id++)
            a->to[s][id] = a->is_end[id] && is_final(a, s) ? CLS_GRAMMAR_ENDED : CLS_GRAMMAR_DEAD;
        int32_t before = -1;
        for (uint64_t i = a->offsets[s]; i < a->offsets[s + 1] && valid; i++) {
            const int32_t id = a->ids[i];
            valid =
                id > before && id < (int32_t)o->vocab && !a->is_end[id] && a->next[i] < o->states;
            if (valid)
                a->to[s][id] = a->next[i];
            before = id;
        }
        valid = valid && (!is_final(a, s) || (a->final_states[s] == 1 && o->end_ids.count != 0)) &&
                (is_final(a, s) || a->offsets[s] != a->offsets[s + 1]) &&
                (a->drafts[s] == -1 ||
                 (a->drafts[s] < (int32_t)o->vocab && a->to[s][a->drafts[s]] != CLS_GRAMMAR_DEAD));
    }
    return valid;
}

/* ------------------------------------------------------------------ the grammar */

/* Checks that the mask of a state has those ids after which there is a state. */
static void check_mask(const cls_grammar *g, const cls_grammar_info *info, uint32_t state)
{
    int32_t words[MOST_VOCAB / 32];
    demand(cls_grammar_mask(g, state, words) == CLS_OK, "no mask of state %u", (unsigned)state);
    for (uint32_t id = 0; id < (info->vocab + 31) / 32 * 32; id++) {
        const int32_t token = (int32_t)id;
        uint32_t next = state;
        demand(cls_grammar_advance(g, &token, 1, &next) == CLS_OK, "no state after token %u",
               (unsigned)id);
        demand(next < info->states || next == CLS_GRAMMAR_ENDED || next == CLS_GRAMMAR_DEAD,
               "token %u leads from state %u to state %u of %u", (unsigned)id, (unsigned)state,
               (unsigned)next, (unsigned)info->states);
        const int allowed = (int)((uint32_t)words[id / 32] >> id % 32 & 1);
        demand(allowed == (id < info->vocab && next != CLS_GRAMMAR_DEAD),
               "state %u: the mask has %d for token %u, which leads to state %u", (unsigned)state,
               allowed, (unsigned)id, (unsigned)next);
    }
}

static void check_grammar(const cls_grammar *g, uint32_t vocab)
{
    cls_grammar_info info;
    cls_grammar_info_init(&info);
    demand(cls_grammar_query(g, &info) == CLS_OK, "no query: %s", cls_error_message());
    demand(info.vocab == vocab && info.classes >= 1 && info.classes <= vocab,
           "%u classes of a vocabulary of %u", (unsigned)info.classes, (unsigned)vocab);
    demand(info.bitmaps <= info.states, "%u bitmaps of %u states", (unsigned)info.bitmaps,
           (unsigned)info.states);
    for (uint32_t s = 0; s < info.states && s < 2 * MOST_STATES; s++)
        check_mask(g, &info, s);
    check_mask(g, &info, CLS_GRAMMAR_ENDED);
    check_mask(g, &info, CLS_GRAMMAR_DEAD);
}

/* Returns 1 if no state distinguishes two ids. */
static int same_class(const arrays *a, uint32_t x, uint32_t y)
{
    uint32_t s = 0;
    while (s < a->o.states && a->to[s][x] == a->to[s][y])
        s++;
    return s == a->o.states && a->is_end[x] == a->is_end[y];
}

/* Counts the ids that are the first ones of their class. */
static uint32_t count_classes(const arrays *a)
{
    uint32_t classes = 0;
    for (uint32_t id = 0; id < a->o.vocab; id++) {
        uint32_t before = 0;
        while (before < id && !same_class(a, before, id))
            before++;
        classes += before == id;
    }
    return classes;
}

/* Returns what a state drafts. */
static int32_t draft_of(const arrays *a, uint32_t s)
{
    int32_t only = -1;
    uint32_t n = 0;
    for (uint32_t id = 0; id < a->o.vocab; id++)
        if (a->to[s][id] != CLS_GRAMMAR_DEAD) {
            only = (int32_t)id;
            n++;
        }
    return n == 1 ? only : a->drafts[s];
}

static void check_table(const arrays *a, const cls_grammar *g)
{
    cls_grammar_info info;
    cls_grammar_info_init(&info);
    demand(cls_grammar_query(g, &info) == CLS_OK, "no query: %s", cls_error_message());
    demand(info.states == a->o.states && info.classes == count_classes(a),
           "%u states and %u classes; they are %u and %u", (unsigned)info.states,
           (unsigned)info.classes, (unsigned)a->o.states, (unsigned)count_classes(a));
    demand(info.bytes <= a->o.max_bytes, "%llu bytes", (unsigned long long)info.bytes);
    for (uint32_t s = 0; s < a->o.states; s++)
        for (uint32_t id = 0; id < a->o.vocab; id++) {
            const int32_t token = (int32_t)id;
            uint32_t next = s;
            demand(cls_grammar_advance(g, &token, 1, &next) == CLS_OK && next == a->to[s][id],
                   "token %u leads from state %u to state %u; it is %u", (unsigned)id, (unsigned)s,
                   (unsigned)next, (unsigned)a->to[s][id]);
        }
}

/* Draws and drafts on the host after a text that follows. */
static void draw(const arrays *a, const cls_grammar *g, input *in)
{
    float logits[MOST_VOCAB];
    int32_t output[MOST_TEXT];
    const uint32_t vocab = a->o.vocab, first = take_byte(in) % a->o.states,
                   count = take_byte(in) % (MOST_TEXT + 1);
    const int32_t slot = 0;
    int32_t token = -2, status = 0, drafts[MOST_TEXT];
    cls_draft_call call;
    cls_context *host;
    cls_sampler_options options;
    cls_sampler *sampler;
    cls_step step;
    cls_params params;
    uint32_t state = first, allowed = 0;
    for (uint32_t i = 0; i < vocab; i++)
        logits[i] = (float)(i * 37 % 101) / 8.0f;
    for (uint32_t i = 0; i < count; i++) {
        output[i] = take_byte(in) % (int32_t)vocab;
        state = state < a->o.states ? a->to[state][output[i]] : CLS_GRAMMAR_DEAD;
    }
    cls_params_init(&params);
    params.grammar = g;
    params.grammar_state = first;
    cls_sampler_options_init(&options);
    options.late_compile = 1;
    options.vocab = vocab;
    options.slot_count = 1;
    options.max_history = MOST_TEXT;
    cls_step_init(&step);
    step.rows = 1;
    step.slots.host = &slot;
    step.logits.values =
        (cls_buffer){.kind = CLS_BUFFER_HOST, .pointer = logits, .size = vocab * 4};
    step.tokens = (cls_buffer){.kind = CLS_BUFFER_HOST, .pointer = &token, .size = sizeof token};
    step.status = (cls_buffer){.kind = CLS_BUFFER_HOST, .pointer = &status, .size = sizeof status};
    cls_draft_call_init(&call);
    call.requests = 1;
    call.k = MOST_TEXT;
    call.min_n = call.max_n = CLS_MAX_DRAFTS; /* longer than the text */
    call.slots.host = &slot;
    call.draft_ids =
        (cls_buffer){.kind = CLS_BUFFER_HOST, .pointer = drafts, .size = sizeof drafts};
    demand(cls_context_create_host(NULL, &host) == CLS_OK &&
               cls_sampler_create(host, &options, &sampler) == CLS_OK &&
               cls_slot_begin(sampler, 0, &params,
                              &(cls_text){.struct_size = sizeof(cls_text),
                                          .output = {output, count}}) == CLS_OK &&
               cls_draft(sampler, NULL, &call, 0, NULL, NULL) == CLS_OK &&
               cls_sample(sampler, NULL, &step, 0, NULL, NULL) == CLS_OK,
           "a row cannot be sampled: %s", cls_error_message());
    cls_sampler_destroy(sampler);
    cls_context_destroy(host);
    for (uint32_t i = 0, at = state; i < MOST_TEXT; i++) {
        const int32_t draft = at < a->o.states ? draft_of(a, at) : -1;
        demand(drafts[i] == draft, "draft %u is %d in state %u; it is %d", (unsigned)i,
               (int)drafts[i], (unsigned)at, (int)draft);
        at = draft >= 0 ? a->to[at][draft] : CLS_GRAMMAR_DEAD;
    }
    for (uint32_t id = 0; id < vocab && state < a->o.states; id++)
        allowed += a->to[state][id] != CLS_GRAMMAR_DEAD;
    demand(token == -1 ? allowed == 0
                       : token >= 0 && token < (int32_t)vocab && state < a->o.states &&
                             a->to[state][token] != CLS_GRAMMAR_DEAD,
           "token %d, status %d in state %u, which allows %u", (int)token, (int)status,
           (unsigned)state, (unsigned)allowed);
}

/* --------------------------------------------------------------------- the target */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    input in = {data, size};
    arrays *const a = allocated(1, sizeof *a);
    cls_grammar *g;
    take_arrays(a, take_byte(&in), &in);
    const int valid = fill_table(a);
    const cls_status status = cls_grammar_create(&a->o, &g);
    if (status != CLS_OK) {
        demand(status == CLS_BAD_ARGUMENT && g == NULL && *cls_error_message() != '\0',
               "status %d: %s", (int)status, cls_error_message());
        demand(!valid || strstr(cls_error_message(), "max_bytes is ") != NULL,
               "valid arrays are refused: %s", cls_error_message());
    } else {
        demand(valid, "invalid arrays are accepted");
        check_grammar(g, a->o.vocab);
        check_table(a, g);
        draw(a, g, &in);
        cls_grammar_destroy(g);
    }
    free(a->offsets);
    free(a->final_states);
    free(a->ids);
    free(a->next);
    free(a);
    return 0;
}
