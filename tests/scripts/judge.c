/* SPDX-License-Identifier: MIT */
/* Judges what the host gives in a text by a model of each slot, which shares no code with the
 * library's slots: tokens and statuses of steps, verifications that compare drafts with tokens, and
 * drafts from a request's text. The oracle judges the sets and probabilities of steps. */
#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "brute.h"
#include "judge.h"
#include "model.h"
#include "oracle.h"

typedef struct named {
    const char *name;
    model m;
} named;

static struct {
    const run_side *side;
    const run_statement *s;
    uint32_t slots;
    model *slot; /* [slots] */
    named *saved;
    uint32_t n_saved;
    uint64_t rows, drafts, outputs; /* that were judged */
    bool asks;                      /* the oracle, too */
    uint64_t asked, undecided;      /* rows */
    char fault[600];
} j;

/* ----------------------------------------------------------------- what was written */

/* The next record of the statement with a name, from *at on; NULL: there is none. */
static const run_record *record_from(const char *name, uint32_t *at)
{
    for (; *at < j.side->records; ++*at)
        if (j.side->record[*at].statement == j.side->index &&
            strcmp(j.side->record[*at].name, name) == 0)
            return &j.side->record[(*at)++];
    return NULL;
}

static const int32_t *ints(const char *name)
{
    uint32_t at = 0;
    const run_record *const r = record_from(name, &at);
    return r != NULL ? (const int32_t *)(const void *)r->bytes : NULL;
}

static bool was_refused(void)
{
    const int32_t *const returned = ints("returned");
    return returned == NULL || *returned != CLS_OK;
}

static model *model_of(int32_t slot)
{
    return slot >= 0 && (uint32_t)slot < j.slots ? &j.slot[slot] : NULL;
}

/* A list of the statement, which may be on the device. */
static int32_t *list_of(const char *key, uint32_t *n)
{
    const char *const text = run_find(j.s, key);
    *n = 0;
    return text != NULL ? run_numbers(j.s, key, text + (*text == '@'), n) : NULL;
}

/* The slots of a call's rows: those listed, or the first ones. */
static int32_t *slots_of_rows(uint32_t *n)
{
    int32_t *slots = list_of("slots", n);
    if (slots != NULL)
        return slots;
    *n = j.side->sampler_options.max_rows < j.slots ? j.side->sampler_options.max_rows : j.slots;
    slots = cli_alloc(*n, sizeof *slots);
    for (uint32_t i = 0; i < *n; i++)
        slots[i] = (int32_t)i;
    return slots;
}

static void differ(const model *m, const char *what, uint32_t row, uint32_t at, int32_t is,
                   int32_t status, int32_t token, int32_t wanted)
{
    if (*j.fault == '\0')
        snprintf(j.fault, sizeof j.fault,
                 "the model: %s, row %" PRIu32 ", token %" PRIu32 " is %" PRId32 ", status %" PRId32
                 ", not %" PRId32 ", %" PRId32 ": %s",
                 what, row, at, is, status, token, wanted, model_words(m));
}

/* ------------------------------------------------------------------------- slots */

static void take_params(model *m, const cls_params *p, const int32_t *prompt, uint32_t prompts)
{
    uint32_t n;
    const int32_t *const output = run_list(j.s, "output", &n);
    if (strcmp(j.s->verb, "begin") == 0)
        model_begin(m, p, prompt, prompts, output, n);
    else
        model_params(m, p);
}

