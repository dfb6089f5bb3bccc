/* SPDX-License-Identifier: MIT */
/* Generates text with a GGUF model by llama.cpp and samples the tokens by clsample.
 *
 *     generate [-g] [-o] [-i] [-s ROWS.npy] MODEL.gguf PROMPT [TOKENS [SEED [THREADS]]]
 *
 * -g: greedy. -o: by llama.cpp's own samplers, with the same parameters. -i: prints the ids of the
 * tokens in place of the text. -s: saves the logits that each token was drawn from, as float32
 * [tokens, vocabulary] of NumPy. THREADS is for llama.cpp; more than cores make it very slow.
 */
#include "clsample-llama.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct how {
    bool greedy, own, ids;
    const char *rows;
};

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

/* NumPy's header of float32 [rows, vocab], in 128 bytes: the number of rows is known last. */
static bool write_header(FILE *file, int rows, int vocab)
{
    char text[119]; /* and a newline in place of its end */
    const int n =
        snprintf(text, sizeof text, "{'descr': '<f4', 'fortran_order': False, 'shape': (%d, %d), }",
                 rows, vocab);
    memset(text + n, ' ', sizeof text - (size_t)n);
    text[sizeof text - 2] = '\n';
    rewind(file);
    return fwrite("\x93NUMPY\x01\0v\0", 1, 10, file) == 10 && fwrite(text, 1, 118, file) == 118;
}

/* Gives the prompt to the model and to the sampler, then generates token by token. */
static int generate(struct llama_context *context, const struct llama_vocab *vocab,
                    struct llama_sampler *sampler, const char *text, int tokens, struct how how)
{
    const int length = (int)strlen(text), words = llama_vocab_n_tokens(vocab);
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
    FILE *rows = how.rows != NULL ? fopen(how.rows, "wb") : NULL;
    int status = how.rows != NULL && (rows == NULL || !write_header(rows, 0, words))
                     ? fail("the file of rows cannot be written")
                     : 0;
    llama_token token;
    int made = 0;
    int64_t begun = 0;
    if (!how.ids)
        printf("%s", text);
    while (made < tokens && status == 0) {
        if (llama_decode(context, batch) != 0) {
            status = fail("llama_decode() failed");
            break;
        }
        if (rows != NULL && fwrite(llama_get_logits_ith(context, -1), sizeof(float), (size_t)words,
                                   rows) != (size_t)words)
            status = fail("a row cannot be written");
        token = llama_sampler_sample(sampler, context, -1); /* applies and accepts */
        if (made++ == 0)
            begun = llama_time_us(); /* without the prompt */
        if (how.ids)
            printf("%d\n", token);
        if (llama_vocab_is_eog(vocab, token))
            break;
        if (!how.ids)
            print_token(vocab, token);
        batch = llama_batch_get_one(&token, 1);
    }
    if (made > 1)
        fprintf(stderr, "\n%.1f tokens per second\n",
                1e6 * (made - 1) / (double)(llama_time_us() - begun));
    if (rows != NULL && (!write_header(rows, made, words) || fclose(rows) != 0))
        status = fail("the file of rows cannot be written");
    free(prompt);
    return status;
}

/* llama.cpp's samplers for the parameters that main() sets. */
static struct llama_sampler *own_chain(const cls_params *params)
{
    struct llama_sampler *chain = llama_sampler_chain_init(llama_sampler_chain_default_params());
    if (params->temperature == 0) {
        llama_sampler_chain_add(chain, llama_sampler_init_greedy());
        return chain;
    }
    llama_sampler_chain_add(chain, llama_sampler_init_top_k((int32_t)params->top_k));
    llama_sampler_chain_add(chain, llama_sampler_init_top_p(params->top_p, 1));
    llama_sampler_chain_add(chain, llama_sampler_init_min_p(params->min_p, 1));
    llama_sampler_chain_add(chain, llama_sampler_init_temp(params->temperature));
    llama_sampler_chain_add(chain, llama_sampler_init_dist((uint32_t)params->seed));
    return chain;
}

int main(int argc, char **argv)
{
    struct how how = {0};
    for (; argc > 1 && argv[1][0] == '-'; argc--, argv++) {
        how.greedy |= strcmp(argv[1], "-g") == 0;
        how.own |= strcmp(argv[1], "-o") == 0;
        how.ids |= strcmp(argv[1], "-i") == 0;
        if (strcmp(argv[1], "-s") == 0 && argc > 2) {
            how.rows = argv[2];
            argc--, argv++;
        }
    }
    if (argc < 3)
        return fail("usage: generate [-g] [-o] [-i] [-s ROWS.npy] MODEL.gguf PROMPT [TOKENS [SEED "
                    "[THREADS]]]");
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
    if (how.greedy)
        params.temperature = 0;
    clsample_llama *shared = NULL;
    struct llama_sampler *sampler = NULL;
    if (how.own)
        sampler = own_chain(&params);
    else if ((shared = clsample_llama_open(NULL, (uint32_t)llama_vocab_n_tokens(vocab), 1,
                                           params.penalty_window)) != NULL)
        sampler = clsample_llama_sampler_init(shared, &params);
    int status = sampler == NULL ? 1 : generate(context, vocab, sampler, argv[2], tokens, how);

    if (sampler != NULL)
        llama_sampler_free(sampler);
    clsample_llama_close(shared);
    llama_free(context);
    llama_model_free(model);
    llama_backend_free();
    return status;
}
