/* SPDX-License-Identifier: MIT */
/* A stub of llama.cpp: its functions for samplers. */
#include "llama.h"

#include <stdlib.h>

struct llama_sampler *llama_sampler_init(struct llama_sampler_i *iface, void *ctx)
{
    struct llama_sampler *sampler = malloc(sizeof *sampler);
    if (sampler == NULL)
        abort();
    sampler->iface = iface;
    sampler->ctx = ctx;
    return sampler;
}

const char *llama_sampler_name(const struct llama_sampler *sampler)
{
    return sampler->iface->name(sampler);
}

void llama_sampler_accept(struct llama_sampler *sampler, llama_token token)
{
    sampler->iface->accept(sampler, token);
}

void llama_sampler_apply(struct llama_sampler *sampler, llama_token_data_array *candidates)
{
    sampler->iface->apply(sampler, candidates);
}

void llama_sampler_reset(struct llama_sampler *sampler) { sampler->iface->reset(sampler); }

struct llama_sampler *llama_sampler_clone(const struct llama_sampler *sampler)
{
    return sampler->iface->clone(sampler);
}

/* Without a copy function it replaces the state by that of a clone. */
void llama_sampler_copy(const struct llama_sampler *from, struct llama_sampler *to)
{
    if (to->iface->copy_state != NULL) {
        to->iface->copy_state(from, to);
        return;
    }
    struct llama_sampler *clone = llama_sampler_clone(from);
    to->iface->free(to);
    to->ctx = clone->ctx;
    free(clone);
}

void llama_sampler_free(struct llama_sampler *sampler)
{
    if (sampler == NULL)
        return;
    sampler->iface->free(sampler);
    free(sampler);
}

/* --------------------------------------------------------------------- a chain */

static struct llama_sampler *first(const struct llama_sampler *chain) { return chain->ctx; }

static void chain_apply(struct llama_sampler *chain, llama_token_data_array *candidates)
{
    llama_sampler_apply(first(chain), candidates);
}

static void chain_free(struct llama_sampler *chain) { llama_sampler_free(first(chain)); }

static bool chain_init(struct llama_sampler *chain, ggml_backend_buffer_type_t type,
                       uint32_t outputs)
{
    struct llama_sampler *const sampler = first(chain);
    return sampler->iface->backend_init(sampler, type, outputs);
}

static void chain_graph(struct llama_sampler *chain, struct ggml_context *context,
                        struct ggml_cgraph *graph, struct llama_sampler_data *data)
{
    struct llama_sampler *const sampler = first(chain);
    sampler->iface->backend_apply(sampler, context, graph, data);
}

static struct llama_sampler_i chain_interface = {
    .apply = chain_apply,
    .free = chain_free,
    .backend_init = chain_init,
    .backend_apply = chain_graph,
};

struct llama_sampler_chain_params llama_sampler_chain_default_params(void)
{
    return (struct llama_sampler_chain_params){false};
}

struct llama_sampler *llama_sampler_chain_init(struct llama_sampler_chain_params params)
{
    (void)params;
    return llama_sampler_init(&chain_interface, NULL);
}

void llama_sampler_chain_add(struct llama_sampler *chain, struct llama_sampler *sampler)
{
    chain->ctx = sampler;
}
