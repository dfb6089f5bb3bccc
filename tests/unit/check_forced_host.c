/* SPDX-License-Identifier: MIT */
/* Proves thinking budgets, forced ids and loop stops of the reference against a brute-force model,
 * which follows the comments in params.h, host.h and step.h and shares no code with the library.
 * Vocabularies are so small that sequences of ids and loops occur often. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "fixture.h"
#include "inputs.h"

enum { MOST_IDS = 8, TEXT = 160, SEQUENCE = 4, DRAFTS = 6 };

/* ------------------------------------------------------------------------ the model */

/* A request as a list of its tokens, and what its parameters point to. */
typedef struct story {
    cls_params p;
    uint32_t vocab;
    int32_t start[SEQUENCE], end[SEQUENCE], forced[SEQUENCE], stop[2];
    int32_t text[TEXT]; /* with ids outside the vocabulary, which do not count */
    uint32_t n, prompt;
    cls_adaptive_state adaptive;
} story;

/* The valid tokens of a story, followed by n more of its output. */
typedef struct valid {
    int32_t id[TEXT];
    uint32_t n, outputs;
} valid;

static valid valid_of(const story *s, const int32_t *more, uint32_t n_more)
{
    valid v = {.n = 0};
    for (uint32_t i = 0; i < s->n + n_more; i++) {
        const int32_t id = i < s->n ? s->text[i] : more[i - s->n];
        if (id < 0 || (uint32_t)id >= s->vocab)
            continue;
        v.id[v.n++] = id;
        v.outputs += i >= s->prompt;
    }
    return v;
}

/* Returns whether the first n tokens end with a sequence. */
static int has_end(const valid *v, uint32_t n, const int32_t *ids, uint32_t count)
{
    return count != 0 && count <= n && memcmp(v->id + n - count, ids, count * sizeof *ids) == 0;
}

/* Returns the id that the thinking budget forces after the text, or -1. */
static int32_t budget_id(const story *s, const valid *v)
{
    const cls_params *const p = &s->p;
    uint32_t counted = 0, emitted = 0;
    int thinks = p->thinking_start.count == 0;
    for (uint32_t n = 1; n <= v->n; n++) {
        const int is_output = n > v->n - v->outputs, due = counted == p->thinking_budget;
        if (!thinks) {
            thinks = has_end(v, n, p->thinking_start.ids, p->thinking_start.count);
            counted = emitted = 0;
        } else if (due && is_output && v->id[n - 1] == p->thinking_forced.ids[emitted]) {
            thinks = ++emitted < p->thinking_forced.count;
        } else if (has_end(v, n, p->thinking_end.ids, p->thinking_end.count)) {
            thinks = 0;
        } else if (is_output && !due) {
            counted++;
        }
    }
    return thinks && counted == p->thinking_budget ? p->thinking_forced.ids[emitted] : -1;
}

/* Returns whether the output ends with copies of the same tokens. */
static int ends_in_loop(const story *s, const valid *v)
{
    for (uint32_t n = s->p.loop_min; n <= s->p.loop_max && s->p.loop_repeats != 0; n++) {
        uint32_t copies = 1;
        while ((copies + 1) * n <= v->outputs &&
               memcmp(v->id + v->n - (copies + 1) * n, v->id + v->n - n, n * sizeof *v->id) == 0)
            copies++;
        if (copies >= s->p.loop_repeats && copies * n <= v->outputs)
            return 1;
    }
    return 0;
}

/* Returns the status bits of the text's last token, an output token. */
static int32_t ends_of(const story *s, const valid *v)
{
    int32_t status = 0;
    if (s->p.max_tokens != 0 && v->outputs >= s->p.max_tokens)
        status = CLS_ROW_STOPPED | CLS_ROW_LENGTH;
    for (uint32_t i = 0; i < s->p.stop_ids.count && v->outputs >= s->p.min_tokens; i++)
        if (v->id[v->n - 1] == s->p.stop_ids.ids[i])
            status = CLS_ROW_STOPPED;
    return ends_in_loop(s, v) ? status | CLS_ROW_STOPPED | CLS_ROW_LOOP : status;
}

static int has_stopped(const story *s, const valid *v)
{
    return v->outputs != 0 && ends_of(s, v) != 0;
}

/* --------------------------------------------------------------------- random stories */