static void slot_call(run_side *side)
{
    const char *const verb = j.s->verb;
    uint32_t n, prompts, at = 0, count = (uint32_t)run_number(j.s, "count", 0);
    const int32_t *const slots = run_slots(j.s, &n);
    const model *const from = model_of((int32_t)run_number(j.s, "from", 0));
    const int32_t *const ids =
        run_list(j.s, strcmp(verb, "force") == 0 ? "ids" : "prompt", &prompts);
    cls_params p;
    if (strcmp(verb, "begin") == 0 || strcmp(verb, "params") == 0)
        run_params(side, j.s, &p);
    for (uint32_t i = 0; i < n; i++) {
        const run_record *const returned = record_from("returned", &at);
        model *const m = model_of(slots[i]);
        if (m == NULL || returned == NULL || returned->bytes[0] != CLS_OK)
            continue;
        if (strcmp(verb, "begin") == 0 || strcmp(verb, "params") == 0)
            take_params(m, &p, ids, prompts);
        else if (strcmp(verb, "append") == 0)
            model_append(m, ids, prompts);
        else if (strcmp(verb, "turn") == 0)
            model_next_turn(m, ids, prompts);
        else if (strcmp(verb, "force") == 0)
            model_force(m, ids, prompts);
        else if (strcmp(verb, "rollback") == 0)
            model_rollback(m, count);
        else if (strcmp(verb, "reset") == 0)
            m->begun = m->unknown = 0;
        else if (strcmp(verb, "copy") == 0 && from != NULL)
            *m = *from;
        else if (strcmp(verb, "copy") == 0)
            m->unknown = true;
    }
}

static void save(void)
{
    uint32_t n, at = 0;
    const int32_t *const slots = run_slots(j.s, &n);
    const char *const name = run_find(j.s, "as");
    for (uint32_t i = 0; i < n; i++) {
        const run_record *const returned = record_from("returned", &at);
        if (name == NULL || model_of(slots[i]) == NULL || returned->bytes[0] != CLS_OK)
            continue;
        j.saved = cli_grow(j.saved, j.n_saved + (size_t)1, sizeof *j.saved);
        j.saved[j.n_saved].name = name;
        j.saved[j.n_saved++].m = *model_of(slots[i]);
    }
}

static void load(void)
{
    uint32_t n, at = 0, which = j.n_saved;
    const int32_t *const slots = run_slots(j.s, &n);
    while (which > 0 && strcmp(j.saved[which - 1].name, run_value(j.s, "from")) != 0)
        which--;
    for (uint32_t i = 0; i < n; i++) {
        const run_record *const returned = record_from("returned", &at);
        if (model_of(slots[i]) == NULL || returned->bytes[0] != CLS_OK)
            continue;
        *model_of(slots[i]) = j.saved[which - 1].m;
        model_of(slots[i])->unknown |= run_find(j.s, "word") != NULL; /* any request */
    }
}

/* ------------------------------------------------------------------------- steps */

/* The inputs of a row of a statement that is a step. */
static one_row inputs_of(run_side *side, const run_statement *s, uint32_t row, const model *m)
{
    cls_step step;
    one_row r;
    run_step_row(side, s, row, &step);
    const int32_t *const maps[] = {step.logits_map.host, step.mask.row_map.host,
                                   step.bias.row_map.host, step.positions.host, step.draws.host};
    const cls_ints *const on_device[] = {&step.logits_map, &step.mask.row_map, &step.bias.row_map,
                                         &step.positions, &step.draws};
    int32_t at[5] = {0, 0, 0, (int32_t)m->position, 0};
    for (int i = 0; i < 5; i++) {
        if (maps[i] != NULL)
            at[i] = *maps[i];
        else if (on_device[i]->device.pointer != NULL)
            memcpy(&at[i], on_device[i]->device.pointer, sizeof at[i]);
    }
    const size_t size = step.logits.dtype == CLS_F32 ? 4 : 2, width = step.mask.width,
                 of_bias = step.bias.dtype == CLS_F32 ? 4 : 2, vocab = m->vocab;
    const char *const mask = step.mask.host != NULL ? step.mask.host : step.mask.words.pointer,
                      *const bias = step.bias.values.pointer;
    one_row_init(&r);
    r.logits = (const char *)step.logits.values.pointer + (size_t)at[0] * vocab * size;
    r.dtype = step.logits.dtype;
    r.softcap = step.logits.softcap;
    r.vocab = m->vocab;
    r.mask_kind = step.mask.kind;
    r.mask_width = step.mask.width;
    if (mask != NULL && at[1] >= 0)
        r.mask = mask + (size_t)at[1] * width * (step.mask.kind == CLS_MASK_BOOL ? 1 : 4);
    if (bias != NULL && at[2] >= 0)
        r.bias = bias + (size_t)at[2] * vocab * of_bias;
    r.bias_dtype = step.bias.dtype;
    r.bias_factor = step.bias.factor;
    r.position = (uint32_t)at[3];
    r.draw = (uint32_t)at[4];
    r.random_bits = step.random_bits.pointer;
    r.invalid_token = step.invalid_token;
    r.infill = &side->infill;
    if (!m->params.infill)
        r.infill = NULL;
    return r;
}

