/* SPDX-License-Identifier: MIT */
/* Guided decoding: all texts are JSON, whatever the model computes. Its logits are random here, and
 * the temperature is 2. A grammar that the device follows says which tokens may come next, so that
 * steps are enqueued ahead of the tokens that the host has seen. A parser that is independent of
 * the grammar then checks all texts.
 *
 * Then the same texts are generated with a mask for each row, which the host makes from the same
 * grammar, and with drafts: where the grammar allows one token only, this token is a draft, and a
 * step yields several tokens.
 *
 *     cc json.c json_grammar.c $(pkg-config --cflags --libs clsample) && ./a.out [NUMBER OF TEXTS]
 */
#include "opencl.h"
#include <string.h>
#include "json_grammar.h"

enum { SLOTS = 128, MAX_TOKENS = 40, TEXT = 8 * MAX_TOKENS, SHOWN = 6 };
enum { DRAFTS = 7, ROWS = SLOTS * (DRAFTS + 1) };
enum { AHEAD = 4 }; /* steps that are enqueued before the tokens of the first one are read */

/* --------------------------------------------------------------- the parser */

/* A recursive descent parser of JSON (RFC 8259). Each function returns a pointer to the text after
 * what it has parsed, or NULL. */
static const char *parse_value(const char *s);

static const char *space(const char *s) { return s == NULL ? NULL : s + strspn(s, " \t\r\n"); }

static const char *parse_digits(const char *s)
{
    const size_t n = strspn(s, "0123456789");
    return n > 0 ? s + n : NULL;
}

static const char *parse_number(const char *s)
{
    s += *s == '-';
    s = *s == '0' ? s + 1 : parse_digits(s);
    if (s != NULL && *s == '.')
        s = parse_digits(s + 1);
    if (s != NULL && (*s == 'e' || *s == 'E')) {
        s++;
        s = parse_digits(s + (*s == '+' || *s == '-'));
    }
    return s;
}

static const char *parse_string(const char *s)
{
    if (*s++ != '"')
        return NULL;
    for (; *s != '"'; s++) {
        if ((unsigned char)*s < ' ')
            return NULL;
        if (*s != '\\')
            continue;
        if (*++s == 'u' && strspn(s + 1, "0123456789abcdefABCDEF") >= 4)
            s += 4;
        else if (*s == '\0' || strchr("\"\\/bfnrt", *s) == NULL)
            return NULL;
    }
    return s + 1;
}

static const char *parse_list(const char *s, char end)
{
    s = space(s + 1);
    if (*s == end)
        return s + 1;
    for (;;) {
        if (end == '}') {
            s = space(parse_string(s));
            if (s == NULL || *s != ':')
                return NULL;
            s = space(s + 1);
        }
        s = space(parse_value(s));
        if (s == NULL || (*s != ',' && *s != end))
            return NULL;
        if (*s == end)
            return s + 1;
        s = space(s + 1);
    }
}

static const char *parse_value(const char *s)
{
    if (*s == '{' || *s == '[')
        return parse_list(s, *s == '{' ? '}' : ']');
    if (*s == '"')
        return parse_string(s);
    if (strncmp(s, "true", 4) == 0 || strncmp(s, "null", 4) == 0)
        return s + 4;
    return strncmp(s, "false", 5) == 0 ? s + 5 : parse_number(s);
}

static bool is_json(const char *text)
{
    const char *end = space(parse_value(space(text)));
    return end != NULL && *end == '\0';
}

/* --------------------------------------------------------------- the device */

typedef struct machine {
    opencl device;
    cl_command_queue queue;
    cl_mem logits, out; /* float32 [ROWS, JSON_VOCAB]; int32 [SLOTS, DRAFTS + 1] */
    cls_sampler *sampler;
    cls_readback *readback;
    cls_grammar *grammar;
} machine;