static uint32_t random_sequence(rng *r, uint32_t vocab, uint32_t least, int32_t *ids)
{
    const uint32_t n = least + rng_below(r, SEQUENCE + 1 - least);
    for (uint32_t i = 0; i < n; i++)
        ids[i] = (int32_t)rng_below(r, vocab);
    return n;
}

/* Makes a sequence that is equal to another one, or overlaps it, or has it at its end. */
static uint32_t sequence_like(rng *r, const int32_t *other, uint32_t n_other, int32_t *ids)
{
    const uint32_t from = n_other ? rng_below(r, n_other) : 0;
    uint32_t n = n_other - from;
    memmove(ids, other + from, n * sizeof *ids);
    if (n < SEQUENCE && rng_below(r, 2)) {
        ids[n] = n_other ? other[rng_below(r, n_other)] : 0;
        n++;
    }
    return n;
}

static void random_thinking(story *s, rng *r)
{
    cls_params *const p = &s->p;
    p->thinking_start.count = rng_below(r, 3) ? random_sequence(r, s->vocab, 0, s->start) : 0;
    p->thinking_end.count = rng_below(r, 4) == 0
                                ? sequence_like(r, s->start, p->thinking_start.count, s->end)
                                : random_sequence(r, s->vocab, 0, s->end);
    p->thinking_forced.count = rng_below(r, 3) == 0
                                   ? sequence_like(r, s->end, p->thinking_end.count, s->forced)
                                   : random_sequence(r, s->vocab, 1, s->forced);
    if (p->thinking_forced.count == 0)
        s->forced[p->thinking_forced.count++] = 0;
    p->thinking_budget = rng_below(r, 6);
    p->thinking_start.ids = p->thinking_start.count ? s->start : NULL;
    p->thinking_end.ids = p->thinking_end.count ? s->end : NULL;
    p->thinking_forced.ids = s->forced;
}

static void random_story(story *s, rng *r, int adaptive)
{
    static const float temperatures[] = {0.0f, 0.7f, 1.0f, 3.0f};
    memset(s, 0, sizeof *s);
    cls_params_init(&s->p);
    s->vocab = 3 + rng_below(r, MOST_IDS - 2);
    s->p.temperature = temperatures[rng_below(r, 4)];
    s->p.seed = rng_bits(r);
    s->p.top_k = rng_below(r, 2) ? 0 : 1 + (int32_t)rng_below(r, s->vocab);
    s->p.top_p = rng_below(r, 2) ? 1.0f : 0.8f;
    s->p.presence_penalty = rng_below(r, 2) ? 0.0f : 0.5f;
    s->p.no_repeat_ngram = rng_below(r, 8) ? 0 : 3;
    s->p.max_tokens = rng_below(r, 4) ? 0 : 1 + rng_below(r, 30);
    s->p.min_tokens = rng_below(r, 3) ? 0 : rng_below(r, 8);
    s->p.stop_ids.count = rng_below(r, 4) ? 0 : 1 + rng_below(r, 2);
    for (uint32_t i = 0; i < s->p.stop_ids.count; i++)
        s->stop[i] = (int32_t)rng_below(r, s->vocab);
    s->p.stop_ids.ids = s->p.stop_ids.count ? s->stop : NULL;
    if (adaptive == 1 || adaptive == 2) {
        s->p.mirostat = adaptive;
        s->p.mirostat_tau = 1.5f;
    } else if (adaptive == 3) {
        s->p.adaptive_target = 0.4f;
    } else if (adaptive == 4) {
        s->p.top_p = 0.9f;
        s->p.top_p_decay = 0.8f;
        s->p.top_p_min = 0.3f;
        s->p.top_p_reset_id = (int32_t)rng_below(r, s->vocab);
    }
    if (rng_below(r, 8))
        random_thinking(s, r);
    if (rng_below(r, 2)) {
        s->p.loop_repeats = 2 + rng_below(r, 4);
        s->p.loop_min = 1 + rng_below(r, 3);
        s->p.loop_max = s->p.loop_min + rng_below(r, 4);
    }
    s->prompt = rng_below(r, 12);
    for (s->n = 0; s->n < s->prompt; s->n++)
        s->text[s->n] = rng_below(r, 8) ? (int32_t)rng_below(r, s->vocab) : -1;
}

