/* SPDX-License-Identifier: MIT */
#include "batch.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void make_infill(batch *b)
{
    int32_t *const ends = must_calloc(3, sizeof *ends), *const prefix =
                                                            must_calloc(b->vocab, sizeof *prefix);
    ends[0] = (int32_t)(b->vocab / 3);
    ends[1] = (int32_t)(b->vocab / 50);
    ends[2] = (int32_t)(b->vocab - 1);
    for (uint32_t i = 0; i < b->vocab; i++)
        prefix[i] = i >= 10 && i % 3 == 0 ? (int32_t)(i / 10) : -1;
    b->infill = (cls_infill){sizeof b->infill, {ends, 3}, prefix};
}

batch *batch_new(uint32_t rows, uint32_t vocab, int dtype, uint32_t stride, size_t offset)
{
    batch *const b = must_calloc(1, sizeof *b);
    b->rows = rows;
    b->vocab = vocab;
    b->stride = stride ? stride : vocab;
    b->dtype = dtype;
    b->offset = offset;
    b->data_size = offset + ((size_t)(rows - 1) * b->stride + vocab) * dtype_size(dtype);
    b->data = must_calloc(b->data_size, 1);
    memset(b->data, 0x7e, b->data_size); /* what is outside the rows becomes large, or NaN in f16 */
    b->values = must_calloc((size_t)rows * vocab, sizeof *b->values);
    b->kind = must_calloc(rows, sizeof *b->kind);
    b->params = must_calloc(rows, sizeof *b->params);
    b->trace = must_calloc(rows, sizeof *b->trace);
    b->host = must_calloc(rows, sizeof *b->host);
    b->device_trace = must_calloc(rows, sizeof *b->device_trace);
    b->token = must_calloc(rows, sizeof *b->token);
    b->status = must_calloc(rows, sizeof *b->status);
    b->tokens = must_calloc(rows, sizeof *b->tokens);
    b->adjusted = must_calloc((size_t)rows * vocab, sizeof *b->adjusted);
    b->adaptive = must_calloc(rows, sizeof *b->adaptive);
    b->shortlist = UINT32_MAX;
    make_infill(b);
    b->keep = CLS_COUNTS_ALL;
    b->biased = 1;
    return b;
}

void batch_free(batch *b)
{
    free(b->data);
    free(b->values);
    free(b->kind);
    free(b->params);
    free(b->mask);
    free(b->mask_map);
    free(b->bias);
    free(b->bias_map);
    free(b->random);
    free(b->slots);
    for (uint32_t row = 0; row < b->rows; row++) {
        free(b->tokens[row].prompt);
        free(b->tokens[row].output);
        free(b->tokens[row].forced);
    }
    for (uint32_t i = 0; i < b->n_lists; i++)
        free(b->lists[i]);
    for (uint32_t i = 0; i < b->n_grammars; i++)
        cls_grammar_release(b->grammars[i]);
    free((void *)b->grammars);
    free(b->tokens);
    free(b->lists);
    free(b->adjusted);
    free(b->adaptive);
    free((void *)(uintptr_t)b->infill.end_ids.ids);
    free((void *)(uintptr_t)b->infill.prefix_of);
    free(b->trace);
    free(b->host);
    free(b->device_trace);
    free(b->token);
    free(b->status);
    free(b);
}

void batch_values(batch *b, uint32_t row, const float *values)
{
    const size_t size = dtype_size(b->dtype);
    for (uint32_t i = 0; i < b->vocab; i++) {
        unsigned char *const at = b->data + b->offset + ((size_t)row * b->stride + i) * size;
        dtype_encode(b->dtype, values[i], at);
        b->values[(size_t)row * b->vocab + i] = dtype_decode(b->dtype, at);
    }
}

void batch_row(batch *b, uint32_t row, row_kind kind, uint64_t seed)
{
    float *const values = b->values + (size_t)row * b->vocab;
    b->kind[row] = kind;
    row_fill(kind, values, b->vocab, seed);
    batch_values(b, row, values);
    cls_params_init(&b->params[row]);
    b->params[row].seed = seed;
    b->params[row].position = row;
}

