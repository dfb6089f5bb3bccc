/* SPDX-License-Identifier: MIT */
/* Prints texts in the order of the requests, progress, the table and JSON. Texts and JSON go to
 * standard output, the rest to standard error. */
#define _POSIX_C_SOURCE 200112L
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "llama.h"

static const char *const endings[] = {"running", "stopped", "full", "failed"};

/* ------------------------------------------------------------------- texts */

/* Prints tokens `from` to `to` - 1 of a request's prompt and output. */
static void put_text(const tokenizer *t, const request *r, uint32_t from, uint32_t to,
                     void (*put)(const char *bytes))
{
    for (uint32_t i = from > 0 ? from : 1; i < to; i++) { /* token 0 is BOS */
        char byte[2];
        if (i < r->n_prompt || (r->tokens[i] != BOS && r->tokens[i] != EOS))
            put(tokenizer_piece(t, r->tokens[i - 1], r->tokens[i], byte));
    }
}

static void put_plain(const char *bytes) { fputs(bytes, stdout); }

static void progress(const options *o, const totals *sum)
{
    static double last;
    if (!isatty(2) || (o->stream && !o->json) ||
        (sum->seconds < last + 0.2 && sum->finished < o->n_requests))
        return;
    last = sum->seconds;
    fprintf(stderr, "\r%" PRIu64 " tokens, %.0f tokens/s, %u of %u texts done \033[K", sum->tokens,
            (double)sum->tokens / sum->seconds, sum->finished, o->n_requests);
    if (sum->finished == o->n_requests)
        fprintf(stderr, "\r\033[K");
}

/* Prints new text; called after each step. It prints one text at a time: the first that is not
 * complete. */
void text_show(const options *o, const tokenizer *t, const totals *sum)
{
    static uint32_t shown, put;
    progress(o, sum);
    while (!o->json && shown < o->n_requests) {
        const request *r = &o->requests[shown];
        if (r->end == RUNNING && (!o->stream || r->n_output == 0))
            break;
        if (put == 0 && o->n_requests > 1)
            printf("[%u] ", shown);
        put_text(t, r, put, r->n_prompt + r->n_output, put_plain);
        put = r->n_prompt + r->n_output;
        if (r->end == RUNNING)
            break;
        printf("%s\n", r->end == FAILED ? " (no token could be drawn)" : "");
        shown++;
        put = 0;
    }
    fflush(stdout);
}

/* ------------------------------------------------------------------- the table */

static double per(double total, uint64_t n) { return n > 0 ? total / (double)n : 0; }

static void count_endings(const options *o, uint32_t ends[4])
{
    memset(ends, 0, 4 * sizeof *ends);
    for (uint32_t i = 0; i < o->n_requests; i++)
        ends[o->requests[i].end]++;
}

void text_table(const options *o, const model *m, const totals *sum)
{
    const config *c = &m->c;
    uint32_t ends[4];
    count_endings(o, ends);
    fprintf(
        stderr,
        "\nmodel       dimension %u, %u layers, %u heads (%u of keys), vocabulary %u, context %u\n",
        c->dim, c->layers, c->heads, c->kv_heads, c->vocab, c->context);
    fprintf(stderr, "device      %s; products by %s\n", m->d->name, model_products());
    fprintf(stderr, "requests    %u, %u at a time: %u stopped, %u full, %u failed\n", o->n_requests,
            o->streams, ends[STOPPED], ends[FULL], ends[FAILED]);
    fprintf(stderr, "tokens      %" PRIu64 " in %.2f s: %.0f tokens/s; %" PRIu64 " prompt tokens\n",
            sum->tokens, sum->seconds, (double)sum->tokens / sum->seconds, sum->prompt_tokens);
    fprintf(stderr, "steps       %" PRIu64 ", %.2f ms and %.1f rows each\n", sum->steps,
            1e3 * per(sum->seconds, sum->steps), per((double)sum->rows, sum->steps));
    if (o->drafts > 0)
        fprintf(stderr, "drafts      %" PRIu64 " of %" PRIu64 " accepted: %.1f %%\n", sum->accepted,
                sum->drafted, 100 * per((double)sum->accepted, sum->drafted));
    if (sum->working <= 0)
        fprintf(stderr, "sampling    not measured: the device has no profiling clock\n");
    else
        fprintf(stderr,
                "sampling    %.2f ms a step, %.1f %% of %.2f ms by the device's clock; %u steps "
                "ahead\n",
                1e3 * per(sum->sampling, sum->steps), 100 * sum->sampling / sum->working,
                1e3 * per(sum->working, sum->steps), o->ahead);
}

