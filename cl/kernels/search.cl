/* SPDX-License-Identifier: MIT */
/* search: runs the chain over the whole row, for sets that do not fit the shortlist. Each stage
 * takes sums over the row and returns a cut; once what is left fits the list, the list takes over.
 * The row is read some 3 to 40 times, which is exact but not fast. Only the first top-p, top-k or
 * min-p is fast, because the pass serves it. */
#include "draw/sample.cl"
#include "stages/truncate.cl"
#include "row/sums.cl"

/* What the pass measured above out->pivot, by tiles, and the last cut whose masses follow from it,
 * if that is the cut of the chain's first truncation. */
typedef struct pass_sums {
    __global const u64 *by_tile;
    int valid, counts;
    cut last;
} pass_sums;

/* Adds up the tiles, where the sums are needed: if the chain carried them, they would occupy eight
 * registers of a GPU until then. */
static inline void pass_total(const pass_sums *pass, u32 tiles, u64 *known, __local u64 *scratch)
{
    for (u32 p = 0; p < CLS_PIVOTS; p++) {
        u64 sum = 0;
        SHORT_LOOP
        for (u32 t = LOCAL_ID; t < tiles; t += WGS)
            sum += pass->by_tile[t * CLS_PIVOTS + p];
        known[p] = wg_mass(sum, scratch);
    }
}

/* Measures what is left of the row. Returns 1 if that fits the list; the list then holds it,
 * sorted, and can take over. */
ONE_COPY int search_sizes(row_stage *w, int skips_mass)
{
    shortlist *const list = w->list;
    chain_state *const c = w->c;
    for (u32 i = 0; i < 2; i++) {
        const i32 all[CLS_PIVOTS] = {CLS_KEY_NONE, CLS_KEY_NONE, CLS_KEY_NONE, CLS_KEY_NONE};
        const measure m = measure_of(i == 0, w->top, w->scale);
        u64 sum[CLS_PIVOTS];
        if (i == 1 && skips_mass)
            break;
        measure_row(w->r, &m, all, sum, list->scratch);
        if (i == 0)
            w->tokens = u64_lo(sum[0]);
        else
            w->mass = sum[0];
    }
    if (w->tokens > LIST || !collect(w->r, CLS_KEY_NONE + 1, CLS_KEY_INF, ALL_TIES, list))
        return 0;
    list_sort(list);
    c->kept = list->n;
    c->complete = 1;
    c->weighed = 0.0f;
    return 1;
}

/* Makes the cut that a stage has returned. If too few tokens are left, it keeps as many as min_keep
 * says, in the stage's own order. */
ONE_COPY void search_cut(row_stage *w, u32 stage, int is_first, pass_sums *pass)
{
    const int by_key = is_first && STAGE_IS(stage, STAGES_OF_KEY),
              by_pass = is_first && STAGE_IS(stage, STAGES_OF_PASS);
    const int needs_min_keep = w->slot->min_keep > 1 && STAGE_IS(stage, STAGES_OF_LEAST);
    kept_set *const set = &w->c->set;
    const kept_set before = *set;
    for (u32 attempt = 0; attempt < 2; attempt++) {
        const measure m = measure_of(w->counts, w->top, w->scale);
        cut cutting = {w->key, CLS_MAX_ID, -1, 0, 0, 0};
        int search = w->cut == CUT_AT_TARGET;
        *set = before;
#if CHAIN == 2
        if (w->cut == CUT_TYPICAL)
            search = typical_cut(w->r, &m, w->mean, w->target, w->work, set, &cutting.key,
                                 w->list->scratch);
#endif
        if (by_key && !pass->counts && pass->valid) {
            cutting.pivot = 0; /* all four pivots are this key, so the pass alone has the masses */
            w->list->n = 0;
        }
        if (search) {
            const int is_known = by_pass && pass->counts == w->counts && pass->valid;
            u64 known[CLS_PIVOTS];
            if (is_known)
                pass_total(pass, w->r->tiles, known, w->list->scratch);
            pass->last.pivot = -1; /* the list is about to change */
            find_cut(w->r, &m, w->target, w->out->pivot, known, is_known, w->out->max_key, w->work,
                     w->list, &cutting);
        }
        if (w->cut != CUT_UPPER &&
            (cutting.key > set->key || (cutting.key == set->key && cutting.id < set->id))) {
            set->key = cutting.key;
            set->id = cutting.id;
            pass->last = cutting;
            if (!is_first || pass->counts || w->cut == CUT_TYPICAL || attempt > 0)
                pass->last.pivot = -1;
        }
        if (!needs_min_keep || attempt == 1)
            break;
        row_logits truncated = *w->r;
        row_truncate(&truncated, set);
        if (tokens_above(&truncated, CLS_KEY_NONE, w->list->scratch) >= w->slot->min_keep)
            break;
        if (w->cut == CUT_TYPICAL)
            row_truncate(w->r, &before);
        else
            w->cut = CUT_AT_TARGET;
        w->counts = 1;
        w->target = w->slot->min_keep;
    }
#if CHAIN == 2
    if (w->cut == CUT_UPPER || stage == CLS_STAGE_TYPICAL_P) {
        i32 lo = CLS_KEY_NONE, hi = w->out->max_key;
        row_truncate(w->r, set);
        key_range(w->r, &lo, &hi, w->list->scratch);
        set->top_key = hi;
    }
#endif
}