void batch_random(batch *b, rng *r)
{
    for (uint32_t row = 0; row < b->rows; row++) {
        batch_row(b, row, (row_kind)rng_below(r, ROW_KINDS), rng_bits(r));
        params_random(&b->params[row], b->vocab, r);
        params_adaptive(&b->params[row], b->vocab, r);
    }
}

void batch_mask(batch *b, rng *r, uint32_t percent, uint32_t width)
{
    const int packed = b->mask_kind == CLS_MASK_PACKED;
    b->mask_width = width ? width : packed ? (b->vocab + 31) / 32 : b->vocab;
    const size_t n = (size_t)b->rows * b->mask_width;
    free(b->mask);
    b->mask = must_calloc(n, packed ? 4 : 1);
    for (size_t i = 0; i < n && !packed; i++)
        ((unsigned char *)b->mask)[i] =
            (unsigned char)(rng_below(r, 100) < percent ? 1 + rng_below(r, 255) : 0);
    for (size_t i = 0; i < n && packed; i++)
        for (unsigned bit = 0; bit < 32; bit++)
            ((uint32_t *)b->mask)[i] |= (uint32_t)(rng_below(r, 100) < percent) << bit;
}

void batch_inputs(const batch *b, device *d, cls_step *step)
{
    if (b->mask) {
        const size_t size = b->mask_kind == CLS_MASK_PACKED ? sizeof(int32_t) : 1;
        step->mask.words.buffer = buffer_of(d, b->rows * b->mask_width * size, b->mask);
        step->mask.kind = b->mask_kind;
        step->mask.width = b->mask_width;
        step->mask.row_map.host = b->mask_map;
    }
    if (b->bias) {
        step->bias.values.buffer =
            buffer_of(d, (size_t)b->rows * b->vocab * dtype_size(b->bias_dtype), b->bias);
        step->bias.dtype = b->bias_dtype;
        step->bias.factor = b->bias_factor;
        step->bias.row_map.host = b->bias_map;
    }
    if (b->random)
        step->random_bits.buffer = buffer_of(d, b->rows * sizeof(uint64_t), b->random);
}

one_row batch_host_row(const batch *b, uint32_t row)
{
    const tokens *const t = &b->tokens[row];
    const int32_t mask = b->mask_map ? b->mask_map[row] : (int32_t)row,
                  bias = b->bias_map ? b->bias_map[row] : (int32_t)row;
    one_row h;
    one_row_init(&h);
    h.logits = b->data + b->offset + (size_t)row * b->stride * dtype_size(b->dtype);
    h.dtype = b->dtype;
    h.vocab = b->vocab;
    h.mask_kind = b->mask_kind;
    if (b->mask && mask >= 0)
        h.mask = (unsigned char *)b->mask +
                 (size_t)mask * b->mask_width * (b->mask_kind == CLS_MASK_PACKED ? 4 : 1);
    h.mask_width = b->mask_width;
    if (b->bias && bias >= 0)
        h.bias = b->bias + (size_t)bias * b->vocab * dtype_size(b->bias_dtype);
    h.bias_dtype = b->bias_dtype;
    h.bias_factor = b->bias_factor;
    h.prompt = t->prompt;
    h.prompt_count = t->prompt_count;
    h.output = t->output;
    h.output_count = t->output_count;
    h.forced_ids = t->forced_count ? t->forced : NULL;
    h.forced_count = t->forced_count;
    h.position = b->params[row].position;
    for (uint32_t i = 0; i < t->output_count; i++)
        h.position += t->output[i] >= 0 && (uint32_t)t->output[i] < b->vocab;
    h.random_bits = b->random ? &b->random[row] : NULL;
    h.params = &b->params[row];
    h.max_history = b->history;
    h.infill = &b->infill;
    h.adaptive = b->adaptive[row];
    return h;
}

void batch_reference(batch *b)
{
    for (uint32_t row = 0; row < b->rows; row++) {
        const one_row h = batch_host_row(b, row);
        must(cls_reference(&h, &b->trace[row], &b->host[row]));
        oracle_rounded(&h, b->adjusted + (size_t)row * b->vocab);
    }
}

