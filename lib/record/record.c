/* SPDX-License-Identifier: MIT */
/* The queue of lines, the ring of what steps in flight read, and what hands both to the caller. */
#include "record/record.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    RECORD_CHUNK = 4096,
    RECORD_ALIGNMENT = 16,
    RECORD_HEADER = 128 /* of an .npy file */,
    RECORD_NAME = 200
};

/* A line that waits for those before it. That of a step lies in the ring, and its data behind it;
 * the others are allocated, and have their text. */
typedef struct record_entry {
    struct record_entry *next;
    cl_event done;
    void (*write)(cls_record *, const void *); /* NULL: the line is the text */
    size_t end;                                /* in the ring; or the length of the text */
} record_entry;
#define RECORD_ENTRY \
    ((sizeof(record_entry) + RECORD_ALIGNMENT - 1) / RECORD_ALIGNMENT * RECORD_ALIGNMENT)

struct cls_record {
    int (*callback)(void *user, const char *file, uint64_t offset, const void *bytes, size_t size);
    void *user;
    char *name;
    int arrays;
    uint64_t text_size; /* that was handed over */
    uint64_t files;
    record_entry *first, *last;

    unsigned char *ring;
    size_t size, begin, end; /* entries of steps lie from begin to end, which may be below it */
    uint32_t steps;          /* in the ring */
    record_entry *taken;

    /* Where the line goes that is being written: to `chunk`, or, behind others, to `behind`. */
    char chunk[RECORD_CHUNK];
    size_t used;
    int is_behind;
    record_entry *behind;
    size_t room;

    uint8_t (*grammars)[CLS_DIGEST_SIZE]; /* the digests of those that the text has */
    uint32_t n_grammars;
    const char *cut; /* why the text ends early */
    cl_int cut_code;
    int is_cut;  /* the text says so */
    int has_gap; /* a step has failed: later lines are left out */
    int leaks;   /* a read is in flight that nobody can wait for: the ring is never freed */
    int failed;  /* the callback */
};

uint64_t cls_record_size(const cls_record *r) { return r != NULL ? r->size : 0; }

int cls_record_has_arrays(const cls_record *r) { return r->arrays; }

void cls_record_cut(cls_record *r, const char *why, cl_int code)
{
    if (r->cut != NULL)
        return;
    r->cut = why;
    r->cut_code = code;
}

/* ---------------------------------------------------------------- text */

static void hand_over(cls_record *r, const char *file, uint64_t offset, const void *bytes,
                      size_t size)
{
    if (!r->failed && size != 0)
        r->failed = r->callback(r->user, file, offset, bytes, size) != 0;
}

static void flush(cls_record *r)
{
    hand_over(r, NULL, r->text_size, r->chunk, r->used);
    r->text_size += r->used;
    r->used = 0;
}

/* Makes room for n more bytes of a line behind others. */
static int grow(cls_record *r, size_t n)
{
    const size_t length = r->behind != NULL ? r->behind->end : 0;
    if (r->behind != NULL && n <= r->room - length)
        return 1;
    const size_t room = 2 * (length + n);
    record_entry *const e = realloc(r->behind, sizeof *e + room);
    if (e == NULL) {
        cls_record_cut(r, "out of host memory", CL_SUCCESS);
        return 0;
    }
    if (r->behind == NULL)
        memset(e, 0, sizeof *e);
    r->behind = e;
    r->room = room;
    return 1;
}

static void put_in_line(cls_record *r, const char *bytes, size_t n)
{
    if (r->is_behind) {
        if (!grow(r, n))
            return;
        memcpy((char *)(r->behind + 1) + r->behind->end, bytes, n);
        r->behind->end += n;
        return;
    }
    while (n > 0) {
        const size_t part = n < RECORD_CHUNK - r->used ? n : RECORD_CHUNK - r->used;
        memcpy(r->chunk + r->used, bytes, part);
        r->used += part;
        bytes += part;
        n -= part;
        if (r->used == RECORD_CHUNK)
            flush(r);
    }
}

static void put_part(void *r, const char *bytes, size_t n) { put_in_line(r, bytes, n); }

void cls_record_add(cls_record *r, const char *format, ...)
{
    char part[512]; /* names of files are the longest parts */
    va_list more;
    va_start(more, format);
    const int n = vsnprintf(part, sizeof part, format, more);
    va_end(more);
    put_in_line(r, part, (size_t)n < sizeof part ? (size_t)n : sizeof part - 1);
}

static void append(cls_record *r, record_entry *e)
{
    if (r->last != NULL)
        r->last->next = e;
    else
        r->first = e;
    r->last = e;
}

