/* SPDX-License-Identifier: MIT */
/* The declarations of llama.cpp's header that the adapter uses, with the same names and members, so
 * that check_adapter.c runs without llama.cpp. Programs include the real header. */
#ifndef LLAMA_H
#define LLAMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef int32_t llama_token;

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

struct llama_sampler_i {
    const char *(*name)(const struct llama_sampler *sampler);
    void (*accept)(struct llama_sampler *sampler, llama_token token);
    void (*apply)(struct llama_sampler *sampler, llama_token_data_array *candidates);
    void (*reset)(struct llama_sampler *sampler);
    struct llama_sampler *(*clone)(const struct llama_sampler *sampler);
    void (*free)(struct llama_sampler *sampler);
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

#endif /* LLAMA_H */