/* Whether a row of a step names what it reads: other rows have no request. */
static bool is_mapped(uint32_t row)
{
    static const char *const maps[] = {"logits_map", "mask_map", "bias_map"};
    for (int i = 0; i < 3; i++) {
        uint32_t n;
        const int32_t *const map = list_of(maps[i], &n);
        const uint64_t rows = i == 0   ? run_number(j.s, "logits_rows", n)
                              : i == 1 ? run_number(j.s, "mask_rows", n)
                                       : run_number(j.s, "bias_rows", n);
        if (map != NULL && (map[row] < (i == 0 ? 0 : -1) || map[row] >= (int64_t)rows))
            return false;
    }
    return true;
}

/* What a row wrote to an output, or NULL; *n becomes its elements. */
static const void *of_row(const char *name, uint32_t row, uint32_t *n)
{
    uint32_t at = 0;
    const run_record *const r = record_from(name, &at);
    if (r == NULL)
        return NULL;
    if (n != NULL)
        *n = (uint32_t)r->width;
    return r->bytes + row * r->width * 4;
}

static void require(bool right, const char *output, uint32_t row)
{
    if (!right && *j.fault == '\0')
        snprintf(j.fault, sizeof j.fault, "brute force: %s of row %" PRIu32 " is another", output,
                 row);
}

/* The token of a row, the likeliest tokens, and given ones. */
static void judge_tokens(uint32_t row, const brute *b)
{
    uint32_t n = 0, g = 0;
    const float *const logprob = of_row("logprobs", row, NULL),
                       *const top = of_row("top.logprobs", row, &n),
                       *const given = of_row("given.logprobs", row, &g);
    const int32_t *const token = of_row("tokens", row, NULL),
                         *const rank = of_row("ranks", row, NULL),
                         *const top_ids = of_row("top.ids", row, &n),
                         *const ranks = of_row("given.ranks", row, &g);
    /* Where nothing truncates a row, it may draw a token whose own weight is rounded to 0. */
    const bool draws = token != NULL && b->logprob[*token] > -INFINITY;
    int32_t *const ids = cli_alloc(g + (size_t)1, sizeof *ids); /* as clsample run gives them */
    require(token == NULL || brute_given(b, token, draws ? logprob : NULL, rank, 1) == 1,
            "logprobs or ranks", row);
    require(brute_top(b, top_ids, top, n) == n, "top", row);
    for (uint32_t i = 0; i < g; i++)
        ids[i] = (row * g + i) % 9 == 8
                     ? -1
                     : (int32_t)((uint64_t)(row * g + i) * 2654435761u % b->vocab);
    require(brute_given(b, ids, given, ranks, g) == g, "given", row);
    j.outputs++;
}

/* The set that a row is drawn from. */
static void judge_set(uint32_t row, const brute *b, const float *logits, const float *probs)
{
    uint32_t n = 0;
    const float *const all = of_row("probs", row, NULL),
                       *const entropy = of_row("entropy", row, NULL),
                       *const kept = of_row("kept.logits", row, &n),
                       *const of_kept = of_row("kept.probs", row, &n);
    const int32_t *const count = of_row("kept.counts", row, NULL), *const ids =
                                                                       of_row("kept.ids", row, &n);
    for (uint32_t i = 0; i < b->vocab; i++) {
        require(logits[i] > -INFINITY || probs[i] == 0.0f, "final_logits", row);
        require(all == NULL || all[i] == probs[i], "probs", row);
    }
    require(entropy == NULL || fabs((double)*entropy - b->entropy) <= 1e-4, "entropy", row);
    require(count == NULL || (uint32_t)*count == b->n, "kept.counts", row);
    for (uint32_t i = 0; i < n; i++) {
        const int32_t id = i < b->n ? (int32_t)b->order[i] : -1;
        require(ids[i] == id, "kept.ids", row);
        require(kept[i] == (id < 0 ? -INFINITY : logits[id]), "kept.logits", row);
        require(of_kept[i] == (id < 0 ? 0.0f : probs[id]), "kept.probs", row);
    }
}

