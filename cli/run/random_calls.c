/* SPDX-License-Identifier: MIT */
/* Random calls, each as a statement. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "run/random.h"

/* Chooses one of the grammars for a slot, or none. */
static const char *choose_grammar(run_maker *m, uint32_t slot)
{
    m->follows[slot] = m->grammars != 0 && run_below(m, 3) == 0;
    snprintf(m->grammar[slot], sizeof m->grammar[slot], "g%" PRIu32,
             m->grammars != 0 ? run_below(m, m->grammars) : 0);
    return m->follows[slot] ? m->grammar[slot] : NULL;
}

static void add_params(run_maker *m, uint32_t slot, const char *verb)
{
    cls_params p;
    const char *const grammar = choose_grammar(m, slot);
    for (int tries = 0; tries < 4; tries++) {
        run_make_params(m, &p, grammar);
        if (cls_params_check(&p, m->vocab) == CLS_OK)
            break;
    }
    if (m->bits)
        run_make_bits(m, &p);
    run_add(&m->text, "%s %" PRIu32, verb, slot);
    run_add_params(&m->text, &p);
    if (grammar != NULL)
        run_add(&m->text, " grammar=%s", grammar);
}

void run_make_begin(run_maker *m)
{
    const uint32_t slot = run_a_slot(m);
    add_params(m, slot, "begin");
    run_make_words(m, "prompt", run_below(m, 10) ? 12 : 90);
    run_make_words(m, "output", run_below(m, 3) ? 0 : 9);
    m->begun[slot] = true;
}

static void add_new_params(run_maker *m) { add_params(m, run_a_begun_slot(m), "params"); }

static void add_append(run_maker *m)
{
    run_add(&m->text, "append %" PRIu32, run_a_begun_slot(m));
    run_make_words(m, "prompt", 9);
}

static void add_turn(run_maker *m)
{
    run_add(&m->text, "turn %" PRIu32, run_a_begun_slot(m));
    run_make_words(m, "prompt", 6);
}

static void add_force(run_maker *m)
{
    run_add(&m->text, "force %" PRIu32, run_a_begun_slot(m));
    const uint32_t n = run_below(m, 5);
    for (uint32_t i = 0; i < n; i++)
        run_add(&m->text, "%s%" PRIu32, i > 0 ? "," : " ids=", run_below(m, m->vocab));
}

static void add_copy(run_maker *m)
{
    const uint32_t to = run_a_slot(m), from = run_a_begun_slot(m);
    run_add(&m->text, "copy %" PRIu32 " from=%" PRIu32, to, from);
    if (!m->begun[from] || to == from)
        return;
    m->begun[to] = true;
    m->follows[to] = m->follows[from];
    memcpy(m->grammar[to], m->grammar[from], sizeof m->grammar[to]);
}

static void add_rollback(run_maker *m)
{
    const uint32_t most = m->rollback < 6 ? m->rollback : run_below(m, 4) ? 3 : m->rollback;
    run_add(&m->text, "rollback %" PRIu32 " count=%" PRIu32, run_a_begun_slot(m),
            run_below(m, 20) ? run_below(m, most + 1) : m->rollback + run_below(m, 2));
}

static void add_reset(run_maker *m)
{
    const uint32_t slot = run_a_slot(m);
    run_add(&m->text, "reset %" PRIu32, slot);
    m->begun[slot] = false;
}

static void add_save(run_maker *m)
{
    const uint32_t slot = run_a_begun_slot(m);
    run_add(&m->text, "save %" PRIu32 " as=saved", slot);
    if (!m->begun[slot])
        return;
    m->saved = true;
    snprintf(m->saved_grammar, sizeof m->saved_grammar, "%s",
             m->follows[slot] ? m->grammar[slot] : "");
}

static void add_load(run_maker *m)
{
    const uint32_t slot = run_a_slot(m);
    if (!m->saved) {
        add_save(m);
        return;
    }
    run_add(&m->text, "load %" PRIu32 " from=saved", slot);
    m->begun[slot] = true;
    m->follows[slot] = m->saved_grammar[0] != '\0';
    memcpy(m->grammar[slot], m->saved_grammar, sizeof m->grammar[slot]);
    if (m->follows[slot])
        run_add(&m->text, " grammar=%s", m->saved_grammar);
}