static int is_greedy(const batch *b, uint32_t row) { return b->params[row].temperature < 1e-5f; }

/* Returns a token's adjusted logit. */
static float adjusted_logit(const batch *b, uint32_t row, uint32_t i)
{
    return b->adjusted[(size_t)row * b->vocab + i];
}

static int is_kept(const batch *b, uint32_t row, uint32_t i, const cls_cut *cut)
{
    const int32_t key = key_of(adjusted_logit(b, row, i)), id = (int32_t)i;
    if (key > cut->upper_key ||
        (key == cut->upper_key && (id < cut->upper_first || id > cut->upper_last)))
        return 0;
    return key > CLS_KEY_NONE && (key > cut->key || (key == cut->key && id <= cut->id));
}

/* Returns ceil(u * 2^64 / mass), the least random number that draws unit u < mass. */
static uint64_t random_for(uint64_t u, uint64_t mass)
{
    uint64_t quotient = 0, rest = u;
    for (int bit = 0; bit < 64; bit++) {
        const int carry = rest >> 63 != 0;
        rest <<= 1;
        quotient <<= 1;
        if (carry || rest >= mass) {
            rest -= mass;
            quotient |= 1;
        }
    }
    return quotient + (rest != 0);
}

int32_t batch_aim(batch *b, uint32_t row, uint32_t pick, int last)
{
    const cls_row *const trace = &b->trace[row];
    const cls_params *const p = &b->params[row];
    const int adapts = p->adaptive_target >= 0.0f && p->mirostat == 0;
    const int plain = trace->cut.key == CLS_KEY_NONE && trace->cut.id == CLS_MAX_ID;
    uint64_t before = 0, first = 0, end = 0;
    uint32_t kept = 0;
    int32_t token = -1;
    if (!b->random)
        b->random = must_calloc(b->rows, sizeof *b->random);
    if (is_greedy(b, row) || trace->mass == 0)
        return trace->token;
    if (adapts || p->infill) { /* the weights or the set differ, so any number will do */
        one_row h = batch_host_row(b, row);
        b->random[row] = (pick + 1) * 0x9e3779b97f4a7c15u;
        h.random_bits = &b->random[row];
        const one_result result = host_result(&h);
        return result.token;
    }
    const float scale = trace->scale;
    const float max = float_of_key(trace->top_key);
    for (uint32_t t = 0; t < b->vocab; t += CLS_TILE) {
        const uint32_t stop = t + CLS_TILE < b->vocab ? t + CLS_TILE : b->vocab;
        float tile_max = -INFINITY;
        for (uint32_t i = t; i < stop; i++)
            tile_max = adjusted_logit(b, row, i) > tile_max ? adjusted_logit(b, row, i) : tile_max;
        if (tile_max == -INFINITY)
            continue;
        tile_max = tile_max < max ? tile_max : max;
        const cls_unit unit = unit_of(tile_max, max, split(max, scale).exponent, scale);
        uint64_t whole = 0,
                 mass = 0; /* mass of the tile up to i, in the tile's units and in the row's */
        for (uint32_t i = t; i < stop; i++) {
            const uint64_t was = mass;
            const uint32_t x =
                is_kept(b, row, i, &trace->cut)
                    ? weight(adjusted_logit(b, row, i), tile_max, scale, unit.fraction)
                    : 0;
            whole += x;
            mass = plain ? to_row_units(whole, unit.shift) : mass + to_row_units(x, unit.shift);
            if (mass == was)
                continue;
            if (kept++ <= pick) { /* the pick-th token with mass, or the last one */
                token = (int32_t)i;
                first = before + was;
                end = before + mass;
            }
        }
        before += mass;
    }
    ck_assert_msg(before == trace->mass, "%s: mass %llu, the reference says %llu",
                  batch_words(b, row), (unsigned long long)before, (unsigned long long)trace->mass);
    b->random[row] = random_for(last ? end - 1 : first, trace->mass);
    return token;
}

