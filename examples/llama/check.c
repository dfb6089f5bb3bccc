/* SPDX-License-Identifier: MIT */
/* Compares the model with recorded logits. Each row of logits is the one from which a recorded
 * token was drawn. The tokens form consecutive texts of --max-tokens each. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "llama.h"

enum { HEADER = 4096 };
static const double tolerance = 1e-3;

/* Reads a NumPy array of 4-byte numbers, little endian, in C order. */
static void *load_npy(const char *path, const char *type, uint32_t dims, uint64_t *rows,
                      uint64_t columns)
{
    unsigned char start[10];
    char header[HEADER + 1] = "", shape[64];
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        die("%s: cannot be opened", path);
    if (fread(start, 1, sizeof start, file) != sizeof start ||
        memcmp(start, "\x93NUMPY\x01", 7) != 0)
        die("%s: not a NumPy array", path);
    const size_t length = start[8] + 256u * start[9];
    if (length > HEADER || fread(header, 1, length, file) != length)
        die("%s: not a NumPy array: the header is cut short", path);
    const char *at = strstr(header, "'shape': (");
    *rows = at != NULL ? strtoull(at + 10, NULL, 10) : 0;
    if (dims == 1)
        snprintf(shape, sizeof shape, "'shape': (%llu,)", (unsigned long long)*rows);
    else
        snprintf(shape, sizeof shape, "'shape': (%llu, %llu)", (unsigned long long)*rows,
                 (unsigned long long)columns);
    if (strstr(header, type) == NULL || strstr(header, "'fortran_order': False") == NULL ||
        strstr(header, shape) == NULL || *rows < 1 || *rows > 1u << 20)
        die("%s: not an array of type %s with %s", path, type,
            dims == 1 ? "one dimension" : "rows as long as the vocabulary");
    const size_t count = (size_t)(*rows * columns);
    void *data = allocate(count, 4);
    if (fread(data, 4, count, file) != count)
        die("%s: the file is cut short", path);
    fclose(file);
    return data;
}

int check(model *m, sampling *s, const options *o)
{
    const uint32_t vocab = m->c.vocab, batch = m->batch;
    uint64_t n, n_tokens, worst_row = 0;
    double worst = 0;
    float *expected = load_npy(o->check_logits, "'<f4'", 2, &n, vocab);
    int32_t *tokens = load_npy(o->check_tokens, "'<i4'", 1, &n_tokens, 1);
    const uint64_t length = o->params.max_tokens > 0 ? o->params.max_tokens : n;
    float *got = allocate((size_t)batch * vocab, sizeof *got);
    int32_t *rows = allocate(ROW_FIELDS * (size_t)batch, sizeof *rows);
    if (n_tokens != n)
        die("%s: %llu rows for %llu tokens", o->check_logits, (unsigned long long)n,
            (unsigned long long)n_tokens);
    if (length > m->c.context)
        die("%s: texts of %llu tokens are longer than the model's context, %u", o->check_tokens,
            (unsigned long long)length, m->c.context);
    for (uint64_t from = 0, here; from < n; from += here) {
        const uint64_t position = from % length;
        cl_event uploaded;
        here = length - position < batch ? length - position : batch;
        here = n - from < here ? n - from : here;
        for (uint32_t i = 0; i < here; i++) {
            const int32_t token = position + i == 0 ? BOS : tokens[from + i - 1];
            if (token < 0 || (uint32_t)token >= vocab)
                die("%s: token %d is not in the vocabulary", o->check_tokens, (int)token);
            rows[ROW_TOKEN * batch + i] = token;
            rows[ROW_SLOT * batch + i] = 0;
            rows[ROW_POSITION * batch + i] = (int32_t)(position + i);
            rows[ROW_PICK * batch + i] = (int32_t)i;
        }
        model_forward(m, rows, (uint32_t)here, m->c.layers, s->latest, &uploaded);
        if (!sampling_logits(s, rows, (uint32_t)here))
            die("the last layer: %s", cls_error_message());
        must_cl(clEnqueueReadBuffer(m->d->queue, s->logits, CL_TRUE, 0,
                                    (size_t)here * vocab * sizeof *got, got, 0, NULL, NULL),
                "clEnqueueReadBuffer");
        clReleaseEvent(uploaded);
        for (size_t i = 0; i < (size_t)here * vocab; i++) {
            const double error = fabs((double)got[i] - (double)expected[from * vocab + i]);
            if (!(error <= worst)) {
                worst = error;
                worst_row = from + i / vocab;
            }
        }
    }
    printf("%llu rows of %u logits: largest difference %.2g, in row %llu\n", (unsigned long long)n,
           vocab, worst, (unsigned long long)worst_row);
    free(expected);
    free(tokens);
    free(got);
    free(rows);
    if (!(worst <= tolerance))
        die("the model's logits differ by more than %g", tolerance);
    return 0;
}