/* Frees the first entry. */
static void drop_first(cls_record *r)
{
    record_entry *const e = r->first;
    r->first = e->next;
    if (r->first == NULL)
        r->last = NULL;
    if (e->write == NULL) {
        free(e);
        return;
    }
    r->begin = e->end;
    if (--r->steps == 0)
        r->begin = r->end = 0;
}

/* Writes the lines whose reads have ended. */
static void poll(cls_record *r)
{
    const int was_behind = r->is_behind;
    r->is_behind = 0;
    while (r->first != NULL) {
        record_entry *const e = r->first;
        cl_int state = CL_COMPLETE;
        if (e->done != NULL && clGetEventInfo(e->done, CL_EVENT_COMMAND_EXECUTION_STATUS,
                                              sizeof state, &state, NULL) != CL_SUCCESS)
            state = CL_INVALID_EVENT;
        if (state > CL_COMPLETE)
            break;
        if (state < CL_COMPLETE) {
            cls_record_cut(r, "a step has failed", state);
            r->has_gap = 1;
        }
        if (e->done != NULL)
            clReleaseEvent(e->done);
        if (r->has_gap)
            ;
        else if (e->write == NULL)
            put_in_line(r, (const char *)(e + 1), e->end);
        else
            e->write(r, (const char *)e + RECORD_ENTRY);
        drop_first(r);
    }
    if (r->first == NULL && r->cut != NULL && !r->is_cut) {
        r->is_cut = 1;
        cls_record_add(r, "# The text ends here: %s%s%s.\n", r->cut,
                       r->cut_code != CL_SUCCESS ? ": " : "",
                       r->cut_code != CL_SUCCESS ? cls_opencl_name(r->cut_code) : "");
    }
    r->is_behind = was_behind;
    flush(r);
}

/* After a cut the lines before it and the comment are still due. */
int cls_record_is_on(cls_record *r)
{
    if (r != NULL && r->cut != NULL && !r->is_cut)
        poll(r);
    return r != NULL && r->cut == NULL && !r->failed;
}

/* ---------------------------------------------------------------- slot calls */

static void begin_line(cls_record *r)
{
    poll(r);
    r->is_behind = r->first != NULL;
}

static void end_line(cls_record *r)
{
    put_in_line(r, "\n", 1);
    if (r->behind != NULL && r->cut == NULL)
        append(r, r->behind);
    else
        free(r->behind); /* there was no memory for all of it */
    r->behind = NULL;
    r->is_behind = 0;
    flush(r);
}

static void add_id_list(cls_record *r, const char *key, const int32_t *ids, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        cls_record_add(r, "%s%s%s%" PRId32, i == 0 ? " " : "", i == 0 ? key : "",
                       i == 0 ? "=" : ",", ids[i]);
}

void cls_record_line(cls_record *r, const char *verb, uint32_t slot, const char *key,
                     const int32_t *ids, uint32_t n)
{
    begin_line(r);
    cls_record_add(r, "%s %" PRIu32, verb, slot);
    add_id_list(r, key, ids, n);
    end_line(r);
}

void cls_record_number(cls_record *r, const char *verb, uint32_t slot, const char *key,
                       uint32_t number)
{
    begin_line(r);
    cls_record_add(r, "%s %" PRIu32, verb, slot);
    if (key != NULL)
        cls_record_add(r, " %s=%" PRIu32, key, number);
    end_line(r);
}

/* ---------------------------------------------------------------- files */

static void name_file(cls_record *r, const char *what, const char *suffix, char name[256])
{
    snprintf(name, 256, "%s-%" PRIu64 "-%s.%s", r->name, r->files++, what, suffix);
}

void cls_record_array(cls_record *r, const char *what, const char *type, uint64_t rows,
                      uint64_t width, cls_record_file *file)
{
    static const char begin[] = {'\x93', 'N', 'U', 'M', 'P', 'Y', 1, 0, RECORD_HEADER - 10, 0};
    char header[RECORD_HEADER], text[RECORD_HEADER], shape[64];
    file->element = (uint32_t)(type[1] - '0');
    name_file(r, what, "npy", file->name);
    cls_record_add(r, "%s", file->name);
    snprintf(shape, sizeof shape, rows != 0 ? "%" PRIu64 ", %" PRIu64 : "%" PRIu64 ",",
             rows != 0 ? rows : width, width);
    const int n =
        snprintf(text, sizeof text, "{'descr': '%s%s', 'fortran_order': False, 'shape': (%s), }",
                 file->element == 1 ? "|" : "<", type, shape);
    memset(header, ' ', sizeof header);
    memcpy(header, begin, sizeof begin);
    memcpy(header + sizeof begin, text, (size_t)n);
    header[RECORD_HEADER - 1] = '\n';
    hand_over(r, file->name, 0, header, sizeof header);
    file->written = sizeof header;
}

