/* SPDX-License-Identifier: MIT */
#include "fixture.h"
#include "base/opencl.h"
#include "sampler/sampler.h"
#include "subgroups.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_DEVICES 8

static device devices[MAX_DEVICES];
static int n_devices;
static int without_devices; /* 1: there should be some */
static Suite *suite;

/* An OpenCL of version 1.2 lacks these. */
#define WEAK(function) extern __attribute__((weak)) __typeof__(function) function;
CLS_OPENCL_SVM_FUNCTIONS(WEAK)
#undef WEAK
static uint64_t seed = 20250;
static uint32_t usual_group, usual_tier; /* CLS_TEST_GROUP and CLS_TEST_TIER; 0: not set */

void fixture_features(uint32_t features) { cls_test_features = features; }

void fixture_random(uint32_t features)
{
    cls_test_features = features | CLS_FEATURE_SHORTLIST | CLS_FEATURE_SEARCH |
                        CLS_FEATURE_SAMPLERS | CLS_FEATURE_PENALTIES | CLS_FEATURE_HISTORY |
                        CLS_FEATURE_STATE;
    cls_test_fewest_programs = 1;
}

test_size fixture_size(void)
{
    const char *size = getenv("CLS_TEST_SIZE");
    if (size == NULL || *size == 0)
        return TEST_FULL;
    if (strcmp(size, "tiny") == 0)
        return TEST_TINY;
    if (strcmp(size, "small") == 0)
        return TEST_SMALL;
    fprintf(stderr, "CLS_TEST_SIZE is \"%s\"; it can be small or tiny\n", size);
    exit(99);
}

uint32_t fixture_by_size(uint32_t tiny, uint32_t small, uint32_t full)
{
    const test_size size = fixture_size();
    return size == TEST_TINY ? tiny : size == TEST_SMALL ? small : full;
}

uint64_t fixture_seed(void) { return seed; }

int fixture_devices(void) { return n_devices; }

device *fixture_device(int i) { return &devices[i]; }

static void open_device(cl_platform_id platform, cl_device_id id)
{
    device *const d = &devices[n_devices];
    const cl_context_properties properties[] = {CL_CONTEXT_PLATFORM,
                                                (cl_context_properties)platform, 0};
    char platform_name[64] = "?", device_name[80] = "?";
    const char *const wanted = getenv("CLS_TEST_PLATFORM");
    cls_device_info info = {.struct_size = sizeof info};
    cls_context_options o;
    cl_int code = CL_SUCCESS;
    clGetPlatformInfo(platform, CL_PLATFORM_NAME, sizeof platform_name, platform_name, NULL);
    if (wanted != NULL && strcmp(platform_name, wanted) != 0) {
        fprintf(stderr, "the platform is \"%s\", but CLS_TEST_PLATFORM \"%s\"\n", platform_name,
                wanted);
        exit(99);
    }
    clGetDeviceInfo(id, CL_DEVICE_NAME, sizeof device_name, device_name, NULL);
    cls_context_options_init(&o);
    if (cls_device_query(id, &o, &info) != CLS_OK) {
        printf("%s, %s: not usable: %s\n", platform_name, device_name, cls_error_message());
        return;
    }
    d->id = id;
    d->context = clCreateContext(properties, 1, &id, NULL, NULL, &code);
    if (code == CL_SUCCESS)
        d->queue = clCreateCommandQueue(d->context, id, 0, &code);
    if (code != CL_SUCCESS) {
        printf("%s, %s: no context or queue (%d)\n", platform_name, device_name, (int)code);
        return;
    }
    snprintf(d->name, sizeof d->name, "%s, %s", platform_name, device_name);
    printf("device: %s: work-group %u, vector %u, shortlist %u\n", d->name, info.work_group,
           info.vector, info.shortlist);
    n_devices++;
}

static void open_devices(void)
{
    cl_platform_id platforms[16];
    cl_uint n_platforms = 0;
    if (clGetPlatformIDs(16, platforms, &n_platforms) != CL_SUCCESS)
        return;
    for (cl_uint p = 0; p < n_platforms && p < 16; p++) {
        cl_device_id ids[16];
        cl_uint n = 0;
        if (clGetDeviceIDs(platforms[p], CL_DEVICE_TYPE_ALL, 16, ids, &n) != CL_SUCCESS)
            continue;
        for (cl_uint i = 0; i < n && i < 16 && n_devices < MAX_DEVICES; i++)
            open_device(platforms[p], ids[i]);
    }
}

