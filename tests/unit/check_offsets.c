/* SPDX-License-Identifier: MIT */
/* Proves that the host computes the offsets of rows correctly beyond 2^31 elements and up to the
 * end of 64 bits: which steps it accepts, and which offsets it passes to the kernels. The buffers
 * belong to a stub of OpenCL that accepts any size and holds no memory (stub_cl.h), so that a
 * buffer can end exactly at a limit. check_arithmetic tests row_offset(), the kernels' side. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clsample/head.h"
#include "fixture.h"
#include "rows/kinds.h"
#include "sampler/sampler.h"
#include "shard/shard.h"
#include "stub_cl.h"

enum { VOCAB = 1000, HIDDEN = 64 };

/* -------------------------------------------------------------------- cls_extent() */

/* A number of 128 bits. */
typedef struct wide {
    uint64_t high, low;
} wide;

static wide product(uint64_t a, uint64_t b)
{
    const uint64_t al = (uint32_t)a, ah = a >> 32, bl = (uint32_t)b, bh = b >> 32;
    const uint64_t ll = al * bl, lh = al * bh, hl = ah * bl;
    const uint64_t middle = (ll >> 32) + (uint32_t)lh + (uint32_t)hl;
    return (wide){ah * bh + (lh >> 32) + (hl >> 32) + (middle >> 32), middle << 32 | (uint32_t)ll};
}

static wide sum(wide a, uint64_t b)
{
    a.low += b;
    a.high += a.low < b;
    return a;
}

static uint64_t near_edge(rng *r)
{
    static const uint64_t edges[] = {0,          1ull << 31, 1ull << 32, 1ull << 33,
                                     1ull << 47, 1ull << 61, 1ull << 62, 1ull << 63};
    const uint64_t edge = edges[rng_below(r, 8)] / (1 + rng_below(r, 3));
    return edge + rng_below(r, 5) - 2;
}

/* An extent is never too small. If it does not fit 64 bits it is the largest number, and if it fits
 * with one more row it is exact. */
START_TEST(extents)
{
    rng r = {fixture_seed()};
    uint32_t exact = 0, beyond = 0;
    for (uint32_t i = 0; i < 200000; i++) {
        const uint64_t element = 1ull << rng_below(&r, 4), width = 1 + rng_below(&r, 1u << 20),
                       edge = near_edge(&r), stride = edge < width ? width : edge;
        const uint64_t rows = rng_below(&r, 2) ? 1 + rng_below(&r, 65535) : 1 + rng_below(&r, 4);
        const uint64_t extent = cls_extent(rows, stride, width, element);
        const wide elements = sum(product(rows - 1, stride), width),
                   spare = sum(product(rows, stride), width);
        const int fits = elements.high == 0 && product(elements.low, element).high == 0,
                  spared = spare.high == 0 && product(spare.low, element).high == 0;
        if (spared)
            ck_assert_uint_eq(extent, product(elements.low, element).low);
        else
            ck_assert_msg(
                extent == UINT64_MAX || (fits && extent == product(elements.low, element).low),
                "%llu rows of %llu, %llu apart, of %llu bytes: %llu", (unsigned long long)rows,
                (unsigned long long)width, (unsigned long long)stride, (unsigned long long)element,
                (unsigned long long)extent);
        exact += spared != 0;
        beyond += !fits;
    }
    printf("%u extents exact, %u beyond 64 bits\n", exact, beyond);
    ck_assert(exact > 1000 && beyond > 1000);
}
END_TEST

/* ------------------------------------------------------------------------ calls */

typedef enum input { LOGITS, PACKED, BOOL, BIAS, BIAS_HALF, DRAFT, HIDDEN_ROWS, INPUTS } input;
static const char *const names[INPUTS] = {"logits",      "packed masks", "bool masks", "biases",
                                          "half biases", "drafts",       "hidden rows"};
/* The offsets of an input's offset and stride in a kernel's cls_args. */
#define TOLD(offset, stride) offsetof(cls_args, offset), offsetof(cls_args, stride)
static const struct {
    uint64_t element;
    uint32_t width;
    const char *kernel;
    size_t offset, stride;
} kinds[INPUTS] = {{4, VOCAB, "cls_survey", TOLD(logits_offset, row_stride)},
                   {4, (VOCAB + 31) / 32, "cls_survey", TOLD(mask_offset, mask_stride)},
                   {1, VOCAB, "cls_survey", TOLD(mask_offset, mask_stride)},
                   {4, VOCAB, "cls_survey", TOLD(bias_offset, bias_stride)},
                   {2, VOCAB, "cls_survey", TOLD(bias_offset, bias_stride)},
                   {4, VOCAB, "cls_verify", TOLD(draft_offset, draft_stride)},
                   {4, HIDDEN, "cls_head_gather", 0, 0}};

