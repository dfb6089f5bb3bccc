/* SPDX-License-Identifier: MIT */
/* The functions of fixture.h that need no runner, so that the fuzzers have them, too. */
#include "fixture.h"
#include "base/param_table.h"

#include <stdio.h>
#include <stdlib.h>

void must_status(cls_status status, const char *call, const char *file, int line)
{
    ck_assert_msg(status == CLS_OK, "%s:%d: %s gives %s: %s", file, line, call,
                  cls_status_name(status), cls_error_message());
}

/* The message begins with the field, which has no word of a sentence. */
static void must_name_field(cls_status status, const char *file, int line)
{
    static const char *const others[] = {"MPI",  "a",   "libclsample", "no",  "rank",
                                         "that", "the", "there",       "this"};
    const char *const field = cls_error_field();
    ck_assert_msg(strncmp(cls_error_message(), field, strlen(field)) == 0 &&
                      strpbrk(field, " :,;") == NULL &&
                      (status == CLS_BAD_ARGUMENT || status == CLS_NOT_COMPILED || *field == '\0'),
                  "%s:%d: \"%s\" is not about %s", file, line, cls_error_message(), field);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        ck_assert_msg(strcmp(field, others[i]) != 0, "%s:%d: \"%s\" is about %s", file, line,
                      cls_error_message(), field);
}

void must_fail_status(cls_status status, cls_status wanted, const char *words, const char *call,
                      const char *file, int line)
{
    ck_assert_msg(status == wanted, "%s:%d: %s gives %s, not %s; the last message: %s", file, line,
                  call, cls_status_name(status), cls_status_name(wanted), cls_error_message());
    must_say_words(words, file, line);
    must_name_field(wanted, file, line);
    if (wanted == CLS_BAD_ARGUMENT)
        ck_assert_int_eq(cls_error_opencl(), CL_SUCCESS);
}

void must_say_words(const char *words, const char *file, int line)
{
    ck_assert_msg(strstr(cls_error_message(), words) != NULL, "%s:%d: \"%s\" does not have \"%s\"",
                  file, line, cls_error_message(), words);
}

void *must_malloc(size_t size)
{
    void *const memory = malloc(size != 0 ? size : 1);
    ck_assert_ptr_nonnull(memory);
    return memory;
}

void *must_calloc(size_t n, size_t size)
{
    void *const memory = calloc(n != 0 ? n : 1, size);
    ck_assert_ptr_nonnull(memory);
    return memory;
}

int is_oclgrind(const device *d) { return strstr(d->name, "Oclgrind") != NULL; }

void must_end(cl_event event)
{
    must_cl(clWaitForEvents(1, &event));
    clReleaseEvent(event);
}

cls_params default_params(void)
{
    cls_params p;
    cls_params_init(&p);
    return p;
}

cls_context_options default_context_options(void)
{
    cls_context_options o;
    cls_context_options_init(&o);
    return o;
}

cls_step default_step(uint32_t rows, cl_mem logits)
{
    cls_step step;
    cls_step_init(&step);
    step.rows = rows;
    step.logits.values.buffer = logits;
    return step;
}

cls_device_info context_info(const cls_context *context)
{
    cls_device_info info = {.struct_size = sizeof info};
    must(cls_context_info(context, &info));
    return info;
}

one_result host_result(const one_row *row)
{
    one_result result = {0};
    must(one_sample(row, &result));
    return result;
}

/* Sets a chain of stages by their names, which commas divide. */
static void set_stages(cls_params *p, char *names)
{
#define NAME(stage, run, keeps_min, name, field, on) [CLS_STAGE_##stage] = name,
    static const char *const stages[] = {"end", CLS_STAGE_TABLE(NAME)};
#undef NAME
    uint32_t n = 0;
    p->chain = CLS_CHAIN_CUSTOM;
    memset(p->stages, CLS_STAGE_END, sizeof p->stages);
    for (char *name = strtok(names, ","); name != NULL; name = strtok(NULL, ",")) {
        uint8_t i = 0;
        while (i < sizeof stages / sizeof *stages && strcmp(stages[i], name) != 0)
            i++;
        ck_assert_msg(i < sizeof stages / sizeof *stages, "there is no stage %s", name);
        p->stages[n++] = i;
    }
}

void params_set(cls_params *p, const char *words)
{
    char name[32], value[64];
    for (int n; sscanf(words, " %31[a-z_]=%63s%n", name, value, &n) == 2; words += n) {
        const cls_field *f = NULL;
        for (uint32_t i = 0; (f = cls_struct_field(i)) != NULL; i++)
            if (strcmp(f->structure, "cls_params") == 0 && strcmp(f->name, name) == 0)
                break;
        ck_assert_msg(f != NULL, "there is no parameter %s", name);
        char *const at = (char *)p + f->offset;
        const float real = strtof(value, NULL);
        const int32_t whole = (int32_t)strtol(value, NULL, 10);
        if (strcmp(name, "stages") == 0)
            set_stages(p, value);
        else
            memcpy(at, strchr(value, '.') != NULL ? (const void *)&real : &whole, sizeof real);
    }
    ck_assert_msg(words[strspn(words, " ")] == '\0', "these are no parameters: %s", words);
}

cls_sampler_options sampler_options(uint32_t vocab, uint32_t slots)
{
    cls_sampler_options o;
    cls_sampler_options_init(&o);
    o.late_compile = 1;
    o.vocab = vocab;
    o.max_rows = o.slot_count = slots;
    return o;
}

one_row host_row(const void *logits, uint32_t vocab, const cls_params *params)
{
    one_row row;
    one_row_init(&row);
    row.logits = logits;
    row.vocab = vocab;
    row.params = params;
    return row;
}

cl_mem buffer_of(device *d, size_t size, const void *contents)
{
    cl_int code;
    cl_mem buffer = clCreateBuffer(d->context, CL_MEM_READ_WRITE, size, NULL, &code);
    must_cl(code);
    void *const zeroes = contents ? NULL : must_calloc(1, size);
    buffer_write(d, buffer, 0, size, contents ? contents : zeroes);
    free(zeroes);
    return buffer;
}

void buffer_read(device *d, cl_mem buffer, size_t size, void *contents)
{
    buffer_read_at(d, buffer, 0, size, contents);
}

void buffer_read_at(device *d, cl_mem buffer, size_t offset, size_t size, void *contents)
{
    must_cl(clEnqueueReadBuffer(d->queue, buffer, CL_TRUE, offset, size, contents, 0, NULL, NULL));
}

void buffer_write(device *d, cl_mem buffer, size_t offset, size_t size, const void *contents)
{
    must_cl(clEnqueueWriteBuffer(d->queue, buffer, CL_TRUE, offset, size, contents, 0, NULL, NULL));
}

void release_all(const cl_mem *buffers, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (buffers[i] != NULL)
            clReleaseMemObject(buffers[i]);
}
