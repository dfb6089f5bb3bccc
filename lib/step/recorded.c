/* SPDX-License-Identifier: MIT */
/* The line of a call in the text of a sampler's calls (options->record): what the call reads and
 * the tokens that it gives, by the tables of operands. What is on the host is copied before the
 * call, what is on the device is read behind its kernels. */
#include "step/step.h"

#include <inttypes.h>
#include <stddef.h>

/* How an operand stands in a line. */
enum recorded_form {
    FORM_LIST,   /* its int32s; on the device they begin with @ */
    FORM_BITS,   /* 64 bits a row */
    FORM_ROWS,   /* an array: a file, or a part of the hashes */
    FORM_DRAFTS, /* likewise, but it has no hash */
    FORM_TOKENS, /* of the call, and */
    FORM_STATUS, /* the bits of its rows */
    FORM_OFFSETS /* the rows of requests */
};

#define IN_PLAN(field) offsetof(cls_plan, field)
static const struct recorded_word {
    size_t at; /* the operand's, in a plan */
    const char *word;
    enum recorded_form form;
} recorded_words[] = {
    {IN_PLAN(step.slots.device), "slots", FORM_LIST},
    {IN_PLAN(verify.slots.device), "slots", FORM_LIST},
    {IN_PLAN(step.positions.device), "positions", FORM_LIST},
    {IN_PLAN(verify.positions.device), "positions", FORM_LIST},
    {IN_PLAN(step.draws.device), "draws", FORM_LIST},
    {IN_PLAN(verify.draws.device), "draws", FORM_LIST},
    {IN_PLAN(step.logits_map.device), "logits_map", FORM_LIST},
    {IN_PLAN(step.logits.values), "logits", FORM_ROWS},
    {IN_PLAN(step.mask.words), "mask", FORM_ROWS},
    {IN_PLAN(step.mask.row_map.device), "mask_map", FORM_LIST},
    {IN_PLAN(step.bias.values), "bias", FORM_ROWS},
    {IN_PLAN(step.bias.row_map.device), "bias_map", FORM_LIST},
    {IN_PLAN(step.random_bits), "random_bits", FORM_BITS},
    {IN_PLAN(step.tokens), "", FORM_TOKENS},
    {IN_PLAN(step.status), "", FORM_STATUS},
    {IN_PLAN(verify.draft_ids.device), "ids", FORM_LIST},
    {IN_PLAN(verify.draft), "draft", FORM_DRAFTS},
    {IN_PLAN(verify.draft_tokens), "draft_tokens", FORM_DRAFTS},
    {IN_PLAN(verify.draft_map), "draft_map", FORM_DRAFTS}, /* draft_tokens stand as the target's */
    {IN_PLAN(verify.parents.device), "parents", FORM_LIST},
    {IN_PLAN(verify.tokens), "", FORM_TOKENS},
    {IN_PLAN(verify.status), "", FORM_STATUS},
    {IN_PLAN(accept.tokens.device), "tokens", FORM_LIST},
    {IN_PLAN(accept.counts.device), "counts", FORM_LIST},
    {IN_PLAN(accept.rollback.device), "rollback", FORM_LIST},
    {IN_PLAN(draft.draft_ids), "", FORM_TOKENS},
};
enum { RECORDED_WORDS = sizeof recorded_words / sizeof *recorded_words };

/* What a line has of an operand: dense rows, in the ring behind the line. */
typedef struct recorded_part {
    const struct recorded_word *word;
    uint64_t at, rows, width, element, stride;
    const void *host;  /* or the buffer: */
    cls_buffer buffer; /* on the device, or the host's own */
} recorded_part;

typedef struct recorded_line {
    cls_plan plan; /* for its numbers */
    int unread;    /* a buffer could not be read: the text has ended */
    uint32_t parts;
    recorded_part part[RECORDED_WORDS + 1];
} recorded_line;
#define LINE_SIZE ((sizeof(recorded_line) + 15) / 16 * 16)

static const char *recorded_bytes(const recorded_line *l, const recorded_part *p)
{
    return (const char *)l + p->at;
}