typedef struct bench {
    device *d;
    cls_sampler *sampler;
    cls_head *head;
    cl_mem small; /* for the inputs that are not tested */
} bench;

static bench open_bench(device *d)
{
    bench b = {.d = d};
    cls_head_options h;
    cls_context *const context = fixture_context(d, 1u << CLS_F32, 0, 0, 0);
    cls_sampler_options o = sampler_options(VOCAB, 8);
    must(cls_sampler_create(context, &o, &b.sampler));
    b.small = buffer_of(d, 1u << 20, NULL);
    cls_params p = default_params();
    for (uint32_t slot = 0; slot < 8; slot++)
        must(cls_slot_begin(b.sampler, slot, &p, NULL));
    cls_head_options_init(&h);
    h.vocab = VOCAB;
    h.hidden = HIDDEN;
    h.max_rows = 4;
    h.dtype = CLS_F16;
    h.weight.buffer = b.small;
    must(cls_head_create(d->queue, &h, &b.head));
    return b;
}

static void close_bench(bench *b)
{
    cls_sampler_destroy(b->sampler);
    cls_head_destroy(b->head);
    clReleaseMemObject(b->small);
}

/* Enqueues a step with n rows that reads an input at an offset, with a stride. */
static cls_status sample(bench *b, input what, cls_buffer at, uint64_t stride, uint32_t rows)
{
    cls_step step = default_step(rows, b->small);
    if (what == LOGITS) {
        step.logits.values.buffer = at.buffer;
        step.logits.values.offset = at.offset;
        step.logits.row_stride = stride;
    } else if (what == BIAS || what == BIAS_HALF) {
        step.bias.values = at;
        step.bias.row_stride = stride;
        step.bias.dtype = what == BIAS ? CLS_F32 : CLS_F16;
    } else {
        step.mask.words = at;
        step.mask.row_stride = stride;
        step.mask.kind = what == BOOL ? CLS_MASK_BOOL : CLS_MASK_PACKED;
    }
    return cls_sample(b->sampler, b->d->queue, &step, 0, NULL, NULL);
}

static cls_status verify(bench *b, cls_buffer at, uint64_t stride, uint32_t rows)
{
    const int32_t cu[] = {0, (int32_t)rows + 1}, ids[8] = {0};
    cls_verify_call call;
    cls_verify_call_init(&call);
    call.requests = 1;
    call.method = CLS_VERIFY_STANDARD;
    call.row_offsets = cu;
    call.logits.values.buffer = b->small;
    call.draft_ids.host = ids;
    call.draft_kind = CLS_DRAFT_PROBS;
    call.draft = at;
    call.draft_stride = stride;
    return cls_verify(b->sampler, b->d->queue, &call, 0, NULL, NULL);
}

static cls_status head(bench *b, cls_buffer at, uint64_t stride, uint32_t rows)
{
    cls_head_call call;
    cls_head_call_init(&call);
    call.rows = rows;
    call.hidden = at;
    call.hidden_stride = stride;
    call.logits.buffer = b->small;
    return cls_head_logits(b->head, b->d->queue, &call, 0, NULL, NULL);
}

static cls_status call(bench *b, input what, cls_buffer at, uint64_t stride, uint32_t rows)
{
    must_cl(clFinish(b->d->queue)); /* staging is free */
    return what == DRAFT         ? verify(b, at, stride, rows)
           : what == HIDDEN_ROWS ? head(b, at, stride, rows)
                                 : sample(b, what, at, stride, rows);
}

/* The arguments that a kernel must get: the buffer, and its offset and stride in elements. */
static struct {
    cl_command_queue queue;
    input what;
    cl_mem buffer;
    uint64_t offset, stride;
    uint32_t matches;
} expected;

static uint64_t argument_at(const unsigned char *args, size_t at)
{
    cls_wide x;
    memcpy(&x, args + at, sizeof x);
    return u64_of(x);
}

