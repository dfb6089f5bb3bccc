/* SPDX-License-Identifier: MIT */
/* Proves what the text of a sampler's calls (options->record) does where it cannot go on: a writer
 * that fails, memory that is full, a buffer that the host may not read, a step that fails. No call
 * fails, tokens stay the same, and the text says that it ends. That texts are right is proved by
 * tests/command/check_replay.sh. */
#include <stdio.h>
#include <string.h>

#include "fixture.h"

enum { VOCAB = 200, ROWS = 2, STEPS = 6, MOST_TEXT = 1 << 16 };

/* What the library wrote. */
typedef struct written {
    char text[MOST_TEXT];
    size_t size, files, calls;
    size_t refused; /* the call from which on the writer fails; 0: never */
} written;

static int take(void *user, const char *file, uint64_t offset, const void *bytes, size_t size)
{
    written *const w = user;
    if (++w->calls >= w->refused && w->refused != 0)
        return 1;
    if (file != NULL) {
        w->files += offset == 0;
        return 0;
    }
    ck_assert_uint_eq(offset, w->size);
    ck_assert_uint_lt(w->size + size, MOST_TEXT);
    memcpy(w->text + w->size, bytes, size);
    w->size += size;
    return 0;
}

static float logits[ROWS * VOCAB];

/* Makes so many steps of the same logits. */
static void steps(cls_sampler *s, cl_command_queue queue, const cls_buffer *values,
                  const cls_buffer *tokens, uint32_t n)
{
    cls_step step;
    cls_step_init(&step);
    step.rows = ROWS;
    step.logits.values = *values;
    step.tokens = *tokens;
    for (uint32_t i = 0; i < n; i++)
        must(cls_sample(s, queue, &step, 0, NULL, NULL));
}

static cls_sampler_options recorded(written *w)
{
    cls_sampler_options o = sampler_options(VOCAB, ROWS);
    memset(w, 0, sizeof *w);
    o.max_history = 8;
    o.record = take;
    o.record_user = w;
    return o;
}

static void begin(cls_sampler *s)
{
    for (uint32_t slot = 0; slot < ROWS; slot++) {
        cls_params p = default_params();
        p.top_k = 50;
        p.seed = slot;
        must(cls_slot_begin(s, slot, &p, NULL));
    }
}

static cls_buffer of_host(void *of, size_t size)
{
    return (cls_buffer){.kind = CLS_BUFFER_HOST, .pointer = of, .size = size};
}

static cls_context *host;
static int32_t plain[ROWS]; /* the tokens of the last step without a text */

static void open_host(void)
{
    for (int i = 0; i < ROWS * VOCAB; i++)
        logits[i] = (float)(i * 7919 % 211) / 40.0f;
    must(cls_context_create_host(NULL, &host));
    cls_sampler_options o = sampler_options(VOCAB, ROWS);
    cls_sampler *s;
    o.max_history = 8;
    must(cls_sampler_create(host, &o, &s));
    begin(s);
    const cls_buffer values = of_host(logits, sizeof logits), tokens = of_host(plain, sizeof plain);
    steps(s, NULL, &values, &tokens, STEPS);
    cls_sampler_destroy(s);
}

static void close_host(void) { cls_context_destroy(host); }

/* Samples on the host with a text, and proves that the tokens are those without it. */
static void sample_on_host(const cls_sampler_options *o, uint32_t n)
{
    int32_t drawn[ROWS];
    cls_sampler *s;
    must(cls_sampler_create(host, o, &s));
    begin(s);
    const cls_buffer values = of_host(logits, sizeof logits), tokens = of_host(drawn, sizeof drawn);
    steps(s, NULL, &values, &tokens, n);
    cls_sampler_destroy(s);
    if (n == STEPS)
        ck_assert_mem_eq(drawn, plain, sizeof drawn);
}

/* The lines of steps. */
static int steps_in(const written *w)
{
    int n = 0;
    for (const char *at = w->text; (at = strstr(at, "\nstep ")) != NULL; at++)
        n++;
    return n;
}

static int ends_with(const written *w, const char *line)
{
    const size_t n = strlen(line);
    return w->size >= n && memcmp(w->text + w->size - n, line, n) == 0;
}

START_TEST(a_text_is_whole)
{
    static written w;
    cls_sampler_options o = recorded(&w);
    sample_on_host(&o, STEPS);
    ck_assert_int_eq(ends_with(&w, "\nend\n"), 1);
    ck_assert_uint_eq(w.files, 0);
    ck_assert_ptr_nonnull(strstr(w.text, " hash="));
    o = recorded(&w);
    o.record_arrays = 1;
    o.record_name = "calls";
    sample_on_host(&o, STEPS);
    ck_assert_int_eq(ends_with(&w, "\nend\n"), 1);
    ck_assert_uint_eq(w.files, STEPS);
    ck_assert_ptr_nonnull(strstr(w.text, " logits=file:calls-0-logits.npy"));
}
END_TEST

/* The writer fails at each of its calls, and is not called again. */
START_TEST(a_writer_fails)
{
    static written w;
    size_t calls;
    cls_sampler_options o = recorded(&w);
    o.record_arrays = 1;
    sample_on_host(&o, STEPS);
    calls = w.calls;
    for (size_t i = 1; i <= calls; i++) {
        o = recorded(&w);
        o.record_arrays = 1;
        w.refused = i;
        sample_on_host(&o, STEPS);
        ck_assert_uint_eq(w.calls, i);
        ck_assert_int_eq(ends_with(&w, "\nend\n"), 0);
    }
}
END_TEST