static void make_grammar(machine *m)
{
    static const int32_t end = JSON_END;
    json_automaton a;
    cls_grammar_options options;
    if (!json_automaton_make(MAX_TOKENS, &a)) {
        fprintf(stderr, "out of memory\n");
        exit(1);
    }
    cls_grammar_options_init(&options);
    options.vocab = JSON_VOCAB;
    options.states = a.states;
    options.offsets = a.offsets;
    options.ids = a.ids;
    options.next = a.next;
    options.final_states = a.final_states;
    options.end_ids = (cls_ids){&end, 1};
    must(cls_grammar_create(&options, &m->grammar));
    json_automaton_free(&a);
}

static void open_machine(machine *m)
{
    cls_sampler_options options;
    m->device = opencl_open();
    m->queue = m->device.queue;
    m->logits = opencl_buffer(&m->device, sizeof(float) * ROWS * JSON_VOCAB);
    m->out = opencl_buffer(&m->device, sizeof(int32_t) * SLOTS * (DRAFTS + 1));
    cls_sampler_options_init(&options);
    options.vocab = JSON_VOCAB;
    options.max_rows = ROWS;
    options.slot_count = SLOTS;
    options.features = CLS_FEATURE_SHORTLIST | CLS_FEATURE_MASK | CLS_FEATURE_VERIFY |
                       CLS_FEATURE_HISTORY | CLS_FEATURE_STATE | CLS_FEATURE_FORCED;
    must(cls_sampler_create(m->device.cls, &options, &m->sampler));
    must(cls_readback_create(m->device.cls, SLOTS * sizeof(int32_t), AHEAD, &m->readback));
    make_grammar(m);
}

static void close_machine(machine *m)
{
    cls_grammar_destroy(m->grammar);
    cls_readback_destroy(m->readback);
    cls_sampler_destroy(m->sampler);
    clReleaseMemObject(m->out);
    clReleaseMemObject(m->logits);
    opencl_close(&m->device);
}

/* ------------------------------------------------------------------ a batch */

/* The state of a slot. */
typedef struct slot_state {
    bool taken;
    uint32_t text; /* the number of the text */
    int used;      /* tokens of it */
    grammar g;
} slot_state;

typedef struct batch {
    uint32_t requests, rows;
    int32_t slots[SLOTS], cu[SLOTS + 1], drafts[ROWS], masks[ROWS][JSON_WORDS],
        out[SLOTS * (DRAFTS + 1)];
    float logits[ROWS][JSON_VOCAB];
    slot_state states[SLOTS];
    uint64_t steps, tokens, drafted;
} batch;

/* The model: random logits that depend only on the text and the position. */
static void model(uint32_t text, int position, float logits[JSON_VOCAB])
{
    uint64_t x = ((uint64_t)text << 32) + (uint64_t)position + 1;
    for (int t = 0; t < JSON_VOCAB; t++) { /* sums of four bytes are nearly normal */
        x *= UINT64_C(0x9e3779b97f4a7c15);
        x ^= x >> 29;
        logits[t] =
            0.02f * (float)((x >> 56) + (x >> 48 & 255) + (x >> 40 & 255) + (x >> 32 & 255));
    }
}

/* Adds the rows of a request: one for its next token, and one after each token that is the only one
 * that the grammar allows. */
static void add_request(batch *b, int slot)
{
    const slot_state *s = &b->states[slot];
    const uint32_t i = b->requests++;
    grammar g = s->g;
    int draft = -1;
    b->slots[i] = slot;
    b->cu[i] = (int32_t)b->rows;
    for (int n = 0;; n++) {
        const int left = MAX_TOKENS - s->used - n, only = grammar_mask(&g, left, b->masks[b->rows]);
        model(s->text, s->used + n, b->logits[b->rows++]);
        if (only < 0 || n == DRAFTS || draft == JSON_END)
            break;
        draft = only;
        b->drafts[b->rows - 1 - i] = draft;
        grammar_follows(&g, draft, left);
    }
    b->cu[i + 1] = (int32_t)b->rows;
}