static void spy(cl_kernel k)
{
    const stub_value *const a = k->argument;
    uint32_t at = 0;
    if (strcmp(k->name, kinds[expected.what].kernel) != 0)
        return;
    while (at + 3 < STUB_ARGUMENTS && a[at].mem != expected.buffer)
        at++;
    if (expected.what == HIDDEN_ROWS) {
        expected.matches += a[at + 1].u64 == expected.offset && a[at + 2].u64 == expected.stride;
        return;
    }
    must_cl(clFinish(expected.queue)); /* the arguments are there */
    const unsigned char *const args = stub_memory(a[0].mem);
    expected.matches += a[at].mem == expected.buffer &&
                        argument_at(args, kinds[expected.what].offset) == expected.offset &&
                        argument_at(args, kinds[expected.what].stride) == expected.stride;
}

static cl_mem claim(device *d, uint64_t size)
{
    cl_int code;
    cl_mem const buffer = clCreateBuffer(d->context, CL_MEM_READ_WRITE, (size_t)size, NULL, &code);
    must_cl(code);
    return buffer;
}

/* The last byte that is read is the buffer's last one; a byte less is refused. */
START_TEST(inputs)
{
    static const uint64_t firsts[] = {
        0,          (1ull << 31) - 8, 1ull << 31, (1ull << 32) - 8, (1ull << 32) + 16,
        1ull << 40, 1ull << 60};
    static const uint64_t strides[] = {
        VOCAB, (1ull << 31) - 1, 1ull << 31, (1ull << 32) - 1, (1ull << 32) + 1, 1ull << 44};
    bench b = open_bench(fixture_device(_i));
    uint32_t n = 0;
    for (int what = 0; what < INPUTS; what++)
        for (size_t f = 0; f < sizeof firsts / sizeof *firsts; f++)
            for (size_t s = 0; s < sizeof strides / sizeof *strides; s++, n++) {
                const uint64_t element = kinds[what].element, offset = firsts[f] * element,
                               stride = strides[s];
                const uint32_t rows = 1 + (uint32_t)(f + s) % 4;
                const uint64_t size = offset + ((rows - 1) * stride + kinds[what].width) * element;
                const cls_buffer whole = {.buffer = claim(b.d, size), .offset = offset},
                                 cut = {.buffer = claim(b.d, size - 1), .offset = offset};
                expected.queue = b.d->queue;
                expected.what = (input)what;
                expected.buffer = whole.buffer;
                expected.offset = firsts[f];
                expected.stride = stride;
                expected.matches = 0;
                stub_spy = spy;
                const cls_status let = call(&b, (input)what, whole, stride, rows);
                stub_spy = NULL;
                ck_assert_msg(let == CLS_OK, "%s, %u rows from %llu, %llu apart: %s", names[what],
                              rows, (unsigned long long)firsts[f], (unsigned long long)stride,
                              cls_error_message());
                ck_assert_msg(expected.matches > 0,
                              "%s, %u rows from %llu, %llu apart: %s got other arguments",
                              names[what], rows, (unsigned long long)firsts[f],
                              (unsigned long long)stride, kinds[what].kernel);
                ck_assert_msg(row_offset(expected.offset, expected.stride, rows - 1) +
                                      kinds[what].width ==
                                  size / element,
                              "%s: its end", names[what]);
                ck_assert_msg(call(&b, (input)what, cut, stride, rows) == CLS_BAD_ARGUMENT,
                              "%s: a byte more than there is is read", names[what]);
                must_say("and the buffer has");
                release_buffers(whole.buffer, cut.buffer);
            }
    printf("%u inputs\n", n);
    close_bench(&b);
}
END_TEST

/* Sums that overflow 64 bits are too large for any buffer. */
START_TEST(overflows)
{
    bench b = open_bench(fixture_device(_i));
    const cl_mem all = claim(b.d, SIZE_MAX);
    for (int what = 0; what < INPUTS; what++) {
        const uint64_t element = kinds[what].element, last = UINT64_MAX / element * element;
        const struct {
            uint64_t offset, stride;
            uint32_t rows;
        } cases[] = {{last, VOCAB, 1},
                     {last - (kinds[what].width - 2) * element, VOCAB, 1},
                     {element, UINT64_MAX, 2},
                     {element, UINT64_MAX / element + 1, 2}, /* times the element: 0 */
                     {element, (1ull << 63) / element, 3},
                     {element, UINT64_MAX / element - 1, 2},
                     {element, (1ull << 63) + 1, 4}};
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
            ck_assert_msg(cases[i].stride == 0 /* the default */ ||
                              call(&b, (input)what,
                                   (cls_buffer){.buffer = all, .offset = cases[i].offset},
                                   cases[i].stride, cases[i].rows) == CLS_BAD_ARGUMENT,
                          "%s, case %zu is let through", names[what], i);
    }
    clReleaseMemObject(all);
    close_bench(&b);
}
END_TEST