static const char *words_of(const story *s)
{
    static char words[900];
    size_t n = 0;
    const struct {
        const char *name;
        const int32_t *ids;
        uint32_t count;
    } lists[] = {{"text", s->text, s->n},
                 {"start", s->start, s->p.thinking_start.count},
                 {"end", s->end, s->p.thinking_end.count},
                 {"forced", s->forced, s->p.thinking_forced.count}};
    n += (size_t)snprintf(
        words, sizeof words, "vocab %u, %u of prompt, budget %u, loops %u to %u times %u", s->vocab,
        s->prompt, s->p.thinking_budget, s->p.loop_min, s->p.loop_max, s->p.loop_repeats);
    for (uint32_t i = 0; i < 4; i++) {
        n += (size_t)snprintf(words + n, sizeof words - n, ", %s", lists[i].name);
        for (uint32_t k = 0; k < lists[i].count && n < sizeof words - 8; k++)
            n += (size_t)snprintf(words + n, sizeof words - n, " %d", lists[i].ids[k]);
    }
    return words;
}

/* ------------------------------------------------------------------------------ rows */

/* Turns off what the reference must not need in order to draw. */
static cls_params without(const cls_params *p)
{
    cls_params plain = *p;
    plain.thinking_start.ids = plain.thinking_end.ids = plain.thinking_forced.ids = NULL;
    plain.thinking_start.count = plain.thinking_end.count = plain.thinking_forced.count = 0;
    plain.thinking_budget = plain.loop_repeats = plain.max_tokens = 0;
    return plain;
}

static cls_host_row row_of(const story *s, const cls_params *p, const float *logits,
                           const uint8_t *mask)
{
    const valid v = valid_of(s, NULL, 0);
    cls_host_row h = host_row(logits, s->vocab, p);
    h.mask = mask;
    h.mask_kind = CLS_MASK_BOOL;
    h.prompt = s->prompt ? s->text : NULL;
    h.prompt_count = s->prompt;
    h.output = s->n > s->prompt ? s->text + s->prompt : NULL;
    h.output_count = s->n - s->prompt;
    h.position = p->position + v.outputs;
    h.invalid_token = -1;
    h.adaptive = s->adaptive;
    return h;
}

static void random_logits(rng *r, float *x, uint32_t n)
{
    const uint32_t what = rng_below(r, 12);
    for (uint32_t i = 0; i < n; i++)
        x[i] = (float)rng_below(r, 64) / 16.0f;
    if (what == 0)
        for (uint32_t i = 0; i < n; i++)
            x[i] = NAN;
    else if (what == 1)
        x[rng_below(r, n)] = INFINITY;
    else if (what == 2)
        x[rng_below(r, n)] = NAN;
    else if (what == 3)
        for (uint32_t i = 0; i < n; i++)
            x[i] = rng_below(r, 2) ? x[i] : -INFINITY;
}

/* The adaptive state after a forced token that is not the row's draw: only top-p decays. */
static void expect_not_drawn(const story *s, const cls_host_row *h, int32_t token,
                             const cls_host_result *got)
{
    const cls_params *const p = &s->p;
    const cls_adaptive_state *const was = &h->adaptive, *const now = &got->adaptive;
    if (p->temperature < 1e-5f) /* greedy rows have no such state */
        return;
    if (p->mirostat != 0)
        ck_assert_int_eq(now->mu,
                         was->begun ? was->mu : (int32_t)(2.0f * p->mirostat_tau * 0x1p20f));
    if (p->adaptive_target >= 0.0f && was->begun)
        ck_assert(now->sum == was->sum && now->weight == was->weight);
    if (p->top_p_decay < 1.0f && was->begun) {
        const double before = was->top_p * 0x1p-32,
                     after = token == p->top_p_reset_id
                                 ? (double)p->top_p
                                 : fmax(before * (double)p->top_p_decay, (double)p->top_p_min);
        ck_assert_msg(fabs(now->top_p * 0x1p-32 - after) < 1e-6, "top_p %g, not %g: %s",
                      now->top_p * 0x1p-32, after, words_of(s));
    }
}

static void expect_logprobs(const story *s, const float *x, const cls_host_result *got,
                            const float *probs)
{
    double sum = 0.0, most = -INFINITY;
    for (uint32_t i = 0; i < s->vocab; i++) {
        const double z = isnan(x[i]) ? -(double)INFINITY : fmin((double)x[i], 3.4028234e38);
        most = fmax(most, z);
    }
    for (uint32_t i = 0; i < s->vocab; i++)
        sum += isnan(x[i]) ? 0.0 : exp(fmin((double)x[i], 3.4028234e38) - most);
    const double z = (double)x[got->token];
    const double raw =
        !(z > -(double)INFINITY) ? -(double)INFINITY : fmin(z, 3.4028234e38) - most - log(sum);
    const double final = log((double)probs[got->token]); /* of 0: -inf */
    ck_assert_msg((double)got->logprob_raw == raw || raw < -1e37 ||
                      fabs((double)got->logprob_raw - raw) < 1e-5,
                  "raw %g, not %g: %s", (double)got->logprob_raw, raw, words_of(s));
    ck_assert_msg((double)got->logprob_final == final ||
                      fabs((double)got->logprob_final - final) < 1e-5,
                  "final %g, not %g: %s", (double)got->logprob_final, final, words_of(s));
}

