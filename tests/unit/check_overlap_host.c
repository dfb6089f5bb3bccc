/* SPDX-License-Identifier: MIT */
/* Proves that calls without a device copy what they are given on the host: outputs that are written
 * over the maps, the row offsets or the masks are those of separate arrays. */
#include <string.h>

#include "fixture.h"
#include "rows/kinds.h"

enum { VOCAB = 40, ROWS = 4, WORDS = (VOCAB + 31) / 32, REQUESTS = 2 };

static struct {
    cls_context *context;
    cls_sampler *sampler;
    float logits[ROWS * VOCAB];
} t;

static cls_buffer memory_of(void *at, size_t size)
{
    return (cls_buffer){.pointer = at, .size = size, .kind = CLS_BUFFER_HOST};
}

/* The likeliest token of a row is 6 + row, and requests are greedy. */
static void open_sampler(void)
{
    cls_sampler_options o;
    cls_params p;
    must(cls_context_create_host(NULL, &t.context));
    cls_sampler_options_init(&o);
    o.vocab = VOCAB;
    o.max_rows = ROWS;
    must(cls_sampler_create(t.context, &o, &t.sampler));
    cls_params_init(&p);
    p.temperature = 0.0f;
    for (uint32_t slot = 0; slot < ROWS; slot++)
        must(cls_slot_begin(t.sampler, slot, &p, NULL));
    memset(t.logits, 0, sizeof t.logits);
    for (uint32_t row = 0; row < ROWS; row++)
        t.logits[row * VOCAB + 6 + row] = 3.0f;
}

static void close_sampler(void)
{
    cls_sampler_destroy(t.sampler);
    cls_context_destroy(t.context);
}

static cls_step usual_step(void)
{
    cls_step s;
    cls_step_init(&s);
    s.rows = ROWS;
    s.logits.values = memory_of(t.logits, sizeof t.logits);
    return s;
}

/* A row's token, and then its status, is written over the next row's entry of each map in turn. */
START_TEST(steps)
{
    static const int32_t rows[ROWS] = {2, 0, 3, 1}, wanted[ROWS] = {8, 6, 9, 7};
    for (int which = 0; which < 4; which++)
        for (int as_status = 0; as_status < 2; as_status++) {
            int32_t shared[ROWS + 1], other[ROWS], *const written = shared + 1;
            open_sampler();
            cls_step s = usual_step();
            cls_ints *const maps[] = {&s.logits_map, &s.slots, &s.positions, &s.draws};
            memcpy(shared, rows, sizeof rows);
            s.logits_map.host = rows;
            maps[which]->host = shared;
            s.tokens = memory_of(as_status ? other : written, sizeof other);
            s.status = memory_of(as_status ? written : other, sizeof other);
            must(cls_sample(t.sampler, NULL, &s, 0, NULL, NULL));
            for (int row = 0; row < ROWS; row++) {
                ck_assert_int_eq((as_status ? other : written)[row], wanted[row]);
                ck_assert_int_eq((as_status ? written : other)[row], CLS_ROW_OK);
            }
            close_sampler();
        }
}
END_TEST

/* Masks and the map of their rows. Row r of the masks allows only token 20 + r. */
START_TEST(masks)
{
    static const int32_t rows[ROWS] = {3, 2, 1, 0};
    for (int over_map = 0; over_map < 2; over_map++) {
        uint32_t words[ROWS * WORDS] = {0};
        int32_t map[ROWS];
        open_sampler();
        cls_step s = usual_step();
        memcpy(map, rows, sizeof map);
        for (uint32_t row = 0; row < ROWS; row++)
            words[row * WORDS] = 1u << (20 + row);
        int32_t *const tokens = over_map ? map : (int32_t *)(void *)words + 4;
        s.mask.host = words;
        s.mask.rows = ROWS;
        s.mask.row_map.host = map;
        s.tokens = memory_of(tokens, ROWS * sizeof *tokens);
        must(cls_sample(t.sampler, NULL, &s, 0, NULL, NULL));
        for (int row = 0; row < ROWS; row++)
            ck_assert_int_eq(tokens[row], 23 - row);
        close_sampler();
    }
}
END_TEST

/* Two requests, of one draft each that is accepted. */
START_TEST(verifications)
{
    static const int32_t offsets[REQUESTS + 1] = {0, 2, 4}, ids[REQUESTS] = {6, 8},
                                            slots[REQUESTS] = {1, 0};
    enum { NOTHING, DRAFT_IDS, SLOTS, OFFSETS, ARRAYS };
    for (int which = NOTHING; which < ARRAYS; which++) {
        int32_t tokens[REQUESTS * 2], drawn[REQUESTS * 2], own_slots[REQUESTS];
        open_sampler();
        cls_verify_call c;
        cls_verify_call_init(&c);
        c.requests = REQUESTS;
        c.method = CLS_VERIFY_MATCH;
        c.logits = usual_step().logits;
        memcpy(own_slots, slots, sizeof slots);
        if (which == OFFSETS)
            memcpy(tokens, offsets, sizeof offsets);
        else if (which != NOTHING)
            memcpy(tokens, which == DRAFT_IDS ? ids : slots, sizeof ids);
        c.row_offsets = which == OFFSETS ? tokens : offsets;
        c.draft_ids.host = which == DRAFT_IDS ? tokens : ids;
        c.slots.host = which == SLOTS ? tokens : own_slots;
        c.tokens = memory_of(tokens, sizeof tokens);
        must(cls_verify(t.sampler, NULL, &c, 0, NULL, NULL));
        memcpy(drawn, tokens, sizeof drawn);
        for (int i = 0; i < REQUESTS * 2; i++)
            ck_assert_msg(drawn[i] == 6 + i, "array %d: token %d is %d, not %d", which, i, drawn[i],
                          6 + i);
        close_sampler();
    }
}
END_TEST

/* Drafts are written over the slots of the requests. */
START_TEST(drafts)
{
    static const int32_t text[] = {1, 2, 3, 1, 2}, other[] = {4, 5, 6, 4, 5};
    int32_t shared[REQUESTS] = {1, 0};
    cls_params p;
    cls_sampler_options o;
    must(cls_context_create_host(NULL, &t.context));
    cls_sampler_options_init(&o);
    o.vocab = VOCAB;
    o.max_rows = ROWS;
    o.max_history = 20;
    must(cls_sampler_create(t.context, &o, &t.sampler));
    cls_params_init(&p);
    must(cls_slot_begin(t.sampler, 0, &p, TEXT(text, 5, NULL, 0)));
    must(cls_slot_begin(t.sampler, 1, &p, TEXT(other, 5, NULL, 0)));
    cls_draft_call c;
    cls_draft_call_init(&c);
    c.requests = REQUESTS;
    c.slots.host = shared;
    c.k = 1;
    c.draft_ids = memory_of(shared, sizeof shared);
    must(cls_draft(t.sampler, NULL, &c, 0, NULL, NULL));
    ck_assert_int_eq(shared[0], 6);
    ck_assert_int_eq(shared[1], 3);
    close_sampler();
}
END_TEST

int main(void)
{
    fixture_begin(ON_HOST);
    add_test(steps);
    add_test(masks);
    add_test(verifications);
    add_test(drafts);
    return fixture_end();
}
