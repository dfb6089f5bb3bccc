/* SPDX-License-Identifier: MIT */
/* Texts of calls on the device and on the host; of one that differs, the shortest text. */
#include <inttypes.h>
#include <string.h>

#include "accept/accept.h"

enum { SHRINK_SECONDS = 600 }; /* at most, to make a text shorter that differs */

/* Parameters of usual requests, and of all other stages, one of which each slot has. */
static const char *const usual[] = {"temperature=0",
                                    "temperature=0.8",
                                    "top_k=50 top_p=0.9",
                                    "temperature=0.7 top_k=20 min_p=0.05",
                                    "temperature=1.3 top_k=5",
                                    "top_k=200 top_p=0.99",
                                    "temperature=0 repetition_penalty=1.2 prompt=random:1:90:2000",
                                    "top_k=40 frequency_penalty=0.4 prompt=random:2:60:500"},
                         *const wide[] = {"top_p=0.9",
                                          "min_p=0.02",
                                          "temperature=2 top_p=0.95",
                                          "top_k=3000 top_p=0.8",
                                          "temperature=1e-4 top_p=0.5",
                                          "typical_p=0.9",
                                          "top_n_sigma=1.5",
                                          "temperature=1.6"};

/* What a text consists of. */
typedef enum text_kind {
    USUAL,
    WIDE,
    EVERY,
    TIES,
    SPARSE,
    LONE,
    DRAFTS,
    GRAMMARS,
    TEXTS
} text_kind;
static const char *const text_names[TEXTS] = {
    "usual requests",     "long sets",         "all calls", "ties",
    "sparse NaN and inf", "one allowed token", "drafts",    "grammars"};
static const char *const dtype_words[] = {"f32", "f16", "bf16"};

/* Begins requests with the parameters of a table, one in each slot. */
static void add_requests(run_text *t, const char *const table[8], uint32_t slots, uint32_t seed)
{
    for (uint32_t i = 0; i < slots; i++)
        run_add(t, "begin %" PRIu32 " stream=%" PRIu32 " seed=%" PRIu32 " %s\n", i, i, seed,
                table[(i + seed) % 8]);
}

/* Makes text number i, of a size and a type that depend on the number. */
static char *make_text(const accept_job *job, uint32_t i, text_kind *kind)
{
    static const uint32_t vocabs[] = {32000, 151936, 50257, 262144, 128256},
                          sizes[] = {16, 1, 64, 4};
    const uint32_t seed = job->seed + i, dtype = i / 2 % 3;
    const uint32_t vocab = run_least(vocabs[i % 5], job->largest_vocab),
                   rows = run_least(sizes[i / 3 % 4], job->largest_rows);
    const char *const d = dtype_words[dtype];
    run_text t = {NULL, 0};
    *kind = (text_kind)(i % TEXTS);
    run_add(&t, "sampler vocab=%" PRIu32 " slots=%" PRIu32 " rows=%" PRIu32, vocab, rows, rows);
    switch (*kind) {
    case USUAL:
        run_add(&t, " dtypes=%s features=shortlist,penalties\n", d);
        add_requests(&t, usual, rows, seed);
        for (uint32_t n = 0; n < 4; n++)
            run_add(&t, "step dtype=%s logits=random:%" PRIu32 "\n", d, seed * 4 + n);
        break;
    case WIDE:
        run_add(&t, " dtypes=%s features=shortlist,search,samplers,logprobs,kept_sets\n", d);
        add_requests(&t, wide, rows, seed);
        for (uint32_t n = 0; n < 3; n++)
            run_add(&t, "step dtype=%s logits=random:%" PRIu32 "%s\n", d, seed * 4 + n,
                    n == 1 ? " outputs=logprobs,ranks" : "");
        break;
    case EVERY:
        run_add(&t,
                " max_history=64 max_rollback=6 dtypes=f32,f16,bf16\n"
                "random calls=12 seed=%" PRIu32 "\n",
                seed);
        break;
    case TIES:
        run_add(&t, " dtypes=%s\n", d);
        add_requests(&t, usual, rows, seed);
        run_add(&t, "step dtype=%s logits=random:%" PRIu32 " kind=quarter-ties\n", d, seed);
        add_requests(&t, wide, rows, seed);
        run_add(&t, "step dtype=%s logits=random:%" PRIu32 " kind=quarter-ties\n", d, seed + 1);
        break;
    case SPARSE:
        run_add(&t, " dtypes=%s features=shortlist,search,samplers,penalties\n", d);
        for (uint32_t n = 0; n < 4; n++) {
            add_requests(&t, n < 2 ? usual : wide, rows, seed);
            run_add(&t,
                    "step dtype=%s logits=random:%" PRIu32 " kind=normal-1 lone=%s:%" PRIu32
                    ":%" PRIu32 "\n",
                    d, seed + n, n % 2 ? "inf" : "nan", seed * 7919 % vocab, vocab / 3 + n);
        }
        break;
    case LONE:
        run_add(&t, " dtypes=%s features=shortlist,search,samplers,mask,penalties,bias\n", d);
        add_requests(&t, wide, rows, seed);
        run_add(&t,
                "step dtype=%s logits=random:%" PRIu32 " mask=lone:%" PRIu32 "\n"
                "step dtype=%s logits=random:%" PRIu32 " mask=lone:%" PRIu32 " mask_kind=bool\n"
                "step dtype=%s logits=random:%" PRIu32 " mask=random:%" PRIu32 "\n"
                "step dtype=%s logits=random:%" PRIu32 " bias=random:%" PRIu32 "\n",
                d, seed, seed * 104729 % vocab, d, seed + 1, seed * 1299709 % vocab, d, seed + 2,
                seed, d, seed + 3, seed);
        break;
    case DRAFTS:
        run_add(&t,
                " max_history=64 max_rollback=6 dtypes=f32,f16,bf16\n"
                "random calls=10 features=params,verify,accept,draft,rollback,outputs,mask"
                " seed=%" PRIu32 "\n",
                seed);
        break;
    default:
        run_add(&t,
                " max_history=64 max_rollback=6 dtypes=f32,f16,bf16\n"
                "random calls=12 features=params,grammar,force,append,turn,fork,save,mask"
                " seed=%" PRIu32 "\n",
                seed);
    }
    return t.text;
}