typedef struct tally {
    uint32_t rows, forced, empty, undrawn, loops, stops;
} tally;

/* Samples a row and compares it with the model and with a plain row. Returns the result. */
static cls_host_result check_row(const story *s, const cls_host_row *h, const uint8_t *mask,
                                 int32_t callers_id, tally *n)
{
    float probs[MOST_IDS], plain_probs[MOST_IDS];
    const valid v = valid_of(s, NULL, 0);
    const cls_params plain_params = without(&s->p);
    cls_host_row plain_row = *h;
    cls_host_result got = {.probs = probs}, plain = {.probs = plain_probs};
    int32_t token = -1, status = CLS_ROW_STOPPED | CLS_ROW_SKIPPED;
    plain_row.params = &plain_params;
    plain_row.forced_count = 0;
    plain_row.forced_ids = NULL;
    must(cls_host_sample(h, &got));
    must(cls_host_sample(&plain_row, &plain));
    const int runs = !has_stopped(s, &v);
    const int32_t due = !runs                        ? -1
                        : callers_id >= 0            ? callers_id
                        : s->p.thinking_forced.count ? budget_id(s, &v)
                                                     : -1;
    const int is_masked = due >= 0 && mask != NULL && !mask[due];
    if (runs) {
        token = due >= 0 && !is_masked ? due : is_masked ? -1 : plain.token;
        status = plain.status & (CLS_ROW_NAN | CLS_ROW_INF);
        if (due >= 0)
            status |= is_masked ? CLS_ROW_EMPTY : CLS_ROW_FORCED;
        else
            status |= plain.status & CLS_ROW_EMPTY;
        if (token >= 0) {
            const valid after = valid_of(s, &token, 1);
            status |= ends_of(s, &after);
        }
    }
    ck_assert_msg(got.token == token && got.status == status,
                  "token %d, status %d; the model: %d, %d (due %d); %s", got.token, got.status,
                  token, status, due, words_of(s));
    n->rows++;
    n->forced += (status & CLS_ROW_FORCED) != 0;
    n->empty += (uint32_t)is_masked;
    n->loops += (status & CLS_ROW_LOOP) != 0;
    n->stops += !runs;
    if (token < 0) {
        ck_assert(got.kept_count == 0 && got.logprob_raw == -INFINITY &&
                  got.logprob_final == -INFINITY);
        for (uint32_t i = 0; i < s->vocab; i++)
            ck_assert(probs[i] == 0.0f);
        if (h->adaptive.begun)
            ck_assert(memcmp(&got.adaptive, &h->adaptive, sizeof got.adaptive) == 0);
        return got;
    }
    ck_assert_uint_eq(got.kept_count, plain.kept_count);
    ck_assert(memcmp(probs, plain_probs, s->vocab * sizeof *probs) == 0);
    if (plain.token == token)
        ck_assert(memcmp(&got.adaptive, &plain.adaptive, sizeof got.adaptive) == 0);
    else
        expect_not_drawn(s, h, token, &got);
    n->undrawn += (uint32_t)(due >= 0 && plain.token < 0);
    expect_logprobs(s, h->logits, &got, probs);
    return got;
}

/* ------------------------------------------------------------------------------ tests */

/* Requests that run for many tokens: rows with masks, tokens that are accepted in place of the
 * row's, ids of the caller, and adaptive states. */