static void judge_raw(uint32_t row, const one_row *r)
{
    float *const raw = cli_alloc(r->vocab, sizeof *raw);
    brute b;
    for (uint32_t i = 0; i < r->vocab; i++)
        raw[i] = oracle_logit(r, i);
    brute_make(&b, raw, r->vocab, NULL);
    judge_tokens(row, &b);
    brute_free(&b);
}

/* Judges the outputs of a row of a step by brute force: of the raw row, or of a set by its final
 * logits and its probabilities. */
static void judge_outputs(uint32_t row, const one_row *r, const float *probs)
{
    const char *const list = run_find(j.s, "outputs");
    const float *const set = of_row("final_logits", row, NULL);
    bool final = false;
    brute b;
    for (const char *at = list; at != NULL; at = *at == '\0' ? NULL : at + (*at == ',')) {
        final |= strcspn(at, ",") == 5 && strncmp(at, "final", 5) == 0;
        at += strcspn(at, ",");
    }
    if (list != NULL && !final)
        judge_raw(row, r);
    if (list == NULL || set == NULL)
        return;
    brute_make(&b, set, r->vocab, probs);
    judge_set(row, &b, set, probs);
    if (final)
        judge_tokens(row, &b);
    brute_free(&b);
}

/* Statuses of rows without a token. */
enum { NOTHING = CLS_ROW_SKIPPED | CLS_ROW_NO_SLOT | CLS_ROW_EMPTY | CLS_ROW_UNFIT };

/* Asks the oracle whether a row is right, and compares the token with that of its request. */
static void ask(uint32_t row, one_row *r, model *m, int32_t token, int32_t status)
{
    one_result result = {.token = -1};
    int decided = 1;
    if ((status & (CLS_ROW_SKIPPED | CLS_ROW_NO_SLOT | CLS_ROW_FORCED)) || !model_row(m, r))
        return;
    const char *const fault = oracle_against(r, &result, &decided);
    if (fault != NULL && *j.fault == '\0')
        snprintf(j.fault, sizeof j.fault, "the oracle: row %" PRIu32 ": %s: %s", row, fault,
                 model_words(m));
    if (token != result.token || (status & ~CLS_ROW_OVERFLOW) != result.status)
        differ(m, "the request as one row", row, 0, token, status, result.token, result.status);
    m->after = result.adaptive;
    m->judged = result.token;
    j.asked++;
    j.undecided += (uint64_t)!decided;
}

static void step(run_side *side)
{
    const int32_t *const tokens = ints("tokens"), *const status = ints("status");
    const bool defers = run_number(j.s, "defer", run_number(j.s, "defer_accept", 0)) != 0;
    const char *const bits = run_find(j.s, "random_bits");
    /* The bits at the edges of a token are found by the slot as it was before. */
    const bool can_tell = bits == NULL || strstr(bits, "edges") == NULL;
    uint32_t n;
    const int32_t *const slots = slots_of_rows(&n);
    n = (uint32_t)run_number(j.s, "rows", n) < n ? (uint32_t)run_number(j.s, "rows", n) : n;
    for (uint32_t row = 0; row < n && status != NULL && tokens != NULL; row++) {
        model *const m = model_of(slots[row]);
        int32_t token, wanted;
        if (m == NULL)
            continue;
        if (can_tell && is_mapped(row) && model_can_tell(m)) {
            const one_row r = inputs_of(side, j.s, row, m);
            float *const probs = cli_alloc(m->vocab, sizeof *probs);
            model_next(m, &r, probs, &token, &wanted);
            if (!(status[row] & (NOTHING | CLS_ROW_FORCED)))
                judge_outputs(row, &r, probs);
            /* A set that has no room is not the request's. */
            if (tokens[row] != token || (status[row] & ~CLS_ROW_OVERFLOW) != wanted)
                differ(m, "step", row, 0, tokens[row], status[row], token, wanted);
            j.rows++;
        }
        if (j.asks && can_tell && is_mapped(row) && m->begun) {
            one_row r = inputs_of(side, j.s, row, m);
            ask(row, &r, m, tokens[row], status[row]);
        }
        if (!defers && !(status[row] & NOTHING))
            model_accept(m, tokens[row]);
    }
}

