/* SPDX-License-Identifier: MIT */
/* Does with the plug-in of examples/litert-lm what LiteRT-LM does, against a stub of its runtime,
 * and compares tokens and scores with those of the same requests on the host.
 *
 *     litert_host            linked to the plug-in
 *     litert_host hidden     in a program that exports no serializer: creating is refused
 *
 * Exits 77 if there is no device. */
#include "../../examples/opencl.h"
#include "litert.h"

#include <math.h>
#include <string.h>

#define VOCAB 1003
#define ROWS 3

#define CHECK(truth) \
    do { \
        if (!(truth)) { \
            fprintf(stderr, "line %d: %s; %s\n", __LINE__, #truth, error != NULL ? error : ""); \
            exit(1); \
        } \
    } while (0)

static char *error; /* of the last call of the plug-in */
static cl_command_queue queue;
static void *option_values[6]; /* by tag */

/* Whether a call failed with this code and a message that has this text. */
static bool refused(int code, int expected, const char *text)
{
    CHECK(code == expected && error != NULL && strstr(error, text) != NULL);
    free(error);
    error = NULL;
    return true;
}

/* ------------------------------------------------------------------ the runtime */

typedef struct tensor {
    int memory;
    litert_tensor_type type;
    cl_mem mem;
    void *host;
} tensor;

static int options(void *e, void **out) { return *out = e, 0; }
static int value(void *of, int tag, litert_any *any)
{
    any->type = LITERT_ANY_POINTER;
    any->value.pointer = ((void **)of)[tag];
    return any->value.pointer != NULL ? 0 : 6;
}
static int memory(void *t, void **out) { return *out = ((tensor *)t)->mem, 0; }
static int kind(void *t, int *out) { return *out = ((tensor *)t)->memory, 0; }
static int type(void *t, litert_tensor_type *out) { return *out = ((tensor *)t)->type, 0; }
static int offset(void *t, size_t *out) { return *out = t == NULL, 0; }
static int has_event(void *t, bool *out) { return *out = ((tensor *)t)->mem != NULL, 0; }
static int event(void *t, void **out) { return *out = t, 0; }
static int waited, locks;
static int wait_event(void *e, int64_t ms) { return waited += e != NULL && ms < 0, 0; }
static int lock(void *t, void **out, int mode)
{
    *out = ((tensor *)t)->host;
    locks++;
    return mode == LITERT_LOCK_READ || mode == LITERT_LOCK_WRITE ? 0 : 3;
}
static int unlock(void *t) { return locks -= t != NULL, 0; }

static const struct LiteRtRuntimeCApiStruct runtime = {.get_environment_options = options,
                                                       .get_environment_options_value = value,
                                                       .get_tensor_buffer_opencl_memory = memory,
                                                       .get_tensor_buffer_type = kind,
                                                       .get_tensor_buffer_tensor_type = type,
                                                       .get_tensor_buffer_offset = offset,
                                                       .has_tensor_buffer_event = has_event,
                                                       .get_tensor_buffer_event = event,
                                                       .lock_tensor_buffer = lock,
                                                       .unlock_tensor_buffer = unlock,
                                                       .wait_event = wait_event};

/* What protobuf exports in LiteRT-LM: it writes an object, whose first word points to something of
 * the program. Here all values are below 128. */
typedef struct message {
    const void *class;
    uint8_t type, k, seed;
    float p, temperature;
} message;
bool serialize(const message *m, uint8_t *to,
               int size) __asm__("_ZNK6proto211MessageLite16SerializeToArrayEPvi");
bool serialize(const message *m, uint8_t *to, int size)
{
    const uint8_t head[] = {6 << 3, 2, LITERT_FIELD_TYPE << 3, m->type}, /* 6: an unknown field */
        more[] = {LITERT_FIELD_K << 3, m->k, LITERT_FIELD_SEED << 3, m->seed};
    CHECK(size >= 64);
    memcpy(to, head, 4);
    memcpy(to + 4, more, 4);
    to[8] = LITERT_FIELD_P << 3 | 5;
    memcpy(to + 9, &m->p, 4);
    to[13] = LITERT_FIELD_TEMPERATURE << 3 | 5;
    memcpy(to + 14, &m->temperature, 4);
    return true;
}

/* --------------------------------------------------------------------- the tests */

static cls_sampler *reference; /* on the host; row r has slot r */
static float logits[ROWS * VOCAB], scores[ROWS];
static int32_t ids[ROWS];
static cl_mem logits_mem;
static const message usual = {&runtime, LITERT_TYPE_TOP_P, 40, 7, 0.9f, 0.8f};

static cls_params params; /* of the requests on the host: those of `usual` */

static void begin_reference(void)
{
    for (params.stream = 0; params.stream < ROWS; params.stream++)
        CHECK(cls_slot_begin(reference, (uint32_t)params.stream, &params, NULL) == 0);
}

/* Draws tokens by the plug-in and on the host, where a request goes on after a stop id. */
static void steps(void *sampler, bool on_device, int count)
{
    static uint32_t state = 1;
    tensor from = {on_device ? LITERT_CL_PACKED : LITERT_HOST_MEMORY,
                   {LITERT_FLOAT32, 2, {ROWS, VOCAB}, {0}},
                   on_device ? logits_mem : NULL,
                   logits};
    tensor to = {LITERT_HOST_MEMORY, {LITERT_INT32, 1, {ROWS}, {0}}, NULL, ids};
    tensor scored = {LITERT_HOST_MEMORY, {LITERT_FLOAT32, 1, {ROWS}, {0}}, NULL, scores};
    void *const score_tensor = &scored;
    int32_t tokens[ROWS], status[ROWS];
    float logprobs[ROWS];
    cls_outputs outputs;
    cls_step step;
    cls_outputs_init(&outputs);
    outputs.logprob_kind = CLS_LOGPROB_FINAL;
    outputs.logprobs = host_memory(logprobs, sizeof logprobs);
    cls_step_init(&step);
    step.rows = step.logits_rows = ROWS;
    step.logits.values = host_memory(logits, sizeof logits);
    step.tokens = host_memory(tokens, sizeof tokens);
    step.status = host_memory(status, sizeof status);
    step.outputs = &outputs;
    for (int i = 0; i < count; i++) {
        for (int n = 0; n < ROWS * VOCAB; n++) {
            state = state * 1664525u + 1013904223u;
            logits[n] = (float)((state >> 8) % 24) / 4 - (n % 7 == 0 ? 1.0f : 4.0f);
        }
        CHECK(clEnqueueWriteBuffer(queue, logits_mem, CL_TRUE, 0, sizeof logits, logits, 0, NULL,
                                   NULL) == CL_SUCCESS);
        CHECK(LiteRtTopKOpenClSampler_SampleToIdAndScoreBuffer(sampler, &from, &to, &score_tensor,
                                                               &error) == 0 &&
              locks == 0);
        CHECK(cls_sample(reference, NULL, &step, 0, NULL, NULL) == CLS_OK);
        for (uint32_t r = 0; r < ROWS; r++) {
            CHECK(ids[r] == tokens[r] && ids[r] >= 0);
            CHECK(fabsf(scores[r] - logprobs[r]) <= 1e-5f * (1 + fabsf(logprobs[r])));
            if (status[r] & CLS_ROW_STOPPED)
                CHECK(cls_slot_next_turn(reference, r, NULL, 0) == CLS_OK);
        }
    }
    from.type.rank = 128 | 2; /* with strides, which are not those of dense rows */
    CHECK(
        refused(LiteRtTopKOpenClSampler_SampleToIdAndScoreBuffer(sampler, &from, &to, NULL, &error),
                LITERT_UNIMPLEMENTED, "not dense"));
}

static int created(void **sampler)
{
    return LiteRtTopKOpenClSampler_Create(&runtime, option_values, ROWS, 1, VOCAB, NULL, &usual,
                                          sampler, &error);
}

static void write_file(const char *text)
{
    FILE *const file = fopen("params.json", "w");
    CHECK(file != NULL && fputs(text, file) >= 0 && fclose(file) == 0);
    CHECK(setenv("CLSAMPLE_LITERT_PARAMS", "params.json", 1) == 0);
}

/* Parameters that LiteRT-LM has no field for, and those that would be dropped on the way. */
static void file(void)
{
    static const int32_t stop[] = {0, 7}, bad[] = {21, 28};
    static const cls_ids bad_words[] = {{bad, 2}, {bad, 1}};
    static const cls_logit_bias biases[] = {{0, 5}, {7, 5}, {42, -INFINITY}};
    static const char *const wrong[][2] = {{"{\"max_tokens\": 3}", "\"max_tokens\": not a key"},
                                           {"{\"loop_action\": \"all\"}", "\"loop_action\": not"},
                                           {"{\"watermark_key\": -1}", "not a value"},
                                           {"{\"min_p\": \"0.5\"}", "\"min_p\": not a value"},
                                           {"{\"bad_words\": [[1], 2]}", "\"bad_words\": not a"},
                                           {"{\"stop_ids\": [1003]}", "stop_ids"},
                                           {"[]", "not a JSON object"}};
    void *sampler;
    write_file("{\"min_p\": 0.01, \"repetition_penalty\": 1.3, \"penalty_scope\": \"all\", "
               "\"stop_ids\": [0, 7], \"bad_words\": [[21, 28], [21]], "
               "\"logit_bias\": [[0, 5], [7, 5.0], [42, \"-inf\"]], "
               "\"watermark_context\": 4, \"watermark_key\": \"9223372036854775811\"}");
    params.watermark_context = 4;
    params.watermark_key = UINT64_C(9223372036854775811);
    params.min_p = 0.01f;
    params.repetition_penalty = 1.3f;
    params.penalty_scope = CLS_SCOPE_ALL;
    params.stop_ids = (cls_ids){stop, 2};
    params.bad_words = (cls_sequences){bad_words, 2};
    params.logit_bias = (cls_biases){biases, 3};
    CHECK(created(&sampler) == 0);
    begin_reference();
    steps(sampler, true, 40);
    LiteRtTopKOpenClSampler_Destroy(sampler);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        write_file(wrong[i][0]);
        CHECK(refused(created(&sampler), LITERT_INVALID_ARGUMENT, wrong[i][1]) && sampler == NULL);
    }
    CHECK(unsetenv("CLSAMPLE_LITERT_PARAMS") == 0);
}