START_TEST(requests)
{
    rng r = {fixture_seed()};
    tally n = {0};
    const uint32_t stories = fixture_by_size(300, 3000, 20000);
    for (uint32_t i = 0; i < stories; i++) {
        const int adaptive = i % 3 ? 0 : 1 + (int)rng_below(&r, 4);
        story s;
        random_story(&s, &r, adaptive);
        for (uint32_t step = 0; step < 60; step++) {
            float x[MOST_IDS];
            uint8_t mask[MOST_IDS];
            const int masked = rng_below(&r, 4) == 0, callers = rng_below(&r, 12) == 0;
            const int32_t ids[2] = {(int32_t)rng_below(&r, s.vocab), 0};
            random_logits(&r, x, s.vocab);
            for (uint32_t k = 0; k < s.vocab; k++)
                mask[k] = rng_below(&r, 3) != 0;
            cls_host_row h = row_of(&s, &s.p, x, masked ? mask : NULL);
            h.forced_ids = callers ? ids : NULL;
            h.forced_count = callers ? 1 + rng_below(&r, 2) : 0;
            const cls_host_result got =
                check_row(&s, &h, masked ? mask : NULL, callers ? ids[0] : -1, &n);
            if (got.status & CLS_ROW_SKIPPED)
                break;
            if (got.token >= 0 && (adaptive || rng_below(&r, 6))) {
                s.text[s.n++] = got.token;
                s.adaptive = got.adaptive;
            } else if (!adaptive && rng_below(&r, 2)) {
                s.text[s.n++] = rng_below(&r, 6) ? (int32_t)rng_below(&r, s.vocab) : 99;
            }
        }
    }
    printf("%u rows: %u forced (%u of them where nothing could be drawn), %u masked, %u loops, %u "
           "had stopped\n",
           n.rows, n.forced, n.undrawn, n.empty, n.loops, n.stops);
    ck_assert(n.forced > stories && n.empty > stories / 20 && n.undrawn > stories / 20 &&
              n.loops > stories / 20);
}
END_TEST

/* One id that begins and ends the thinking in turn. */
START_TEST(one_id_for_both)
{
    static const int32_t mark = 2, forced[] = {4, 2};
    static const int32_t text[] = {1, 2, 1, 1, 2, 1, 1, 1, 2, 1, 1, 4};
    static const int32_t due[] = {-1, -1, -1, 4, -1, -1, -1, -1, -1, -1, 4, 2};
    const float x[5] = {0.0f, 1.0f, 0.0f, 0.0f, 0.0f};
    story s;
    memset(&s, 0, sizeof s);
    cls_params_init(&s.p);
    s.vocab = 5;
    s.p.temperature = 0.0f;
    s.p.thinking_start.ids = s.p.thinking_end.ids = &mark;
    s.p.thinking_start.count = s.p.thinking_end.count = 1;
    s.p.thinking_forced = (cls_ids){forced, 2};
    s.p.thinking_budget = 2;
    for (uint32_t i = 0; i < 12; i++) {
        s.text[s.n++] = text[i];
        const cls_host_row h = row_of(&s, &s.p, x, NULL);
        const cls_host_result got = host_result(&h);
        ck_assert_msg(got.status == (due[i] >= 0 ? CLS_ROW_FORCED : 0) &&
                          got.token == (due[i] >= 0 ? due[i] : 1),
                      "after %u tokens: token %d, status %d", i + 1, got.token, got.status);
    }
}
END_TEST

/* Loops of every length and number of copies: found at the last token, and not before. */
START_TEST(every_loop)
{
    const float x[8] = {0.0f};
    rng r = {fixture_seed()};
    for (uint32_t length = 1; length <= 12; length++)
        for (uint32_t repeats = 2; repeats <= 6; repeats++)
            for (uint32_t range = 0; range < 3; range++) {
                const uint32_t all = length * repeats;
                int32_t one[12];
                story s;
                memset(&s, 0, sizeof s);
                cls_params_init(&s.p);
                s.vocab = 8;
                s.p.loop_repeats = repeats;
                s.p.loop_min = range == 1 ? length + 1 : range == 2 ? 1 : length;
                s.p.loop_max = range == 1   ? length + 5
                               : range == 2 ? length - (length > 1)
                                            : length;
                for (uint32_t i = 0; i < length; i++) /* the last id makes it no shorter loop */
                    one[i] = i + 1 < length ? (int32_t)rng_below(&r, 7) : 7;
                s.prompt = 1;
                s.text[s.n++] = one[length - 1]; /* of the prompt, so that it does not count */
                for (uint32_t i = 0; i < all; i++) {
                    const int32_t id = one[i % length];
                    cls_host_row h = row_of(&s, &s.p, x, NULL);
                    h.forced_ids = &id;
                    h.forced_count = 1;
                    const cls_host_result got = host_result(&h);
                    if (got.status & CLS_ROW_SKIPPED)
                        break; /* a shorter loop ended it */
                    s.text[s.n++] = id;
                    const valid v = valid_of(&s, NULL, 0);
                    const int expected = ends_in_loop(&s, &v);
                    ck_assert(range != 0 || expected == (i + 1 == all));
                    ck_assert_int_eq(got.status,
                                     CLS_ROW_FORCED |
                                         (expected ? CLS_ROW_STOPPED | CLS_ROW_LOOP : 0));
                }
            }
}
END_TEST

