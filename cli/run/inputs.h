/* SPDX-License-Identifier: MIT */
/* What calls of clsample run read and write, from the words of their statements. */
#ifndef CLS_CLI_RUN_INPUTS_H
#define CLS_CLI_RUN_INPUTS_H

#include "run/side.h"

/* ---------------------------------------------------------- cli/run/fields.c */

/* Ends the command if a word's key is none of `keys`, which a space separates, and no field of the
 * struct, which may be NULL. */
void run_check_keys(const run_statement *s, const char *keys, const char *structure);

/* Sets the numbers of a struct of the library that words name, unless they are among `keys`. */
void run_set_fields(const run_statement *s, const char *keys, const char *structure, void *object);

/* Sets parts of a call that is otherwise complete, most of them so that it is refused. They are
 * fields of its structs (mask.row_stride=3, tokens.offset=1) and buffers: none, buffer:BYTES, or
 * the name of another one (status=tokens). `prefix` begins the keys. */
void run_set_parts(run_side *side, const run_statement *s, const char *keys, const char *prefix,
                   const char *structure, void *object);

/* Begins a call: its defaults, and what words set that are no `keys`. */
void run_begin_call(const run_statement *s, const char *keys, const char *structure, void *call,
                    size_t size);

/* ---------------------------------------------------------- cli/run/params.c */

/* Sets parameters from words. */
void run_params(run_side *side, const run_statement *s, cls_params *params);

/* The grammar that the word `grammar` names, or NULL. */
cls_grammar *run_grammar_of(run_side *side, const run_statement *s);

/* ---------------------------------------------------------- cli/run/maps.c */

/* A map of a call: numbers, one for each row, on the host or, behind @, on the device. */
typedef struct run_map {
    int32_t *value; /* NULL: absent */
    bool on_device;
} run_map;

run_map run_map_read(const run_statement *s, const char *key, uint32_t rows);
void run_map_turn(run_map *m, uint32_t rows); /* into the opposite order */
cls_ints run_map_put(run_side *side, const run_map *m, uint32_t first, uint32_t n);

/* The number of a call's rows: that of its word, or of its slots, or `absent`. */
uint32_t run_rows_of(const run_statement *s, const char *key, uint32_t absent);

/* The slots of rows on this side, where a missing map names the first ones. */
void run_place_slots(const run_side *side, run_map *slots, uint32_t rows);

/* What the latest call wrote under a name, by the host: at least n numbers. They are -1 if there is
 * no such call, as where a random step was refused. */
run_map run_latest(const run_side *side, const char *name, uint32_t n);

/* ---------------------------------------------------------- cli/run/inputs.c */

/* The logits, the mask and the bias of a call; those without data are absent. */
typedef struct run_inputs {
    cli_array of[CLI_INPUTS];
    run_map map[CLI_INPUTS];
    bool mask_on_host;
    float factor, softcap;
} run_inputs;
#define RUN_INPUT_KEYS \
    "logits logits_pick kind lone dtype softcap mask mask_pick mask_kind mask_width mask_rows " \
    "mask_map " \
    "mask_host bias bias_pick bias_dtype bias_rows bias_map bias_factor hash "

run_inputs run_inputs_read(run_side *side, const run_statement *s, uint32_t logits_rows,
                           uint32_t rows);

/* Turns around what belongs to rows: what a map names stays. */
void run_inputs_turn(run_inputs *in, uint32_t rows);

/* Rows of a list of numbers, or rows in which one token is the likeliest: list:1,2/3 or tokens:5,6,
 * or those of the words list=1,2/3 and tokens=5,6 of a statement `logits`. NULL: neither. */
void *run_rows_by_hand(const run_statement *s, const char *key, const char *text, uint32_t rows,
                       uint32_t vocab, int32_t dtype);

/* Memory for rows, which have something between them on the permuted side. */
cls_buffer run_rows_put(run_side *side, const void *data, uint32_t rows, size_t row, size_t element,
                        uint64_t *stride);

/* The logits of a call: rows from `first` on. A shard has a window of each row, unless it is given
 * whole ones. */
enum { RUN_WHOLE = RUN_MOST_SHARDS };
cls_logits run_logits(run_side *side, const run_inputs *in, uint32_t first, uint32_t rows,
                      uint32_t shard);

/* Sets the mask and the bias of a call. */
void run_guides(run_side *side, const run_inputs *in, uint32_t first, uint32_t rows, cls_mask *mask,
                cls_dense_bias *bias);

/* Notes the rows whose inputs are not those that a statement's hashes are of. */
void run_hashes(run_side *side, const run_statement *s, const run_inputs *in, uint32_t rows);

/* Refuses a mask on the host that words have made larger than its memory. */
void run_check_mask(const run_side *side, const run_statement *s, const cls_mask *m,
                    const run_inputs *in);

/* --------------------------------------------------------- cli/run/outputs.c */

/* The outputs that a call writes, of which a row is a part. */
typedef struct run_outputs {
    cls_outputs o;
    bool any, packed;
} run_outputs;

/* Finds a name among those of a list: "NAME" or "NAME:COUNT". */
bool run_is_listed(const run_statement *s, const char *list, const char *name, uint64_t *count);

/* Makes the outputs that a statement or the latest `outputs` asks for. places: rows, or those of a
 * verification. */
run_outputs run_outputs_make(run_side *side, const run_statement *s, uint32_t places,
                             bool verifies);

/* The outputs of one row, and the part of a buffer that is of one. */
cls_outputs run_outputs_of_row(const run_outputs *all, uint32_t vocab, uint32_t row);
cls_buffer run_part_of(cls_buffer b, uint32_t row, size_t size);

/* Sets what words name of a complete call and its outputs. */
void run_set_all_parts(run_side *side, const run_statement *s, const char *keys,
                       const char *structure, void *call, run_outputs *out);

#endif