/* ------------------------------------------------------------------------ groups */

enum { PLACES = 66 * 1000, MANY_ROWS = 1000, MOST_TOKENS = 1 << 20 };

/* The launches of a kernel that are looked at: how many, and the groups of the second dimension
 * that they have so far. */
static struct groups {
    const char *kernel;
    uint32_t launches;
    size_t next, wrong;
} groups;

static void spy_groups(cl_kernel k)
{
    if (strcmp(k->name, groups.kernel) != 0)
        return;
    groups.launches++;
    groups.next = k->first == 0 ? 0 : groups.next;
    groups.wrong += k->first != groups.next;
    groups.next += k->rows;
}

static void expect_groups(const char *kernel, size_t wanted, uint32_t launches)
{
    ck_assert_msg(groups.wrong == 0 && groups.next == wanted && groups.launches == launches,
                  "%s: %u launches with %zu groups, not %u with %zu", kernel, groups.launches,
                  groups.next, launches, wanted);
}

/* Verifies many requests, each with places for 65 drafts. A second kind of kept set takes three
 * launches, of which the second has one group. */
static void verify_many(const bench *b, const char *kernel, uint32_t launches)
{
    static int32_t cu[MANY_ROWS + 1], slots[MANY_ROWS];
    cls_verify_call call;
    cls_outputs o;
    const cl_mem out = claim(b->d, (size_t)PLACES * 64);
    cls_verify_call_init(&call);
    cls_outputs_init(&o);
    for (int32_t i = 0; i < MANY_ROWS; i++) {
        cu[i + 1] = i + 1;
        slots[i] = i % 8 == i ? i : -1;
    }
    call.requests = MANY_ROWS;
    call.max_drafts = PLACES / MANY_ROWS - 1;
    call.row_offsets = cu;
    call.slots.host = slots;
    call.logits.values.buffer = claim(b->d, (size_t)MANY_ROWS * VOCAB * sizeof(float));
    call.outputs = &o;
    o.logprobs.buffer = out;
    o.kept_set =
        (cls_kept_set){.capacity = 8, .ids = {.buffer = out, .offset = PLACES * sizeof(int32_t)}};
    groups = (struct groups){.kernel = kernel};
    must(cls_verify(b->sampler, b->d->queue, &call, 0, NULL, NULL));
    must_cl(clFinish(b->d->queue));
    expect_groups(kernel, PLACES, launches);
    release_buffers(out, call.logits.values.buffer);
}

/* A launch has at most 65,535 groups in its second dimension, the limit of GPUs, and so has the
 * stub. What needs more is launched in parts. */
START_TEST(many_groups)
{
    device *const d = fixture_device(_i);
    bench b = open_bench(d);
    cls_sampler_options o = sampler_options(VOCAB, STUB_GROUPS + 10);
    cls_head_options h;
    const cl_mem weight = claim(d, (size_t)MOST_TOKENS * HIDDEN * 2),
                 logits = claim(d, (size_t)MOST_TOKENS * 8 * sizeof(float));
    const cls_params p = default_params();
    stub_spy = spy_groups;
    cls_sampler_destroy(b.sampler);
    o.max_rows = MANY_ROWS;
    must(cls_sampler_create(fixture_context(d, 1u << CLS_F32, 0, 0, 0), &o, &b.sampler));
    for (uint32_t slot = 0; slot < o.slot_count; slot++)
        must(cls_slot_begin(b.sampler, slot, &p, NULL));
    groups = (struct groups){.kernel = "cls_slots"};
    must(sample(&b, LOGITS, (cls_buffer){.buffer = b.small}, VOCAB, 1));
    expect_groups("cls_slots", STUB_GROUPS + 10, 2);
    verify_many(&b, "cls_report", 2);
    verify_many(&b, "cls_kept", 4);
    cls_head_destroy(b.head);
    cls_head_options_init(&h);
    h.vocab = MOST_TOKENS;
    h.hidden = HIDDEN;
    h.max_rows = 8;
    h.dtype = CLS_F16;
    h.weight.buffer = weight;
    must(cls_head_create(d->queue, &h, &b.head));
    groups = (struct groups){.kernel = "cls_head_product"};
    cls_head_call call;
    cls_head_call_init(&call);
    call.rows = 8;
    call.hidden.buffer = b.small;
    call.logits.buffer = logits;
    must(cls_head_logits(b.head, d->queue, &call, 0, NULL, NULL));
    expect_groups("cls_head_product", MOST_TOKENS / 8, 3);
    stub_spy = NULL;
    release_buffers(weight, logits);
    close_bench(&b);
}
END_TEST

