/* SPDX-License-Identifier: MIT */
/* The declarations of llama.cpp's and ggml's headers that the adapter and clsample-llama-logits.c
 * use, with the same names and members, so that their tests run without llama.cpp. Programs include
 * the real header. */
#ifndef LLAMA_H
#define LLAMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef int32_t llama_token, llama_pos, llama_seq_id;

struct ggml_context;
struct ggml_cgraph;
typedef struct ggml_backend_buffer *ggml_backend_buffer_t;
typedef struct ggml_backend_buffer_type *ggml_backend_buffer_type_t;
typedef struct ggml_backend_device *ggml_backend_dev_t;
typedef struct ggml_backend_reg *ggml_backend_reg_t;
enum ggml_type { GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_Q4_0 };

struct ggml_tensor {
    enum ggml_type type;
    ggml_backend_buffer_t buffer;
    int64_t ne[4];
    size_t nb[4];
    size_t view_offs;
    void *extra;
};

struct ggml_tensor *ggml_graph_get_tensor(const struct ggml_cgraph *graph, const char *name);
size_t ggml_type_size(enum ggml_type type);
const char *ggml_type_name(enum ggml_type type);
ggml_backend_buffer_type_t ggml_backend_buffer_get_type(ggml_backend_buffer_t buffer);
bool ggml_backend_buft_is_host(ggml_backend_buffer_type_t type);
const char *ggml_backend_buft_name(ggml_backend_buffer_type_t type);
ggml_backend_dev_t ggml_backend_buft_get_device(ggml_backend_buffer_type_t type);
ggml_backend_reg_t ggml_backend_dev_backend_reg(ggml_backend_dev_t device);
const char *ggml_backend_reg_name(ggml_backend_reg_t backend);
void *ggml_backend_reg_get_proc_address(ggml_backend_reg_t backend, const char *name);

typedef struct llama_token_data {
    llama_token id;
    float logit;
    float p;
} llama_token_data;

typedef struct llama_token_data_array {
    llama_token_data *data;
    size_t size;
    int64_t selected; /* an index into data */
    bool sorted;
} llama_token_data_array;

struct llama_sampler;

struct llama_sampler_data {
    struct ggml_tensor *logits, *probs, *sampled, *candidates;
};

struct llama_sampler_i {
    const char *(*name)(const struct llama_sampler *sampler);
    void (*accept)(struct llama_sampler *sampler, llama_token token);
    void (*apply)(struct llama_sampler *sampler, llama_token_data_array *candidates);
    void (*reset)(struct llama_sampler *sampler);
    struct llama_sampler *(*clone)(const struct llama_sampler *sampler);
    void (*free)(struct llama_sampler *sampler);
    bool (*backend_init)(struct llama_sampler *sampler, ggml_backend_buffer_type_t type,
                         uint32_t outputs);
    void (*backend_apply)(struct llama_sampler *sampler, struct ggml_context *context,
                          struct ggml_cgraph *graph, struct llama_sampler_data *data);
    void (*copy_state)(const struct llama_sampler *from, struct llama_sampler *to);
};

struct llama_sampler {
    struct llama_sampler_i *iface;
    void *ctx;
};

struct llama_sampler *llama_sampler_init(struct llama_sampler_i *iface, void *ctx);
const char *llama_sampler_name(const struct llama_sampler *sampler);
void llama_sampler_accept(struct llama_sampler *sampler, llama_token token);
void llama_sampler_apply(struct llama_sampler *sampler, llama_token_data_array *candidates);
void llama_sampler_reset(struct llama_sampler *sampler);
struct llama_sampler *llama_sampler_clone(const struct llama_sampler *sampler);
void llama_sampler_copy(const struct llama_sampler *from, struct llama_sampler *to);
void llama_sampler_free(struct llama_sampler *sampler);

/* Of samplers. The stub's has one sampler. */
struct llama_sampler_chain_params {
    bool no_perf;
};
struct llama_sampler_chain_params llama_sampler_chain_default_params(void);
struct llama_sampler *llama_sampler_chain_init(struct llama_sampler_chain_params params);
void llama_sampler_chain_add(struct llama_sampler *chain, struct llama_sampler *sampler);

struct llama_sampler_seq_config {
    llama_seq_id seq_id;
    struct llama_sampler *sampler;
};

struct llama_context_params {
    uint32_t n_seq_max;
    bool kv_unified;
    struct llama_sampler_seq_config *samplers;
    size_t n_samplers;
};

struct llama_batch {
    int32_t n_tokens;
    llama_token *token;
    llama_pos *pos;
    int32_t *n_seq_id;
    llama_seq_id **seq_id;
    int8_t *logits;
};

struct llama_context;
struct llama_model;
struct llama_vocab;
const struct llama_model *llama_get_model(const struct llama_context *context);
const struct llama_vocab *llama_model_get_vocab(const struct llama_model *model);
int32_t llama_vocab_n_tokens(const struct llama_vocab *vocab);
void llama_synchronize(struct llama_context *context);

#endif /* LLAMA_H */
