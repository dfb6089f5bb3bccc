/* SPDX-License-Identifier: MIT */
/* Does with the plug-in of examples/litert-lm what LiteRT-LM does, and compares its tokens with
 * those of the same requests on the host.
 *
 *     litert_host PLUGIN             against a stub of the runtime
 *     litert_host PLUGIN LIBRARY     against libLiteRt.so: its table of functions, its environment
 *                                    and its tensors; or against liblitert-lm.so: also its objects
 *                                    of parameters, and its own CreateSampler(), which must find
 *                                    the plug-in by its name (LD_LIBRARY_PATH)
 *     litert_host PLUGIN hidden      in a program that exports no serializer: creating is refused
 *
 * Exits 77 if there is no device. */
#define _GNU_SOURCE
#define CL_TARGET_OPENCL_VERSION 120
#include "clsample.h"
#include "litert.h"

#include <dlfcn.h>
#include <math.h>
#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VOCAB 1003
#define ROWS 3
#define LONGEST 200

#define CHECK(truth) check((truth), #truth, __LINE__)

static void check(bool truth, const char *what, int line)
{
    if (truth)
        return;
    fprintf(stderr, "litert_host.c:%d: failed: %s\n", line, what);
    exit(1);
}

static cl_device_id device;
static cl_context cl;
static cl_command_queue queue;
static char *error; /* of the last call of the plug-in */

/* ------------------------------------------------------------------ the plug-in */

static struct {
    __typeof__(&LiteRtTopKOpenClSampler_Create) create;
    __typeof__(&LiteRtTopKOpenClSampler_Destroy) destroy;
    __typeof__(&LiteRtTopKOpenClSampler_SampleToIdAndScoreBuffer) sample;
    __typeof__(&LiteRtTopKOpenClSampler_UpdateConfig) update;
    __typeof__(&LiteRtTopKOpenClSampler_CanHandleInput) can_handle;
    __typeof__(&LiteRtTopKOpenClSampler_HandlesInput) handles;
    __typeof__(&LiteRtTopKOpenClSampler_SetInferenceFuncAndInputTensors) set_inference;
} plugin;

static void *needed(void *library, const char *name)
{
    void *const found = dlsym(library, name);
    if (found == NULL)
        fprintf(stderr, "no %s\n", name);
    CHECK(found != NULL);
    return found;
}

static void load(const char *path)
{
    static const char *const names[] = {
        "Create",         "Destroy",      "SampleToIdAndScoreBuffer",       "UpdateConfig",
        "CanHandleInput", "HandlesInput", "SetInferenceFuncAndInputTensors"};
    void *const library = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
    if (library == NULL)
        fprintf(stderr, "%s\n", dlerror());
    CHECK(library != NULL);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char name[80];
        snprintf(name, sizeof name, "LiteRtTopKOpenClSampler_%s", names[i]);
        void *const found = needed(library, name);
        memcpy((char *)&plugin + i * sizeof found, &found, sizeof found);
    }
}

/* Whether a call fails with this code and a message that has this text. */
static bool refused(int code, int expected, const char *text)
{
    const bool is = code == expected && error != NULL && strstr(error, text) != NULL;
    if (!is)
        fprintf(stderr, "code %d, not %d; '%s' has no '%s'\n", code, expected,
                error != NULL ? error : "", text);
    free(error);
    error = NULL;
    return is;
}

static bool accepted(int code)
{
    if (code != 0 || error != NULL)
        fprintf(stderr, "code %d: %s\n", code, error != NULL ? error : "");
    return code == 0 && error == NULL;
}

/* ------------------------------------------------------------ the stub, or LiteRT */

struct tensor { /* of the stub */
    int memory;
    litert_tensor_type type;
    cl_mem mem;
    void *host;
    size_t offset;
};

struct parameters {
    int32_t type, k;
    float p, temperature;
    int64_t seed; /* below 0: none */
};

/* An object of the class SamplerParameters: its first word points to something of the library that
 * has the class. */
struct message {
    const void *class;
    struct parameters values;
};

static void *option_values[6]; /* by tag */
static const struct LiteRtRuntimeCApiStruct *runtime;
static void *environment;
static void *litert; /* liblitert-lm.so; NULL: the stub */

static int stub_options(void *e, void **options)
{
    *options = e;
    return 0;
}

static int stub_value(void *options, int tag, litert_any *value)
{
    void *const found = ((void **)options)[tag];
    value->type = tag == LITERT_CL_QUEUE ? LITERT_ANY_INT : LITERT_ANY_POINTER;
    if (value->type == LITERT_ANY_INT)
        value->value.integer = (intptr_t)found;
    else
        value->value.pointer = found;
    return found != NULL ? 0 : 6;
}

static int stub_memory(void *tensor, void **memory)
{
    *memory = ((struct tensor *)tensor)->mem;
    return 0;
}

static int stub_type(void *tensor, int *type)
{
    *type = ((struct tensor *)tensor)->memory;
    return 0;
}

static int stub_tensor_type(void *tensor, litert_tensor_type *type)
{
    *type = ((struct tensor *)tensor)->type;
    return 0;
}

static int stub_offset(void *tensor, size_t *offset)
{
    *offset = ((struct tensor *)tensor)->offset;
    return 0;
}