/* --------------------------------------------------------------------- acceptance */

static void accept(void)
{
    const uint32_t per_row = (uint32_t)run_number(j.s, "per_row", 1);
    const char *const text = run_find(j.s, "tokens");
    uint32_t n, any;
    const int32_t *const slots = slots_of_rows(&n), *const counts = list_of("counts", &any),
                         *const back = list_of("rollback", &any);
    const int32_t *tokens = NULL;
    if (text != NULL && strcmp(text, "drawn") != 0)
        tokens = list_of("tokens", &any);
    for (uint32_t i = j.side->records; text != NULL && tokens == NULL && i-- > 0;)
        if (j.side->record[i].statement < j.side->index &&
            strcmp(j.side->record[i].name, "tokens") == 0 &&
            j.side->record[i].size >= (size_t)n * per_row * 4)
            tokens = (const int32_t *)(const void *)j.side->record[i].bytes;
    for (uint32_t row = 0; row < n && tokens != NULL; row++) {
        model *const m = model_of(slots[row]);
        const int32_t count = counts != NULL ? counts[row] : (int32_t)per_row,
                      taken = back != NULL ? back[row] : 0;
        int32_t same = 0; /* tokens that are accepted again at once stay */
        if (m == NULL)
            continue;
        if (count < 0 || (uint32_t)count > per_row || taken < 0)
            m->begun = 0;
        else if (taken > 0) {
            const int can = (uint32_t)taken <= model_can_roll_back(m);
            while (can && same < taken && same < count &&
                   m->id[m->n - (uint32_t)(taken - same)] == tokens[row * per_row + (uint32_t)same])
                same++;
            model_rollback(m, (uint32_t)(taken - same));
        }
        for (int32_t i = same; i < count && (uint32_t)i < per_row; i++)
            model_accept(m, tokens[row * per_row + (uint32_t)i]);
    }
}

/* ------------------------------------------------------------------ verifications */

/* A step with the rows of a verification. */
static run_statement as_step(const run_statement *s, uint32_t rows)
{
    static const char *const keys[] = {
        "logits",    "kind",      "dtype",      "softcap",   "logits_pick", "mask",
        "mask_kind", "mask_pick", "mask_width", "mask_rows", "mask_map",    "mask_host",
        "bias",      "bias_pick", "bias_dtype", "bias_rows", "bias_map",    "bias_factor"};
    run_statement step = *s;
    char *const number = cli_alloc(12, 1);
    snprintf(number, 12, "%" PRIu32, rows);
    step.verb = "step";
    step.words = 1;
    step.word = cli_alloc(s->words + (size_t)1, sizeof *step.word);
    step.word[0] = (run_word){"rows", number};
    for (uint32_t i = 0; i < s->words; i++)
        for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
            if (strcmp(s->word[i].key, keys[k]) == 0)
                step.word[step.words++] = s->word[i];
    return step;
}

/* Log-probabilities of raw rows, as of a step. */
static void logprobs(run_side *side)
{
    const uint32_t rows = (uint32_t)run_number(j.s, "rows", side->sampler_options.max_rows);
    const run_statement s = as_step(j.s, rows);
    model none = {.vocab = side->sampler_options.vocab};
    for (uint32_t row = 0; row < rows; row++) {
        const one_row r = inputs_of(side, &s, row, &none);
        judge_raw(row, &r);
    }
}

typedef struct verification {
    run_statement rows;
    uint32_t total, width; /* drafts of all requests; places of one */
    const int32_t *drafts, *slots, *ids, *parents;
} verification;

/* The ids of drafts that are likely in their rows, as clsample run finds them. */
static const int32_t *likely(run_side *side, const verification *v, uint32_t requests)
{
    const char *const text = run_find(j.s, "ids");
    int32_t *const ids = cli_alloc(v->total + (size_t)1, sizeof *ids);
    uint64_t number[3];
    if (!run_is(j.s, text + (*text == '@'), "likely", number))
        return NULL;
    rng r = {number[0]};
    for (uint32_t i = 0, k = 0; i < requests; i++)
        for (int32_t d = 0; d < v->drafts[i]; d++, k++) {
            const one_row row = inputs_of(side, &v->rows, k + i, &j.slot[0]);
            ids[k] = run_likely(&r, row.logits, row.dtype, row.vocab);
        }
    return ids;
}

