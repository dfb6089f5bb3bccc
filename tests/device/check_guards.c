/* SPDX-License-Identifier: MIT */
/* Proves that kernels read no memory but their own where what they computed contradicts itself, as
 * a wrong device or a forged partial can make it: masses that do not reach the number drawn below
 * their sum, a maximum that no tile has, and a list that keeps nothing. */
#include <stdlib.h>
#include <string.h>

#include "fixture.h"
#include "programs/programs.h"

enum { TILES = 3, MAX_TILES = TILES * CLS_MAX_TILES_PER_TILE, RESULTS = 3 };

/* Is appended to the source of the token kernel, whose functions it calls. Local memory holds what
 * leads far outside if it is taken for an index. */
static const char source[] =
    "#define BEGIN \\\n"
    "    SHORTLIST(list) \\\n"
    "    row_job w; \\\n"
    "    w.r.x = (__global const logit *)x; \\\n"
    "    w.r.flags = flags; \\\n"
    "    w.r.key = keys; \\\n"
    "    w.r.tiles = 3; \\\n"
    "    w.r.vocab = 3 * CLS_TILE; \\\n"
    "    w.r.wide = w.r.masked = w.r.dense = w.r.adjustments = w.r.truncated = 0; \\\n"
    "    w.list = &list; \\\n"
    "    w.listed = 1; \\\n"
    "    for (u32 i = LOCAL_ID; i < LIST; i += WGS) \\\n"
    "        list.order[i] = list.rank[i] = 0x40000000; \\\n"
    "    list.scratch[LOCAL_ID] = u64_make(0u, 0x40000000u); \\\n"
    "    BARRIER();\n"
    "KERNEL void cls_guards_row(__global const u64 *mass, __global const i32 *keys,\n"
    "                           __global const f32 *x, __global const u32 *flags,\n"
    "                           __global i32 *out)\n"
    "{\n"
    "    BEGIN\n"
    "    u64 drawn = u64_make(0x40000000u, 0u);\n"
    "    const u32 tile = find_tile(mass, 3, &drawn, list.scratch);\n"
    "    const i32 id = largest(&w.r, 9, list.scratch);\n"
    "    if (LOCAL_ID == 0) {\n"
    "        out[0] = u64_hi(drawn) == 0x40000000u ? (i32)tile : -1;\n"
    "        out[1] = id;\n"
    "    }\n"
    "}\n"
    "KERNEL void cls_guards_list(__global const u64 *mass, __global const i32 *keys,\n"
    "                            __global const f32 *x, __global const u32 *flags,\n"
    "                            __global i32 *out)\n"
    "{\n"
    "    BEGIN\n"
    "    chain_begin(9, &w.c);\n"
    "    record_begin(0, -1, &w.out);\n"
    "    record_set(&w);\n"
    "    const i32 id = draw_list(&list, w.out.kept, 0);\n"
    "    if (LOCAL_ID == 0)\n"
    "        out[2] = (i32)w.out.kept + id;\n"
    "}\n";

static cl_program build(device *d, uint32_t group)
{
    const cls_variant *const v = &cls_variants[CLS_TOKEN_1];
    const cls_shape shape = {.vector = 4, .extra_options = ""};
    const cls_build_config config = {group, CLS_TIER_INT64, CLS_SUBGROUPS_NONE, 120, 16};
    const char **const strings = calloc(*v->count + 1, sizeof *strings);
    char options[CLS_BUILD_OPTIONS];
    cl_int code;
    for (unsigned i = 0; i < *v->count; i++)
        strings[i] = v->source[i];
    strings[*v->count] = source;
    cls_program_options(&shape, &config, CLS_F32, v, options);
    const cl_program program = cls_program_create(d->context, strings, *v->count + 1, &code);
    must_cl(code);
    must_cl(clBuildProgram(program, 1, &d->id, options, NULL, NULL));
    free(strings);
    return program;
}

START_TEST(contradictions)
{
    static const uint32_t groups[] = {1, 4};
    static const uint64_t mass[TILES] = {UINT64_C(0x4000000040000000) >> 8, 0x40000000, 0x40000000};
    static int32_t keys[MAX_TILES];
    static float x[TILES * CLS_TILE];
    static const uint32_t flags[TILES];
    device *const d = fixture_device(_i);
    const cl_mem in[4] = {buffer_of(d, sizeof mass, mass), buffer_of(d, sizeof keys, keys),
                          buffer_of(d, sizeof x, x), buffer_of(d, sizeof flags, flags)},
                 out = buffer_of(d, RESULTS * sizeof(int32_t), NULL);
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++) {
        const size_t items = groups[i];
        const cl_program program = build(d, groups[i]);
        int32_t result[RESULTS];
        /* Two kernels, since PoCL makes an endless loop of both together in groups of 4. */
        static const char *const names[2] = {"cls_guards_row", "cls_guards_list"};
        cl_kernel kernels[2];
        for (size_t j = 0; j < 2; j++) {
            cl_int code;
            kernels[j] = clCreateKernel(program, names[j], &code);
            must_cl(code);
            for (cl_uint k = 0; k < 4; k++)
                must_cl(clSetKernelArg(kernels[j], k, sizeof in[k], &in[k]));
            must_cl(clSetKernelArg(kernels[j], 4, sizeof out, &out));
            must_cl(clEnqueueNDRangeKernel(d->queue, kernels[j], 1, NULL, &items, &items, 0, NULL,
                                           NULL));
        }
        buffer_read(d, out, sizeof result, result);
        ck_assert_msg(result[0] >= 0 && result[0] < TILES, "groups of %u: tile %d", groups[i],
                      result[0]);
        /* No token: CLS_MAX_ID, or one of the row. */
        ck_assert_msg(result[1] == CLS_MAX_ID || (uint32_t)result[1] < TILES * CLS_TILE,
                      "groups of %u: token %d", groups[i], result[1]);
        ck_assert_int_eq(result[2], -1);
        clReleaseKernel(kernels[0]);
        clReleaseKernel(kernels[1]);
        clReleaseProgram(program);
    }
    for (int k = 0; k < 4; k++)
        clReleaseMemObject(in[k]);
    clReleaseMemObject(out);
}
END_TEST

int main(void)
{
    fixture_begin(ON_DEVICES);
    add_device_test(contradictions);
    return fixture_end();
}