static void add_step(run_maker *m)
{
    const bool defers = run_makes(m, "defer") && run_below(m, 6) == 0,
               shared = defers && run_below(m, 2);
    const size_t begin = m->text.length;
    run_add(&m->text, "step");
    const uint32_t rows = run_make_slots(m, m->rows, shared);
    const size_t slots = m->text.length - begin - strlen("step");
    if (defers)
        run_add(&m->text, " defer=1");
    if (run_below(m, 8) == 0) {
        run_add(&m->text, " positions=%s", run_below(m, 2) ? "@" : "");
        for (uint32_t i = 0; i < rows; i++)
            run_add(&m->text, "%s%" PRIu32, i > 0 ? "," : "", run_below(m, 1000));
    }
    if (shared || run_below(m, 10) == 0) {
        run_add(&m->text, " draws=%s", run_below(m, 2) ? "@" : "");
        for (uint32_t i = 0; i < rows; i++)
            run_add(&m->text, "%s%" PRIu32, i > 0 ? "," : "", run_below(m, 5));
    }
    if (run_below(m, 8) == 0) {
        run_make_map(m, "logits_map", rows, rows);
        run_add(&m->text, " logits_rows=%" PRIu32, rows);
    }
    if (run_below(m, 12) == 0)
        run_add(&m->text, " random_bits=%s:%" PRIu32,
                run_makes(m, "edges") && run_below(m, 2) ? "edges" : "random", run_below(m, 1000));
    if (!defers && run_below(m, 12) == 0)
        run_add(&m->text, " invalid_token=0");
    run_make_inputs(m, rows);
    run_make_outputs(m, false, shared);
    if (defers && !shared) {
        char *const same = cli_alloc(slots + 1, 1);
        memcpy(same, m->text.text + begin + strlen("step"), slots);
        run_add(&m->text, "\naccept%s tokens=drawn", same);
    }
}

static void add_verify(run_maker *m)
{
    static const char *const methods[] = {"match", "match", "standard", "block", "typical"};
    const uint32_t method = run_below(m, 5);
    const bool trees = method < 2 && run_below(m, 2);
    uint32_t drafts[RUN_MOST_OF_CALL], total = 0;
    const size_t begin = m->text.length;
    run_add(&m->text, "verify");
    const uint32_t requests = run_make_slots(m, m->rows < 8 ? (m->rows + 1) / 2 : 4, false);
    char *const at = strchr(m->text.text + begin, '@'); /* its maps are on the host */
    if (at != NULL) {
        memmove(at, at + 1, strlen(at));
        m->text.length--;
    }
    run_add(&m->text, " drafts=");
    for (uint32_t i = 0; i < requests; i++) {
        const uint32_t left = m->rows - requests - total;
        drafts[i] = run_below(m, (left < 5 ? left : 5) + 1);
        total += drafts[i];
        run_add(&m->text, "%s%" PRIu32, i > 0 ? "," : "", drafts[i]);
    }
    run_add(&m->text, " method=%s", methods[method]);
    if (total != 0)
        run_add(&m->text, " ids=%slikely:%" PRIu32, run_below(m, 2) ? "@" : "",
                run_below(m, 100000));
    if (trees && total != 0) {
        const char *before = " parents=";
        for (uint32_t i = 0; i < requests; i++)
            for (uint32_t k = 0; k < drafts[i]; k++) {
                run_add(&m->text, "%s%" PRId32, before, (int32_t)run_below(m, k + 1) - 1);
                before = ",";
            }
    }
    if ((method == 2 || method == 3) && total != 0 && run_below(m, 4)) {
        const char *const kind = run_below(m, 2) ? "near" : run_below(m, 2) ? "probs" : "logits";
        const uint32_t seed = run_below(m, 100000);
        run_add(&m->text, " draft=%s:%" PRIu32, kind, seed);
        if (strcmp(kind, "probs") == 0 && seed % 2 == 0) { /* sparse */
            run_add(&m->text, " draft_tokens=likely:%" PRIu32 " draft_width=%" PRIu32, seed,
                    seed % 40 != 0 ? 1 + seed / 2 % 12 : 256);
            if (seed % 3 == 0)
                run_add(&m->text, " draft_map=every:%" PRIu32,
                        1 + seed % (m->vocab < 3 ? m->vocab : 3));
        }
    }
    if (run_below(m, 6) == 0)
        run_add(&m->text, " disable_bonus=1");
    if (run_below(m, 6) == 0)
        run_add(&m->text, " max_drafts=%" PRIu32, 5 + run_below(m, 4));
    for (int i = 0; i < 2; i++)
        if (run_below(m, 8) == 0) {
            const char *before = i == 0 ? " positions=" : " draws=";
            for (uint32_t k = 0; k < requests; k++, before = ",")
                run_add(&m->text, "%s%" PRIu32, before, run_below(m, 1000));
        }
    if (method == 4 && run_below(m, 2))
        run_add(&m->text, " epsilon=0.3 delta=0.6");
    run_make_inputs(m, total + requests);
    run_make_outputs(m, true, false);
}