/* A step with drafts and masks: several tokens for each request. */
static void verify(const machine *m, const batch *b)
{
    cls_verify_call call;
    cls_verify_call_init(&call);
    call.requests = b->requests;
    call.method = CLS_VERIFY_MATCH;
    call.row_offsets = b->cu;
    call.logits.values.buffer = m->logits;
    call.slots.host = b->slots;
    call.draft_ids.host = b->drafts;
    call.mask.host = b->masks;
    call.max_drafts = DRAFTS;
    call.tokens.buffer = m->out;
    must(cls_verify(m->sampler, m->queue, &call, 0, NULL, NULL));
}

static void begin(const machine *m, slot_state *s, int slot, uint32_t text,
                  const cls_grammar *follows)
{
    const int32_t end = JSON_END;
    cls_params params;
    cls_params_init(&params);
    params.temperature = 2;
    params.seed = text;
    params.stop_ids.ids = &end;
    params.stop_ids.count = 1;
    params.max_tokens = MAX_TOKENS;
    params.grammar = follows;
    must(cls_slot_begin(m->sampler, (uint32_t)slot, &params, NULL));
    *s = (slot_state){.text = text, .taken = true};
}

/* Appends a token to its text. False: the grammar does not allow the token. */
static bool take(batch *b, slot_state *s, int32_t token, char texts[][TEXT])
{
    if (token < 0 || token >= JSON_VOCAB || !grammar_follows(&s->g, token, MAX_TOKENS - s->used))
        return false;
    strcat(texts[s->text], json_tokens[token]);
    s->used++;
    b->tokens++;
    s->taken = token != JSON_END;
    return true;
}

/* A step whose tokens the host has not read yet. */
typedef struct step_ahead {
    uint64_t ticket;
    uint32_t rows;
    int32_t slots[SLOTS];
    uint32_t texts[SLOTS];
    float logits[SLOTS][JSON_VOCAB];
} step_ahead;

/* Enqueues a step for the texts that have not ended, as far as the host knows. False: there is
 * none, and no text to begin. */
static bool enqueue(const machine *m, batch *b, step_ahead *step, uint32_t *begun, uint32_t n)
{
    cls_step call;
    const cls_buffer out = {.buffer = m->out};
    step->rows = 0;
    for (int slot = 0; slot < SLOTS; slot++) {
        slot_state *const s = &b->states[slot];
        if (!s->taken && *begun < n)
            begin(m, s, slot, (*begun)++, m->grammar);
        if (!s->taken)
            continue;
        step->slots[step->rows] = slot;
        step->texts[step->rows] = s->text;
        model(s->text, s->used++, step->logits[step->rows++]);
    }
    if (step->rows == 0)
        return false;
    must(clEnqueueWriteBuffer(m->queue, m->logits, CL_FALSE, 0, step->rows * sizeof *step->logits,
                              step->logits, 0, NULL, NULL));
    cls_step_init(&call);
    call.rows = step->rows;
    call.logits.values.buffer = m->logits;
    call.slots.host = step->slots;
    call.tokens = out;
    must(cls_sample(m->sampler, m->queue, &call, 0, NULL, NULL));
    must(cls_readback_start(m->readback, m->queue, &out, step->rows * sizeof(int32_t), 0, NULL,
                            &step->ticket));
    b->steps++;
    return true;
}

/* Appends a step's tokens to the texts. Rows of texts that had ended by then have none. */
static void read_step(const machine *m, batch *b, const step_ahead *step, char texts[][TEXT])
{
    const void *data;
    must(cls_readback_get(m->readback, step->ticket, 1, &data));
    const int32_t *const tokens = data;
    for (uint32_t i = 0; i < step->rows; i++) {
        slot_state *const s = &b->states[step->slots[i]];
        if (tokens[i] < 0)
            continue;
        strcat(texts[step->texts[i]], json_tokens[tokens[i]]);
        b->tokens++;
        if (tokens[i] == JSON_END)
            s->taken = false;
    }
}