START_TEST(refused)
{
    static const int32_t ids[] = {1, 5};
    cls_params p;
    static const struct {
        const char *field, *message;
        uint32_t value;
    } numbers[] = {
        {"loop_repeats", "params->loop_repeats is 1; it must be 0 (off) or 2 to 16384", 1},
        {"loop_repeats", "params->loop_repeats is 16385; it must be 0 (off) or 2 to 16384", 16385},
        {"loop_min", "params->loop_min is 0; it must be 1 to 1024", 0},
        {"loop_min", "params->loop_min is 33, which is more than params->loop_max of 32", 33},
        {"loop_max", "params->loop_max is 1025; it must be 1 to 1024", 1025},
        {"loop_max", "params->loop_max is 0; it must be 1 to 1024", 0},
    };
    for (uint32_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        cls_params_init(&p);
        *(strcmp(numbers[i].field, "loop_min") == 0   ? &p.loop_min
          : strcmp(numbers[i].field, "loop_max") == 0 ? &p.loop_max
                                                      : &p.loop_repeats) = numbers[i].value;
        must_refuse_exactly(cls_params_check(&p, 5), numbers[i].message);
    }
    for (int list = 0; list < 3; list++) {
        static const char *const name[] = {"start", "end", "forced"};
        static const int32_t one = 1;
        char message[120];
        cls_params_init(&p);
        p.thinking_forced = (cls_ids){&one, 1};
        const int32_t **const at[] = {&p.thinking_start.ids, &p.thinking_end.ids,
                                      &p.thinking_forced.ids};
        uint32_t *const count[] = {&p.thinking_start.count, &p.thinking_end.count,
                                   &p.thinking_forced.count};
        *at[list] = ids;
        *count[list] = 2;
        snprintf(message, sizeof message,
                 "params->thinking_%s.ids[1] is 5, which is not a token of a vocabulary of 5",
                 name[list]);
        must_refuse_exactly(cls_params_check(&p, 5), message);
        must(cls_params_check(&p, 6));
        *at[list] = NULL;
        snprintf(message, sizeof message,
                 "params->thinking_%s.count is 2, but params->thinking_%s.ids is NULL", name[list],
                 name[list]);
        must_refuse_exactly(cls_params_check(&p, 5), message);
    }
    cls_params_init(&p); /* without ids to force, the rest is a mistake */
    p.thinking_budget = 3;
    must_refuse(cls_params_check(&p, 5), "params->thinking_budget");
    must_say("params->thinking_forced");
    p.thinking_budget = 0;
    p.thinking_end = (cls_ids){ids, 1};
    must_refuse(cls_params_check(&p, 5), "params->thinking_end");
}
END_TEST

/* ----------------------------------------------------------------------------- drafts */

/* A request with drafts: a chain, or a tree. */
typedef struct tree {
    uint32_t n;
    int32_t ids[DRAFTS], parents[DRAFTS];
    float x[DRAFTS + 1][MOST_IDS], q[DRAFTS][MOST_IDS];
    uint8_t mask[DRAFTS + 1][MOST_IDS];
    int32_t callers[4]; /* forced ids */
    uint32_t n_callers;
    int masked, disable_bonus, method;
} tree;

/* Returns the first draft after row `row` with an id, and whether the row has any draft. */
static int32_t draft_with(const tree *t, uint32_t row, int32_t id, int *any)
{
    int32_t found = -1;
    *any = 0;
    for (uint32_t k = row; k < t->n; k++) {
        if (t->parents[k] != (int32_t)row - 1)
            continue;
        *any = 1;
        if (t->ids[k] == id && found < 0)
            found = (int32_t)k;
    }
    return found;
}

/* Samples a row of the tree, by the reference's single step: with forced ids if `forces` is 1. */
static cls_host_result sample_row(const story *s, const tree *t, uint32_t row, const int32_t *path,
                                  uint32_t depth, int forces)
{
    story at = *s;
    cls_params p = forces ? s->p : without(&s->p);
    for (uint32_t i = 0; i < depth; i++)
        at.text[at.n++] = path[i];
    cls_host_row h = row_of(&at, &p, t->x[row], t->masked ? t->mask[row] : NULL);
    if (forces && depth < t->n_callers) {
        h.forced_ids = t->callers + depth;
        h.forced_count = t->n_callers - depth;
    }
    const cls_host_result got = host_result(&h);
    return got;
}