static void close_devices(void)
{
    for (int i = 0; i < n_devices; i++) {
        for (unsigned c = 0; c < devices[i].n_cached; c++)
            cls_context_destroy(devices[i].cached[c]);
        clReleaseCommandQueue(devices[i].queue);
        clReleaseContext(devices[i].context);
    }
}

cls_context *fixture_context(device *d, uint32_t dtypes, uint32_t work_group, uint32_t vector,
                             uint32_t shortlist)
{
    cls_context_options o;
    cls_context_options_init(&o);
    o.dtypes = dtypes;
    o.work_group = work_group;
    o.vector = vector;
    o.shortlist = shortlist;
    return fixture_shaped(d, &o, CLS_SUBGROUPS_NONE);
}

cls_context *new_context(device *d, const cls_context_options *o)
{
    cls_context *context = NULL;
    must(cls_context_create(d->context, d->id, o, &context));
    return context;
}

cls_context *fixture_shaped(device *d, const cls_context_options *options, uint32_t subgroups)
{
    cls_context_options o = *options;
    if (o.dtypes == 0)
        o.dtypes = (1u << CLS_DTYPES) - 1;
    char shape[160];
    /* On CPUs the library chooses groups of one item, and for rows the tests use no others, since
     * PoCL takes minutes to compile them. Oclgrind interprets kernels, so it runs larger groups, in
     * which races are possible: of five items, which trees reduce in three rounds as they do seven,
     * in nine tenths of the time. Vectors of 16 take a fifth less than its own width of 8, with
     * which check_tiers runs. At the smallest size proofs have two mass tiles in place of four:
     * they were up to a third of a test. Where the caller names a group, vectors and proofs are
     * those of GPUs, without those in the longest rows. */
    if (strstr(d->name, "Oclgrind") != NULL) {
        const uint32_t usual = usual_group != 0 ? usual_group : 5,
                       most = o.max_work_group != 0 ? o.max_work_group : usual;
        o.row_group = o.work_group = o.work_group != 0 ? o.work_group : usual < most ? usual : most;
        o.vector = o.vector != 0 ? o.vector : usual_group != 0 ? 4 : 16;
        cls_test_proof_vocab = usual_group != 0 ? 5148 : fixture_by_size(1040, 3100, 3100);
    }
    if (o.max_work_group == 0 && o.max_local_mem_size == 0) {
        o.work_group = o.work_group != 0 ? o.work_group : usual_group;
        o.row_group = o.row_group != 0 ? o.row_group : usual_group;
        o.tier = o.tier != 0 ? o.tier : usual_tier;
    }
    for (unsigned i = 0; i < d->n_cached; i++)
        if (memcmp(&d->shape[i], &o, sizeof o) == 0 && d->subgroups[i] == subgroups)
            return d->cached[i];
    ck_assert_msg(d->n_cached < FIXTURE_CONTEXTS, "more shapes than FIXTURE_CONTEXTS");
    snprintf(
        shape, sizeof shape,
        "tier %u, work-group %u, vector %u, shortlist %u, at most %u work-items and %llu bytes",
        o.tier, o.work_group, o.vector, o.shortlist, o.max_work_group,
        (unsigned long long)o.max_local_mem_size);
    cls_context *context = NULL;
    cls_context_options with_cache = o;
    /* Other shapes are rare: PoCL takes longer to store a program than all its loads save. */
    if (!(o.work_group | o.row_group | o.vector | o.shortlist | o.tier | o.max_work_group) &&
        o.max_local_mem_size == 0)
        with_cache.cache_dir = getenv("CLS_TEST_PROGRAMS"); /* see kernels.sh */
    with_cache.cache_always = 1;
    test_subgroups(subgroups);
    const cls_status status = cls_context_create(d->context, d->id, &with_cache, &context);
    test_subgroups(CLS_SUBGROUPS_NONE);
    ck_assert_msg(status == CLS_OK || status == CLS_UNSUPPORTED_DEVICE ||
                      status == CLS_BAD_ARGUMENT,
                  "%s: %s: %s: %s", d->name, shape, cls_status_name(status), cls_error_message());
    if (status != CLS_OK)
        printf("left out on %s: %s: %s\n", d->name, shape, cls_error_message());
    ck_assert_msg(status == CLS_OK || o.work_group || o.vector || o.shortlist || o.tier ||
                      o.max_work_group || o.max_local_mem_size,
                  "%s: no context: %s", d->name, cls_error_message());
    d->shape[d->n_cached] = o;
    d->subgroups[d->n_cached] = subgroups;
    d->cached[d->n_cached++] = context;
    return context;
}