/* Appends text to the message, as far as there is room. */
#if defined(__GNUC__)
__attribute__((format(printf, 1, 2)))
#endif
static void
say(const char *format, ...);

static char words[1500];
static size_t said;

static void say(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const int n = vsnprintf(words + said, sizeof words - said, format, arguments);
    va_end(arguments);
    said = n > 0 && said + (size_t)n < sizeof words ? said + (size_t)n : said;
}

static void say_chain(const cls_params *p)
{
    static const char *const chains[] = {"default", "vllm", "llama", "custom"},
                             letters[] = " tkpmsyxlia";
    say(", chain %s", chains[p->chain]);
    for (int i = 0; i < CLS_CHAIN_LENGTH && p->chain == CLS_CHAIN_CUSTOM && p->stages[i]; i++)
        say("%s%c", i ? "" : " ", letters[p->stages[i]]);
    say(", T %g, k %d, p %.9g, min_p %g", (double)p->temperature, p->top_k, (double)p->top_p,
        (double)p->min_p);
    if (p->dynatemp_range > 0.0f)
        say(", dynatemp %g ^%g", (double)p->dynatemp_range, (double)p->dynatemp_exponent);
    if (p->top_n_sigma > 0.0f)
        say(", sigma %g", (double)p->top_n_sigma);
    if (p->typical_p < 1.0f)
        say(", typical %.9g", (double)p->typical_p);
    if (p->top_a > 0.0f)
        say(", top-a %.9g", (double)p->top_a);
    if (p->xtc_probability > 0.0f)
        say(", XTC %g %g", (double)p->xtc_probability, (double)p->xtc_threshold);
    if (p->top_p_decay < 1.0f)
        say(", decay %g to %g, reset by %d", (double)p->top_p_decay, (double)p->top_p_min,
            p->top_p_reset_id);
    if (p->mirostat)
        say(", mirostat %d tau %g eta %g", p->mirostat, (double)p->mirostat_tau,
            (double)p->mirostat_eta);
    if (p->adaptive_target >= 0.0f)
        say(", adaptive %g decay %g", (double)p->adaptive_target, (double)p->adaptive_decay);
    say("%s%s, min_keep %u", p->p_less ? ", p-less" : "", p->infill ? ", infill" : "", p->min_keep);
}

const char *batch_words(const batch *b, uint32_t row)
{
    static const char *const scopes[] = {"output", "all"};
    const cls_params *const p = &b->params[row];
    const tokens *const t = &b->tokens[row];
    said = 0;
    say("row %u of %u, %s, vocab %u, stride %u, offset %zu, %s%s%s", row, b->rows,
        row_kind_names[b->kind[row]], b->vocab, b->stride, b->offset, dtype_names[b->dtype],
        b->mask ? b->mask_kind == CLS_MASK_BOOL ? ", bool mask" : ", masked" : "",
        b->bias ? ", dense bias" : "");
    say_chain(p);
    say(", seed %llu, position %u, %u of prompt, %u of output, history %u",
        (unsigned long long)p->seed, p->position, t->prompt_count, t->output_count, b->history);
    say(", repetition %g, frequency %g, presence %g, scope %s, window %u, max_tokens %u, %u "
        "biases, %u stop ids",
        (double)p->repetition_penalty, (double)p->frequency_penalty, (double)p->presence_penalty,
        scopes[p->penalty_scope], p->penalty_window, p->max_tokens, p->logit_bias.count,
        p->stop_ids.count);
    if (p->dry_multiplier != 0.0f)
        say(", DRY %g * %g^(n - %u) in %u, %u breakers", (double)p->dry_multiplier,
            (double)p->dry_base, p->dry_allowed_length, p->dry_window, p->dry_breakers.count);
    say(", n-gram %u, %u bad words, min_tokens %u, %u allowed", p->no_repeat_ngram,
        p->bad_words.count, p->min_tokens, p->allowed_ids.count);
    if (p->no_repeat_ngram != 0)
        say(", n-grams in %u, of output %d, %u exempt", p->ngram_window, p->ngram_output_only,
            p->ngram_exempt_ids.count);
    if (p->thinking_forced.count != 0)
        say(", thinking budget %u, %u ids to start, %u to end, %u forced", p->thinking_budget,
            p->thinking_start.count, p->thinking_ends.count, p->thinking_forced.count);
    if (p->grammar != NULL)
        say(", a grammar from state %u on", p->grammar_state);
    if (p->loop_repeats != 0)
        say(", loops of %u to %u tokens, %u times", p->loop_min, p->loop_max, p->loop_repeats);
    if (t->forced_count != 0)
        say(", %u forced ids", t->forced_count);
    return words;
}