/* Numbers of .npy files are little-endian here. */
static int is_little_endian(void)
{
    const uint16_t one = 1;
    unsigned char first;
    memcpy(&first, &one, 1);
    return first == 1;
}

void cls_record_rows(cls_record *r, cls_record_file *file, const void *elements, uint64_t n)
{
    const unsigned char *const bytes = elements;
    const size_t size = (size_t)n * file->element;
    unsigned char turned[512];
    if (is_little_endian() || file->element == 1) {
        hand_over(r, file->name, file->written, bytes, size);
        file->written += size;
        return;
    }
    for (size_t i = 0, used = 0; i < size; i++) {
        turned[used++] = bytes[i - i % file->element + file->element - 1 - i % file->element];
        if (used < sizeof turned && i + 1 < size)
            continue;
        hand_over(r, file->name, file->written, turned, used);
        file->written += used;
        used = 0;
    }
}

/* Writes a file of bytes, and adds " file=NAME" to the line. */
static void write_file(cls_record *r, const char *what, const char *suffix, const void *bytes,
                       size_t size)
{
    char name[256];
    name_file(r, what, suffix, name);
    hand_over(r, name, 0, bytes, size);
    cls_record_add(r, " file=%s", name);
}

/* ---------------------------------------------------------------- grammars */

/* Writes the line of a grammar before the first one that uses it. Returns its number in the text,
 * or 0: it ends here. */
static uint32_t grammar_number(cls_record *r, const cls_grammar *grammar)
{
    size_t size = 0;
    cls_saved_error before;
    for (uint32_t i = 0; i < r->n_grammars; i++)
        if (memcmp(r->grammars[i], grammar->digest, CLS_DIGEST_SIZE) == 0)
            return i + 1;
    cls_error_save(&before);
    void *const more = realloc(r->grammars, (r->n_grammars + (size_t)1) * CLS_DIGEST_SIZE);
    if (more != NULL)
        r->grammars = more;
    void *const bytes = more != NULL && cls_grammar_save(grammar, NULL, NULL, &size) == CLS_OK
                            ? malloc(size)
                            : NULL;
    const int saved = bytes != NULL && cls_grammar_save(grammar, NULL, bytes, &size) == CLS_OK;
    cls_error_restore(&before);
    if (saved) {
        memcpy(r->grammars[r->n_grammars++], grammar->digest, CLS_DIGEST_SIZE);
        begin_line(r);
        cls_record_add(r, "grammar g%" PRIu32, r->n_grammars);
        write_file(r, "grammar", "clsg", bytes, size);
        end_line(r);
    } else {
        cls_record_cut(r, "out of host memory", CL_SUCCESS);
    }
    free(bytes);
    return saved ? r->n_grammars : 0;
}

static void name_grammar(cls_record *r, uint32_t number)
{
    if (number != 0)
        cls_record_add(r, " grammar=g%" PRIu32, number);
}

void cls_record_request(cls_record *r, const char *verb, uint32_t slot, const cls_params *params,
                        const cls_text *text)
{
    const uint32_t number = params->grammar != NULL ? grammar_number(r, params->grammar) : 0;
    if (r->cut != NULL)
        return;
    begin_line(r);
    cls_record_add(r, "%s %" PRIu32, verb, slot);
    cls_params_words(params, put_part, r);
    name_grammar(r, number);
    if (text != NULL) {
        add_id_list(r, "prompt", text->prompt.ids, text->prompt.count);
        add_id_list(r, "output", text->output.ids, text->output.count);
    }
    end_line(r);
}

void cls_record_load(cls_record *r, uint32_t slot, const void *bytes, size_t size,
                     const cls_grammar *grammar)
{
    const uint32_t number = grammar != NULL ? grammar_number(r, grammar) : 0;
    if (r->cut != NULL)
        return;
    begin_line(r);
    cls_record_add(r, "load %" PRIu32, slot);
    write_file(r, "slot", "bin", bytes, size);
    name_grammar(r, number);
    end_line(r);
}

void cls_record_infill(cls_record *r, const cls_infill *infill, uint32_t vocab)
{
    cls_record_file file;
    begin_line(r);
    cls_record_add(r, "infill");
    add_id_list(r, "end", infill->end_ids.ids, infill->end_ids.count);
    cls_record_add(r, " prefix=");
    cls_record_array(r, "prefix", "i4", 0, vocab, &file);
    cls_record_rows(r, &file, infill->prefix_of, vocab);
    end_line(r);
}