START_TEST(options_are_checked)
{
    static written w;
    static char longest[202];
    cls_sampler *s;
    memset(longest, 'a', 201);
    const char *const names[][2] = {
        {"", "record"}, {"a b", "a_b"}, {"../a#\"b", ".._a__b"}, {longest, longest + 1}};
    for (int i = 0; i < 4; i++) {
        char name[300];
        cls_sampler_options named = recorded(&w);
        named.record_name = names[i][0];
        named.record_arrays = 1;
        sample_on_host(&named, 1);
        snprintf(name, sizeof name, " logits=file:%s-0-logits.npy ", names[i][1]);
        ck_assert_msg(strstr(w.text, name) != NULL, "%s", w.text);
    }
    cls_sampler_options o = recorded(&w);
    o.record_arrays = 2;
    ck_assert_int_eq(cls_sampler_create(host, &o, &s), CLS_BAD_ARGUMENT);
    ck_assert_str_eq(cls_error_field(), "options->record_arrays");
    o = recorded(&w);
    o.record_size = UINT64_MAX;
    ck_assert_int_eq(cls_sampler_create(host, &o, &s), CLS_OUT_OF_MEMORY);
}
END_TEST

/* With memory for one step the host writes all; with less nothing but the requests. */
START_TEST(memory_is_full)
{
    static written w;
    cls_sampler_options o = recorded(&w);
    o.record_size = 1024;
    sample_on_host(&o, STEPS);
    ck_assert_int_eq(ends_with(&w, "\n# The text ends here: the memory of options->record_size is "
                                   "full.\n"),
                     1);
    ck_assert_ptr_nonnull(strstr(w.text, "begin 1 "));
    ck_assert_ptr_null(strstr(w.text, "step "));
    o = recorded(&w);
    o.record_size = 16384;
    sample_on_host(&o, STEPS);
    ck_assert_int_eq(ends_with(&w, "\nend\n"), 1);
    ck_assert_int_eq(steps_in(&w), STEPS);
    /* Unless a size is given, three steps of all rows fit, with biases and masks of bytes. */
    cls_sampler *s;
    cls_memory memory;
    cls_memory_init(&memory);
    o = recorded(&w);
    o.vocab = 131072;
    o.max_rows = 64;
    must(cls_sampler_create(host, &o, &s));
    must(cls_sampler_memory(s, &memory));
    const uint64_t with = memory.host;
    cls_sampler_destroy(s);
    o.record = NULL;
    must(cls_sampler_create(host, &o, &s));
    must(cls_sampler_memory(s, &memory));
    cls_sampler_destroy(s);
    ck_assert_uint_ge(with - memory.host, UINT64_C(3) * 64 * 131072 * 9);
}
END_TEST

/* ----------------------------------------------------------------- on a device */

/* Makes a text on a device, and proves that the tokens are the host's. flags: of the logits. */
static void sample_on_device(device *d, const cls_sampler_options *o, cl_mem_flags flags)
{
    cl_int code;
    int32_t drawn[ROWS];
    cls_sampler *s;
    const cls_buffer values = {.buffer = clCreateBuffer(d->context, flags | CL_MEM_COPY_HOST_PTR,
                                                        sizeof logits, logits, &code)},
                     tokens = {.buffer = buffer_of(d, sizeof drawn, NULL)};
    must_cl(code);
    must(cls_sampler_create(fixture_context(d, 1u << CLS_F32, 0, 0, 0), o, &s));
    begin(s);
    steps(s, d->queue, &values, &tokens, STEPS);
    must_cl(clEnqueueReadBuffer(d->queue, tokens.buffer, CL_TRUE, 0, sizeof drawn, drawn, 0, NULL,
                                NULL));
    cls_sampler_destroy(s);
    ck_assert_mem_eq(drawn, plain, sizeof drawn);
    release_buffers(values.buffer, tokens.buffer);
}

START_TEST(a_device_ends_its_text)
{
    static written w;
    device *const d = fixture_device(_i);
    cls_sampler_options o = recorded(&w);
    sample_on_device(d, &o, CL_MEM_READ_ONLY);
    ck_assert_int_eq(ends_with(&w, "\nend\n"), 1);
    o = recorded(&w);
    sample_on_device(d, &o, CL_MEM_READ_ONLY | CL_MEM_HOST_NO_ACCESS);
    ck_assert_int_eq(ends_with(&w, "\n# The text ends here: a buffer cannot be read: "
                                   "CL_INVALID_OPERATION.\n"),
                     1);
    ck_assert_int_eq(steps_in(&w), 0); /* none of which a part is missing */
    o = recorded(&w);
    o.record_size = 4096;
    sample_on_device(d, &o, CL_MEM_READ_ONLY);
    ck_assert_int_eq(ends_with(&w, "\nend\n"), 0);
    ck_assert_ptr_nonnull(strstr(w.text, "record_size is full"));
}
END_TEST

START_TEST(shards_are_refused)
{
    static written w;
    device *const d = fixture_device(_i);
    cls_sampler_options o = recorded(&w);
    cls_sampler *s;
    cls_shard *shard;
    must(cls_sampler_create(fixture_context(d, 1u << CLS_F32, 0, 0, 0), &o, &s));
    ck_assert_int_eq(cls_shard_create(s, NULL, &shard), CLS_BAD_ARGUMENT);
    ck_assert_str_eq(cls_error_message(), "the sampler was created with options->record, which "
                                          "writes no calls of shards");
    cls_sampler_destroy(s);
}
END_TEST

int main(void)
{
    fixture_begin(ON_DEVICES);
    open_host();
    add_test(a_text_is_whole);
    add_test(a_writer_fails);
    add_test(options_are_checked);
    add_test(memory_is_full);
    add_device_test(a_device_ends_its_text);
    add_device_test(shards_are_refused);
    const int failed = fixture_end();
    close_host();
    return failed;
}