static cls_host_verified verify(const story *s, const tree *t, int forces)
{
    cls_params p = forces ? s->p : without(&s->p);
    p.max_tokens = s->p.max_tokens; /* block verification judges no draft behind its end */
    cls_host_row h = row_of(s, &p, t->x[0], t->masked ? t->mask[0] : NULL);
    cls_host_drafts d;
    cls_host_verified got = {0};
    const int linear = t->method != CLS_VERIFY_MATCH;
    cls_host_drafts_init(&d);
    h.forced_ids = forces && t->n_callers ? t->callers : NULL;
    h.forced_count = forces ? t->n_callers : 0;
    h.mask_width = s->vocab;
    d.row = &h;
    d.draft_count = t->n;
    d.method = t->method;
    d.logits_stride = d.mask_stride = MOST_IDS;
    d.ids = t->ids;
    d.parents = linear ? NULL : t->parents;
    d.draft_kind = linear && t->method != CLS_VERIFY_TYPICAL ? CLS_DRAFT_PROBS : CLS_DRAFT_NONE;
    float q[DRAFTS * MOST_IDS];
    for (uint32_t k = 0; k < t->n; k++)
        memcpy(q + k * s->vocab, t->q[k], s->vocab * sizeof *q);
    d.draft = d.draft_kind == CLS_DRAFT_PROBS ? q : NULL;
    d.disable_bonus = t->disable_bonus;
    must(cls_host_verify(&d, &got));
    return got;
}

/* Computes what a verification must emit. Up to the first forced row these are the tokens of the
 * verification without thinking budget and forced ids. From there on each row emits what its step
 * emits, as with CLS_VERIFY_MATCH. */
static cls_host_verified expect_verified(const story *s, const tree *t, int one_token,
                                         uint32_t *forced)
{
    const cls_host_verified plain = verify(s, t, 0);
    cls_host_verified out = {0};
    int by_rows = t->method == CLS_VERIFY_MATCH;
    uint32_t row = 0;
    memset(out.tokens, -1, sizeof out.tokens);
    memset(out.nodes, -1, sizeof out.nodes);
    for (;;) {
        const uint32_t depth = (uint32_t)out.emitted;
        const cls_host_result got = sample_row(s, t, row, out.tokens, depth, 1);
        int32_t token = got.token, draft;
        int any;
        if (got.status & CLS_ROW_SKIPPED) {
            out.status |= got.status;
            return out;
        }
        by_rows |= (got.status & CLS_ROW_FORCED) != 0;
        if (!by_rows && !(got.status & CLS_ROW_EMPTY)) {
            token = (int32_t)depth < plain.emitted ? plain.tokens[depth] : -1;
            draft = (int32_t)depth < plain.accepted ? plain.nodes[depth] : -1;
        } else {
            draft = one_token || token < 0 ? -1 : draft_with(t, row, token, &any);
            draft_with(t, row, token, &any);
            if (!one_token && !any && t->disable_bonus && t->n != 0 && token >= 0) {
                out.status |= got.status & (CLS_ROW_NAN | CLS_ROW_INF);
                return out;
            }
        }
        out.status |= got.status & ~(CLS_ROW_STOPPED | CLS_ROW_LENGTH | CLS_ROW_LOOP);
        if (token < 0)
            return out;
        *forced += (got.status & CLS_ROW_FORCED) != 0;
        out.tokens[out.emitted++] = token;
        const valid v = valid_of(s, out.tokens, (uint32_t)out.emitted);
        const int32_t ended = ends_of(s, &v);
        out.status |= ended;
        if (draft < 0)
            return out;
        out.nodes[out.accepted++] = draft;
        if (ended != 0)
            return out;
        row = (uint32_t)draft + 1;
    }
}