static int waited; /* for an event that each tensor on the device has */
static int stub_has_event(void *tensor, bool *has)
{
    *has = ((struct tensor *)tensor)->mem != NULL;
    return 0;
}
static int stub_event(void *tensor, void **event)
{
    *event = tensor;
    return 0;
}
static int stub_wait(void *event, int64_t timeout_ms)
{
    waited += event != NULL && timeout_ms < 0;
    return 0;
}

static int locks; /* that are not undone */
static int stub_lock(void *tensor, void **memory, int mode)
{
    CHECK(mode == LITERT_LOCK_READ || mode == LITERT_LOCK_WRITE);
    *memory = ((struct tensor *)tensor)->host;
    locks++;
    return *memory != NULL ? 0 : 3;
}
static int stub_unlock(void *tensor)
{
    locks -= tensor != NULL;
    return 0;
}

static const struct LiteRtRuntimeCApiStruct stub = {
    .get_environment_options = stub_options,
    .get_environment_options_value = stub_value,
    .get_tensor_buffer_opencl_memory = stub_memory,
    .get_tensor_buffer_type = stub_type,
    .get_tensor_buffer_tensor_type = stub_tensor_type,
    .get_tensor_buffer_offset = stub_offset,
    .has_tensor_buffer_event = stub_has_event,
    .get_tensor_buffer_event = stub_event,
    .lock_tensor_buffer = stub_lock,
    .unlock_tensor_buffer = stub_unlock,
    .wait_event = stub_wait,
};

static int write_wire(const struct parameters *p, uint8_t *to)
{
    int n = 0;
    uint64_t values[] = {(uint64_t)p->type, (uint64_t)(int64_t)p->k, (uint64_t)p->seed};
    static const uint8_t tags[] = {LITERT_FIELD_TYPE << 3, LITERT_FIELD_K << 3,
                                   LITERT_FIELD_SEED << 3};
    const float floats[] = {p->p, p->temperature};
    for (int i = 0; i < (p->seed < 0 ? 2 : 3); i++) {
        to[n++] = tags[i];
        for (; values[i] > 127; values[i] >>= 7)
            to[n++] = (uint8_t)(values[i] | 128);
        to[n++] = (uint8_t)values[i];
    }
    for (int i = 0; i < 2; i++) {
        to[n++] = (uint8_t)((LITERT_FIELD_P + i) << 3 | 5);
        memcpy(to + n, &floats[i], 4);
        n += 4;
    }
    return n;
}

/* What protobuf exports in LiteRT-LM. */
bool serialize(const struct message *m, uint8_t *to,
               int size) __asm__("_ZNK6proto211MessageLite16SerializeToArrayEPvi");
bool serialize(const struct message *m, uint8_t *to, int size)
{
    static const uint8_t unknown[] = {6 << 3, 2, 7 << 3, 1, 15 << 3 | 2, 2, 'n', 'o'};
    CHECK(size >= 64);
    memcpy(to, unknown, sizeof unknown); /* fields that the plug-in does not use */
    return write_wire(&m->values, to + sizeof unknown) > 0;
}

#define CONSTRUCTOR "_ZN6litert2lm5proto17SamplerParametersC1EPN6proto25ArenaE"
#define CREATE_SAMPLER \
    "_ZN6litert2lm13CreateSamplerENS0_7BackendEiNS0_5proto17SamplerParametersENSt3__" \
    "u8optionalINS4" \
    "_17reference_wrapperIKNS_11EnvironmentEEEEENS5_IiEESB_NS5_INS0_18ActivationDataTypeEEE"

/* An object with these values, which stays until the next call. */
static void *parameters(struct parameters values)
{
    static alignas(16) char object[1024];
    uint8_t wire[128];
    void (*construct)(void *, void *), *found;
    bool (*parse)(void *, const void *, int);
    if (litert == NULL || (found = dlsym(litert, CONSTRUCTOR)) == NULL) {
        memcpy(object, &(struct message){&stub, values}, sizeof(struct message));
        return object;
    }
    memcpy(&construct, &found, sizeof found);
    found = needed(litert, "_ZN6proto211MessageLite14ParseFromArrayEPKvi");
    memcpy(&parse, &found, sizeof found);
    memset(object, 0, sizeof object);
    construct(object, NULL);
    CHECK(parse(object, wire, write_wire(&values, wire)));
    return object;
}

static litert_tensor_type shape(int element, uint32_t rank, int32_t a, int32_t b)
{
    return (litert_tensor_type){element, rank, {a, b}, {0}};
}

static void *new_tensor(int memory, litert_tensor_type type, cl_mem mem, void *host, size_t size)
{
    if (litert == NULL) {
        struct tensor *const t = malloc(sizeof *t);
        CHECK(t != NULL);
        *t = (struct tensor){memory, type, mem, host, 0};
        return t;
    }
    int (*from_cl)(void *, const litert_tensor_type *, int, cl_mem, size_t, void *, void **);
    int (*from_host)(const litert_tensor_type *, void *, size_t, void *, void **);
    void *tensor = NULL, *found = needed(litert, "LiteRtCreateTensorBufferFromOpenClMemory");
    memcpy(&from_cl, &found, sizeof found);
    found = needed(litert, "LiteRtCreateTensorBufferFromHostMemory");
    memcpy(&from_host, &found, sizeof found);
    CHECK((mem != NULL ? from_cl(environment, &type, memory, mem, size, NULL, &tensor)
                       : from_host(&type, host, size, NULL, &tensor)) == 0);
    return tensor;
}

