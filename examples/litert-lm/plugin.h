/* SPDX-License-Identifier: MIT */
/* What the files of the plug-in share. */
#ifndef CLSAMPLE_LITERT_PLUGIN_H
#define CLSAMPLE_LITERT_PLUGIN_H

#include "clsample.h"
#include "litert.h"

#include <dlfcn.h>

struct sampler {
    const struct LiteRtRuntimeCApiStruct *runtime;
    void *opencl; /* its library */
    cl_command_queue queue;
    cls_context *context;
    cls_sampler *sampler;
    cls_readback *readback;
    cl_context cl;
    cl_mem outputs, staged; /* [OUTPUTS, rows] of 4 bytes; logits from the host */
    size_t staged_size;
    uint32_t batch, rows, vocab;
    cls_params from_file; /* without what LiteRT-LM sets */
    cls_params params;    /* of the session; it shares from_file's lists */
};

/* A session's parameters in LiteRT-LM's terms. */
struct parameters {
    uint64_t type;
    int32_t k;
    float p, temperature;
    uint32_t seed;
    bool has_seed;
};

/* A tensor on the device, or on the host if memory is NULL. */
struct tensor {
    void *handle;
    int type; /* LITERT_CL_PACKED, ... */
    cl_mem memory;
    size_t offset;
    int32_t element;
    uint64_t count; /* elements */
    int32_t last;   /* the last dimension */
};

/* A call of a function of OpenCL's, which nothing links. */
#define CL(s, function) (*(__typeof__(&function))dlsym((s)->opencl, #function))

/* ----------------------------------------------------------- clsample-litert.c */

/* Returns the code, and sets *error to the message unless error is NULL. */
int fail(char **error, int code, const char *format, ...)
#ifdef __GNUC__
    __attribute__((format(printf, 3, 4)))
#endif
    ;

/* The code for what a call of OpenCL, or of LiteRT's runtime, returned. */
int cl_done(cl_int code, const char *what, char **error);
int runtime_done(int status, const char *what, char **error);

/* -------------------------------------------------------------------- message.c */

/* Reads an object of the class SamplerParameters; NULL: all fields have their defaults. */
int read_message(const void *message, struct parameters *to, char **error);

/* -------------------------------------------------------------------- tensors.c */

/* Reads the tensor of logits and waits for it. Logits that the host has are copied. */
int read_logits(struct sampler *s, void *handle, struct tensor *t, char **error);

/* Reads the tensor of ids or of scores: an element a row. */
int read_output(const struct sampler *s, void *handle, const char *name, int32_t element,
                struct tensor *t, char **error);

/* Writes a value a row of 4 bytes each. */
int put(struct sampler *s, const struct tensor *t, const void *values, char **error);

/* ---------------------------------------------------------------- params_file.c */

/* Reads the parameters that LiteRT-LM has no field for from a JSON object into *params, which has
 * defaults or other values. On failure why says why. params_forget() frees the lists in either
 * case. */
bool params_read(const char *path, cls_params *params, char *why, size_t why_size);
void params_forget(cls_params *params);

#endif