static void random_tree(const story *s, tree *t, rng *r)
{
    memset(t, 0, sizeof *t);
    t->n = rng_below(r, DRAFTS + 1);
    t->method = (int)rng_below(r, CLS_VERIFY_TYPICAL + 1);
    t->masked = rng_below(r, 3) == 0;
    t->disable_bonus = rng_below(r, 3) == 0;
    t->n_callers = rng_below(r, 3) ? 0 : 1 + rng_below(r, 4);
    const int linear = t->method != CLS_VERIFY_MATCH || rng_below(r, 2);
    for (uint32_t i = 0; i < 4; i++)
        t->callers[i] = (int32_t)rng_below(r, s->vocab);
    for (uint32_t row = 0; row <= t->n; row++) {
        random_logits(r, t->x[row], s->vocab);
        for (uint32_t i = 0; i < s->vocab; i++)
            t->mask[row][i] = rng_below(r, 6) != 0;
    }
    for (uint32_t k = 0; k < t->n; k++) {
        int32_t path[DRAFTS];
        uint32_t depth = 0;
        t->parents[k] = linear ? (int32_t)k - 1 : (int32_t)rng_below(r, k + 1) - 1;
        for (int32_t at = t->parents[k]; at >= 0; at = t->parents[at])
            depth++;
        for (int32_t at = t->parents[k], i = (int32_t)depth; at >= 0; at = t->parents[at])
            path[--i] = t->ids[at];
        /* Most drafts are what the row emits, so that several are accepted. */
        const cls_host_result next = sample_row(s, t, (uint32_t)t->parents[k] + 1, path, depth, 1);
        t->ids[k] = next.token >= 0 && rng_below(r, 6) ? next.token
                    : rng_below(r, 10)                 ? (int32_t)rng_below(r, s->vocab)
                                                       : -1;
        double sum = 0.0;
        for (uint32_t i = 0; i < s->vocab; i++)
            sum += (double)(t->q[k][i] = (float)(1 + rng_below(r, 9)));
        for (uint32_t i = 0; i < s->vocab; i++)
            t->q[k][i] /= (float)sum;
    }
}

START_TEST(verified)
{
    rng r = {fixture_seed() + 5};
    const uint32_t stories = fixture_by_size(500, 5000, 40000);
    uint32_t forced = 0, accepted = 0, loops = 0, long_forced = 0;
    for (uint32_t i = 0; i < stories; i++) {
        const int adaptive = i % 5 ? 0 : 1 + (int)rng_below(&r, 4);
        const int32_t special = CLS_ROW_NAN | CLS_ROW_INF;
        story s;
        tree t;
        random_story(&s, &r, adaptive);
        for (uint32_t n = rng_below(&r, 12); n > 0; n--)
            s.text[s.n++] = (int32_t)rng_below(&r, s.vocab);
        s.p.temperature = rng_below(&r, 5) ? s.p.temperature : 0.0f;
        random_tree(&s, &t, &r);
        const int one_token = adaptive != 0 && s.p.temperature >= 1e-5f;
        const uint32_t before = forced;
        const cls_host_verified expected = expect_verified(&s, &t, one_token, &forced),
                                got = verify(&s, &t, 1);
        ck_assert_msg(
            got.emitted == expected.emitted && got.accepted == expected.accepted &&
                memcmp(got.tokens, expected.tokens, sizeof got.tokens) == 0 &&
                memcmp(got.nodes, expected.nodes, sizeof got.nodes) == 0 &&
                (got.status & ~special) == (expected.status & ~special) &&
                ((got.status & expected.status) & special) == (expected.status & special),
            "story %u, method %d, %u drafts, %u of the caller, %s: accepted %d, emitted %d (%d %d "
            "%d %d), status %d; the model: %d, %d (%d %d %d %d), %d; %s",
            i, t.method, t.n, t.n_callers, t.disable_bonus ? "no bonus" : "bonus", got.accepted,
            got.emitted, got.tokens[0], got.tokens[1], got.tokens[2], got.tokens[3], got.status,
            expected.accepted, expected.emitted, expected.tokens[0], expected.tokens[1],
            expected.tokens[2], expected.tokens[3], expected.status, words_of(&s));
        accepted += (uint32_t)got.accepted;
        loops += (got.status & CLS_ROW_LOOP) != 0;
        long_forced += forced - before > 1;
    }
    printf("%u verifications: %u drafts accepted, %u forced ids, %u with several, %u loops\n",
           stories, accepted, forced, long_forced, loops);
    ck_assert(forced > stories / 4 && long_forced > stories / 50 && loops > stories / 100);
}
END_TEST

int main(void)
{
    fixture_begin(ON_HOST);
    add_test(requests);
    add_test(one_id_for_both);
    add_test(every_loop);
    add_test(refused);
    add_test(verified);
    return fixture_end();
}