static void free_tensor(void *tensor)
{
    if (litert == NULL) {
        free(tensor);
        return;
    }
    void (*destroy)(void *), *found = needed(litert, "LiteRtDestroyTensorBuffer");
    memcpy(&destroy, &found, sizeof found);
    destroy(tensor);
}

/* ---------------------------------------------------------------- the reference */

static cls_sampler *reference; /* on the host; row r has slot r */
static int turns[ROWS];        /* that have ended */

static alignas(64) float logits[ROWS * VOCAB];
static alignas(64) uint16_t halves[ROWS * VOCAB];
static alignas(64) int32_t ids[16];
static alignas(64) float scores[16];
static cl_mem logits_mem, halves_mem, ids_mem, scores_mem;

static void open_reference(void)
{
    cls_context *host;
    cls_sampler_options options;
    cls_sampler_options_init(&options);
    options.vocab = VOCAB;
    options.slot_count = ROWS;
    options.max_history = LONGEST;
    options.features = CLS_FEATURE_SHORTLIST | CLS_FEATURE_LOGPROBS;
    CHECK(cls_context_create_host(NULL, &host) == CLS_OK);
    CHECK(cls_sampler_create(host, &options, &reference) == CLS_OK);
    cls_context_destroy(host);
}

/* The parameters of a session that begins, or of one that continues. */
static void set_reference(const cls_params *params, bool begins)
{
    for (uint32_t r = 0; r < ROWS; r++) {
        cls_params own = *params;
        own.stream = r;
        turns[r] = begins ? 0 : turns[r];
        CHECK((begins ? cls_slot_begin(reference, r, &own, NULL, 0, NULL, 0)
                      : cls_slot_params(reference, r, &own)) == CLS_OK);
    }
}

static cls_buffer host_memory(void *data, size_t size)
{
    return (cls_buffer){.pointer = data, .size = size, .kind = CLS_BUFFER_HOST};
}

static int32_t draw_reference(uint32_t r, float *logprob)
{
    const int32_t slot = (int32_t)r;
    int32_t token, status;
    cls_outputs outputs;
    cls_step step;
    cls_outputs_init(&outputs);
    outputs.logprob_kind = CLS_LOGPROB_FINAL;
    outputs.logprobs = host_memory(logprob, sizeof *logprob);
    cls_step_init(&step);
    step.rows = 1;
    step.logits.values = host_memory(logits + r * VOCAB, VOCAB * sizeof *logits);
    step.slots.host = &slot;
    step.tokens = host_memory(&token, sizeof token);
    step.status = host_memory(&status, sizeof status);
    step.outputs = &outputs;
    CHECK(cls_sample(reference, NULL, &step, 0, NULL, NULL) == CLS_OK && token >= 0);
    if (status & CLS_ROW_STOPPED) {
        CHECK(cls_slot_next_turn(reference, r, NULL, 0) == CLS_OK);
        turns[r]++;
    }
    return token;
}

/* ------------------------------------------------------------------- the tests */

static uint32_t random_state = 1;

static uint32_t random_below(uint32_t n)
{
    random_state = random_state * 1664525u + 1013904223u;
    return (random_state >> 8) % n;
}

/* A multiple of a quarter below 1024 as binary16. */
static uint16_t half_of(float x)
{
    int exponent;
    const float m = frexpf(fabsf(x), &exponent);
    return (uint16_t)(x == 0 ? 0
                             : (x < 0) << 15 | (exponent + 14) << 10 | ((int)(m * 2048) & 1023));
}

static void next_logits(void)
{
    for (uint32_t i = 0; i < ROWS * VOCAB; i++) {
        logits[i] = (float)random_below(24) / 4 - (i % 7 == 0 ? 1.0f : 4.0f);
        halves[i] = half_of(logits[i]);
    }
    CHECK(clEnqueueWriteBuffer(queue, logits_mem, CL_TRUE, 0, sizeof logits, logits, 0, NULL,
                               NULL) == CL_SUCCESS);
    CHECK(clEnqueueWriteBuffer(queue, halves_mem, CL_TRUE, 0, sizeof halves, halves, 0, NULL,
                               NULL) == CL_SUCCESS);
}

enum { CL_F32, CL_F16, HOST_F32, HOST_F16, KINDS };

static void *logits_tensor(int kind)
{
    const bool f16 = kind == CL_F16 || kind == HOST_F16, on_host = kind >= HOST_F32;
    return new_tensor(on_host ? LITERT_HOST_MEMORY : LITERT_CL_PACKED,
                      shape(f16 ? LITERT_FLOAT16 : LITERT_FLOAT32, 2, ROWS, VOCAB),
                      on_host ? NULL
                      : f16   ? halves_mem
                              : logits_mem,
                      f16 ? (void *)halves : logits, f16 ? sizeof halves : sizeof logits);
}