uint32_t host_kept_count(const float *logits, uint32_t vocab, const cls_params *p, float *probs)
{
    one_row row;
    one_result result = {.probs = probs};
    one_row_init(&row);
    row.logits = logits;
    row.vocab = vocab;
    row.params = p;
    must(one_sample(&row, &result));
    return result.kept_count;
}

cls_status accept_ints(cls_sampler *sampler, cl_command_queue queue, uint32_t rows,
                       uint32_t per_row, const cls_ints *tokens, const cls_ints *slots,
                       cl_uint n_wait, const cl_event *wait, cl_event *done)
{
    cls_accept_call call;
    cls_accept_call_init(&call);
    call.rows = rows;
    call.per_row = per_row;
    if (tokens != NULL)
        call.tokens = *tokens;
    if (slots != NULL)
        call.slots = *slots;
    return cls_accept(sampler, queue, &call, n_wait, wait, done);
}

static void read_shape(void)
{
    static const char *const tiers[] = {"auto", "int64", "subgroups"};
    const char *const group = getenv("CLS_TEST_GROUP"), *const tier = getenv("CLS_TEST_TIER");
    usual_group = group != NULL ? (uint32_t)strtoul(group, NULL, 10) : 0;
    while (tier != NULL && usual_tier < 3 && strcmp(tier, tiers[usual_tier]) != 0)
        usual_tier++;
    if (usual_tier == 3) {
        fprintf(stderr, "CLS_TEST_TIER is \"%s\"; it can be auto, int64 or subgroups\n", tier);
        exit(99);
    }
}

/* The library calls the functions that this program links: a layer's, where there is one. What a
 * layer or the stub lacks, the linker names. */
static void *find_linked(void *user, const char *name)
{
    static const struct {
        const char *name;
        void (*function)(void);
    } all[] = {
#define ROW(function) {#function, (void (*)(void))(function)},
        CLS_OPENCL_FUNCTIONS(ROW) CLS_OPENCL_SVM_FUNCTIONS(ROW)
#undef ROW
    };
    void *found = NULL;
    (void)user;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (strcmp(all[i].name, name) == 0)
            memcpy(&found, &all[i].function, sizeof found);
    return found;
}

void fixture_begin(fixture_kind kind)
{
    cls_context_options linked = default_context_options();
    const char *const wish = getenv("CLS_TEST_SEED");
    if (wish != NULL)
        seed = strtoull(wish, NULL, 0);
    read_shape();
    setvbuf(stdout, NULL, _IOLBF, 0);
    linked.find_opencl = find_linked;
    must(cls_opencl_find(&linked));
    printf("CLS_TEST_SEED=%llu\n", (unsigned long long)seed);
    suite = suite_create("clsample");
    if (kind == ON_DEVICES)
        open_devices();
    without_devices = kind == ON_DEVICES && n_devices == 0;
}

TCase *fixture_case(const char *name)
{
    TCase *const t = tcase_create(name);
    tcase_set_timeout(t, 0);
    suite_add_tcase(suite, t);
    return t;
}

int fixture_end(void)
{
    SRunner *const runner = srunner_create(suite);
    int failed = 0;
    if (!without_devices) {
        srunner_set_fork_status(runner, CK_NOFORK); /* an OpenCL context does not survive a fork */
        srunner_run_all(runner, CK_ENV);
        failed = srunner_ntests_failed(runner);
    }
    srunner_free(runner);
    close_devices();
    if (without_devices) {
        printf("no usable OpenCL device\n");
        return 77;
    }
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