static const recorded_part *part_of(const recorded_line *l, enum recorded_form form,
                                    const char *word)
{
    for (uint32_t i = 0; i < l->parts; i++)
        if (l->part[i].word->form == form && strcmp(l->part[i].word->word, word) == 0)
            return &l->part[i];
    return NULL;
}

static int is_verification(const cls_plan *plan) { return plan->count[CLS_N_REQUESTS] != 0; }

/* ------------------------------------------------------------------- reading */

void cls_recorded_results(cls_plan *plan, const cls_sampler *s)
{
    const int verifies = plan->operands == &cls_verify_operands;
    cls_buffer *const to[] = {verifies ? &plan->verify.tokens : &plan->step.tokens,
                              verifies ? &plan->verify.status : &plan->step.status};
    const uint64_t bytes = s->max_rows * sizeof(int32_t),
                   need[] = {verifies ? plan->count[CLS_N_PLACES] : plan->step.rows,
                             verifies ? plan->count[CLS_N_REQUESTS] : plan->step.rows};
    if (!verifies && plan->operands != &cls_step_operands)
        return;
    for (int i = 0; i < 2; i++)
        if (cls_buffer_is_blank(to[i]) && need[i] <= s->max_rows)
            *to[i] = s->host != NULL
                         ? (cls_buffer){.kind = CLS_BUFFER_HOST,
                                        .pointer = s->recorded_on_host,
                                        .offset = (uint64_t)i * bytes,
                                        .size = bytes}
                         : (cls_buffer){.buffer = s->recorded, .offset = (uint64_t)i * bytes};
}

/* Adds an operand to a line. Returns the bytes that it takes. */
static uint64_t add_part(recorded_line *l, const cls_plan *plan, const cls_operand *o,
                         const struct recorded_word *word)
{
    const cls_buffer *const b = cls_operand_buffer(plan, o);
    recorded_part *const p = &l->part[l->parts];
    const void *host = NULL;
    if (o->host != 0)
        memcpy(&host, (const char *)plan + o->host, sizeof host);
    if (o->kind == CLS_INTERNAL || (host == NULL && !cls_buffer_is_set(b)))
        return 0;
    *p = (recorded_part){.word = word,
                         .rows = plan->count[o->rows],
                         .width = plan->count[o->width],
                         .element = plan->count[o->element],
                         .host = host,
                         .buffer = *b};
    p->stride = p->width;
    if (o->stride != 0)
        memcpy(&p->stride, (const char *)plan + o->stride, sizeof p->stride);
    l->parts += p->rows * p->width != 0;
    return p->rows * p->width * p->element;
}

/* Lists what a call has for its line, and returns the bytes of all. */
static uint64_t list_parts(recorded_line *l, const cls_plan *plan, int arrays)
{
    static const struct recorded_word offsets = {0, "", FORM_OFFSETS};
    uint64_t size = LINE_SIZE;
    for (uint32_t i = 0; i < plan->operands->n; i++)
        for (int k = 0; k < RECORDED_WORDS; k++) {
            const cls_operand *const o = &plan->operands->row[i];
            if (o->at != recorded_words[k].at || o->kind == CLS_NUMBER || o->kind == CLS_WORDS ||
                (recorded_words[k].form == FORM_DRAFTS && !arrays))
                continue;
            const uint32_t n = l->parts;
            const uint64_t bytes = add_part(l, plan, o, &recorded_words[k]);
            l->part[n].at = size;
            size += (bytes + 15) / 16 * 16;
        }
    if (!is_verification(plan))
        return size;
    l->part[l->parts++] = (recorded_part){.word = &offsets,
                                          .at = size,
                                          .rows = plan->verify.requests + UINT64_C(1),
                                          .width = 1,
                                          .element = sizeof(int32_t),
                                          .stride = 1,
                                          .host = plan->verify.row_offsets};
    return size + (plan->verify.requests + UINT64_C(1)) * sizeof(int32_t);
}

/* Copies rows of the host. */
static void copy_rows(recorded_line *l, const recorded_part *p, const void *from)
{
    const size_t row = (size_t)(p->width * p->element);
    for (uint64_t r = 0; r < p->rows; r++)
        memcpy((char *)l + p->at + r * row, (const char *)from + r * p->stride * p->element, row);
}

