/* SPDX-License-Identifier: MIT */
/* How many of the latest tokens of prompt and output parameters look at. */
#include "request/request.h"

#include <stdio.h>
#include <string.h>

/* The latest tokens are compared with all ids of a sequence but the last one. */
static void need_of_list(const cls_list_param *list, const cls_params *p, cls_history_need *need)
{
    const cls_ids *const sequences = cls_list_array(list, p);
    const uint32_t n = cls_list_count(list, p);
    uint32_t longest = 0, at = 0;
    if (!list->matched || n == 0 || sequences == NULL)
        return;
    if (list->kind != CLS_LIST_sequences) {
        longest = n;
        snprintf(need->name, sizeof need->name, "%s.count", list->name);
    } else {
        for (uint32_t i = 0; i < n; i++)
            if (sequences[i].count > longest)
                longest = sequences[at = i].count;
        snprintf(need->name, sizeof need->name, "%s.sequences[%u].count", list->name, (unsigned)at);
    }
    need->value = longest;
    need->tokens = need->least = longest - 1;
}

int cls_history_need_of(const cls_params *p, int i, cls_history_need *need)
{
    const int dry = cls_dry_is_on(p);
    const struct {
        const char *name;
        double value;
        uint64_t tokens, least;
    } rows[] = {
#define ROW(field, tokens) {#field, (double)p->field, tokens, tokens}
        ROW(loop_repeats, (uint64_t)p->loop_repeats * p->loop_max),
        ROW(penalty_window, p->penalty_window),
        ROW(repetition_window, p->repetition_window),
        ROW(frequency_window, p->frequency_window),
        ROW(presence_window, p->presence_window),
        ROW(dry_window, dry ? p->dry_window : 0),
        /* DRY sees what there is. It has an effect from these tokens on. */
        {"dry_multiplier", (double)p->dry_multiplier, dry ? (uint64_t)p->dry_allowed_length + 1 : 0,
         dry ? 1 : 0},
        ROW(no_repeat_ngram, p->no_repeat_ngram),
        ROW(watermark_context, p->watermark_context),
        ROW(ngram_window, p->no_repeat_ngram != 0 ? p->ngram_window : 0),
#undef ROW
    };
    enum { ROWS = sizeof rows / sizeof rows[0] };
    memset(need, 0, sizeof *need);
    if (i >= ROWS + CLS_LIST_COUNT)
        return 0;
    if (i >= ROWS) {
        need_of_list(&cls_list_table[i - ROWS], p, need);
        return 1;
    }
    snprintf(need->name, sizeof need->name, "%s", rows[i].name);
    need->value = rows[i].value;
    need->tokens = rows[i].tokens;
    need->least = rows[i].least;
    if (i == 0)
        snprintf(need->more, sizeof need->more, " and params->loop_max %u", (unsigned)p->loop_max);
    return 1;
}

cls_status cls_params_history(const cls_params *callers, uint32_t *max_history)
{
    cls_params p;
    cls_history_need need;
    uint64_t most = 0;
    if (max_history == NULL)
        return cls_refuse("max_history is NULL");
    *max_history = 0;
    const cls_status status = cls_params_read(callers, &p);
    for (int i = 0; status == CLS_OK && cls_history_need_of(&p, i, &need); i++)
        most = need.tokens > most ? need.tokens : most;
    *max_history = most < UINT32_MAX ? (uint32_t)most : UINT32_MAX;
    return status;
}