/* Draws tokens from tensors of this kind by the call, and compares them with the reference's. */
static void steps(int (*sample)(void *sampler, void *values, void *tokens, void *logprobs),
                  void *sampler, int kind, int count)
{
    const bool on_device = kind == CL_F32;
    void *const values = logits_tensor(kind);
    void *const tokens =
        new_tensor(on_device ? LITERT_CL_PACKED : LITERT_HOST_MEMORY,
                   shape(LITERT_INT32, 1, ROWS, 0), on_device ? ids_mem : NULL, ids, ROWS * 4);
    void *const logprobs = new_tensor(on_device ? LITERT_CL_PACKED : LITERT_HOST_MEMORY,
                                      shape(LITERT_FLOAT32, 1, ROWS, 0),
                                      on_device ? scores_mem : NULL, scores, ROWS * 4);
    for (int i = 0; i < count; i++) {
        float logprob;
        const bool scored = i % 3 != 1;
        next_logits();
        memset(ids, 0xff, sizeof ids);
        memset(scores, 0, sizeof scores);
        CHECK(accepted(sample(sampler, values, tokens, scored ? logprobs : NULL)));
        if (on_device)
            CHECK(clEnqueueReadBuffer(queue, ids_mem, CL_TRUE, 0, ROWS * 4, ids, 0, NULL, NULL) ==
                      CL_SUCCESS &&
                  clEnqueueReadBuffer(queue, scores_mem, CL_TRUE, 0, ROWS * 4, scores, 0, NULL,
                                      NULL) == CL_SUCCESS);
        for (uint32_t r = 0; r < ROWS; r++) {
            CHECK(ids[r] == draw_reference(r, &logprob));
            CHECK(!scored || fabsf(scores[r] - logprob) <= 1e-5f * (1 + fabsf(logprob)));
        }
    }
    free_tensor(values);
    free_tensor(tokens);
    free_tensor(logprobs);
    CHECK(locks == 0);
}

static int no_function(void *info) { return info != NULL ? 5 : 1; }

static int direct(void *sampler, void *values, void *tokens, void *logprobs)
{
    return plugin.sample(sampler, values, tokens, logprobs != NULL ? &logprobs : NULL, &error);
}

static void *created(struct parameters values)
{
    void *sampler = NULL;
    const bool is = accepted(plugin.create(runtime, environment, ROWS, 1, VOCAB, NULL,
                                           parameters(values), &sampler, &error));
    CHECK(is && sampler != NULL);
    return sampler;
}

static const struct parameters usual = {LITERT_TYPE_TOP_P, 40, 0.9f, 0.8f, 7};

static cls_params usual_reference(void)
{
    cls_params params;
    cls_params_init(&params);
    params.top_k = usual.k;
    params.top_p = usual.p;
    params.temperature = usual.temperature;
    params.seed = (uint64_t)usual.seed;
    return params;
}

/* std::shared_ptr, which points to something or not. */
static void *const generator[] = {&random_state, NULL}, *const no_generator[] = {NULL, NULL};

static int updated(void *sampler, struct parameters values, bool begins)
{
    return plugin.update(sampler, parameters(values), ROWS,
                         (void *)(begins ? generator : no_generator), &error);
}

/* All kinds of memory, types of sampling, sessions and seeds. */
static void sessions(void)
{
    void *const sampler = created(usual);
    cls_params params = usual_reference();
    set_reference(&params, true);
    for (int kind = 0; kind < KINDS; kind++)
        steps(direct, sampler, kind, 5);

    /* Other parameters continue the session; a generator begins another one. */
    struct parameters p = usual;
    p.seed = -1; /* it keeps its seed */
    p.temperature = params.temperature = 1.5f;
    CHECK(accepted(updated(sampler, p, false)));
    set_reference(&params, false);
    steps(direct, sampler, CL_F32, 4);
    p.k = params.top_k = 3;
    p.seed = 12345;
    params.seed = 12345;
    CHECK(accepted(updated(sampler, p, true)));
    set_reference(&params, true);
    steps(direct, sampler, HOST_F32, 4);

    static const struct {
        struct parameters p;
        int32_t top_k;
        float top_p, temperature;
    } kinds[] = {
        {{LITERT_TYPE_GREEDY, 40, 0.9f, 1, 0}, 0, 1, 0},
        {{LITERT_TYPE_TOP_P, 40, 0.9f, 0, 0}, 40, 0.9f, 0},
        {{LITERT_TYPE_TOP_K, 5, 0.1f, 2, 1}, 5, 1, 2},
        {{LITERT_TYPE_UNSPECIFIED, 0, 0, 1, INT32_MAX}, 0, 1, 1},
        {{LITERT_TYPE_UNSPECIFIED, 7, 0.5f, 1, 3}, 7, 0.5f, 1},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        params = usual_reference();
        params.top_k = kinds[i].top_k;
        params.top_p = kinds[i].top_p;
        params.temperature = kinds[i].temperature;
        params.seed = (uint64_t)kinds[i].p.seed;
        CHECK(accepted(updated(sampler, kinds[i].p, true)));
        set_reference(&params, true);
        steps(direct, sampler, CL_F32, 3);
    }

    /* Without a seed each session draws others. */
    int32_t first[4 * ROWS];
    bool differs = false;
    void *const values = logits_tensor(CL_F32);
    void *const tokens =
        new_tensor(LITERT_HOST_MEMORY, shape(LITERT_INT32, 1, ROWS, 0), NULL, ids, ROWS * 4);
    for (int session = 0; session < 2; session++) {
        CHECK(
            accepted(updated(sampler, (struct parameters){LITERT_TYPE_TOP_K, 0, 0, 9, -1}, true)));
        for (int i = 0; i < 4; i++) {
            CHECK(accepted(direct(sampler, values, tokens, NULL)));
            differs |= session == 1 && memcmp(first + i * ROWS, ids, ROWS * 4) != 0;
            memcpy(first + i * ROWS, ids, ROWS * 4);
        }
    }
    CHECK(differs);
    free_tensor(values);
    free_tensor(tokens);

    CHECK(plugin.can_handle(sampler) == 0 && plugin.handles(sampler) == 0);
    CHECK(accepted(plugin.set_inference(sampler, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
                                        NULL, &error)));
    CHECK(refused(plugin.set_inference(sampler, no_function, NULL, NULL, NULL, NULL, NULL, NULL,
                                       NULL, NULL, &error),
                  LITERT_UNIMPLEMENTED, "next step's input"));
    plugin.destroy(sampler);
}