static int is_result(const recorded_part *p)
{
    return p->word->form == FORM_TOKENS || p->word->form == FORM_STATUS;
}

/* Copies what the host has, before or after the call. */
static void copy_parts(recorded_line *l, int results)
{
    for (uint32_t i = 0; i < l->parts; i++) {
        const recorded_part *const p = &l->part[i];
        if (is_result(p) != results)
            continue;
        if (p->host != NULL)
            copy_rows(l, p, p->host);
        else if (p->buffer.kind == CLS_BUFFER_HOST)
            copy_rows(l, p, (const char *)p->buffer.pointer + p->buffer.offset);
    }
}

/* Enqueues the reads of an operand, each behind the one before it. *end: the event of the last. */
static cl_int read_part(recorded_line *l, const recorded_part *p, cl_command_queue queue,
                        cl_event *end)
{
    const int whole = p->stride == p->width;
    const uint64_t n = whole ? 1 : p->rows;
    const size_t size = (size_t)(p->rows / n * p->width * p->element);
    for (uint64_t r = 0; r < n; r++) {
        cl_event event = NULL;
        const cl_int code =
            cls_buffer_read(queue, &p->buffer, r * p->stride * p->element, size,
                            (char *)l + p->at + r * size, l->plan.calls, 1, end, &event);
        if (code != CL_SUCCESS)
            return code;
        clReleaseEvent(*end);
        *end = event;
    }
    return CL_SUCCESS;
}

static void write_line(cls_record *r, const void *data);

struct cls_recorded *cls_recorded_begin(const cls_plan *plan, cls_sampler *s)
{
    recorded_line sizes = {.parts = 0};
    if (!cls_record_is_on(s->record) || plan->operands == &cls_logprobs_operands)
        return NULL;
    const uint64_t size = list_parts(&sizes, plan, cls_record_has_arrays(s->record));
    recorded_line *const l = cls_record_take(s->record, size, write_line);
    if (l == NULL)
        return NULL;
    *l = sizes;
    l->plan = *plan;
    copy_parts(l, 0);
    return (struct cls_recorded *)l;
}

void cls_recorded_on_host(struct cls_recorded *recorded, cls_sampler *s)
{
    recorded_line *const l = (recorded_line *)(void *)recorded;
    if (l == NULL)
        return;
    copy_parts(l, 1);
    cls_record_queue(s->record, NULL);
}

void cls_recorded_read(struct cls_recorded *recorded, cls_sampler *s, cl_command_queue queue,
                       cl_event *end)
{
    recorded_line *const l = (recorded_line *)(void *)recorded;
    cl_int code = CL_SUCCESS;
    if (l == NULL)
        return;
    for (uint32_t i = 0; i < l->parts && code == CL_SUCCESS; i++)
        if (l->part[i].host == NULL)
            code = read_part(l, &l->part[i], queue, end);
    l->unread = code != CL_SUCCESS; /* other reads may be in flight */
    if (code != CL_SUCCESS)
        cls_record_cut(s->record, "a buffer cannot be read", code);
    if (clRetainEvent(*end) == CL_SUCCESS) {
        cls_record_queue(s->record, *end);
        return;
    }
    cls_record_cut(s->record, "an event cannot be retained", CL_INVALID_EVENT);
    cls_record_leak(s->record);
}

/* ------------------------------------------------------------------- writing */

static void add_list(cls_record *r, const recorded_line *l, const recorded_part *p)
{
    const int32_t *const n = (const int32_t *)(const void *)recorded_bytes(l, p);
    cls_record_add(r, " %s=%s", p->word->word, p->host == NULL ? "@" : "");
    for (uint64_t i = 0; i < p->rows * p->width; i++)
        cls_record_add(r, "%s%" PRId32, i > 0 ? "," : "", n[i]);
}

/* Where draft j of request i lies, which is draft k of all. */
static uint64_t place_of(uint64_t stride, uint64_t apart, uint32_t i, uint32_t j, uint32_t k)
{
    return apart != 0 ? i * apart + j * stride : k * stride;
}

static const int32_t *offsets_of(const recorded_line *l)
{
    return (const int32_t *)(const void *)recorded_bytes(l, part_of(l, FORM_OFFSETS, ""));
}