static void add_accept(run_maker *m)
{
    const uint32_t per_row = run_below(m, 2) ? 1 : 1 + run_below(m, 4);
    run_add(&m->text, "accept");
    const uint32_t rows = run_make_slots(m, m->rows, false);
    if (per_row > 1)
        run_add(&m->text, " per_row=%" PRIu32, per_row);
    run_add(&m->text, " tokens=%s", run_below(m, 2) ? "@" : "");
    for (uint32_t i = 0; i < rows * per_row; i++)
        run_add(&m->text, "%s%" PRId32, i > 0 ? "," : "",
                run_below(m, 9) == 0
                    ? -1
                    : (int32_t)run_below(m, run_below(m, 2) || m->vocab < 4 ? m->vocab : 4));
    if (run_below(m, 3) == 0) {
        run_add(&m->text, " counts=");
        for (uint32_t i = 0; i < rows; i++)
            run_add(&m->text, "%s%" PRIu32, i > 0 ? "," : "", run_below(m, per_row + 1));
    }
    if (run_makes(m, "rollback") && m->rollback != 0 && run_below(m, 3) == 0) {
        run_add(&m->text, " rollback=");
        for (uint32_t i = 0; i < rows; i++)
            run_add(&m->text, "%s%" PRIu32, i > 0 ? "," : "",
                    run_below(m, m->rollback < 3 ? m->rollback + 1 : 3));
    }
}

static void add_draft(run_maker *m)
{
    run_add(&m->text, "draft");
    run_make_slots(m, m->rows, true);
    run_add(&m->text, " k=%" PRIu32 " min_n=%" PRIu32 " max_n=%" PRIu32, 1 + run_below(m, 6),
            1 + run_below(m, 2), 2 + run_below(m, 4));
    if (run_below(m, 4) == 0)
        run_add(&m->text, " fill=0");
}

static void add_logprobs(run_maker *m)
{
    run_add(&m->text, "logprobs rows=%" PRIu32, 1 + run_below(m, m->rows));
    run_make_logits(m);
    run_add(&m->text, " outputs=top:%" PRIu32 ",given:3",
            1 + run_below(m, m->vocab < 7 ? m->vocab : 7));
}

static const struct kind {
    const char *feature; /* what `features` must have */
    uint32_t weight;
    void (*add)(run_maker *m);
} kinds[] = {
    {"begin", 12, run_make_begin}, {"params", 6, add_new_params}, {"append", 4, add_append},
    {"turn", 2, add_turn},         {"force", 4, add_force},       {"fork", 5, add_copy},
    {"rollback", 6, add_rollback}, {"reset", 1, add_reset},       {"save", 5, add_save},
    {"save", 3, add_load},         {"step", 45, add_step},        {"verify", 14, add_verify},
    {"accept", 8, add_accept},     {"draft", 3, add_draft},       {"logprobs", 2, add_logprobs},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

void run_make_call(run_maker *m)
{
    for (;;) {
        uint32_t all = 0, at, i = 0;
        for (int k = 0; k < KINDS; k++)
            all += kinds[k].weight;
        for (at = run_below(m, all); at >= kinds[i].weight; i++)
            at -= kinds[i].weight;
        const bool always = kinds[i].add == run_make_begin ||
                            (kinds[i].add == add_step && !run_is_in(m->without, "step"));
        if (!always && !run_makes(m, kinds[i].feature))
            continue;
        kinds[i].add(m);
        run_add(&m->text, "\n");
        return;
    }
}
