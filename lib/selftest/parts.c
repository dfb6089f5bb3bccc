/* SPDX-License-Identifier: MIT */
/* The parts of the self-test. The arithmetic's part is the kernel that proves every context. */
#include "selftest/selftest.h"

#include <stdio.h>

/* Runs the kernel that proves every context, and compares its words. The host has none. */
static cls_status arithmetic(cls_selftest_run *t)
{
    enum { WORDS = 1024 };
    const cls_selftest_side *const s = &t->side[SIDE_DEVICE];
    uint32_t words[WORDS];
    const cl_uint n = WORDS;
    const cls_program *const program = &s->context->program[0][CLS_SELF_TEST_0];
    const size_t items = program->config.group;
    cls_buffer out = {.buffer = NULL};
    cl_int code;
    if (s->context->shape.host)
        return CLS_OK;
    cls_status status = cls_selftest_buffer(s, sizeof words, NULL, &out);
    const cl_kernel kernel =
        clCreateKernel(program->program, cls_kernel_name(CLS_SELF_TEST), &code);
    if (status == CLS_OK) {
        if (code == CL_SUCCESS)
            code = clSetKernelArg(kernel, 0, sizeof out.buffer, &out.buffer);
        if (code == CL_SUCCESS)
            code = clSetKernelArg(kernel, 1, sizeof n, &n);
        t->launched = code == CL_SUCCESS ? CLS_VARIANT_BIT(CLS_SELF_TEST_0) : 0;
        if (code == CL_SUCCESS)
            code = clEnqueueNDRangeKernel(s->queue, kernel, 1, NULL, &items, &items, 0, NULL, NULL);
        if (code != CL_SUCCESS)
            status = cls_fail(CLS_OPENCL_ERROR, code, "cannot run the arithmetic of the self-test");
    }
    if (status == CLS_OK)
        status = cls_selftest_read(s, &out, sizeof words, words);
    if (kernel != NULL)
        clReleaseKernel(kernel);
    cls_selftest_release(&out);
    for (uint32_t i = 0; i < n && status == CLS_OK; i++) {
        char name[64], message[200] = "";
        cls_selftest_name(t, "word", 0, name, sizeof name);
        if (words[i] != self_test_word(i))
            snprintf(message, sizeof message, "%s %u: device: 0x%08x, host: 0x%08x", name,
                     (unsigned)i, (unsigned)words[i], (unsigned)self_test_word(i));
        cls_selftest_count(t, ST_ARITHMETIC, message);
    }
    return status;
}

cls_status cls_selftest_parts(cls_selftest_run *t)
{
    static const struct {
        cls_status (*run)(cls_selftest_run *);
        int stage;
        uint32_t part;
    } parts[] = {
        {arithmetic, ST_ARITHMETIC, PART_ARITHMETIC},
        {cls_selftest_steps, ST_SURVEY, PART_STEPS},
        {cls_selftest_outputs, ST_REPORT, PART_OUTPUTS},
        {cls_selftest_verify, ST_MATCH, PART_DRAFTS},
        {cls_selftest_lookup, ST_LOOKUP, PART_LOOKUP},
    };
    cls_status status = CLS_OK;
    for (size_t i = 0; i < sizeof parts / sizeof *parts && status == CLS_OK; i++) {
        /* A proof, which compares with the host alone, goes no further with a program that it has
         * found wrong, which may then read what is not there. */
        if (t->known == t->answer && cls_selftest_failed(&t->tested) != NULL)
            break;
        if (t->selection.parts & parts[i].part)
            status = parts[i].run(t);
        if (status != CLS_OK)
            cls_selftest_count(t, parts[i].stage, cls_error_message());
    }
    for (int i = 0; i < SIDES; i++)
        for (int j = 0; j < INPUTS; j++)
            cls_selftest_release(&t->side[i].in[j]);
    return status;
}