/* The size of masks on the host is unknown, so it cannot be checked. */
START_TEST(host_masks)
{
    static const int32_t words[(VOCAB + 31) / 32] = {1};
    static const uint64_t strides[] = {UINT64_MAX, 1ull << 63, 1ull << 62, UINT64_MAX / 4};
    bench b = open_bench(fixture_device(_i));
    for (size_t i = 0; i < sizeof strides / sizeof *strides; i++) {
        cls_step step = default_step(2, b.small);
        step.mask.host = words;
        step.mask.row_stride = strides[i];
        ck_assert_msg(cls_sample(b.sampler, b.d->queue, &step, 0, NULL, NULL) != CLS_OK,
                      "a stride of %llu is let through", (unsigned long long)strides[i]);
    }
    close_bench(&b);
}
END_TEST

/* Outputs at the end of a buffer of more than 2^32 elements, and beyond it. */
START_TEST(outputs)
{
    bench b = open_bench(fixture_device(_i));
    const uint64_t at = (1ull << 34) + 4;
    cls_step step;
    cls_outputs o;
    cls_buffer *const fields[] = {&step.tokens, &step.status, &o.logprobs,
                                  &o.probs,     &o.latest,    &o.entropy};
    static const uint64_t sizes[] = {2 * 4, 2 * 4, 2 * 4, 2 * 4 * VOCAB, 8 * 4, 2 * 4};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        for (int cut = 0; cut < 2; cut++) {
            const cls_buffer out = {.buffer = claim(b.d, at + sizes[i] - (uint64_t)cut),
                                    .offset = at};
            cls_step_init(&step);
            cls_outputs_init(&o);
            step.outputs = &o;
            step.rows = 2;
            step.logits.values.buffer = b.small;
            *fields[i] = out;
            ck_assert_int_eq(cls_sample(b.sampler, b.d->queue, &step, 0, NULL, NULL),
                             cut ? CLS_BAD_ARGUMENT : CLS_OK);
            must_cl(clFinish(b.d->queue));
            clReleaseMemObject(out.buffer);
        }
    close_bench(&b);
}
END_TEST

/* A call asks OpenCL once about each buffer, however many outputs lie in it. */
START_TEST(queries)
{
    bench b = open_bench(fixture_device(_i));
    uint32_t counts[2];
    const cl_mem out = claim(b.d, 4096);
    for (int several = 0; several < 2; several++) {
        cls_step step;
        cls_outputs o;
        cls_step_init(&step);
        cls_outputs_init(&o);
        step.rows = 2;
        step.outputs = &o;
        step.logits.values.buffer = b.small;
        step.tokens.buffer = out;
        if (several) {
            step.status = (cls_buffer){.buffer = out, .offset = 256};
            o.logprobs = (cls_buffer){.buffer = out, .offset = 512};
            o.latest = (cls_buffer){.buffer = out, .offset = 1024};
            step.random_bits = (cls_buffer){.buffer = b.small, .offset = 512};
        }
        stub_memory_queries = 0;
        must(cls_sample(b.sampler, b.d->queue, &step, 0, NULL, NULL));
        counts[several] = stub_memory_queries;
        must_cl(clFinish(b.d->queue));
    }
    ck_assert_uint_gt(counts[0], 0);
    ck_assert_uint_eq(counts[0], counts[1]);
    clReleaseMemObject(out);
    close_bench(&b);
}
END_TEST

static struct {
    cl_mem wanted;
    uint32_t found;
} sought;

static void seek(cl_kernel kernel)
{
    for (uint32_t i = 0; i < STUB_ARGUMENTS; i++)
        sought.found += kernel->argument[i].mem == sought.wanted;
}

