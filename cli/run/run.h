/* SPDX-License-Identifier: MIT */
/* clsample run: a text of calls, which runs on several sides: the host, devices, and devices in
 * other ways. All that the calls write is compared. The page of clsample-run describes the text.
 *
 *     text.c     reads the text: statements, and their words
 *     data.c     makes what the words stand for: logits, masks, drafts, grammars
 *     side.c     a side: its sampler, its memory, and what it wrote
 *     inputs.c   what calls read and write
 *     calls.c    statements that enqueue, but for
 *     drafts.c   verifications
 *     slots.c    statements on slots, and the others
 *     random.c   makes texts of random calls
 *     why.c      says why a token of a log is not the one that is drawn
 *     compare.c  compares sides, and shrinks a text that fails
 *
 * The command, cli/run.c, chooses sides, and checks what texts expect.
 */
#ifndef CLS_CLI_RUN_H
#define CLS_CLI_RUN_H

#include <setjmp.h>

#include "common/inputs.h"
#include "common/params.h"

/* ----------------------------------------------------------- cli/run/text.c */

struct run_side;

/* A word of a statement: KEY=VALUE, or a value alone, whose key is "". */
typedef struct run_word {
    const char *key, *value;
} run_word;

typedef struct run_statement {
    const char *path;  /* for messages */
    const char *label; /* messages begin with it in place of path and line; or NULL */
    uint32_t line;
    const char *text; /* the whole line */
    const char *verb;
    run_word *word;
    uint32_t words;
    const char *expect; /* what follows ->, or NULL */
    bool is_random;     /* a random statement made it: it may be refused */
} run_statement;

/* What a command has read already, in place of a file that a statement names. */
typedef struct run_given {
    const char *key; /* logits, mask, bias: a cli_array; prefix: [vocab]; grammar: a cls_grammar */
    const void *object;
} run_given;

typedef struct run_script {
    const char *path;
    const run_given *given; /* the last one's key is NULL; or NULL */
    run_statement *statement;
    uint32_t count;
} run_script;

/* Reads a file, or makes a script of a text. */
run_script run_read(const char *path);
run_script run_parse(const char *path, const char *text);

/* Ends the command with a sentence on a statement: "FILE: line 3: ...", or jumps to run_escape,
 * which is set while statements are left out to see whether a shorter text fails, too. */
extern jmp_buf *run_escape;
_Noreturn void run_die(const run_statement *s, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 2, 3)))
#endif
    ;

/* The value of a word, or NULL. run_value() ends the command if there is none. */
const char *run_find(const run_statement *s, const char *key);
const char *run_value(const run_statement *s, const char *key);

/* A number, and one of at most 32 bits; `absent` if there is no such word. */
uint64_t run_number(const run_statement *s, const char *key, uint64_t absent);
uint32_t run_count(const run_statement *s, const char *key, uint32_t absent);

/* Numbers that are separated by commas; a part may be FIRST-LAST or COUNT*NUMBER. *count becomes
 * their number. NULL: there is no such word. `text` is the value, `key` its name for messages. */
int32_t *run_numbers(const run_statement *s, const char *key, const char *text, uint32_t *count);
int32_t *run_list(const run_statement *s, const char *key, uint32_t *count);

/* The slots of the first word without a key. */
int32_t *run_slots(const run_statement *s, uint32_t *count);

/* Reads "NAME:A:B": returns 1 if the text is NAME, and the numbers after it, which are 0 where they
 * are missing. */
int run_is(const run_statement *s, const char *text, const char *name, uint64_t number[3]);

/* Finds a name in a list, whose parts end with `end`, or with : and a number. Returns what follows
 * it, or NULL. list NULL: it is empty. */
const char *run_listed(const char *list, char end, const char *name);

/* Ends the command if the list that is a word's value has a part that is none of `words`, which |
 * separates. */
void run_check_words(const run_statement *s, const char *key, const char *words);