static void sessions(void)
{
    void *sampler, *const generator[] = {&sampler, NULL};
    message other = usual;
    CHECK(created(&sampler) == 0);
    begin_reference();
    steps(sampler, true, 5);
    steps(sampler, false, 5);
    params.top_k = other.k = 3;
    params.seed = other.seed = 99;
    CHECK(LiteRtTopKOpenClSampler_UpdateConfig(sampler, &other, ROWS, (void *)generator, &error) ==
              0 &&
          waited > 0);
    begin_reference();
    steps(sampler, true, 5);
    other.type = 9;
    CHECK(refused(LiteRtTopKOpenClSampler_UpdateConfig(sampler, &other, ROWS, NULL, &error),
                  LITERT_UNIMPLEMENTED, "type 9"));
    LiteRtTopKOpenClSampler_Destroy(sampler);
}

int main(int argc, char **argv)
{
    void *none;
    cls_context *context;
    cls_sampler_options o;
    opencl device = opencl_open();
    queue = device.queue;
    logits_mem = opencl_buffer(&device, sizeof logits);
    option_values[LITERT_CL_DEVICE] = device.device;
    option_values[LITERT_CL_CONTEXT] = device.context;
    option_values[LITERT_CL_QUEUE] = queue;
    if (argc > 1 && strcmp(argv[1], "hidden") == 0)
        return !refused(created(&none), LITERT_UNAVAILABLE,
                        "does not export MessageLite::SerializeToArray()");
    cls_sampler_options_init(&o);
    o.late_compile = 1;
    o.vocab = VOCAB;
    o.max_rows = o.slot_count = ROWS;
    o.max_history = 200;
    CHECK(cls_context_create_host(NULL, &context) == CLS_OK &&
          cls_sampler_create(context, &o, &reference) == CLS_OK);
    cls_params_init(&params);
    params.top_k = usual.k;
    params.top_p = usual.p;
    params.temperature = usual.temperature;
    params.seed = usual.seed;
    sessions();
    params.top_k = usual.k;
    params.seed = usual.seed;
    file();
    cls_sampler_destroy(reference);
    cls_context_destroy(context);
    clReleaseMemObject(logits_mem);
    opencl_close(&device);
    return 0;
}
