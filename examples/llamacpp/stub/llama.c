/* SPDX-License-Identifier: MIT */
/* A stub of llama.cpp: the functions of the sampler interface that check_adapter.c uses. */
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
