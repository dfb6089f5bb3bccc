/* SPDX-License-Identifier: MIT */
/* Proves that a slot that was saved on one shard continues on the shards of another split and
 * without shards, and that shards whose slots differ are refused before anything is accepted. Texts
 * make slot calls between the steps of shards. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "twin.h"

enum { MOST_STATE = 1 << 20 };

/* Makes a row of each kind of parameters, whose requests have prompts. */
static batch *requests_batch(uint32_t vocab, rng *r)
{
    batch *const b = batch_new(PARAMS_KINDS, vocab, CLS_F32, 0, 0);
    b->history = 60;
    for (uint32_t row = 0; row < b->rows; row++) {
        batch_row(b, row, row % 3 ? ROW_LANGUAGE : ROW_NORMAL3, rng_bits(r));
        batch_kind(b, row, row);
    }
    batch_prompts(b, r);
    return b;
}

/* Slots saved on a shard of a split of 3 continue in a split of 2 and on an unsharded sampler. */
START_TEST(other_split)
{
    device *const d = fixture_device(_i);
    rng r = {fixture_seed() + 601};
    const uint32_t vocab = 2500, three[] = {0, 333, 1025, vocab}, two[] = {0, 2047, vocab};
    batch *const b = requests_batch(vocab, &r);
    unsigned char *const bytes = must_malloc(MOST_STATE), *const again = must_malloc(MOST_STATE);
    twin from, to;
    twin_open(&from, d, b, &(twin_setup){.n = 3, .borders = three}, "saved on a split of 3");
    twin_open(&to, d, b, &(twin_setup){.n = 2, .borders = two}, "loaded on a split of 2");
    for (uint32_t step = 0; step < 3; step++)
        twin_step(&from);
    twin_step(&to); /* an adaptive state and positions that loading must replace */
    for (uint32_t row = 0; row < b->rows; row++) {
        twin_side *const saves = &from.side[row % from.sides], *const other = &from.side[0];
        size_t size = MOST_STATE, again_size = MOST_STATE;
        must(cls_slot_save(saves->sampler, saves->queue, row, bytes, &size));
        must(cls_slot_save(other->sampler, other->queue, row, again, &again_size));
        ck_assert_uint_eq(size, again_size);
        ck_assert_msg(memcmp(bytes, again, size) == 0,
                      "row %u: the slot saved on shard %u differs from the unsharded one", row,
                      row % from.sides - 1);
        twin_each(&to, s, cls_slot_load(s->sampler, row, bytes, size, b->params[row].grammar));
    }
    for (uint32_t step = 0; step < 3; step++) {
        twin_step(&from);
        twin_step(&to);
        for (uint32_t row = 0; row < b->rows; row++) {
            ck_assert_msg(twin_token(&from, row) == twin_token(&to, row) &&
                              twin_status(&from, row) == twin_status(&to, row),
                          "after loading: %s: token %d, status %d; on the split of 3 %d, %d",
                          batch_words(b, row), twin_token(&to, row), twin_status(&to, row),
                          twin_token(&from, row), twin_status(&from, row));
        }
    }
    twin_close(&from);
    twin_close(&to);
    free(bytes);
    free(again);
    batch_free(b);
}
END_TEST

/* ----------------------------------------------------------------- disagreement */

/* What one shard does in another way. */
typedef enum difference {
    OTHER_SEED,
    OTHER_STREAM,
    OTHER_TEMPERATURE,
    OTHER_TOP_K, /* without effect on greedy rows and Mirostat */
    OTHER_PENALTY,
    OTHER_POSITION,
    MORE_OUTPUT,
    OTHER_OUTPUT, /* its latest token */
    MORE_PROMPT,
    OTHER_BIAS,
    OTHER_STOP_IDS,
    OTHER_MAX_TOKENS,
    OTHER_ALLOWED_IDS,
    OTHER_GRAMMAR,
    OTHER_STATE, /* of the grammar, with the same parameters and tokens */
    ROLLED_BACK,
    OTHER_DRAW,
    OTHER_MAP,
    OTHER_POSITIONS,
    OTHER_RANDOM_BITS,
    OTHER_SLOTS,
    OTHER_INVALID_TOKEN,
    DEFERRED,
    DIFFERENCES
} difference;

