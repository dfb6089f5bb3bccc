/* SPDX-License-Identifier: MIT */
/* What calls of clsample run write. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "run/inputs.h"

static const struct known_output {
    const char *name, *record;
    size_t buffer, count; /* places in a cls_outputs; count 0: one element a row, 1: the vocabulary,
                             2: one a slot */
    bool near;
} known_outputs[] = {
#define OF(field) offsetof(cls_outputs, field)
    {"logprobs", "logprobs", OF(logprobs), 0, false},
    {"ranks", "ranks", OF(ranks), 0, false},
    {"top", "top.ids", OF(top.ids), OF(top.count), false},
    {"top", "top.logprobs", OF(top.logprobs), OF(top.count), false},
    {"given", "given.logprobs", OF(given.logprobs), OF(given.count), false},
    {"given", "given.ranks", OF(given.ranks), OF(given.count), false},
    {"probs", "probs", OF(probs), 1, true},
    {"final_logits", "final_logits", OF(final_logits), 1, false},
    {"entropy", "entropy", OF(entropy), 0, true},
    {"kept_mass", "kept_mass", OF(kept_mass), 0, true},
    {"kept", "kept.ids", OF(kept.ids), OF(kept.count), false},
    {"kept", "kept.logits", OF(kept.logits), OF(kept.count), false},
    {"kept", "kept.probs", OF(kept.probs), OF(kept.count), true},
    {"counts", "kept.counts", OF(kept.counts), 0, false},
    {"set", "set.ids", OF(kept_set.ids), OF(kept_set.capacity), false},
    {"set", "set.counts", OF(kept_set.counts), 0, false},
    {"latest", "latest", OF(latest), 2, false},
#undef OF
};
enum { KNOWN_OUTPUTS = sizeof known_outputs / sizeof *known_outputs };

bool run_is_listed(const run_statement *s, const char *list, const char *name, uint64_t *count)
{
    const char *const more = run_listed(list, ',', name);
    char text[32];
    uint64_t number[3] = {0};
    if (more != NULL) {
        snprintf(text, sizeof text, "%s%.*s", name, (int)strcspn(more, ","), more);
        run_is(s, text, name, number);
    }
    *count = number[0];
    return more != NULL;
}

static void check_listed(const run_statement *s, const char *list)
{
    static const char *const others[] = {"final", "packed", "none"};
    for (;; list++) {
        const size_t part = strcspn(list, ",:"), whole = strcspn(list, ",");
        cli_near near = {.word = list, .length = part};
        bool known = false;
        for (int i = 0; i < KNOWN_OUTPUTS + 3; i++) {
            const char *const name =
                i < KNOWN_OUTPUTS ? known_outputs[i].name : others[i - KNOWN_OUTPUTS];
            known |= strlen(name) == part && strncmp(name, list, part) == 0;
            cli_near_try(&near, name);
        }
        if (!known)
            run_die(s,
                    "outputs: '%.*s' is unknown; known are final, logprobs, ranks, top:N, "
                    "given:N, probs, final_logits, entropy, kept_mass, kept:N, counts, set:N, "
                    "packed:N and latest%s",
                    (int)(part < 40 ? part : 40), list, cli_near_text(&near, ""));
        list += whole;
        if (*list == '\0')
            return;
    }
}

run_outputs run_outputs_make(run_side *side, const run_statement *s, uint32_t places, bool verifies)
{
    const uint32_t vocab = side->sampler_options.vocab, slots = side->sampler_options.slot_count;
    const char *list = run_find(s, "outputs");
    run_outputs out = {.any = false};
    uint64_t n;
    cls_outputs_init(&out.o);
    if (list == NULL && side->outputs != NULL)
        list = run_find(side->outputs, "");
    if (list == NULL)
        return out;
    check_listed(s, list);
    out.o.logprob_kind = run_is_listed(s, list, "final", &n) ? CLS_LOGPROB_FINAL : CLS_LOGPROB_RAW;
    out.packed = run_is_listed(s, list, "packed", &n);
    const uint64_t packed = n;
    for (int i = 0; i < KNOWN_OUTPUTS; i++) {
        const struct known_output *const k = &known_outputs[i];
        if (!run_is_listed(s, list, k->name, &n) || (verifies && (k->count == 1 || k->count == 2)))
            continue;
        if (n > (uint64_t)2 * vocab + 2048)
            run_die(s, "outputs: %s:%" PRIu64 " is too many", k->name, n);
        uint32_t width = k->count == 1 ? vocab : 1, rows = k->count == 2 ? slots : places;
        if (k->count > 2) {
            width = (uint32_t)n;
            memcpy((char *)&out.o + k->count, &width, sizeof width);
        }
        const bool reverses = side->reverses;
        side->reverses = k->count == 2 ? side->way == RUN_PERMUTED : reverses;
        const cls_buffer b = run_result(side, k->record, rows, width, k->near);
        side->reverses = reverses;
        memcpy((char *)&out.o + k->buffer, &b, sizeof b);
        out.any = true;
    }
    if (out.o.given.count != 0) {
        int32_t *const ids = cli_alloc((size_t)places * out.o.given.count, sizeof *ids);
        for (uint32_t i = 0; i < places * out.o.given.count; i++)
            ids[i] = i % 9 == 8 ? -1 : (int32_t)((uint64_t)i * 2654435761u % vocab);
        out.o.given.ids = run_buffer(
            side, side->reverses ? run_turned(ids, places, out.o.given.count * sizeof *ids) : ids,
            (size_t)places * out.o.given.count * sizeof *ids);
    }
    if (packed > UINT32_MAX)
        run_die(s, "outputs: packed:%" PRIu64 " is too many", packed);
    if (out.packed && packed != 0) {
        out.o.kept_set.capacity = (uint32_t)packed;
        out.o.kept_set.ids = run_result(side, "set.ids", 1, (size_t)packed, false);
        out.o.kept_set.counts = run_result(side, "set.counts", places, 1, false);
        out.o.kept_set.offsets = run_result(side, "offsets", places + 1, 1, false);
        out.any = true;
    }
    return out;
}

void run_set_all_parts(run_side *side, const run_statement *s, const char *keys,
                       const char *structure, void *call, run_outputs *out)
{
    run_set_parts(side, s, keys, "", structure, call);
    run_set_parts(side, s, keys, "outputs.", "cls_outputs", &out->o);
    for (uint32_t i = 0; i < s->words; i++)
        out->any |= strncmp(s->word[i].key, "outputs.", 8) == 0;
}

cls_outputs run_outputs_of_row(const run_outputs *all, uint32_t vocab, uint32_t row)
{
    cls_outputs o = all->o;
    for (int i = 0; i < KNOWN_OUTPUTS; i++) {
        const struct known_output *const k = &known_outputs[i];
        cls_buffer *const b = (cls_buffer *)(void *)((char *)&o + k->buffer);
        uint32_t width = k->count == 1 ? vocab : 1;
        if (k->count > 2)
            memcpy(&width, (const char *)&o + k->count, sizeof width);
        if (k->count == 2 || (b->buffer == NULL && b->pointer == NULL))
            continue;
        b->offset = (uint64_t)row * width * sizeof(float);
        b->size = width * sizeof(float);
    }
    o.given.ids.offset = (uint64_t)row * o.given.count * sizeof(int32_t);
    o.given.ids.size = o.given.count * sizeof(int32_t);
    return o;
}

cls_buffer run_part_of(cls_buffer b, uint32_t row, size_t size)
{
    if (b.buffer != NULL || b.pointer != NULL) {
        b.offset = row * size;
        b.size = size;
    }
    return b;
}