static void compare_u64(const batch *b, uint32_t row, const char *where, const char *what,
                        uint64_t ours, uint64_t host)
{
    ck_assert_msg(ours == host, "%s: %s: %s is %llu on the device, %llu in the reference", where,
                  batch_words(b, row), what, (unsigned long long)ours, (unsigned long long)host);
}

/* Compares the tokens that the chain keeps, and the inputs of the draw. */
static void compare_sets(const batch *b, uint32_t row, const char *where)
{
    const cls_row *const d = &b->device_trace[row], *const h = &b->trace[row];
    const cls_params *const p = &b->params[row];
    if (p->top_p < 1.0f && p->mirostat == 0)
        compare_u64(b, row, where, "top-p's target", d->target, h->target);
    for (uint32_t i = 0; i < b->vocab && !p->infill; i++)
        ck_assert_msg(is_kept(b, row, i, &d->cut) == is_kept(b, row, i, &h->cut),
                      "%s: %s: token %u is %s", where, batch_words(b, row), i,
                      is_kept(b, row, i, &d->cut) ? "kept on the device only"
                                                  : "kept in the reference only");
    if (d->kept != 0)
        compare_u64(b, row, where, "the number kept", d->kept, b->host[row].kept_count);
    compare_u64(b, row, where, "the top's key", (uint32_t)d->top_key, (uint32_t)h->top_key);
    compare_u64(b, row, where, "the scale", (uint32_t)key_of(d->scale), (uint32_t)key_of(h->scale));
    compare_u64(b, row, where, "the set's mass", d->mass, h->mass);
    if (p->adaptive_target >= 0.0f && p->mirostat == 0) {
        compare_u64(b, row, where, "the probability aimed at", d->aim, h->aim);
        compare_u64(b, row, where, "adaptive p's least depth", d->min_depth, h->min_depth);
        compare_u64(b, row, where, "adaptive p's mass", d->adapted, h->adapted);
    }
    compare_u64(b, row, where, "the number drawn", d->drawn, h->drawn);
}

void batch_equal(const batch *b, const char *where)
{
    for (uint32_t row = 0; row < b->rows; row++) {
        const int infill = b->params[row].infill && !is_greedy(b, row) &&
                           b->params[row].mirostat == 0 && !(b->host[row].status & CLS_ROW_FORCED);
        if (infill && b->host[row].token >= 0) {
            const one_row h = batch_host_row(b, row);
            const uint32_t left = oracle_left_for_infill(&h);
            const uint32_t most =
                b->shortlist < ORACLE_INFILL_MOST ? b->shortlist : ORACLE_INFILL_MOST;
            ck_assert_msg((left > most) == ((b->status[row] & CLS_ROW_UNFIT) != 0),
                          "%s: %s: %u are left for infill, status %d", where, batch_words(b, row),
                          left, b->status[row]);
            if (left > most) {
                ck_assert_int_eq(b->token[row], -1);
                continue;
            }
        }
        ck_assert_msg(b->status[row] == b->host[row].status,
                      "%s: %s: status is %d on the device, %d in the reference", where,
                      batch_words(b, row), b->status[row], b->host[row].status);
        if (!is_greedy(b, row) && !b->trace[row].no_token)
            compare_sets(b, row, where);
        ck_assert_msg(b->token[row] == b->host[row].token,
                      "%s: %s: token is %d on the device, %d in the reference", where,
                      batch_words(b, row), b->token[row], b->host[row].token);
    }
}
