/* SPDX-License-Identifier: MIT */
/* The calls on a sampler as a text that `clsample run` replays: options->record of a sampler. The
 * lines of slot calls are known at once. Those of steps have what the device reads and writes, so
 * they wait in a queue, and the lines of later calls behind them. Nothing here waits but
 * cls_record_destroy(), and what fails ends the text, not the call. */
#ifndef CLS_RECORD_RECORD_H
#define CLS_RECORD_RECORD_H

#include "request/request.h"

typedef struct cls_record cls_record;

/* Begins a text, with the line of the sampler. `step`: the bytes of a step of all rows, which
 * decide what options->record_size of 0 stands for. Fails if memory runs out. */
cls_status cls_record_create(const cls_sampler_options *options, uint64_t step, cls_record **out);

/* Waits for the reads in flight, writes the last lines, and frees all. */
void cls_record_destroy(cls_record *record);

/* The bytes of the ring; 0 without a record. */
uint64_t cls_record_size(const cls_record *record);

/* Whether a text is being written. Where it has ended, what is due is written first. */
int cls_record_is_on(cls_record *record);

/* ------------------------------------------------------------- lines */

/* The lines of slot calls: of parameters and a text, which may be NULL; of ids; of a number, whose
 * key may be NULL: there is none; of a saved slot; and that of the infill stage's tables. */
void cls_record_request(cls_record *record, const char *verb, uint32_t slot,
                        const cls_params *params, const cls_text *text);
void cls_record_line(cls_record *record, const char *verb, uint32_t slot, const char *key,
                     const int32_t *ids, uint32_t n);
void cls_record_number(cls_record *record, const char *verb, uint32_t slot, const char *key,
                       uint32_t number);
void cls_record_load(cls_record *record, uint32_t slot, const void *bytes, size_t size,
                     const cls_grammar *grammar);
void cls_record_infill(cls_record *record, const cls_infill *infill, uint32_t vocab);

/* ------------------------------------------------------------- steps */

/* Memory of the ring for the call that is being made, or NULL: the text ends if there is too
 * little. `write` writes the line, once what the call reads has arrived. The memory counts as free
 * until cls_record_queue(), which takes over a reference to the event of the last read; NULL:
 * nothing is in flight. */
void *cls_record_take(cls_record *record, uint64_t size, void (*write)(cls_record *, const void *));
void cls_record_queue(cls_record *record, cl_event done);

/* A read into the ring is in flight that nobody can wait for. */
void cls_record_leak(cls_record *record);

/* Ends the text, with OpenCL's code or CL_SUCCESS. */
void cls_record_cut(cls_record *record, const char *why, cl_int code);

/* Of cls_record_take(): add to a line, and write a file beside the text, whose name is added. */
#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
void
cls_record_add(cls_record *record, const char *format, ...);

/* An array file. cls_record_array() adds its name to the line and writes its header; the rows
 * follow. type: of NumPy, such as f4; rows 0: the array has one dimension. */
typedef struct cls_record_file {
    char name[256];
    uint64_t written;
    uint32_t element; /* bytes */
} cls_record_file;
int cls_record_has_arrays(const cls_record *record);
void cls_record_array(cls_record *record, const char *what, const char *type, uint64_t rows,
                      uint64_t width, cls_record_file *file);
void cls_record_rows(cls_record *record, cls_record_file *file, const void *elements, uint64_t n);

#endif