static void write_file(const char *text)
{
    FILE *const file = fopen("params.json", "w");
    CHECK(file != NULL && fputs(text, file) >= 0 && fclose(file) == 0);
    CHECK(setenv("CLSAMPLE_LITERT_PARAMS", "params.json", 1) == 0);
}

/* What LiteRT-LM has no field for. */
static void file(void)
{
    static const int32_t stop[] = {0, 7, 14}, bad[] = {21, 28}, breaker[] = {35};
    static const cls_ids bad_words[] = {{bad, 2}, {bad, 1}}, breakers[] = {{breaker, 1}};
    static const cls_logit_bias biases[] = {{0, 5}, {7, 5}, {42, -INFINITY}};
    write_file("{\"min_p\": 0.01, \"repetition_penalty\": 1.3, \"frequency_penalty\": 0.5, "
               "\"penalty_scope\": \"all\", \"penalty_window\": 20, \"dry_multiplier\": 0.8, "
               "\"dry_allowed_length\": 1, \"dry_sequence_breakers\": [[35]], \"p_less\": false, "
               "\"stop_ids\": [0, 7, 14], \"min_tokens\": 2, \"bad_words\": [[21, 28], [21]], "
               "\"logit_bias\": [[0, 5], [7, 5.0], [42, \"-inf\"]], \"thinking_start\": []}");
    cls_params params = usual_reference();
    params.min_p = 0.01f;
    params.repetition_penalty = 1.3f;
    params.frequency_penalty = 0.5f;
    params.penalty_scope = CLS_SCOPE_ALL;
    params.penalty_window = 20;
    params.dry_multiplier = 0.8f;
    params.dry_allowed_length = 1;
    params.dry_breakers = (cls_sequences){breakers, 1};
    params.stop_ids = (cls_ids){stop, 3};
    params.min_tokens = 2;
    params.bad_words = (cls_sequences){bad_words, 2};
    params.logit_bias = (cls_biases){biases, 3};
    void *const sampler = created(usual);
    set_reference(&params, true);
    steps(direct, sampler, CL_F32, 40);
    uint32_t stopped = 0; /* rows that have gone on after a stop id */
    for (uint32_t r = 0; r < ROWS; r++)
        stopped += turns[r] > 0;
    CHECK(stopped > 0);
    CHECK(accepted(updated(sampler, usual, true)));
    set_reference(&params, true);
    steps(direct, sampler, HOST_F16, 10);
    plugin.destroy(sampler);

    static const struct {
        const char *text, *message;
    } wrong[] = {
        {"{\"temperature\": 1}", "\"temperature\": not a key"},
        {"{\"max_tokens\": 3}", "\"max_tokens\": not a key"},
        {"{\"min-p\": 0.5}", "\"min-p\": not a key"},
        {"{\"min_p\": \"0.5\"}", "\"min_p\": not a value"},
        {"{\"min_tokens\": -1}", "\"min_tokens\": not a value"},
        {"{\"p_less\": 1}", "\"p_less\": not a value"},
        {"{\"penalty_scope\": \"prompt\"}", "\"penalty_scope\": not a value"},
        {"{\"stop_ids\": [1, 2.5]}", "\"stop_ids\": not a value"},
        {"{\"stop_ids\": 1}", "\"stop_ids\": not a value"},
        {"{\"logit_bias\": [[1]]}", "\"logit_bias\": not a value"},
        {"{\"bad_words\": [[1], 2]}", "\"bad_words\": not a value"},
        {"{\"min_p\": 2}", "min_p"},
        {"{\"stop_ids\": [1003]}", "stop_ids"},
        {"{\"min_p\": 0.1, \"min_p\": 0.2}", "duplicate"},
        {"[]", "not a JSON object"},
        {"{\"min_p\": ", "params.json"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        void *none = &none;
        write_file(wrong[i].text);
        CHECK(refused(plugin.create(runtime, environment, 1, 1, VOCAB, NULL, parameters(usual),
                                    &none, &error),
                      LITERT_INVALID_ARGUMENT, wrong[i].message));
        CHECK(none == NULL);
    }
    void *none;
    CHECK(refused(
        plugin.create(runtime, environment, 1, 2, VOCAB, NULL, parameters(usual), &none, &error),
        LITERT_UNIMPLEMENTED, "sequence of 2"));
    CHECK(setenv("CLSAMPLE_LITERT_PARAMS", "no-file", 1) == 0);
    CHECK(refused(
        plugin.create(runtime, environment, 1, 1, VOCAB, NULL, parameters(usual), &none, &error),
        LITERT_INVALID_ARGUMENT, "no-file"));
    CHECK(unsetenv("CLSAMPLE_LITERT_PARAMS") == 0);
}

static int sampled(void *sampler, struct tensor *values, struct tensor *tokens)
{
    return plugin.sample(sampler, values, tokens, NULL, &error);
}

/* What the plug-in refuses, against the stub. */
static void refusals(void)
{
    void *none, *const sampler = created(usual);
    const struct tensor good = {LITERT_CL_PACKED, shape(LITERT_FLOAT32, 2, ROWS, VOCAB), logits_mem,
                                NULL, 0};
    const struct tensor good_ids = {LITERT_HOST_MEMORY, shape(LITERT_INT32, 1, ROWS, 0), NULL, ids,
                                    0};
    struct tensor t = good, i = good_ids;
#define REFUSED(tensor, field, value, code, text) \
    (tensor).field = (value); \
    CHECK(refused(sampled(sampler, &t, &i), code, text)); \
    t = good; \
    i = good_ids
    REFUSED(t, memory, 12, LITERT_UNIMPLEMENTED, "in an image");
    REFUSED(t, memory, LITERT_CL_BUFFER, LITERT_UNIMPLEMENTED, "not dense");
    REFUSED(t, type, shape(LITERT_FLOAT32, 2, ROWS, VOCAB - 1), LITERT_INVALID_ARGUMENT,
            "3 rows of");
    REFUSED(t, type, shape(LITERT_FLOAT32, 2, 2, VOCAB), LITERT_INVALID_ARGUMENT, "3 rows of");
    REFUSED(t, type, shape(LITERT_FLOAT32, 2, -1, VOCAB), LITERT_INVALID_ARGUMENT, "dimension");
    REFUSED(t, type, shape(LITERT_INT32, 2, ROWS, VOCAB), LITERT_UNIMPLEMENTED, "of type 2");
    REFUSED(t, type.rank, 0, LITERT_INVALID_ARGUMENT, "0 dimensions");
    REFUSED(t, type.rank, 128 | 2, LITERT_UNIMPLEMENTED, "logits are not dense");
    REFUSED(t, offset, 4, LITERT_INVALID_ARGUMENT, "sample: ");
    REFUSED(t, mem, NULL, LITERT_INTERNAL, "no memory");
    REFUSED(t, mem, halves_mem, LITERT_INVALID_ARGUMENT, "sample: ");
    REFUSED(i, type, shape(LITERT_INT32, 1, 2, 0), LITERT_INVALID_ARGUMENT, "ids are 2");
    REFUSED(i, type, shape(LITERT_FLOAT32, 1, ROWS, 0), LITERT_INVALID_ARGUMENT, "of type 1");
    REFUSED(i, host, NULL, LITERT_INTERNAL, "lock");
    locks = 0;
    CHECK(
        refused(plugin.sample(sampler, NULL, &i, NULL, &error), LITERT_INVALID_ARGUMENT, "logits"));
    t.type.rank = 128 | 2; /* strides of a dense tensor */
    t.type.strides[0] = VOCAB;
    t.type.strides[1] = 1;
    waited = 0;
    CHECK(accepted(sampled(sampler, &t, &i)) && waited == 1);
    for (uint32_t v = 0; v < VOCAB; v++)
        logits[VOCAB + v] = NAN;
    CHECK(clEnqueueWriteBuffer(queue, logits_mem, CL_TRUE, 0, sizeof logits, logits, 0, NULL,
                               NULL) == CL_SUCCESS);
    CHECK(refused(sampled(sampler, &t, &i), LITERT_INTERNAL, "row 1 has no token"));

    struct parameters p = usual;
    p.type = 9;
    CHECK(refused(updated(sampler, p, true), LITERT_UNIMPLEMENTED, "type 9"));
    p = usual;
    p.k = -1;
    CHECK(refused(updated(sampler, p, true), LITERT_INVALID_ARGUMENT, "k is -1"));
    p = usual;
    p.temperature = -1;
    CHECK(refused(updated(sampler, p, true), LITERT_INVALID_ARGUMENT, "temperature"));
    p = usual;
    p.p = 1.5f;
    CHECK(refused(updated(sampler, p, false), LITERT_INVALID_ARGUMENT, "top_p"));
    CHECK(refused(plugin.update(sampler, parameters(usual), 1, NULL, &error),
                  LITERT_INVALID_ARGUMENT, "batch is 1"));
    plugin.destroy(sampler);
    plugin.destroy(NULL);

    CHECK(refused(
        plugin.create(NULL, environment, 1, 1, VOCAB, NULL, parameters(usual), &none, &error),
        LITERT_INVALID_ARGUMENT, "NULL"));
    CHECK(refused(
        plugin.create(runtime, environment, 1, 0, VOCAB, NULL, parameters(usual), &none, &error),
        LITERT_INVALID_ARGUMENT, "sequence 0"));
    cl_command_queue const other =
        clCreateCommandQueue(cl, device, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, NULL);
    const struct {
        int tag;
        void *value;
        const char *message;
    } options[] = {
        {LITERT_CL_DEVICE, NULL, "have no OpenCL device"},
        {LITERT_CL_CONTEXT, NULL, "have no OpenCL context"},
        {LITERT_CL_QUEUE, NULL, "have no OpenCL queue"},
        {LITERT_CL_QUEUE, other, "queue is not in order"},
    };
    for (size_t o = 0; o < (other != NULL ? 4 : 3); o++) {
        void *const value = option_values[options[o].tag];
        option_values[options[o].tag] = options[o].value;
        CHECK(refused(plugin.create(runtime, environment, 1, 1, VOCAB, NULL, parameters(usual),
                                    &none, &error),
                      LITERT_UNAVAILABLE, options[o].message));
        option_values[options[o].tag] = value;
    }
    if (other != NULL)
        clReleaseCommandQueue(other);
}

/* One row, in memory that may have groups of four channels, and which may be of another type than
 * the tensor's elements. */
static void one_row(void)
{
    const struct tensor tokens = {LITERT_HOST_MEMORY, shape(LITERT_INT32, 1, 1, 0), NULL, ids, 0};
    struct tensor row = {
        LITERT_CL_BUFFER, {LITERT_FLOAT32, 3, {1, 1, VOCAB}, {0}}, logits_mem, NULL, 0};
    const cls_params params = usual_reference();
    void *sampler;
    float logprob;
    CHECK(accepted(plugin.create(runtime, environment, 1, 1, VOCAB, NULL, parameters(usual),
                                 &sampler, &error)));
    set_reference(&params, true);
    for (int i = 0; i < 2; i++) {
        next_logits();
        CHECK(accepted(plugin.sample(sampler, &row, (void *)&tokens, NULL, &error)));
        CHECK(ids[0] == draw_reference(0, &logprob));
        row.memory = LITERT_CL_BUFFER_F16;
        row.mem = halves_mem;
    }
    plugin.destroy(sampler);
}

/* A batch of rows of a sequence are slots of their own, and each tensor may have three dimensions.
 */
static void sequence(void)
{
    const int activations = LITERT_ACTIVATIONS_F32;
    void *sampler;
    CHECK(accepted(plugin.create(runtime, environment, 1, ROWS, VOCAB, &activations,
                                 parameters(usual), &sampler, &error)));
    const cls_params params = usual_reference();
    set_reference(&params, true);
    steps(direct, sampler, CL_F32, 3);
    plugin.destroy(sampler);
}

/* ------------------------------------------------------------------- LiteRT's own */

/* What the accelerator for OpenCL registers: how a cl_mem becomes a tensor. */
static int import(void *context, void *its_queue, const litert_tensor_type *type, int memory,
                  void *handle, size_t size, size_t packed_size, void **info)
{
    CHECK(context == cl && its_queue == queue && memory == LITERT_CL_PACKED);
    (void)type, (void)size, (void)packed_size;
    void **const made = calloc(8, sizeof *made); /* its second word is the memory */
    CHECK(made != NULL);
    made[1] = handle;
    *info = made;
    return 0;
}
static int forget(void *info)
{
    free(info);
    return 0;
}

/* The table has the functions of these names where the plug-in takes them from. */
static void check_table(void)
{
#define IS(field, name) CHECK((void *)(uintptr_t)runtime->field == needed(litert, "LiteRt" name))
    IS(get_environment_options, "GetEnvironmentOptions");
    IS(get_environment_options_value, "GetEnvironmentOptionsValue");
    IS(get_tensor_buffer_opencl_memory, "GetTensorBufferOpenClMemory");
    IS(get_tensor_buffer_type, "GetTensorBufferType");
    IS(get_tensor_buffer_tensor_type, "GetTensorBufferTensorType");
    IS(get_tensor_buffer_offset, "GetTensorBufferOffset");
    IS(has_tensor_buffer_event, "HasTensorBufferEvent");
    IS(get_tensor_buffer_event, "GetTensorBufferEvent");
    IS(lock_tensor_buffer, "LockTensorBuffer");
    IS(unlock_tensor_buffer, "UnlockTensorBuffer");
    IS(wait_event, "WaitEvent");
}

static void open_litert(const char *path)
{
    litert = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
    if (litert == NULL)
        fprintf(stderr, "%s\n", dlerror());
    CHECK(litert != NULL);
    runtime = needed(litert, "kLiteRtRuntimeBuiltin");
    check_table();
    struct {
        int tag;
        litert_any value;
    } options[4];
    for (int i = 0; i < 4; i++) {
        options[i].tag = LITERT_CL_DEVICE + i;
        options[i].value.type = LITERT_ANY_POINTER;
        options[i].value.value.pointer = option_values[options[i].tag];
    }
    int (*create)(int, const void *, void **), (*handlers)(void *, int, ...);
    void *found = needed(litert, "LiteRtCreateEnvironment");
    memcpy(&create, &found, sizeof found);
    CHECK(create(4, options, &environment) == 0);
    found = needed(litert, "LiteRtRegisterTensorBufferHandlers");
    memcpy(&handlers, &found, sizeof found);
    CHECK(handlers(environment, LITERT_CL_PACKED, no_function, forget, no_function, no_function,
                   no_function, import, LITERT_CL_CONTEXT, LITERT_CL_QUEUE) == 0);
}

/* An object of C++ that LiteRT-LM's CreateSampler() returned: a table of its virtual functions, and
 * those that draw and update. absl::Status is 1 if it is OK. */
struct virtual
{
    void (*destroy)(void *);
    void (*delete)(void *);
    uintptr_t (*sample)(void *, void **values, void **tokens, void **logprobs);
    uintptr_t (*update)(void *, const void *parameters, int batch, void *generator, void *count);
};

static int by_litert(void *sampler, void *values, void *tokens, void *logprobs)
{
    /* litert::TensorBuffer begins with its handle. */
    void *objects[3][16] = {{values}, {tokens}, {logprobs}};
    return (int)(*(struct virtual **)sampler)
               ->sample(sampler, objects[0], objects[1], logprobs != NULL ? objects[2] : NULL) -
           1;
}

/* LiteRT-LM loads the plug-in by its name, and draws from its own object. */
static void create_by_litert(void)
{
    struct optional {
        int value;
        bool is_set;
    };
    struct environment_reference {
        const void *environment;
        bool is_set;
    };
    struct {
        uintptr_t status;
        void *sampler;
    } result = {0, NULL};
    void (*create)(void *result, int backend, int batch, void *parameters,
                   struct environment_reference environment, struct optional sequence,
                   struct optional vocab, struct optional activations);
    /* litert::Environment: a runtime, which has the table, and the handle, with their deleters. */
    const void *proxy[] = {runtime};
    const void *object[10] = {proxy, 0, 0, 0, 0, environment};
    void *const found = needed(litert, CREATE_SAMPLER);
    memcpy(&create, &found, sizeof found);
    /* Android asks for OpenCL's sampler first, Linux for WebGPU's, which is thus taken away. */
    *(void **)needed(litert, "LiteRtTopKWebGpuSampler_Create_Static") = NULL;
    create(&result, 4 /* the GPU */, ROWS, parameters(usual),
           (struct environment_reference){object, true}, (struct optional){1, true},
           (struct optional){VOCAB, true}, (struct optional){LITERT_ACTIVATIONS_F32, true});
    CHECK(result.status == 1 && result.sampler != NULL);
    cls_params params = usual_reference();
    set_reference(&params, true);
    steps(by_litert, result.sampler, CL_F32, 6);
    struct parameters p = usual;
    p.seed = 99;
    params.seed = 99;
    CHECK((*(struct virtual **)result.sampler)
              ->update(result.sampler, parameters(p), ROWS, &random_state, NULL) == 1);
    set_reference(&params, true);
    steps(by_litert, result.sampler, HOST_F32, 6);
    (*(struct virtual **)result.sampler)->delete (result.sampler);
}

/* ------------------------------------------------------------------------- main */

static bool open_device(void)
{
    cl_platform_id platforms[16];
    cl_uint n = 0;
    cls_device_info info;
    cls_device_info_init(&info);
    if (clGetPlatformIDs(16, platforms, &n) != CL_SUCCESS)
        return false;
    for (cl_uint i = 0; i < n && i < 16 && cl == NULL; i++)
        if (clGetDeviceIDs(platforms[i], CL_DEVICE_TYPE_ALL, 1, &device, NULL) == CL_SUCCESS &&
            cls_device_query(device, NULL, &info) == CLS_OK) {
            cl = clCreateContext(NULL, 1, &device, NULL, NULL, NULL);
            option_values[LITERT_CL_PLATFORM] = platforms[i];
        }
    if (cl == NULL)
        return false;
    queue = clCreateCommandQueue(cl, device, 0, NULL);
    logits_mem = clCreateBuffer(cl, CL_MEM_READ_WRITE, sizeof logits, NULL, NULL);
    halves_mem = clCreateBuffer(cl, CL_MEM_READ_WRITE, sizeof halves, NULL, NULL);
    ids_mem = clCreateBuffer(cl, CL_MEM_READ_WRITE, sizeof ids, NULL, NULL);
    scores_mem = clCreateBuffer(cl, CL_MEM_READ_WRITE, sizeof scores, NULL, NULL);
    option_values[LITERT_CL_DEVICE] = device;
    option_values[LITERT_CL_CONTEXT] = cl;
    option_values[LITERT_CL_QUEUE] = queue;
    return queue != NULL && logits_mem != NULL && halves_mem != NULL && ids_mem != NULL &&
           scores_mem != NULL;
}

int main(int argc, char **argv)
{
    CHECK(argc >= 2);
    if (!open_device()) {
        puts("no device");
        return 77;
    }
    load(argv[1]);
    open_reference();
    runtime = &stub;
    environment = option_values;
    if (argc > 2 && strcmp(argv[2], "hidden") == 0) {
        void *none;
        CHECK(refused(plugin.create(runtime, environment, 1, 1, VOCAB, NULL, parameters(usual),
                                    &none, &error),
                      LITERT_UNAVAILABLE, "does not export MessageLite::SerializeToArray()"));
        return 0;
    }
    if (argc > 2)
        open_litert(argv[2]);
    sessions();
    sequence();
    file();
    if (litert == NULL) {
        one_row();
        refusals();
    } else if (dlsym(litert, CONSTRUCTOR) != NULL) {
        create_by_litert();
    }
    return 0;
}
