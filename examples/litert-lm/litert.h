/* SPDX-License-Identifier: MIT */
/* What LiteRT-LM and a sampler that it loads tell each other: the facts of its binary interface
 * that the plug-in needs, as in litert-lm-api 0.18.1. README.md says how they were checked. */
#ifndef CLSAMPLE_LITERT_H
#define CLSAMPLE_LITERT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ------------------------------------------------------------------ LiteRT */

/* An option of an environment: OpenCL's objects, as a pointer or as an integer. */
enum { LITERT_ANY_INT = 2, LITERT_ANY_POINTER = 9 };
typedef struct litert_any {
    int32_t type;
    union {
        int64_t integer;
        const void *pointer;
    } value;
} litert_any;

enum { LITERT_CL_DEVICE = 2, LITERT_CL_PLATFORM = 3, LITERT_CL_CONTEXT = 4, LITERT_CL_QUEUE = 5 };

/* The memory of a tensor. Images have the numbers between these. */
enum {
    LITERT_HOST_MEMORY = 1,
    LITERT_CL_BUFFER = 10,     /* may have groups of four channels: dense if there is one row */
    LITERT_CL_BUFFER_F16 = 11, /* the same in float16, whatever the type of the tensor's elements */
    LITERT_CL_PACKED = 14,     /* dense */
    LITERT_CL_LAST = 16
};

enum { LITERT_FLOAT32 = 1, LITERT_INT32 = 2, LITERT_FLOAT16 = 10 };

typedef struct litert_tensor_type {
    int32_t element;       /* LITERT_FLOAT32, ... */
    uint32_t rank;         /* bits 0 to 6; bit 7: the strides are set */
    int32_t dimensions[8]; /* [rank] */
    uint32_t strides[8];   /* [rank], in elements */
} litert_tensor_type;

enum { LITERT_LOCK_READ = 0, LITERT_LOCK_WRITE = 1 };

/* The runtime's functions. The table grows only at its end. Each returns 0 if it succeeds. */
struct LiteRtRuntimeCApiStruct {
    void (*before_2[2])(void);
    int (*get_environment_options)(void *environment, void **options);
    void (*before_9[6])(void);
    int (*get_environment_options_value)(void *options, int tag, litert_any *value);
    void (*before_92[82])(void);
    int (*get_tensor_buffer_opencl_memory)(void *tensor, void **memory);
    void (*before_107[14])(void);
    int (*get_tensor_buffer_type)(void *tensor, int *type);
    int (*get_tensor_buffer_tensor_type)(void *tensor, litert_tensor_type *type);
    void (*before_111[2])(void);
    int (*get_tensor_buffer_offset)(void *tensor, size_t *offset);
    int (*has_tensor_buffer_event)(void *tensor, bool *has_event);
    int (*get_tensor_buffer_event)(void *tensor, void **event);
    void (*before_116[2])(void);
    int (*lock_tensor_buffer)(void *tensor, void **memory, int mode);
    int (*unlock_tensor_buffer)(void *tensor);
    void (*before_130[12])(void);
    int (*wait_event)(void *event, int64_t timeout_ms);
};

/* --------------------------------------------------------------- LiteRT-LM */

/* Codes that the functions return: those of absl::Status. LiteRT-LM uses another sampler where
 * creating one is UNAVAILABLE. */
enum {
    LITERT_OK = 0,
    LITERT_INVALID_ARGUMENT = 3,
    LITERT_RESOURCE_EXHAUSTED = 8,
    LITERT_UNIMPLEMENTED = 12,
    LITERT_INTERNAL = 13,
    LITERT_UNAVAILABLE = 14
};

enum { LITERT_ACTIVATIONS_F32 = 0, LITERT_ACTIVATIONS_F16 = 1 };

/* proto::SamplerParameters is an object of C++. Its own class writes it in this wire format. */
enum {
    LITERT_FIELD_TYPE = 1,
    LITERT_FIELD_K,
    LITERT_FIELD_P,
    LITERT_FIELD_TEMPERATURE,
    LITERT_FIELD_SEED
};
enum { LITERT_TYPE_UNSPECIFIED, LITERT_TYPE_TOP_K, LITERT_TYPE_TOP_P, LITERT_TYPE_GREEDY };

#ifdef __GNUC__
#define LITERT_API __attribute__((visibility("default")))
#else
#define LITERT_API
#endif

/* The functions that LiteRT-LM looks up. *error is a message for free(), or unchanged. */
LITERT_API int LiteRtTopKOpenClSampler_Create(const struct LiteRtRuntimeCApiStruct *runtime,
                                              void *environment, int batch, int sequence, int vocab,
                                              const void *activations, const void *parameters,
                                              void **out, char **error);
LITERT_API void LiteRtTopKOpenClSampler_Destroy(void *sampler);
LITERT_API int LiteRtTopKOpenClSampler_SampleToIdAndScoreBuffer(void *sampler, void *logits,
                                                                void *ids, void *const *scores,
                                                                char **error);
LITERT_API int LiteRtTopKOpenClSampler_UpdateConfig(void *sampler, const void *parameters,
                                                    int batch, void *generator, char **error);
LITERT_API int LiteRtTopKOpenClSampler_CanHandleInput(void *sampler);
LITERT_API int LiteRtTopKOpenClSampler_HandlesInput(void *sampler);
LITERT_API int LiteRtTopKOpenClSampler_SetInferenceFuncAndInputTensors(
    void *sampler, int (*run)(void *argument), void *argument, void *ids, void *previous_positions,
    void *positions, void *previous_mask, void *mask, void *previous_param, void *param,
    char **error);

#endif