/* ---------------------------------------------------------------- steps */

/* The first byte of the ring's free part for so many, or its size if there is none. */
static size_t find_room(const cls_record *r, size_t n)
{
    if (r->steps == 0 || r->end > r->begin) /* free: behind the end, and before the beginning */
        return n <= r->size - r->end ? r->end : n <= r->begin ? 0 : r->size;
    return n <= r->begin - r->end ? r->end : r->size;
}

void *cls_record_take(cls_record *r, uint64_t size, void (*write)(cls_record *, const void *))
{
    poll(r);
    const uint64_t n = (RECORD_ENTRY + size + RECORD_ALIGNMENT - 1) / RECORD_ALIGNMENT *
                       RECORD_ALIGNMENT; /* far below 2^64 */
    const size_t at = n <= r->size ? find_room(r, (size_t)n) : r->size;
    if (at == r->size) {
        cls_record_cut(r, "the memory of options->record_size is full", CL_SUCCESS);
        return NULL;
    }
    r->taken = (record_entry *)(void *)(r->ring + at);
    memset(r->taken, 0, RECORD_ENTRY);
    r->taken->write = write;
    r->taken->end = at + (size_t)n;
    return r->ring + at + RECORD_ENTRY;
}

void cls_record_leak(cls_record *r) { r->leaks = 1; }

void cls_record_queue(cls_record *r, cl_event done)
{
    r->taken->done = done;
    r->end = r->taken->end;
    r->steps++;
    append(r, r->taken);
    poll(r);
}

/* ---------------------------------------------------------------- lifetime */

static uint64_t record_ring(const cls_sampler_options *o, uint64_t step)
{
    const uint64_t least = UINT64_C(64) << 20;
    return o->record_size != 0 ? o->record_size : 3 * step > least ? 3 * step : least;
}

cls_status cls_record_create(const cls_sampler_options *o, uint64_t step, cls_record **out)
{
    static const char *const counts[] = {"none", "presence", "all"};
    const uint64_t size = record_ring(o, step);
    const char *const name =
        o->record_name != NULL && *o->record_name != '\0' ? o->record_name : "record";
    const size_t length = strlen(name) < RECORD_NAME ? strlen(name) : RECORD_NAME;
    cls_record *const r = *out = calloc(1, sizeof *r);
    if (r != NULL) {
        r->callback = o->record;
        r->user = o->record_user;
        r->arrays = o->record_arrays;
        r->name = calloc(length + 1, 1);
        r->ring = size <= PTRDIFF_MAX ? malloc((size_t)size) : NULL; /* C has no larger object */
        r->size = (size_t)size;
    }
    if (r == NULL || r->name == NULL || r->ring == NULL) {
        cls_record_destroy(r);
        *out = NULL;
        return cls_no_memory("options->record, of %llu bytes", (unsigned long long)size);
    }
    for (size_t i = 0; i < length; i++) /* no path, and one word of a text */
        r->name[i] =
            (unsigned char)name[i] <= ' ' || strchr("#\"/\\", name[i]) != NULL ? '_' : name[i];
    cls_record_add(r, "version %s arithmetic=%" PRIu32 "\n", cls_version(),
                   cls_arithmetic_version());
    cls_record_add(r,
                   "sampler vocab=%" PRIu32 " slots=%" PRIu32 " rows=%" PRIu32
                   " counts=%s max_history=%" PRIu32 " max_rollback=%" PRIu32 "\n",
                   o->vocab, o->slot_count != 0 ? o->slot_count : o->max_rows, o->max_rows,
                   counts[o->counts], o->max_history, o->max_rollback);
    flush(r);
    return CLS_OK;
}

void cls_record_destroy(cls_record *r)
{
    int ended = 1;
    if (r == NULL)
        return;
    for (const record_entry *e = r->first; e != NULL; e = e->next) {
        cl_event done = e->done;
        if (done != NULL && clRetainEvent(done) == CL_SUCCESS)
            ended &= cls_upload_wait(&done);
    }
    if (r->ring != NULL && ended) {
        poll(r);
        if (cls_record_is_on(r))
            put_in_line(r, "end\n", 4);
        flush(r);
    }
    while (r->first != NULL && ended)
        drop_first(r);
    free(r->grammars);
    free(r->name);
    if (ended && !r->leaks) /* else a read may still come */
        free(r->ring);
    free(r);
}