static const char *const difference_names[DIFFERENCES] = {
    "seed",        "stream",      "temperature",   "top-k",      "penalty",  "position",
    "more output", "output id",   "prompt",        "logit bias", "stop ids", "max tokens",
    "allowed ids", "grammar",     "grammar state", "rollback",   "draws",    "draw map",
    "positions",   "random bits", "slots",         "invalid",    "deferred"};

/* They allow all ids in both of their states, and stay there but for one id. */
enum { DISAGREE_VOCAB = 300 };
static cls_grammar *grammars[2];

static cls_grammar *grammar_with(uint32_t after_zero)
{
    enum { STATES = 2, ALL = STATES * DISAGREE_VOCAB };
    int32_t ids[ALL];
    uint32_t next[ALL];
    const uint64_t offsets[STATES + 1] = {0, DISAGREE_VOCAB, ALL};
    cls_grammar_options o;
    cls_grammar *g;
    for (uint32_t i = 0; i < ALL; i++) {
        ids[i] = (int32_t)(i % DISAGREE_VOCAB);
        next[i] = i != 0 ? i / DISAGREE_VOCAB : after_zero;
    }
    cls_grammar_options_init(&o);
    o.vocab = DISAGREE_VOCAB;
    o.states = STATES;
    o.offsets = offsets;
    o.ids = ids;
    o.next = next;
    must(cls_grammar_create(&o, &g));
    return g;
}

/* Begins the request of row 2, or changes the step, as all other shards do not. */
static void differ(twin *t, twin_side *s, difference what)
{
    static const int32_t ones[] = {1, 1, 1, 1}, swapped[] = {0, 1, 3, 2};
    static const cls_logit_bias bias = {3, 1.5f}, other_bias = {3, 1.75f};
    static const uint64_t bits[] = {5, 6, 7, 8};
    static const int32_t stop = 9, other_stop = 10, allowed[] = {1, 2, 3, 9, 70, 80, 90, 210};
    cls_params p = t->b->params[2];
    int32_t output[] = {5, 6, 7}, prompt[] = {1, 2};
    uint32_t outputs = 2, prompts = 1;
    p.logit_bias = (cls_biases){&bias, 1};
    p.stop_ids = (cls_ids){&stop, 1};
    p.allowed_ids = (cls_ids){allowed, 8};
    p.grammar = grammars[0];
    switch (what) {
    case OTHER_SEED:
        p.seed++;
        break;
    case OTHER_STREAM:
        p.stream++;
        break;
    case OTHER_TEMPERATURE:
        p.temperature += 0.25f;
        break;
    case OTHER_TOP_K:
        p.top_k = 11;
        break;
    case OTHER_PENALTY:
        p.presence_penalty += 0.25f;
        break;
    case OTHER_POSITION:
        p.position++;
        break;
    case MORE_OUTPUT:
        outputs++;
        break;
    case OTHER_OUTPUT:
        output[1] = 8;
        break;
    case MORE_PROMPT:
        prompts++;
        break;
    case OTHER_BIAS:
        p.logit_bias.biases = &other_bias;
        break;
    case OTHER_STOP_IDS:
        p.stop_ids.ids = &other_stop;
        break;
    case OTHER_MAX_TOKENS:
        p.max_tokens = 100;
        break;
    case OTHER_ALLOWED_IDS:
        p.allowed_ids.count--;
        break;
    case OTHER_GRAMMAR:
        p.grammar = grammars[1];
        break;
    case OTHER_STATE:
        p.grammar_state = 1;
        break;
    default:
        break;
    }
    must(cls_slot_begin(s->sampler, 2, &p, TEXT(prompt, prompts, output, outputs)));
    switch (what) {
    case OTHER_STATE: /* the same grammar keeps its state */
        p.grammar_state = 0;
        must(cls_slot_params(s->sampler, 2, &p));
        break;
    case ROLLED_BACK:
        must(cls_slot_rollback(s->sampler, 2, 1));
        break;
    case OTHER_DRAW:
        s->step.draws.host = ones;
        break;
    case OTHER_MAP:
        s->step.draws.device.buffer = twin_buffer(s, sizeof ones, ones);
        break;
    case OTHER_POSITIONS:
        s->step.positions.host = ones;
        break;
    case OTHER_RANDOM_BITS:
        s->step.random_bits.buffer = twin_buffer(s, sizeof bits, bits);
        break;
    case OTHER_SLOTS:
        s->step.slots.host = swapped;
        break;
    case OTHER_INVALID_TOKEN:
        s->step.invalid_token = -7;
        break;
    case DEFERRED:
        s->step.defer_accept = 1;
        break;
    default:
        break;
    }
}