/* What was run so far. */
typedef struct census {
    uint64_t texts, statements, steps;
    uint64_t of_kind[TEXTS];
} census;

static int text_differs(accept_test *t, run_side *side, run_script *script, run_difference *d)
{
    run_side *const host = &t->host;
    run_text text = {NULL, 0};
    run_shrink(host, side, script, SHRINK_SECONDS, d);
    /* Once more: what the shortest text launches. */
    host->reference = NULL;
    run_script_on(host, script);
    run_add_script(host, script, d, &text);
    accept_names_begin(&side->index);
    side->reference = host;
    run_script_on(side, script);
    json_t *const programs = accept_names_of(d->statement);
    const char *const name = accept_suspect(programs);
    accept_say("finding",
               json_pack("{s:s, s:o, s:o, s:o, s:o}", "what", "a result", "program",
                         name != NULL ? json_string(name) : json_null(), "message",
                         cli_text(d->text), "text", cli_text(text.text), "programs", programs));
    return 1;
}

static int run_text_number(accept_test *t, uint32_t i, census *n)
{
    static const char *const way_names[] = {"device", "ahead", "out of order"};
    const void *const memory = cli_memory();
    run_side *const sides[] = {&t->device, &t->ahead, &t->mixed};
    run_difference d;
    text_kind kind;
    char *const words = make_text(t->job, i, &kind);
    run_side *side = sides[i / TEXTS % 3];
    int failed = 0;
    if (side->lacks != NULL)
        side = &t->device;
    const run_script made = run_parse("random calls", words);
    run_script script = run_expand(&made, 0, UINT32_MAX);
    accept_say("text", json_pack("{s:s, s:s, s:I}", "kind", text_names[kind], "way",
                                 way_names[side == &t->device  ? 0
                                           : side == &t->ahead ? 1
                                                               : 2],
                                 "number", (json_int_t)(t->job->seed + i)));
    accept_names_begin(&side->index);
    t->host.reference = NULL;
    run_script_on(&t->host, &script);
    side->reference = &t->host;
    run_script_on(side, &script);
    if (run_sides_differ(&t->host, side, &d)) {
        failed = text_differs(t, side, &script, &d);
    } else {
        accept_names_agree();
        n->texts++;
        n->statements += script.count;
        n->of_kind[kind]++;
        for (uint32_t k = 0; k < script.count; k++)
            n->steps += strcmp(script.statement[k].verb, "step") == 0;
    }
    cli_memory_end(memory);
    return failed;
}

static void say_counts(const census *n)
{
    json_t *const kinds = json_object();
    for (int i = 0; i < TEXTS; i++)
        json_object_set_new(kinds, text_names[i], json_integer((json_int_t)n->of_kind[i]));
    accept_say("texts", json_integer((json_int_t)n->texts));
    accept_say("statements", json_integer((json_int_t)n->statements));
    accept_say("text_steps", json_integer((json_int_t)n->steps));
    accept_say("kinds", kinds);
}

int accept_texts(accept_test *t, double until)
{
    census n = {.texts = 0};
    int failed = 0;
    for (uint32_t i = 0; !failed && (i == 0 || cli_seconds() < until); i++) {
        failed = run_text_number(t, i, &n);
        say_counts(&n);
    }
    return failed;
}
