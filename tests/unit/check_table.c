/* SPDX-License-Identifier: MIT */
/* The table of parameters: it has each field of cls_params once, the numbers of saved fields have
 * no gaps, what the help calls a default is the default, and the presets have each stage once. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "fixture.h"
#include "request/request.h"

/* clang-format off */
#define ROW(p, id, type, field, stage, phase, initial, least, most, range) \
    {#field, id, offsetof(cls_params, field), sizeof((cls_params *)0)->field, \
     (double)(initial), CLS_STAGE_##stage, NULL},
#define ROW_OF_OPTION(p, id, type, field, stage, phase, initial, least, most, range, option, meta, \
                      help) \
    {#field, id, offsetof(cls_params, field), sizeof((cls_params *)0)->field, \
     (double)(initial), CLS_STAGE_##stage, help},
#define ROW_OF_LIST(p, kind, list, kept, option, meta, key, help) \
    ROW(p, CLS_LIST_ID kept, UINT, list.count, END, BOTH, 0, 0, 0, NULL)
/* clang-format on */
static const struct row {
    const char *field;
    uint32_t id;
    size_t offset, size;
    double initial;
    int stage;
    const char *help;
} table[] = {CLS_PARAMS(ROW_OF_OPTION, ) CLS_PARAMS_WITHOUT_OPTION(ROW, ) CLS_LISTS(ROW_OF_LIST, )};
enum { ROWS = sizeof table / sizeof table[0] };

START_TEST(fields)
{
    char has[sizeof(cls_params)] = {0};
    memset(has, 1, sizeof(size_t)); /* struct_size */
#define HAS_LIST(p, kind, list, kept, option, meta, key, help) \
    memset(has + offsetof(cls_params, list), 1, sizeof(void *));
    CLS_LISTS(HAS_LIST, )
#undef HAS_LIST
    memset(has + offsetof(cls_params, grammar), 1, sizeof(void *)); /* no option has it */
    memset(has + offsetof(cls_params, grammar_state), 1, sizeof(uint32_t));
    for (int i = 0; i < ROWS; i++)
        for (size_t at = 0; at < table[i].size; at++)
            ck_assert_msg(has[table[i].offset + at]++ == 0, "%s is there twice", table[i].field);
    size_t missing = 0;
    for (size_t at = 0; at < sizeof has; at++)
        missing += has[at] == 0;
    ck_assert_uint_le(missing, CLS_LIST_COUNT * 4 + 24); /* what alignment leaves */
}
END_TEST

START_TEST(saved_fields)
{
    uint32_t saved = 0;
    for (int i = 0; i < ROWS; i++) {
        saved += table[i].id != 0;
        for (int j = 0; j < i; j++)
            ck_assert_msg(table[i].id == 0 || table[i].id != table[j].id,
                          "%s and %s are both number %u", table[i].field, table[j].field,
                          (unsigned)table[i].id);
    }
    for (uint32_t id = 1; id <= saved; id++)
        ck_assert_msg(cls_param_by_id(id) != NULL, "no parameter has number %u", (unsigned)id);
    ck_assert_ptr_null(cls_param_by_id(saved + 1));
}
END_TEST

START_TEST(help)
{
    for (int i = 0; i < ROWS; i++) {
        const char *const words = table[i].help ? strstr(table[i].help, "(default ") : NULL;
        if (words == NULL || strncmp(words, "(default output)", 16) == 0)
            continue;
        const double said = strtod(words + strlen("(default "), NULL);
        ck_assert_msg((float)said == (float)table[i].initial, "%s: the help says %g, not %g",
                      table[i].field, said, table[i].initial);
    }
}
END_TEST

START_TEST(presets)
{
    for (int chain = CLS_CHAIN_DEFAULT; chain < CLS_CHAIN_CUSTOM; chain++) {
        const uint8_t *const stages = cls_chain_preset((cls_chain)chain);
        uint32_t has = 0, n = 0;
        for (; stages[n] != CLS_STAGE_END; n++)
            has |= 1u << stages[n];
        ck_assert_uint_eq(n, CLS_STAGE_COUNT);
        ck_assert_uint_eq(has, (1u << CLS_PUBLIC_STAGES) - 2);
    }
    for (int i = 0; i < ROWS; i++)
        ck_assert_int_lt(table[i].stage, CLS_PUBLIC_STAGES);
}
END_TEST

int main(void)
{
    fixture_begin(ON_HOST);
    add_test(fields);
    add_test(saved_fields);
    add_test(help);
    add_test(presets);
    return fixture_end();
}
