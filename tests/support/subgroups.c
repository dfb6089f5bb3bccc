/* SPDX-License-Identifier: MIT */
#include "subgroups.h"

/* What cl/core/groups.cl has for each kind of sub-groups. There a local array `scratch` is in
 * scope. */
#define EMULATION(OTHER) \
    "#if SUBGROUPS == 6\n" \
    "#define SG_SIZE 4u\n" \
    "#define SG_LANE ((uint)get_local_id(0) & 3u)\n" \
    "static inline uint sg_xor(uint x, uint mask, __local uint *words)\n" \
    "{\n" \
    "    const uint lid = (uint)get_local_id(0);\n" \
    "    barrier(CLK_LOCAL_MEM_FENCE);\n" \
    "    words[lid] = x;\n" \
    "    barrier(CLK_LOCAL_MEM_FENCE);\n" \
    "    return words[" OTHER "];\n" \
    "}\n" \
    "#define SG_XOR(x, mask) sg_xor((uint)(x), mask, (__local uint *)scratch)\n" \
    "#endif\n"

void test_subgroups(uint32_t kind)
{
    /* The text stays, since samplers compile more programs later. */
    if (kind == EMULATED_SUBGROUPS)
        cls_test_text = EMULATION("lid ^ mask");
    if (kind == FAULTY_SUBGROUPS)
        cls_test_text = EMULATION("mask == 2 ? lid : lid ^ mask");
    if (kind == LATER_FAULTY_SUBGROUPS)
        cls_test_text = EMULATION("mask == 2 && get_group_id(0) != 0 ? lid : lid ^ mask");
    cls_test_subgroups = kind > CLS_SUBGROUPS_TEST ? CLS_SUBGROUPS_TEST : kind;
}