static uint32_t drafts_of(const int32_t *offsets, uint32_t i)
{
    return (uint32_t)(offsets[i + 1] - offsets[i] - 1);
}

/* The ids of drafts, in the order of their requests. */
static void add_draft_ids(cls_record *r, const recorded_line *l, const recorded_part *p)
{
    const cls_verify_call *const v = &l->plan.verify;
    const int32_t *const ids = (const int32_t *)(const void *)recorded_bytes(l, p), *const offsets =
                                                                                        offsets_of(
                                                                                            l);
    cls_record_add(r, " ids=%s", p->host == NULL ? "@" : "");
    for (uint32_t i = 0, k = 0; i < v->requests; i++)
        for (uint32_t j = 0; j < drafts_of(offsets, i); j++, k++)
            cls_record_add(r, "%s%" PRId32, k > 0 ? "," : "",
                           ids[place_of(v->ids_stride, v->ids_request_stride, i, j, k)]);
}

static const char *type_of(uint64_t element, int32_t dtype)
{
    return element == 4 ? "f4" : dtype == CLS_BF16 ? "u2" : "f2";
}

static void add_distributions(cls_record *r, const recorded_line *l, const recorded_part *p)
{
    const cls_verify_call *const v = &l->plan.verify;
    const uint64_t width =
        v->draft_kind == CLS_DRAFT_SPARSE ? v->draft_width : l->plan.count[CLS_N_VOCAB];
    const int32_t *const offsets = offsets_of(l);
    cls_record_file file;
    cls_record_add(r, v->draft_kind == CLS_DRAFT_LOGITS ? " draft=logits-file:" : " draft=file:");
    cls_record_array(r, "draft", type_of(p->element, v->logits.dtype), l->plan.count[CLS_N_DRAFTS],
                     width, &file);
    for (uint32_t i = 0, k = 0; i < v->requests; i++)
        for (uint32_t j = 0; j < drafts_of(offsets, i); j++, k++)
            cls_record_rows(r, &file,
                            recorded_bytes(l, p) +
                                place_of(v->draft_stride, v->draft_request_stride, i, j, k) *
                                    p->element,
                            width);
}

/* The tokens of sparse distributions, as ids of the target. */
static void add_sparse_tokens(cls_record *r, const recorded_line *l, const recorded_part *p)
{
    const cls_verify_call *const v = &l->plan.verify;
    const recorded_part *const map = part_of(l, FORM_DRAFTS, "draft_map");
    const int32_t *const offsets = offsets_of(l);
    const char *before = " draft_tokens=";
    for (uint32_t i = 0, k = 0; i < v->requests; i++)
        for (uint32_t j = 0; j < drafts_of(offsets, i); j++, k++) {
            const int32_t *const tokens =
                (const int32_t *)(const void *)recorded_bytes(l, p) +
                place_of(v->draft_stride, v->draft_request_stride, i, j, k);
            for (uint32_t at = 0; at < v->draft_width; at++, before = ",") {
                uint32_t id = (uint32_t)tokens[at];
                if (map != NULL)
                    id = id < v->draft_vocab
                             ? id + ((const uint32_t *)(const void *)recorded_bytes(l, map))[id]
                             : UINT32_MAX;
                cls_record_add(r, "%s%" PRId32, before, (int32_t)id);
            }
        }
    cls_record_add(r, " draft_width=%" PRIu32, v->draft_width);
}

static void add_array(cls_record *r, const recorded_line *l, const recorded_part *p)
{
    const cls_step *const s = &l->plan.step;
    const int is_mask = strcmp(p->word->word, "mask") == 0;
    const int32_t dtype = strcmp(p->word->word, "bias") == 0 ? s->bias.dtype : s->logits.dtype;
    cls_record_file file;
    cls_record_add(r, " %s=file:", p->word->word);
    cls_record_array(r, p->word->word,
                     !is_mask          ? type_of(p->element, dtype)
                     : p->element == 1 ? "u1"
                                       : "u4",
                     p->rows, p->width, &file);
    cls_record_rows(r, &file, recorded_bytes(l, p), p->rows * p->width);
}