/* Emits the token of each row, and goes on behind the draft that equals it. `first` is the number
 * of the request's first draft. */
static void judge_request(run_side *side, const verification *v, uint32_t request, uint32_t first)
{
    const bool no_bonus = run_number(j.s, "disable_bonus", 0) != 0;
    const int32_t *const tokens = ints("tokens") + (size_t)request * v->width,
                         emitted = ints("emitted")[request], accepted = ints("accepted")[request];
    const model *const m = model_of(v->slots[request]);
    model *const trial = cli_alloc(1, sizeof *trial);
    int32_t at = -1, n = 0, taken = 0, token, status, children;
    *trial = *m;
    for (int32_t next = 0; next >= 0; at = next, n++) {
        const uint32_t row = first + request + (uint32_t)(at + 1);
        if (!is_mapped(row))
            break;
        const one_row r = inputs_of(side, &v->rows, row, trial);
        model_next(trial, &r, NULL, &token, &status);
        if (status & NOTHING)
            break;
        next = -1;
        children = 0;
        for (int32_t k = v->drafts[request] - 1; k >= 0; k--)
            if ((v->parents != NULL ? v->parents[first + (uint32_t)k] : k - 1) == at) {
                children++;
                next = v->ids[first + (uint32_t)k] == token ? k : next;
            }
        if (children == 0 && v->drafts[request] != 0 && no_bonus)
            break;
        if (n >= emitted || tokens[n] != token) {
            differ(m, "verify", request, (uint32_t)n, tokens[n], status, token, 0);
            return;
        }
        taken += next >= 0;
        model_accept(trial, token);
        if (status & CLS_ROW_STOPPED)
            next = -1;
    }
    if (emitted != n || accepted != taken)
        differ(m, "verify", request, (uint32_t)n, accepted, emitted, taken, n);
    j.rows += (uint32_t)n;
}

static void verify(run_side *side)
{
    const char *const method = run_find(j.s, "method"), *const text = run_find(j.s, "ids");
    const bool compares = method == NULL || strcmp(method, "match") == 0;
    const int32_t *const tokens = ints("tokens"), *const emitted = ints("emitted");
    uint32_t n, any, first = 0;
    verification v = {.total = 0};
    v.drafts = run_list(j.s, "drafts", &n);
    v.slots = slots_of_rows(&any);
    v.parents = list_of("parents", &any);
    v.width = (uint32_t)run_number(j.s, "max_drafts", 0);
    for (uint32_t i = 0; i < n; i++) {
        v.width = (uint32_t)v.drafts[i] > v.width ? (uint32_t)v.drafts[i] : v.width;
        v.total += (uint32_t)v.drafts[i];
    }
    v.width++;
    v.rows = as_step(j.s, v.total + n);
    if (text != NULL && (*text == '@' || isdigit(*text)) && strstr(text, "likely") == NULL)
        v.ids = list_of("ids", &any);
    else if (text != NULL)
        v.ids = likely(side, &v, n);
    n = (uint32_t)run_number(j.s, "requests", n);
    for (uint32_t i = 0; i < n && tokens != NULL && emitted != NULL; i++) {
        model *const m = model_of(v.slots[i]);
        const uint32_t drafts = (uint32_t)v.drafts[i];
        if (m != NULL && model_can_tell(m) && m->params.relaxed_top_k == 0 &&
            (compares || (m->params.temperature < 1e-5f && v.parents == NULL)) &&
            run_find(j.s, "positions") == NULL && run_find(j.s, "draws") == NULL &&
            (v.ids != NULL || v.total == 0))
            judge_request(side, &v, i, first);
        for (int32_t k = 0; k < emitted[i] && m != NULL; k++)
            model_accept(m, tokens[i * v.width + (uint32_t)k]);
        first += drafts;
    }
}

/* ------------------------------------------------------------------------- drafts */