/* ------------------------------------------------------------------------ JSON */

/* The length of the UTF-8 character at `s`, or 0 if it is not valid. */
static size_t valid(const unsigned char *s)
{
    const size_t n = s[0] < 0x80                   ? 1
                     : s[0] >= 0xC2 && s[0] < 0xE0 ? 2
                     : s[0] >= 0xE0 && s[0] < 0xF0 ? 3
                     : s[0] >= 0xF0 && s[0] < 0xF5 ? 4
                                                   : 0;
    for (size_t i = 1; i < n; i++)
        if ((s[i] & 0xC0) != 0x80)
            return 0;
    if ((s[0] == 0xE0 && s[1] < 0xA0) || (s[0] == 0xED && s[1] > 0x9F) ||
        (s[0] == 0xF0 && s[1] < 0x90) || (s[0] == 0xF4 && s[1] > 0x8F))
        return 0;
    return n;
}

/* A character may consist of several tokens, so bytes wait here until it is complete. */
static char pending[65544];
static size_t n_pending;

static void flush_json(bool all)
{
    size_t at = 0;
    while (at < n_pending && (all || n_pending - at >= 4)) {
        const unsigned char *s = (const unsigned char *)pending + at;
        const size_t n = valid(s);
        if (n == 0)
            printf("\\ufffd");
        else if (n > 1 || (*s >= ' ' && *s != '"' && *s != '\\' && *s != 127))
            printf("%.*s", (int)n, (const char *)s);
        else
            printf("\\u%04x", *s);
        at += n > 0 ? n : 1;
    }
    memmove(pending, pending + at, n_pending - at);
    n_pending -= at;
    pending[n_pending] = '\0';
}

static void put_json(const char *bytes)
{
    for (; *bytes != '\0'; bytes++) {
        if (n_pending + 1 == sizeof pending)
            flush_json(false);
        pending[n_pending++] = *bytes;
        pending[n_pending] = '\0';
    }
}

void text_json(const options *o, const model *m, const tokenizer *t, const totals *sum)
{
    printf("{\"requests\": [");
    for (uint32_t i = 0; i < o->n_requests; i++) {
        const request *r = &o->requests[i];
        printf("%s\n {\"prompt\": \"", i > 0 ? "," : "");
        put_json(r->prompt);
        flush_json(true);
        printf("\", \"text\": \"");
        put_text(t, r, r->n_prompt, r->n_prompt + r->n_output, put_json);
        flush_json(true);
        printf("\", \"end\": \"%s\", \"status\": %d, \"prompt_tokens\": %u, \"tokens\": [",
               endings[r->end], r->status, r->n_prompt);
        for (uint32_t n = 0; n < r->n_output; n++)
            printf("%s%d", n > 0 ? ", " : "", r->tokens[r->n_prompt + n]);
        printf("]}");
    }
    printf("],\n \"device\": \"");
    put_json(m->d->name);
    flush_json(true);
    printf("\", \"products\": \"%s\",\n", model_products());
    printf(" \"streams\": %u, \"batch\": %u, \"ahead\": %u, \"drafted\": %" PRIu64
           ", \"accepted\": %" PRIu64 ",\n",
           o->streams, o->batch, o->ahead, sum->drafted, sum->accepted);
    printf(" \"steps\": %" PRIu64 ", \"tokens\": %" PRIu64 ", \"prompt_tokens\": %" PRIu64
           ", \"seconds\": %.6f,\n",
           sum->steps, sum->tokens, sum->prompt_tokens, sum->seconds);
    printf(" \"tokens_per_second\": %.3f, \"ms_per_step\": %.4f, \"sampling_ms_per_step\": %.4f, ",
           (double)sum->tokens / sum->seconds, 1e3 * per(sum->seconds, sum->steps),
           1e3 * per(sum->sampling, sum->steps));
    if (sum->working > 0)
        printf("\"sampling_share\": %.5f}\n", sum->sampling / sum->working);
    else
        printf("\"sampling_share\": null}\n");
}