/* A step sets again what is the caller's, whose address may be that of another buffer by now, and
 * lists, which may have grown; it does not set again what is the sampler's. */
START_TEST(arguments)
{
    enum { FIRST, SAME, MOVED, STEPS };
    bench b = open_bench(fixture_device(_i));
    uint32_t counts[STEPS];
    const cl_mem outs[] = {claim(b.d, 4096), claim(b.d, 4096)};
    for (int i = 0; i < STEPS; i++) {
        cls_step step;
        cls_step_init(&step);
        step.rows = 2;
        step.logits.values.buffer = b.small;
        step.tokens.buffer = sought.wanted = outs[i == MOVED];
        sought.found = 0;
        stub_arguments_set = 0;
        stub_spy = seek;
        must(cls_sample(b.sampler, b.d->queue, &step, 0, NULL, NULL));
        stub_spy = NULL;
        counts[i] = stub_arguments_set;
        ck_assert_uint_gt(sought.found, 0);
        must_cl(clFinish(b.d->queue));
    }
    ck_assert_uint_gt(counts[FIRST], 40);
    ck_assert_uint_le(counts[SAME], 7);
    ck_assert_uint_eq(counts[MOVED], counts[SAME]);
    release_buffers(outs[0], outs[1]);
    close_bench(&b);
}
END_TEST

/* ------------------------------------------------------------------------ partials */

/* A shard whose rows send all their keys. The caller frees h->rows. */
static void keys_shard(cls_shard *h, uint32_t rows, uint32_t widest)
{
    memset(h, 0, sizeof *h);
    h->widest = widest;
    h->plan.step.rows = rows;
    h->rows = must_calloc(rows, sizeof *h->rows);
    for (uint32_t row = 0; row < rows; row++)
        h->rows[row].sends = CLS_SENDS_KEYS;
}

/* The words of a partial's body are counted by 64 bits. */
START_TEST(sections)
{
    static const uint32_t counts[] = {1, 4095, 4096, 65535};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        const uint64_t one = CLS_SECTION_WORDS + (uint64_t)CLS_MAX_VOCAB;
        cls_shard h;
        keys_shard(&h, counts[i], CLS_MAX_VOCAB);
        ck_assert_uint_eq(cls_rows_place(&h), counts[i] * one);
        for (uint32_t row = 0; row < counts[i] && (row + 1) * one <= UINT32_MAX; row++)
            ck_assert_uint_eq(h.rows[row].offset, row * one);
        free(h.rows);
    }
}
END_TEST

/* A step whose partial would have 2^32 words or more is refused: here two rows of 2^31 tokens. */
START_TEST(partials)
{
    bench b = open_bench(fixture_device(_i));
    cls_shard *shard;
    cls_outputs o;
    must(cls_shard_create(b.sampler, NULL, &shard));
    cls_outputs_init(&o);
    o.kept_mass.buffer = buffer_of(b.d, 2 * sizeof(uint64_t), NULL);
    cls_step step = default_step(2, b.small);
    step.outputs = &o; /* all keys are sent */
    must(cls_shard_sample(shard, b.d->queue, &step, 0, NULL));
    must(cls_shard_abandon(shard));
    shard->widest = 1u << 31;
    must_refuse(cls_shard_sample(shard, b.d->queue, &step, 0, NULL), "step->rows is 2");
    ck_assert_uint_eq(cls_shard_digest(shard), 0); /* no step is open */
    shard->widest = VOCAB;
    must(cls_shard_sample(shard, b.d->queue, &step, 0, NULL));
    cls_shard_destroy(shard);
    clReleaseMemObject(o.kept_mass.buffer);
    close_bench(&b);
}
END_TEST

int main(void)
{
    fixture_features(CLS_FEATURES_ALL);
    cls_test_proofs_compare_nothing = 1; /* this OpenCL computes nothing */
    fixture_begin(ON_DEVICES);
    add_test(extents);
    /* Where a size has 32 bits, no buffer is as large as these rows. */
    if (SIZE_MAX > UINT32_MAX) {
        add_device_test(inputs);
        add_device_test(outputs);
    }
    add_device_test(overflows);
    add_device_test(many_groups);
    add_device_test(host_masks);
    add_device_test(queries);
    add_device_test(arguments);
    add_test(sections);
    add_device_test(partials);
    return fixture_end();
}