/* Ends the command if a word's key is none of `keys`, which a space separates, and no field of the
 * struct, which may be NULL. */
void run_check_keys(const run_statement *s, const char *keys, const char *structure);

/* Sets the numbers of a struct of the library that words name, unless they are among `keys`. */
void run_set_fields(const run_statement *s, const char *keys, const char *structure, void *object);

/* Sets parts of a call that is otherwise complete, most of them so that it is refused. They are
 * fields of its structs (mask.row_stride=3, tokens.offset=1) and buffers: none, buffer:BYTES, or
 * the name of another one (status=tokens). `prefix` begins the keys. */
void run_set_parts(struct run_side *side, const run_statement *s, const char *keys,
                   const char *prefix, const char *structure, void *object);

/* What a script was given, or NULL. */
const void *run_given_find(const struct run_side *side, const char *key);

/* ----------------------------------------------------------- cli/run/data.c */

extern const char *const run_input_names[CLI_INPUTS]; /* logits, mask, bias */

/* The array of a statement's word WHAT=file:NAME, with the rows of WHAT_pick. */
const cli_array *run_array(const struct run_side *side, const run_statement *s, cli_input what,
                           const char *name, int32_t dtype);

/* The path of a file that a script names: a regular one in the script's folder or, if there is
 * none, in the current one. */
const char *run_path(const run_statement *s, const char *name);

/* Adds data to a hash, which begins with RUN_HASH: FNV-1a of 64 bits. */
#define RUN_HASH UINT64_C(14695981039346656037)
uint64_t run_hash(uint64_t hash, const void *data, size_t size);

/* Zeroed memory for rows; more than RUN_MOST_ELEMENTS end the command. */
void *run_room(uint64_t rows, uint64_t width, size_t element);

/* Rows of random logits, each of a random kind or of `kind`. */
void *run_random_logits(uint64_t seed, int kind, uint32_t rows, uint32_t vocab, int32_t dtype);
int run_kind(const run_statement *s, const char *name); /* of rows: by its name */

/* Rows of a list of numbers, "1,2.5,4*-inf/0,nan": the rows are repeated, and filled up with
 * `rest`. *width 0: it becomes the longest row's. */
double *run_rows(const run_statement *s, const char *key, const char *text, uint32_t rows,
                 uint32_t *width, double rest);

/* Masks that allow some percent of the tokens or, with 0, in each row those of a random pattern;
 * values of biases; probabilities of drafts. */
void *run_random_mask(uint64_t seed, uint32_t percent, int32_t kind, uint32_t rows, uint32_t width);
/* Row r allows token first + r alone, modulo the vocabulary. */
void *run_lone_mask(uint64_t first, bool bytes, uint32_t rows, uint32_t width, uint32_t vocab);
void *run_random_bias(uint64_t seed, uint32_t rows, uint32_t vocab, int32_t dtype);
float *run_random_probs(uint64_t seed, uint32_t rows, uint32_t vocab);

/* One of the likeliest tokens of a row of logits, or now and then another one or none. */
int32_t run_likely(rng *r, const void *logits, int32_t dtype, uint32_t vocab);

/* A text of few words, most of which repeats itself from some place on, nearly. */
void run_random_text(uint64_t seed, uint32_t count, uint32_t words, int32_t *ids);

/* A grammar by its transitions: of=ID:STATE,.../... of each state, final=STATES end=IDS. */
cls_grammar *run_listed_grammar(const run_statement *s, uint32_t vocab);

/* A grammar of random transitions, which ends with id 0. */
cls_grammar *run_random_grammar(const run_statement *s, uint64_t seed, uint32_t states,
                                uint32_t vocab);

/* ----------------------------------------------------------- cli/run/side.c */