/* FNV-1a of 64 bits, as clsample run makes it of each row's logits, mask and bias. */
static uint64_t hash_row(uint64_t hash, const recorded_line *l, const recorded_part *p,
                         uint64_t row)
{
    const size_t size = (size_t)(p->width * p->element);
    const char *const bytes = recorded_bytes(l, p) + row * size;
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ (unsigned char)bytes[i]) * UINT64_C(1099511628211);
    return hash;
}

static void add_hashes(cls_record *r, const recorded_line *l)
{
    static const char *const names[] = {"logits", "mask", "bias"};
    const uint64_t rows = l->plan.step.rows;
    for (uint64_t row = 0; row < rows; row++) {
        uint64_t hash = UINT64_C(14695981039346656037);
        for (int i = 0; i < 3; i++) {
            const recorded_part *const p = part_of(l, FORM_ROWS, names[i]);
            if (p != NULL && row < p->rows)
                hash = hash_row(hash, l, p, row);
        }
        cls_record_add(r, "%s%016" PRIx64, row > 0 ? "," : " hash=", hash);
    }
}

/* A float is told from an integer by its point. */
static void add_float(cls_record *r, const char *key, float x)
{
    char word[CLS_FLOAT_WORD];
    cls_float_word(x, word);
    cls_record_add(r, " %s=%s%s", key, word, word[strcspn(word, ".en")] == '\0' ? ".0" : "");
}

/* What a call's struct has beside its operands, where it differs from the default. */
static void add_inputs(cls_record *r, const recorded_line *l)
{
    const int arrays = cls_record_has_arrays(r);
    static const char *const dtypes[] = {"f32", "f16", "bf16"};
    const cls_step *const s = &l->plan.step;
    if (s->logits.dtype != CLS_F32)
        cls_record_add(r, " dtype=%s", dtypes[s->logits.dtype]);
    if (s->logits.softcap != 0.0f)
        add_float(r, "softcap", s->logits.softcap);
    if (arrays && part_of(l, FORM_ROWS, "bias") != NULL && s->bias.factor != 1.0f)
        add_float(r, "bias_factor", s->bias.factor);
    if (arrays && s->mask.host != NULL)
        cls_record_add(r, " mask_host=1");
}

static void add_step(cls_record *r, const recorded_line *l)
{
    const cls_step *const s = &l->plan.step;
    cls_record_add(r, "step rows=%" PRIu32, s->rows);
    if (s->logits_rows != s->rows)
        cls_record_add(r, " logits_rows=%" PRIu32, s->logits_rows);
    if (s->defer_accept)
        cls_record_add(r, " defer=1");
    if (s->invalid_token != -1)
        cls_record_add(r, " invalid_token=%" PRId32, s->invalid_token);
}

static void add_verification(cls_record *r, const recorded_line *l)
{
    static const char *const methods[] = {"match", "standard", "block", "typical"};
    const cls_verify_call *const v = &l->plan.verify;
    const int32_t *const offsets = offsets_of(l);
    for (uint32_t i = 0; i < v->requests; i++)
        cls_record_add(r, "%s%" PRIu32, i > 0 ? "," : "verify drafts=", drafts_of(offsets, i));
    cls_record_add(r, " method=%s max_drafts=%" PRIu32, methods[v->method], v->max_drafts);
    if (v->disable_bonus)
        cls_record_add(r, " disable_bonus=1");
    if (v->method == CLS_VERIFY_TYPICAL) {
        add_float(r, "epsilon", v->epsilon);
        add_float(r, "delta", v->delta);
    }
}

static void add_accept(cls_record *r, const recorded_line *l)
{
    cls_record_add(r, "accept rows=%" PRIu32 " per_row=%" PRIu32, l->plan.step.rows,
                   l->plan.accept.per_row);
}

static void add_look_up(cls_record *r, const recorded_line *l)
{
    const cls_draft_call *const d = &l->plan.draft;
    cls_record_add(r, "draft requests=%" PRIu32 " k=%" PRIu32 " min_n=%" PRIu32 " max_n=%" PRIu32,
                   d->requests, d->k, d->min_n, d->max_n);
    if (d->fill != -1)
        cls_record_add(r, " fill=%" PRId32, d->fill);
}

/* ---------------------------------------------------------------- what is expected */

