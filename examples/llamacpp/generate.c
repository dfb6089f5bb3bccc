/* SPDX-License-Identifier: MIT */
/* Generates text with a GGUF model by llama.cpp and samples the tokens by clsample.
 *
 *     generate MODEL.gguf PROMPT [TOKENS [SEED [THREADS]]]
 *
 * THREADS is for llama.cpp. More threads than cores make it very slow.
 */
#include "clsample-llama.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int fail(const char *why)
{
    fprintf(stderr, "generate: %s\n", why);
    return 1;
}

static void print_token(const struct llama_vocab *vocab, llama_token token)
{
    char piece[256];
    int n = llama_token_to_piece(vocab, token, piece, sizeof piece, 0, false);
    if (n > 0)
        fwrite(piece, 1, (size_t)n, stdout);
    fflush(stdout);
}

/* Gives the prompt to the model and to the sampler, then generates token by token. */
static int generate(struct llama_context *context, const struct llama_vocab *vocab,
                    struct llama_sampler *sampler, const char *text, int tokens)
{
    int length = (int)strlen(text);
    int count = -llama_tokenize(vocab, text, length, NULL, 0, true, true);
    if (count <= 0)
        return fail("the prompt has no tokens");
    llama_token *prompt = malloc((size_t)count * sizeof *prompt);
    if (prompt == NULL)
        return fail("out of memory");
    llama_tokenize(vocab, text, length, prompt, count, true, true);
    for (int i = 0; i < count; i++)
        llama_sampler_accept(sampler, prompt[i]); /* without apply(), so it is prompt */

    struct llama_batch batch = llama_batch_get_one(prompt, count);
    llama_token token;
    int status = 0;
    printf("%s", text);
    for (int i = 0; i < tokens; i++) {
        if (llama_decode(context, batch) != 0) {
            status = fail("llama_decode() failed");
            break;
        }
        token = llama_sampler_sample(sampler, context, -1); /* applies and accepts */
        if (llama_vocab_is_eog(vocab, token))
            break;
        print_token(vocab, token);
        batch = llama_batch_get_one(&token, 1);
    }
    printf("\n");
    free(prompt);
    return status;
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return fail("usage: generate MODEL.gguf PROMPT [TOKENS [SEED [THREADS]]]");
    int tokens = argc > 3 ? atoi(argv[3]) : 128;

    llama_backend_init();
    struct llama_model *model = llama_model_load_from_file(argv[1], llama_model_default_params());
    if (model == NULL)
        return fail("the model cannot be loaded");
    struct llama_context_params options = llama_context_default_params();
    if (argc > 5)
        options.n_threads = options.n_threads_batch = atoi(argv[5]);
    struct llama_context *context = llama_init_from_model(model, options);
    if (context == NULL)
        return fail("llama.cpp cannot create a context for the model");
    const struct llama_vocab *vocab = llama_model_get_vocab(model);

    cls_params params;
    clsample_llama_params(&params);
    params.seed = argc > 4 ? strtoull(argv[4], NULL, 10) : 0;
    params.repetition_penalty = 1.1f;
    clsample_llama *shared =
        clsample_llama_open(NULL, (uint32_t)llama_vocab_n_tokens(vocab), 1, params.penalty_window);
    struct llama_sampler *sampler =
        shared == NULL ? NULL : clsample_llama_sampler_init(shared, &params);
    int status = sampler == NULL ? 1 : generate(context, vocab, sampler, argv[2], tokens);

    if (sampler != NULL)
        llama_sampler_free(sampler);
    clsample_llama_close(shared);
    llama_free(context);
    llama_model_free(model);
    llama_backend_free();
    return status;
}
