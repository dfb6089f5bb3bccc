/* SPDX-License-Identifier: MIT */
/* The kernels whose results the library reads: the self-test, whose words it compares, and the
 * slots' parameters, which it saves. */
#include "step/step.h"
#include "stub_cl.h"

#include <string.h>

/* cls_self_test(out, n) */
static void self_test(const stub_value *a, const size_t *global)
{
    unsigned char *const out = stub_memory(a[0].mem);
    (void)global;
    for (uint32_t i = 0; i < a[1].u32; i++) {
        const uint32_t word = self_test_word(i);
        memcpy(out + i * sizeof word, &word, sizeof word);
    }
}

/* cls_slots(changes, first, words, slots, ...), where no request has a token and none is forced. */
static void slots(const stub_value *a, const size_t *global)
{
    const unsigned char *const changes = stub_memory(a[0].mem);
    unsigned char *const all = stub_memory(a[3].mem);
    for (size_t i = 0; i < global[1]; i++) {
        cls_change c;
        uint32_t number;
        memcpy(&number, changes + (a[1].u32 + i) * sizeof number, sizeof number);
        memcpy(&c, changes + number * sizeof c, sizeof c);
        if (c.kind == CLS_CHANGE_COPY)
            memcpy(&c.params, all + c.from * sizeof c.params, sizeof c.params);
        if (c.kind == CLS_CHANGE_RESET)
            c.params.flags = 0;
        if (c.kind != CLS_CHANGE_APPEND && c.kind != CLS_CHANGE_ROLLBACK &&
            c.kind != CLS_CHANGE_TURN && c.kind != CLS_CHANGE_FORCE)
            memcpy(all + c.slot * sizeof c.params, &c.params, sizeof c.params);
    }
}

const stub_kernel *stub_kernel_find(const char *name)
{
    static const stub_kernel all[] = {{"cls_self_test", 1u, self_test},
                                      {"cls_slots", 1u | 8u, slots}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (strcmp(all[i].name, name) == 0)
            return &all[i];
    return NULL;
}