/* How a side differs from the host. */
typedef enum run_way {
    RUN_PLAIN,
    RUN_OUT_OF_ORDER, /* two queues in turn, of which one is out of order */
    RUN_EACH,         /* each slot call takes effect at once */
    RUN_MOVED,        /* slots are saved and loaded between the calls */
    RUN_AHEAD,        /* results are read many steps later, from two queues in turn */
    RUN_SVM,          /* buffers are pointers */
    RUN_ALONE,        /* each row of a step is a step */
    RUN_PERMUTED,     /* rows in another order, requests in other slots, offsets and strides */
    RUN_SHARDS,       /* the vocabulary is divided */
    RUN_WAYS
} run_way;

/* What a statement wrote. */
typedef struct run_record {
    uint32_t statement;
    const char *name;
    bool near;          /* floats whose last bits may differ */
    size_t size, width; /* bytes; elements of a row */
    unsigned char *bytes;
} run_record;

/* A result that is still on the device. */
typedef struct run_pending {
    uint32_t record;
    uint32_t reverse; /* rows that are in the opposite order; 0: none */
    cls_buffer buffer;
} run_pending;

/* Memory of the host for the call that is being made. */
typedef struct run_passed {
    void *memory;
    size_t size;
} run_passed;

typedef struct run_named {
    const char *name;
    void *object;               /* a cls_grammar, or bytes */
    size_t size;                /* 0: a grammar */
    bool given;                 /* the grammar is not the side's */
    const run_statement *rules; /* of a saved slot: its parameters */
} run_named;

enum { RUN_MOST_SHARDS = 5 };

typedef struct run_side {
    const char *name;
    run_way way;
    uint32_t most_shards;
    uint32_t shards; /* of the sampler: most_shards, or as many as it has tokens */
    bool on_host;
    bool shares;       /* the context of another side */
    bool dies;         /* a call that is refused ends the command */
    bool compiles_all; /* for samplers whose text names no features; else what calls need */
    cls_context_options options;
    cli_target target;         /* of the host only the context */
    cl_command_queue queue[2]; /* they take turns unless [1] is NULL */
    const char *lacks;         /* what the device does not have for this side; or NULL */

    /* While a script runs. */
    const run_given *given;
    const run_statement *now;
    uint32_t index;
    cls_sampler *sampler[RUN_MOST_SHARDS]; /* one, or one of each shard */
    cls_shard *shard[RUN_MOST_SHARDS];
    cls_sampler_options sampler_options;
    bool compiles_late;          /* what calls need */
    uint32_t dtypes;             /* bits of the types of logits that the script may have */
    bool was_busy;               /* the call before */
    cls_infill infill;           /* its tables; prefix_of NULL: none */
    const run_statement **rules; /* [slot_count] the statement with the parameters of each slot */
    const struct run_side *reference;      /* has run the script before; or NULL */
    bool reverses;                         /* the rows of this call are in the opposite order */
    const run_statement *logits, *outputs; /* the latest statements that set them */
    run_named *named;
    uint32_t names;
    run_record *record;
    uint32_t records;
    run_pending *pending;
    uint32_t n_pending;
    cls_buffer *memory; /* of the calls in flight */
    uint32_t n_memory;
    run_passed *passing;
    uint32_t n_passing;
    const char *left_out; /* why the script does not run on this side, or NULL */
} run_side;

/* Opens a side's device and context, or shares those of a side that is open; a failure ends the
 * command. */
void run_open(run_side *side, const char *device, const run_side *opened);
void run_close(run_side *side);

/* Runs a script; afterwards side->record has what it wrote. run_first() runs the first statements,
 * after which the samplers are still there. */
void run_script_on(run_side *side, const run_script *script);
void run_first(run_side *side, const run_script *script, uint32_t count);

/* Releases the samplers, or also grammars and saved slots. The records stay. */
void run_end_samplers(run_side *side);
void run_end(run_side *side);

/* Waits for all that was enqueued. */
void run_finish(const run_side *side);