/* Generates n texts by the grammar on the device. A text begins as soon as the host has seen the
 * end of another one. */
static void run_ahead(const machine *m, batch *b, uint32_t n, char texts[][TEXT])
{
    static step_ahead steps[AHEAD];
    uint32_t begun = 0;
    uint64_t read = 0;
    memset(b, 0, sizeof *b);
    while (enqueue(m, b, &steps[b->steps % AHEAD], &begun, n))
        if (b->steps - read == AHEAD)
            read_step(m, b, &steps[read++ % AHEAD], texts);
    while (read < b->steps)
        read_step(m, b, &steps[read++ % AHEAD], texts);
}

/* Generates n texts by masks of the host and with drafts. False: the sampler returned a token that
 * the grammar does not allow. */
static bool run_drafts(const machine *m, batch *b, uint32_t n, char texts[][TEXT])
{
    uint32_t begun = 0;
    memset(b, 0, sizeof *b);
    for (;; b->steps++) {
        b->requests = b->rows = 0;
        for (int slot = 0; slot < SLOTS; slot++) {
            if (!b->states[slot].taken && begun < n)
                begin(m, &b->states[slot], slot, begun++, NULL);
            if (b->states[slot].taken)
                add_request(b, slot);
        }
        if (b->requests == 0)
            return true;
        b->drafted += b->rows - b->requests;
        must(clEnqueueWriteBuffer(m->queue, m->logits, CL_FALSE, 0, b->rows * sizeof *b->logits,
                                  b->logits, 0, NULL, NULL));
        verify(m, b);
        must(clEnqueueReadBuffer(m->queue, m->out, CL_TRUE, 0,
                                 b->requests * (DRAFTS + 1) * sizeof(int32_t), b->out, 0, NULL,
                                 NULL));
        for (uint32_t i = 0; i < b->requests; i++) {
            const int32_t *out = &b->out[i * (DRAFTS + 1)];
            slot_state *s = &b->states[b->slots[i]];
            for (uint32_t j = 0; j == 0 || (j <= DRAFTS && out[j] >= 0); j++)
                if (!s->taken || !take(b, s, out[j], texts))
                    return false;
        }
    }
}

int main(int argc, char **argv)
{
    const uint32_t n = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 10000;
    uint32_t parsed = 0, same = 0;
    machine m;
    batch *b = malloc(sizeof *b);
    char(*texts)[TEXT] = calloc(n + 1, TEXT), (*again)[TEXT] = calloc(n + 1, TEXT);
    if (b == NULL || texts == NULL || again == NULL) {
        fprintf(stderr, "out of memory\n");
        return 1;
    }
    open_machine(&m);

    run_ahead(&m, b, n, texts);
    for (uint32_t i = 0; i < n; i++) {
        if (is_json(texts[i]))
            parsed++;
        else
            printf("not JSON: %s\n", texts[i]);
        if (i < SHOWN)
            printf("%s\n", texts[i]);
    }
    printf("%u of %u texts are JSON; %llu tokens in %llu steps, %d ahead of the host\n",
           (unsigned)parsed, (unsigned)n, (unsigned long long)b->tokens,
           (unsigned long long)b->steps, AHEAD);

    const bool allowed = run_drafts(&m, b, n, again);
    for (uint32_t i = 0; i < n; i++)
        same += strcmp(texts[i], again[i]) == 0;
    printf("with masks of the host and drafts, %u texts are the same; %llu drafts, %llu steps\n",
           (unsigned)same, (unsigned long long)b->drafted, (unsigned long long)b->steps);
    if (!allowed)
        printf("the sampler returned a token that the grammar does not allow\n");

    close_machine(&m);
    free(again);
    free(texts);
    free(b);
    return parsed == n && same == n && allowed ? 0 : 1;
}