/* Finds a draft by trying all places one after the other, the longest sequences first. */
static void draft(void)
{
    const uint32_t k = (uint32_t)run_number(j.s, "k", 0),
                   least = (uint32_t)run_number(j.s, "min_n", 2),
                   most = (uint32_t)run_number(j.s, "max_n", 8);
    const uint64_t apart = run_number(j.s, "ids_stride", 1),
                   of_request = run_number(j.s, "ids_request_stride", k * apart);
    const int32_t *const ids = ints("drafts"), *const counts = run_find(j.s, "counts") == NULL
                                                                   ? ints("counts")
                                                                   : NULL;
    uint32_t n;
    const int32_t *const slots = slots_of_rows(&n);
    n = (uint32_t)run_number(j.s, "requests", n);
    for (uint32_t row = 0; row < n && ids != NULL; row++) {
        const model *const m = model_of(slots[row]);
        if (m == NULL || m->unknown)
            continue;
        const uint32_t history = j.side->sampler_options.max_history,
                       count = !m->begun || model_stopped(m) ? 0
                               : m->n < history              ? m->n
                                                             : history;
        const int32_t *const text = m->id + m->n - count;
        uint32_t found = 0;
        for (uint32_t length = most; length >= least && found == 0; length--)
            for (uint32_t at = count; at-- > 1 && found == 0;)
                if (length <= at &&
                    memcmp(text + at - length, text + count - length, length * sizeof *text) == 0)
                    found = at;
        if (counts != NULL && counts[row] != (found != 0 ? (int32_t)k : 0))
            differ(m, "draft", row, 0, counts[row], 0, (int32_t)k, (int32_t)found);
        for (uint32_t i = 0; i < k && found != 0; i++) {
            const uint32_t period = count - found;
            const int32_t wanted = text[found + i % period], is = ids[row * of_request + i * apart];
            if (is != wanted)
                differ(m, "draft", row, i, is, 0, wanted, 0);
        }
        j.drafts++;
    }
}

/* -------------------------------------------------------------------------- texts */

static void begin_sampler(const run_side *side)
{
    const cls_sampler_options *const o = &side->sampler_options;
    j.slots = o->slot_count;
    j.slot = cli_alloc(j.slots, sizeof *j.slot);
    for (uint32_t i = 0; i < j.slots; i++) {
        j.slot[i].vocab = o->vocab;
        j.slot[i].history = o->max_history;
        j.slot[i].rollback = o->max_rollback;
        cls_params_init(&j.slot[i].params);
    }
}

static const struct {
    const char *verb;
    void (*judge)(run_side *side);
} calls[] = {{"begin", slot_call}, {"params", slot_call},   {"append", slot_call},
             {"turn", slot_call},  {"force", slot_call},    {"copy", slot_call},
             {"reset", slot_call}, {"rollback", slot_call}, {"step", step},
             {"verify", verify},   {"logprobs", logprobs}};

const char *judge(run_side *side, const run_statement *s)
{
    j.side = side;
    j.s = s;
    *j.fault = '\0';
    if (side->index == 0) {
        j.n_saved = 0;
        j.saved = NULL;
        j.slots = 0;
    }
    if (strcmp(s->verb, "sampler") == 0)
        begin_sampler(side);
    if (j.slots == 0)
        return NULL;
    if (strcmp(s->verb, "save") == 0)
        save();
    else if (strcmp(s->verb, "load") == 0)
        load();
    else if (strcmp(s->verb, "accept") == 0 && !was_refused())
        accept();
    else if (strcmp(s->verb, "draft") == 0 && !was_refused())
        draft();
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if (strcmp(s->verb, calls[i].verb) == 0 && (calls[i].judge == slot_call || !was_refused()))
            calls[i].judge(side);
    return *j.fault != '\0' ? j.fault : NULL;
}

void judge_asks(void) { j.asks = true; }

bool judge_census(void)
{
    printf("judged by the model: %" PRIu64 " rows, %" PRIu64 " drafts of texts, outputs of %" PRIu64
           " rows by brute force",
           j.rows, j.drafts, j.outputs);
    if (j.asks)
        printf("; by the oracle: %" PRIu64 " rows, %" PRIu64 " undecided", j.asked, j.undecided);
    printf("\n");
    return j.asks && (j.asked == 0 || j.undecided > 1 + j.asked / 33);
}
