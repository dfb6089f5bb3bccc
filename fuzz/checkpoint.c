/* SPDX-License-Identifier: MIT */
/* Target: the model files of the example, read by examples/llama/checkpoint.c and tokenizer.c. If
 * the first byte is 0, the rest is a checkpoint. Otherwise it is the number of pieces; then follow
 * a text to encode, which ends with a 0, and the tokenizer. */
#include "fuzz.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define fopen file_open
#define fclose file_close
#include "examples/llama/checkpoint.c"
#include "examples/llama/tokenizer.c"

/* In the example die() ends the process without freeing memory; here it jumps back. */
enum { MOST = 1024 };
static jmp_buf after_die;
static void *allocated[MOST];
static size_t n_allocated;

void die(const char *format, ...)
{
    char message[2048];
    va_list arguments;
    va_start(arguments, format);
    demand(vsnprintf(message, sizeof message, format, arguments) > 0, "an error without a message");
    va_end(arguments);
    longjmp(after_die, 1);
}

void *allocate(size_t count, size_t size)
{
    void *const memory = calloc(count > 0 ? count : 1, size);
    demand(n_allocated < MOST, "more memory is requested than the input can need");
    if (memory == NULL)
        die("out of memory");
    return allocated[n_allocated++] = memory;
}

static void after_death(void)
{
    file_abandon();
    while (n_allocated > 0)
        free(allocated[--n_allocated]);
}

static void load_checkpoint(void)
{
    static checkpoint m;
    memset(&m, 0, sizeof m);
    n_allocated = 0;
    if (setjmp(after_die) != 0) {
        after_death();
        return;
    }
    checkpoint_load(&m, "input");
    const config *const c = &m.c;
    const size_t d = c->dim, l = c->layers, v = c->vocab;
    look_at(m.embedding, v * d * sizeof(float));
    look_at(m.w3, l * c->hidden * d * sizeof(float));
    look_at(m.norm, d * sizeof(float));
    look_at(m.classifier, v * d * sizeof(float));
    checkpoint_free(&m);
}

static void encode(const tokenizer *t, const char *text)
{
    int32_t *tokens;
    char byte[2];
    n_allocated = 0;
    if (setjmp(after_die) != 0) {
        after_death();
        return;
    }
    const uint32_t n = tokenizer_encode(t, text, &tokens);
    demand(n >= 1 && n <= strlen(text) + 2, "%u tokens from %zu bytes", n, strlen(text));
    for (uint32_t i = 1; i < n; i++) {
        demand(tokens[i] >= 0 && (uint32_t)tokens[i] < t->vocab, "token %d of %u", (int)tokens[i],
               t->vocab);
        const char *const piece = tokenizer_piece(t, tokens[i - 1], tokens[i], byte);
        look_at(piece, strlen(piece));
    }
    free(tokens);
}

static void load_tokenizer(uint32_t vocab, const char *text)
{
    static tokenizer t;
    memset(&t, 0, sizeof t);
    n_allocated = 0;
    if (setjmp(after_die) != 0) {
        after_death();
        return;
    }
    tokenizer_load(&t, "input", vocab);
    encode(&t, text);
    tokenizer_free(&t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    input in = {data, size};
    char text[256];
    size_t length = 0;
    const uint32_t vocab = take_byte(&in);
    while (vocab != 0 && length + 1 < sizeof text && (text[length] = (char)take_byte(&in)) != '\0')
        length++;
    text[length] = '\0';
    file_holds(in.data, in.size);
    if (vocab == 0)
        load_checkpoint();
    else
        load_tokenizer(vocab, text);
    return 0;
}