/* Adds the names of a row's status. */
static void add_status(cls_record *r, int32_t status)
{
    static const char *const names[] = {"NAN",     "INF",    "EMPTY", "SKIPPED", "NO_SLOT",
                                        "STOPPED", "LENGTH", "UNFIT", "LOOP",    "FORCED"};
    int first = 1;
    for (int i = 0; i < 10; i++)
        if (status >> i & 1) {
            cls_record_add(r, "%s%s", first ? " " : "|", names[i]);
            first = 0;
        }
}

static void add_results(cls_record *r, const recorded_line *l)
{
    const cls_plan *const plan = &l->plan;
    const recorded_part *const tokens = part_of(l, FORM_TOKENS, ""), *const status = part_of(
                                                                         l, FORM_STATUS, "");
    const int verifies = is_verification(plan), drafts = plan->operands == &cls_draft_operands;
    if (tokens == NULL || (status == NULL && !drafts))
        return;
    const int32_t *const t = (const int32_t *)(const void *)recorded_bytes(l, tokens),
                         *const bits =
                             status != NULL
                                 ? (const int32_t *)(const void *)recorded_bytes(l, status)
                                 : NULL;
    cls_record_add(r, " ->");
    for (uint32_t i = 0; drafts && i < plan->draft.requests; i++)
        for (uint32_t j = 0; j < plan->draft.k; j++)
            cls_record_add(r, " %" PRId32,
                           t[i * plan->draft.ids_request_stride + j * plan->draft.ids_stride]);
    const uint64_t width = verifies ? tokens->width : 1;
    for (uint64_t row = 0; !drafts && row < status->rows; row++) {
        uint64_t n = 0;
        for (; n < width && (!verifies || t[row * width + n] >= 0); n++)
            cls_record_add(r, " %" PRId32, t[row * width + n]);
        cls_record_add(r, "%s", n == 0 ? " none" : "");
        add_status(r, bits[row] & ~CLS_ROW_OVERFLOW);
        cls_record_add(r, "%s", row + 1 < status->rows ? "," : "");
    }
}

/* Writes the line of a call, whose data have arrived. */
static void write_line(cls_record *r, const void *data)
{
    static const struct {
        const cls_operands *of;
        void (*add)(cls_record *, const recorded_line *);
    } calls[] = {{&cls_step_operands, add_step},
                 {&cls_verify_operands, add_verification},
                 {&cls_accept_operands, add_accept},
                 {&cls_draft_operands, add_look_up}};
    const recorded_line *const l = data;
    const int arrays = cls_record_has_arrays(r);
    if (l->unread)
        return;
    for (int i = 0; i < 4; i++)
        if (l->plan.operands == calls[i].of)
            calls[i].add(r, l);
    if (l->plan.operands->reads_logits)
        add_inputs(r, l);
    for (uint32_t i = 0; i < l->parts; i++) {
        const recorded_part *const p = &l->part[i];
        const enum recorded_form form = p->word->form;
        if (form == FORM_LIST && strcmp(p->word->word, "ids") == 0)
            add_draft_ids(r, l, p);
        else if (form == FORM_LIST && (arrays || (strcmp(p->word->word, "mask_map") != 0 &&
                                                  strcmp(p->word->word, "bias_map") != 0)))
            add_list(r, l, p);
        else if (form == FORM_BITS)
            for (uint64_t k = 0; k < p->rows; k++) {
                uint64_t bits;
                memcpy(&bits, recorded_bytes(l, p) + k * sizeof bits, sizeof bits);
                cls_record_add(r, "%s%" PRIu64, k > 0 ? "," : " random_bits=list:", bits);
            }
        else if (form == FORM_ROWS && arrays)
            add_array(r, l, p);
        else if (form == FORM_DRAFTS && arrays && strcmp(p->word->word, "draft") == 0)
            add_distributions(r, l, p);
        else if (form == FORM_DRAFTS && arrays && strcmp(p->word->word, "draft_tokens") == 0)
            add_sparse_tokens(r, l, p);
    }
    if (l->plan.operands->reads_logits && !arrays)
        add_hashes(r, l);
    add_results(r, l);
    cls_record_add(r, "\n");
}