/* All shards must refuse the partials, and say why; nothing is accepted. */
static void refuse(twin *t, const char *name)
{
    int sizes_differ = 0, digests_differ = 0;
    for (uint32_t i = 1; i < t->sides; i++) {
        twin_side *const s = &t->side[i];
        must(cls_shard_sample(s->shard, s->queue, &s->step, 0, NULL));
        sizes_differ |=
            cls_shard_partial_size(s->shard) != cls_shard_partial_size(t->side[1].shard);
        digests_differ |= cls_shard_digest(s->shard) != cls_shard_digest(t->side[1].shard);
    }
    if (!sizes_differ)
        twin_exchange(t);
    ck_assert_msg(digests_differ || !sizes_differ, "shards with another %s: the same digest", name);
    for (uint32_t i = 1; i < t->sides; i++) {
        cls_shard *const shard = t->side[i].shard;
        int more = 7;
        if (sizes_differ) {
            /* A runtime sees this by the digest. */
        } else if (cls_shard_merge(shard, t->partials, t->partials_size, &more, NULL) == CLS_OK) {
            printf("shards with another %s: shard %u of %u merges\n", name, i - 1, t->n);
            t->faults++;
        } else if (strstr(cls_error_message(), "partial ") == NULL ||
                   (strstr(cls_error_message(), "other borders, parameters") == NULL &&
                    strstr(cls_error_message(), "in another state") == NULL &&
                    strstr(cls_error_message(), "other parameters or outputs") == NULL)) {
            printf("shards with another %s: \"%s\"\n", name, cls_error_message());
            t->faults++;
        }
        must(cls_shard_abandon(shard));
    }
}

START_TEST(disagreement)
{
    device *const d = fixture_device(_i);
    const uint32_t vocab = DISAGREE_VOCAB, borders[] = {0, 77, 200, vocab};
    uint32_t faults = 0;
    for (uint32_t i = 0; i < 2; i++)
        grammars[i] = grammar_with(i);
    for (uint32_t kind = 0; kind < fixture_by_size(3, 6, 6); kind++) {
        batch *const b = batch_new(4, vocab, CLS_F32, 0, 0);
        twin t;
        static const uint32_t kinds[] = {3, 1, 5, 0, 7, 12};
        static const int32_t usual[] = {0, 1, 2, 3}, swapped[] = {0, 1, 3, 2};
        for (uint32_t row = 0; row < b->rows; row++) {
            batch_row(b, row, ROW_LANGUAGE, row);
            batch_kind(b, row, kinds[(kind + row) % 6]);
            b->params[row].presence_penalty = 0.5f;
        }
        twin_open(&t, d, b, &(twin_setup){.n = 3, .borders = borders}, "disagreement");
        for (uint32_t what = 0; what < DIFFERENCES; what++) {
            const cls_params *const p = &b->params[2];
            twin_side *const odd = &t.side[1 + what % 3];
            const cls_step step = odd->step;
            if (what == OTHER_TOP_K && (p->temperature == 0.0f || p->mirostat != 0))
                continue;
            for (uint32_t i = 0; i < t.sides; i++)
                differ(&t, &t.side[i], &t.side[i] == odd ? (difference)what : DIFFERENCES);
            refuse(&t, difference_names[what]);
            /* The step was abandoned: with the right request it gives the unsharded tokens. */
            odd->step = step;
            differ(&t, odd, DIFFERENCES);
            twin_step(&t);
        }
        /* Maps on the host whose numbers differ, of which no slot knows. */
        for (uint32_t i = 1; i < t.sides; i++) {
            t.side[i].step.logits_map.host = i == 2 ? swapped : usual;
            t.side[i].step.logits_rows = b->rows;
        }
        refuse(&t, "logits map");
        faults += t.faults;
        t.faults = 0;
        twin_close(&t);
        batch_free(b);
    }
    for (uint32_t i = 0; i < 2; i++)
        cls_grammar_destroy(grammars[i]);
    ck_assert_uint_eq(faults, 0);
}
END_TEST

int main(void)
{
    fixture_random(CLS_FEATURE_ACCEPT);
    fixture_begin(ON_DEVICES);
    add_device_test(other_split);
    add_device_test(disagreement);
    return fixture_end();
}