/* Sets the status of a call of sampler i, which is made again while run_again() says so. */
#define RUN_RETRY(status, side, i, call, operands) \
    do \
        (status) = call((side)->sampler[i], (side)->target.queue, operands, 0, NULL, NULL); \
    while (run_again(side, i, &(status)))

/* Whether a call of sampler i is made again: after all others where it was CLS_BUSY, and with the
 * features that it needs where the text does not say which the sampler has. */
bool run_again(run_side *side, uint32_t i, cls_status *status);

/* Saves each slot and loads it again. */
void run_move(run_side *side);

/* Lets the slot calls take effect that come before, by a step of a row that is skipped. */
void run_flush(run_side *side);

/* Waits for the calls in flight and reads their results, or only waits and releases the memory. */
void run_drain(run_side *side);
void run_abandon(run_side *side);

/* Memory of the side: with these contents, and for results, which are compared under their names.
 */
cls_buffer run_buffer(run_side *side, const void *data, size_t size);
enum { RUN_MOST_ELEMENTS = 1 << 28 }; /* of what a statement makes or writes */
cls_buffer run_result(run_side *side, const char *name, uint32_t rows, size_t width, bool near);

/* Memory of the host with these contents, which are overwritten when the call has returned. */
void *run_passing(run_side *side, const void *data, size_t size);

/* What a side wrote in a statement under a name, or NULL. */
const run_record *run_record_of(const run_side *side, uint32_t statement, const char *name);

/* What the reference's call returned; CLS_OK without a reference. */
cls_status run_reference(const run_side *side);

/* Records what a call returned, and drops the results that it did not write. */
void run_returned(run_side *side, cls_status status, uint32_t since);

/* Records bytes. */
void run_note(run_side *side, const char *name, const void *bytes, size_t size);

/* Something that a statement named. */
run_named *run_name_find(run_side *side, const char *name);
run_named *run_name_set(run_side *side, const char *name, void *object, size_t size);

/* The slot of the side for one of the script. */
int32_t run_slot(const run_side *side, int32_t slot);

/* Whether a side of the command's has a name that begins so; cli/run.c. */
bool run_begins_side(const char *begin, size_t length);

/* Leaves the script out on this side. */
void run_leave_out(run_side *side, const char *why);

/* --------------------------------------------------------- cli/run/inputs.c */

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

/* The rows of data in the opposite order. */
void *run_turned(const void *data, uint32_t rows, size_t row);

/* The logits, the mask and the bias of a call; those without data are absent. */
typedef struct run_inputs {
    cli_array of[CLI_INPUTS];
    run_map map[CLI_INPUTS];
    bool mask_on_host;
    float factor;
} run_inputs;
#define RUN_INPUT_KEYS \
    "logits logits_pick kind lone dtype mask mask_pick mask_kind mask_width mask_rows mask_map " \
    "mask_host bias bias_pick bias_dtype bias_rows bias_map bias_factor hash "

run_inputs run_inputs_read(run_side *side, const run_statement *s, uint32_t logits_rows,
                           uint32_t rows);

/* Turns around what belongs to rows: what a map names stays. */
void run_inputs_turn(run_inputs *in, uint32_t rows);

/* The hash of what a row reads, without maps. */
uint64_t run_hash_of_row(const cli_array of[CLI_INPUTS], uint32_t row);

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

/* Refuses a mask on the host that words have made larger than its memory. */
void run_check_mask(const run_side *side, const run_statement *s, const cls_mask *m,
                    const run_inputs *in);

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

static inline uint32_t run_least(uint64_t a, uint64_t b) { return (uint32_t)(a < b ? a : b); }

/* --------------------------------------- cli/run/calls.c, drafts.c, slots.c */

void run_step(run_side *side, const run_statement *s);
void run_verify(run_side *side, const run_statement *s);
void run_accept(run_side *side, const run_statement *s);
void run_draft(run_side *side, const run_statement *s);
void run_logprobs(run_side *side, const run_statement *s);
void run_launches(run_side *side, const run_statement *s);
void run_sampler(run_side *side, const run_statement *s);