/* Runs the chain from stage c->at on. Returns 1 if what is left is in the list, sorted, and the
 * list can take over; 0 if the chain is done, or if the row gets no token. */
static inline int search_row(row_stage *w, pass_sums *pass)
{
    chain_state *const c = w->c;
    SHORT_LOOP
    for (; chain_stage(w->slot, c->at) != CLS_STAGE_END; c->at++) {
        const u32 stage = chain_stage(w->slot, c->at);
        const int is_first = !c->truncated;
        if (stage == CLS_STAGE_TEMPERATURE) {
            c->scale = w->slot->scale;
            continue;
        }
        w->top = float_of_key(c->set.top_key);
        w->scale = c->scale;
        w->tokens = 0;
        w->mass = w->out->total;
        if (!is_first) {
            row_truncate(w->r, &c->set);
            pass->last.pivot = -1; /* the pass measured the first truncation only */
        }
        if ((!is_first || !STAGE_IS(stage, STAGES_OF_PASS)) &&
            search_sizes(w, is_first && (w->slot->flags & CLS_SLOT_TOTAL)))
            return 1;
        if (stage == CLS_STAGE_INFILL) {
            w->out->status |= CLS_STATUS_UNFIT;
            return 0;
        }
        c->truncated = 1;
        run_stage(stage, w);
        if (w->cut != CUT_NOTHING)
            search_cut(w, stage, is_first, pass);
    }
    return 0;
}

/* Takes what the search needs of the record that the token kernel has written. The other fields
 * have their first values: if they were read here, they would occupy some twenty registers of a GPU
 * until they are written again. */
static inline void record_from_token(__global const cls_row *from, cls_row *out)
{
    out->total = from->total;
    out->status = from->status;
    out->state = from->state;
    out->no_token = from->no_token;
    out->max_key = from->max_key;
    for (u32 p = 0; p < CLS_PIVOTS; p++)
        out->pivot[p] = from->pivot[p];
}

/* Searches the rows that the token kernel has left; the group of any other row returns at once.
 * Launch: [WGS, rows]. */
ONE_COPY void search_the_row(const step_args *s, u32 row, const shortlist *the_list)
{
    if (s->rows[row].state == CLS_ROW_DONE) /* the same for the whole group */
        return;
    __global const cls_args *const args = s->args;
    shortlist list = *the_list;
    const u32 tiles = row_tiles(s);
    const i32 slot_index = row_slot(s, row);
    __global u64 *const row_work = work_of(s, row);
    __global f32 *const row_sample = sample_of(s, row);
    __global const cls_slot *const slot = slot_of(s, slot_index);
    row_logits r = row_view(s, row, slot_index);
    const u32 flags = row_flags(s, slot_index);
    __global const u64 *const row_pass = s->pass + (size_t)row * tiles * CLS_PIVOTS;
    cls_row out;
    record_begin(slot_index, args->invalid_token, &out);
    record_from_token(s->rows + row, &out);
    BARRIER(); /* every item has read the record, which the first item writes */
    const cut no_cut = {CLS_KEY_NONE, CLS_MAX_ID, -1, 0, 0, 0};
    const int xtc_cuts = row_xtc_cuts(s, slot, row);
    pass_sums sums;
    chain_state c;
    chain_begin(out.max_key, &c);
    sums.valid = out.state != CLS_ROW_SEARCH_ALL;
    sums.counts = out.state == CLS_ROW_SEARCH_COUNT;
    sums.by_tile = row_pass;
    sums.last = no_cut;
    row_stage w = {slot, &r, row_work, &list,       &c, &out, 0.0f, 0.0f,
                   0u,   0,  xtc_cuts, CUT_NOTHING, 0,  0,    0,    0u};
    const int listed = search_row(&w, &sums);
    if (listed) /* the list holds the whole set, so it can serve every stage; if not, the status
                   says so */
        out.status |= truncate_list(slot, &list, &r, xtc_cuts, s->infill, args->n_end, &c, &out)
                          ? 0u
                          : CLS_STATUS_UNFIT;
    else if (!(out.status & CLS_STATUS_UNFIT))
        out.mass = set_masses(&r, &c, &sums.last, s->rows[row].scale, row_pass, row_work, &list);
    if (!(out.status & (CLS_STATUS_UNFIT | CLS_STATUS_EMPTY))) {
        pick_token(&r, slot, listed, row_bits(s, CLS_PURPOSE_TOKEN, slot, row), args->invalid_token,
                   row_work, row_sample, &list, &c, &out);
    } else {
        out.state = CLS_ROW_DONE;
        out.no_token = 1;
    }
    row_end(s, &r, flags, row, slot_index, 1, &out, list.scratch);
}

KERNEL void cls_search(STEP_PARAMETERS(CLS_TOKEN_BUFFERS))
{
    SHORTLIST(list);
    const step_args s = STEP_OF(CLS_TOKEN_BUFFERS);
    search_the_row(&s, get_group_id(1), &list);
}