/* The options that a statement `sampler` gives. */
cls_sampler_options run_sampler_options(const run_statement *s, uint32_t features);

/* Runs any statement. */
void run_statement_on(run_side *side, const run_statement *s);

/* The number of samplers of a side. */
uint32_t run_samplers(const run_side *side);

/* Begins a call: its defaults, and what words set that are no `keys`. */
void run_begin_call(const run_statement *s, const char *keys, const char *structure, void *call,
                    size_t size);

/* What a test does with each new sampler of a device; or NULL. */
extern void (*run_prepare)(cls_sampler *sampler);

/* Whether statements `launches` count: a test may choose other programs, which take more. */
extern bool run_counts_launches;

/* How a test judges what each statement gave on the host: returns what is wrong, or NULL. NULL:
 * there is no test. */
extern const char *(*run_judge)(run_side *side, const run_statement *s);

/* Makes the step of one row of a statement. */
void run_step_row(run_side *side, const run_statement *s, uint32_t row, cls_step *step);

/* Brings the rows of the shards together on each of them. */
void run_gather(run_side *side, const run_inputs *in, uint32_t rows, cls_logits *whole);

/* Keeps the results of the first shard, or those of another one that differ. */
void run_join_shards(run_side *side, uint32_t since);

/* What the latest call wrote under a name, by the host: at least n numbers. They are -1 if there is
 * no such call, as where a random step was refused. */
run_map run_latest(const run_side *side, const char *name, uint32_t n);

/* Sets parameters from words. */
void run_params(run_side *side, const run_statement *s, cls_params *params);

/* --------------------------------------------------------- cli/run/random.c */

/* Expands the random statements of a script, to whose seeds a number is added, with so many calls
 * at most. */
run_script run_expand(const run_script *script, uint32_t add_to_seed, uint32_t most_calls);

/* Appends parameters to a text, those that do not have their defaults: " temperature=0.5 ...". */
typedef struct run_text {
    char *text;
    size_t length;
} run_text;
void run_add(run_text *t, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 2, 3)))
#endif
    ;
void run_add_params(run_text *t, const cls_params *params);

/* Appends the names of a status: " FORCED|STOPPED". */
void run_add_status(run_text *t, int32_t status);

/* -------------------------------------------------------- cli/run/compare.c */

/* A difference between what two sides wrote. */
typedef struct run_difference {
    uint32_t statement;
    char text[1000];
} run_difference;

/* Whether a side that has run the host's script wrote something else; *d describes the first. */
bool run_sides_differ(const run_side *host, const run_side *side, run_difference *d);

/* Whether a test's judge has found something. */
bool run_is_faulty(const run_side *host, run_difference *d);

/* Describes an element of four bytes, a number or a float. */
void run_describe_element(const run_record *r, size_t i, char text[64]);

/* Leaves out rows of steps, then statements, in ever smaller parts, as long as the rest fails, then
 * words, for so many seconds. side NULL: by a test's judge. */
void run_shrink(run_side *host, run_side *side, run_script *script, uint32_t seconds,
                run_difference *d);

/* Appends a script that the host has run, with a mark at the statement that differs. */
void run_add_script(const run_side *host, const run_script *script, const run_difference *d,
                    struct run_text *t);

/* ------------------------------------------------------------ cli/run/why.c */

/* The first or the last random bits that draw a token of a row, on a host's side. */
uint64_t run_edge(run_side *side, const run_statement *s, uint32_t row, uint64_t seed);

/* Appends why a row of a step does not give a token, on a host's side that has run what comes
 * before the step. forced: it was expected to be forced. */
void run_why(run_side *side, const run_statement *s, uint32_t row, int32_t token, bool forced,
             run_text *t);

#endif
