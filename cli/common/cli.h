/* SPDX-License-Identifier: MIT */
/* What the subcommands of clsample share: errors, options, devices, files and sampling jobs.
 *
 * What reads options and files, and checks them, ends the process if it fails: cli_die(). A
 * function that returns int and can fail prints one sentence by cli_fail() and returns 1. It
 * returns 0 on success. */
#ifndef CLS_CLI_H
#define CLS_CLI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <jansson.h>

#include "base/opencl.h"
#include "clsample.h"

int cls_cmd_devices(int argc, char **argv);
int cls_cmd_sample(int argc, char **argv);
int cls_cmd_explain(int argc, char **argv);
int cls_cmd_run(int argc, char **argv);
int cls_cmd_bench(int argc, char **argv);
int cls_cmd_selftest(int argc, char **argv);
int cls_cmd_accept(int argc, char **argv);
void cli_params_help(void); /* clsample help params, cli/request.c */

/* ---------------------------------------------- errors, cli/common/errors.c */

/* Prints "clsample: SENTENCE" to stderr and returns 1. */
#if defined(__GNUC__)
__attribute__((format(printf, 1, 2)))
#endif
int cli_fail(const char *format, ...);

/* Prints "clsample: warning: SENTENCE" to stderr. */
#if defined(__GNUC__)
__attribute__((format(printf, 1, 2)))
#endif
void cli_warn(const char *format, ...);

/* The exit status of a command that cannot run. */
extern int cli_failure;

/* Prints the sentence as cli_fail() does, and ends the process with cli_failure: what a command has
 * opened by then needs no care. Where a device is open, functions return instead. */
_Noreturn void cli_die(const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 1, 2)))
#endif
    ;

/* The last sentence of cli_fail(), without the name of the program; "" before the first. */
const char *cli_last_error(void);

/* For commands that measure. After this call the first SIGINT (Ctrl-C) only makes
 * cli_interrupted() true: the command prints the results that it has and returns, and main() ends
 * the process by the signal. A second SIGINT ends the process at once. */
void cli_catch_interrupt(void);
bool cli_interrupted(void);

/* Returns the status, or ends the process by the signal after an interrupt: the shell that runs a
 * script would continue if the command only returned 130. */
int cli_end(int status);

/* ---------------------------------------------- reasons, cli/common/reason.c */

/* The library's message, in which the fields of a cls_context_options are the command's options. */
const char *cli_reason(void);

/* Fail if the call that returned this status failed, with what was attempted and the library's
 * message, or OpenCL's number. */
int cli_try(cls_status status, const char *what);
int cli_try_opencl(cl_int error, const char *what);

/* ------------------------------------------ progress, cli/common/progress.c */

/* Say what the command is doing, on stderr: on a terminal in a line that the next text overwrites,
 * elsewhere, with the command's name and the time, in a new line every ten seconds. The empty text
 * ends it on a terminal. */
void cli_progress_begin(const char *name);
#if defined(__GNUC__)
__attribute__((format(printf, 1, 2)))
#endif
void cli_progress(const char *format, ...);

/* Microseconds, or seconds, since an arbitrary start. */
double cli_clock(void);
double cli_seconds(void);

#if !defined(_WIN32)
/* fork(), while no other thread says anything. The new process says nothing of itself. */
int cli_progress_fork(void);
#endif

/* ---------------------------------------------- memory, cli/common/memory.c */

/* There is always memory, also for JSON: where there is none the process ends. */

/* The memory is zero, and nobody needs to free it. */
void *cli_alloc(size_t count, size_t size);
/* Changes the number of elements; what is added is not zero. memory NULL: there are none. */
void *cli_grow(void *memory, size_t count, size_t size);
void cli_free(void *memory); /* of these functions; or NULL */

void cli_memory_begin(void); /* lets JSON use these functions */

/* What is there now, and freeing all that was allocated since; NULL: all. */
void *cli_memory(void);
void cli_memory_end(const void *since);

/* -------------------------------------------- options, cli/common/options.c */

typedef enum cli_type {
    CLI_SECTION, /* no option, but the title of those that follow */
    CLI_FLAG,    /* bool; takes no value */
    CLI_SWITCH,  /* int32_t, set to 1; takes no value */
    CLI_STRING,  /* const char *, which points into argv */
    CLI_INPUT,   /* the same: the name of a file to read */
    CLI_OUTPUT,  /* the same: the name of a file to write, which no other option may name */
    CLI_INT,     /* int32_t */
    CLI_UINT,    /* uint32_t */
    CLI_UINT64,  /* uint64_t */
    CLI_FLOAT,   /* float */
    CLI_CHOICE,  /* int32_t: the index of a word of `meta` */
    CLI_CHOICES, /* uint64_t: bits of the words of `meta` that commas separate */
    CLI_LIST,    /* cli_list: the option may be repeated, and each use adds its text */
    CLI_FILES    /* cli_list: no option, but the arguments that begin without a dash */
} cli_type;

typedef struct cli_list {
    const char **text; /* pointers into argv */
    uint32_t count;
} cli_list;

/* One option. Parsing, --help and error messages all use this table. The default of an option is
 * the value that its variable has before cli_parse(). */
typedef struct cli_option {
    const char *name; /* without the dashes */
    cli_type type;
    void *value;      /* a variable of that type; unchanged if the option is absent */
    const char *meta; /* the name of the value in --help, or NULL; CLI_CHOICE and CLI_CHOICES:
                         NAME=words, or the words alone, which are separated by | */
    const char *help; /* a phrase; NULL: --help omits the option, since it is another name of one */
} cli_option;

/* clang-format off */
#define CLI_NO_OPTION {NULL, CLI_FLAG, NULL, NULL, NULL} /* ends a table */

/* Begin a section of --help, and one that only `clsample help params` shows. */
#define CLI_TITLE(title) {title, CLI_SECTION, NULL, NULL, NULL}
#define CLI_PARAMS_TITLE(title) {title, CLI_SECTION, NULL, "params", NULL}
/* clang-format on */

/* Prints the words of a text from column `at` on, in 80 columns; further lines begin at column
 * `left`. It ends the line. */
void cli_print_words(const char *text, size_t at, size_t left);

/* Prints the usage, what the command is about, and either the sections of --help or, with `params`,
 * those of `clsample help params`, in 80 columns. */
void cli_help(const char *usage, const char *about, const cli_option *options, bool params);

/* Parses "--name value" and "--name=value". The table ends with CLI_NO_OPTION, and argv[0]
 * is the name of the subcommand. On --help it prints the help and ends the process. */
void cli_parse(int argc, char **argv, const char *usage, const char *about,
               const cli_option *options);
bool cli_given(const char *name); /* whether the option is present */

/* Finds the name that a misspelt word is nearest to: those that are tried must be like it. */
typedef struct cli_near {
    const char *word; /* of `length` bytes */
    size_t length;
    const char *name; /* NULL: none is near */
    unsigned distance;
    char text[80];
} cli_near;
void cli_near_try(cli_near *near, const char *name); /* it ends at its first |, if it has one */

/* "; did you mean NAME?", with `before` before the name; "" if none is near. */
const char *cli_near_text(cli_near *near, const char *before);

/* Parses text as a value of the type and stores it. `what` names the option in error messages:
 * "--top-k". */
void cli_set(cli_type type, void *value, const char *meta, const char *what, const char *text);

/* What a path names. Opening a regular file waits for nobody, as opening a pipe does. */
typedef enum cli_file_kind { CLI_NO_FILE, CLI_REGULAR, CLI_OTHER } cli_file_kind;
cli_file_kind cli_kind_of(const char *path);

/* A selection of the rows of all files of a command, in the order in which they were selected.
 * row NULL: all rows. */
typedef struct cli_picked {
    const char *option; /* the option that selects the rows, for error messages: "--rows" */
    uint32_t count, *row;
} cli_picked;

/* The option that selects rows, under both of its names; list: a cli_list. */
/* clang-format off */
#define CLI_ROWS(list, help) \
    {"rows", CLI_LIST, list, "LIST", help}, {"row", CLI_LIST, list, "LIST", NULL}
/* clang-format on */

/* Parses the lists of that option, such as "0,3,8-15". It fails if there are more than `most` rows.
 * Without a list all rows are selected. */
void cli_picked_parse(const cli_list *lists, uint32_t most, cli_picked *picked);

/* The index in the files of row i of the selection. */
uint32_t cli_row_number(const cli_picked *picked, uint32_t i);

/* -------------------------------------------- devices, cli/common/devices.c */

typedef struct cli_device {
    cl_device_id id;
    cl_device_type type;
    bool usable;
    json_t *json;     /* all about it: names, versions, limits; "reason" if it is not usable */
    const char *name; /* of this object */
} cli_device;

/* All devices of all platforms. The index of a device is the number that --device takes. */
typedef struct cli_devices {
    uint32_t count;
    cli_device *device;
    uint32_t chosen;         /* the default device; UINT32_MAX: none is usable */
    json_t *empty_platforms; /* the names of those without a device */
} cli_devices;

/* Lists the devices. `options` may be NULL. An empty list is no error. */
void cli_devices_find(const cls_context_options *options, cli_devices *list);
_Noreturn void cli_no_device(void); /* fails because the list is empty */

const char *cli_tier_name(uint32_t tier);           /* the word that --tier takes */
const char *cli_subgroups_name(uint32_t subgroups); /* the vendor of the extension, or "none" */
const char *cli_origin_name(uint32_t origin);       /* of kernels: "source", "binary" or "cache" */
const char *cli_dtype_name(int32_t dtype);          /* "float32"; "-" if it is unknown */

/* The sizes of groups, vectors and lists that a context uses, its tier and the origin of its
 * kernels. NULL: the library failed. */
json_t *cli_shape_json(const cls_context *context);

/* What each program got, as cls_context_program() has it. */
json_t *cli_programs_json(const cls_context *context);

/* ------------------------------------- one device, cli/common/device_open.c */

/* An open device: the OpenCL objects and the library's context. */
typedef struct cli_target {
    cli_device device;
    uint32_t index;
    cl_context cl;
    cl_command_queue queue;
    cls_context *context;
} cli_target;

/* clang-format off */
#define CLI_DEVICE(device) \
    CLI_TITLE("Device"), \
    {"device", CLI_STRING, device, "N", "the number of a device, from clsample devices"}

/* --device of the commands that can also run the reference, and whether it names that. */
#define CLI_DEVICE_OR_HOST(device) \
    CLI_TITLE("Device"), \
    {"device", CLI_STRING, device, "N|host", \
     "a number from clsample devices, or the reference on the host"}
bool cli_on_host(const char *device);

/* The options of every command that opens a device; o: a cls_context_options. */
#define CLI_DEVICE_OPTIONS(o) \
    {"tier", CLI_CHOICE, &(o)->tier, "TIER=auto|int64|subgroups", \
     "OpenCL features to use: auto (default), int64 or subgroups"}, \
    {"max-work-group", CLI_UINT, &(o)->max_work_group, "N", \
     "use no work-groups larger than N (default: the device's limit)"}, \
    {"max-local-mem", CLI_UINT64, &(o)->max_local_mem_size, "BYTES", \
     "use no more local memory than this (default: the device's limit)"}, \
    {"max-parameters", CLI_UINT64, &(o)->max_parameter_size, "BYTES", \
     "give kernels no more bytes of arguments (default: the device's limit)"}, \
    {"cache-dir", CLI_STRING, &(o)->cache_dir, "DIR", \
     "store compiled kernels in this directory and load them from it"}

/* The options of the commands that can force a shape. */
#define CLI_SHAPE_OPTIONS(o) \
    {"work-group", CLI_UINT, &(o)->work_group, "N", \
     "work-items in a group (default: chosen for the device)"}, \
    {"row-group", CLI_UINT, &(o)->row_group, "N", \
     "work-items in a group that samples a whole row"}, \
    {"vector", CLI_UINT, &(o)->vector, "N", \
     "logits per load of a work-item (default: chosen for the device)"}, \
    {"shortlist", CLI_UINT, &(o)->shortlist, "N", \
     "candidates in the list of a row (default: chosen for the device)"}, \
    {"groups-per-unit", CLI_UINT, &(o)->groups_per_unit, "N", \
     "groups per compute unit that read the vocabulary (default 32)"}
/* clang-format on */

/* Selects a device. `which` is the value of --device, or NULL for the default device. It fails if
 * options->cache_dir is not usable and warns if that directory is read-only. */
void cli_find_device(const char *which, const cls_context_options *options, cli_target *target);

/* Is called before each program is compiled, where a command wants to know; or NULL. */
extern void (*cli_compiling)(const char *program);

/* Create the OpenCL context with a queue of these properties (0: none), then the library's
 * context, which compiles kernels. After a failure cli_close() frees what was created. */
int cli_open_queue(cli_target *target, cl_command_queue_properties properties);
int cli_open_context(cli_target *target, const cls_context_options *options);

/* All three steps, for a usable device. A failure leaves nothing to close. */
int cli_open(const char *which, const cls_context_options *options,
             cl_command_queue_properties properties, cli_target *target);
void cli_close(cli_target *target);

/* Sets the status of a call, which is made again after the queue's work if it was CLS_BUSY. */
#define CLI_RETRY(status, queue, call) \
    do { \
        if (((status) = (call)) == CLS_BUSY) { \
            clFinish(queue); \
            (status) = (call); \
        } \
    } while (0)

/* Ends the progress of compilation, prints the compiler's log if the status is CLS_BUILD_FAILED,
 * and returns the status. Every status of a library call that may compile must pass through it. */
cls_status cli_compile_done(cls_status status);

/* ----------------------------------------------- output, cli/common/print.c */

void cli_print_json(const json_t *value); /* to stdout, with a newline */
json_t *cli_text(const char *text);       /* a string; bytes that are not valid UTF-8 become '?' */
const char *cli_string(const json_t *object, const char *key); /* a member; or NULL */
json_int_t cli_integer(const json_t *object, const char *key); /* a member; or 0 */
json_t *cli_real(double x); /* a number; null for infinities and NaN */

/* At most 1: the logarithm of a lone token's probability may be rounded to more than 0. */
double cli_probability(double logprob);

/* A number and what it counts, whose first word ends in an s that 1 has not: "1 row of logits". */
#define CLI_COUNTED 64
const char *cli_counted(char text[CLI_COUNTED], uint64_t n, const char *nouns);

/* Prints a text with members of an object: {KEY}, or {KEY:SPEC} with the flags, the width and the
 * precision of printf(). A member that is missing is a dash. */
void cli_put(const char *text, const json_t *object);

/* Ends the process if stdout cannot be written. main() calls it after a command. */
void cli_flush_output(void);

/* "nan, inf", with `between` between the words; "ok" for 0. */
#define CLI_STATUS_WORDS 96 /* room for all words */
const char *cli_status_words(int32_t status, const char *between, char words[CLI_STATUS_WORDS]);

/* Prints a bar of `width` columns that is filled to the share x, from 0 to 1. */
void cli_bar(double x, int width);

/* ----------------------------------------- token texts, cli/common/pieces.c */

/* The text of each token. The file is llama2.c's: an int32 with the length of the longest piece,
 * then for each id a float32 score, an int32 length and the bytes. */
typedef struct cli_pieces {
    uint32_t count;
    char (*text)[16];
} cli_pieces;
void cli_pieces_read(const char *path, uint32_t vocab, cli_pieces *pieces);

/* The text of a token, or "#ID" where there is none. */
void cli_pieces_name(const cli_pieces *pieces, int32_t token, char name[16]);

/* --------------------------------------------- .npy files, cli/common/npy.c */

/* A NumPy array of one or two dimensions, little endian, in C order. */
typedef struct cli_npy {
    char kind;      /* 'f', 'i', 'u' or 'b' (bool, one byte each) */
    unsigned size;  /* bytes of an element */
    char descr[16]; /* the type as the header spells it: "<f4" */
    unsigned dims;
    uint64_t shape[2]; /* of the array in the file */
    void *data;

    /* While the file is open. */
    FILE *file;
    const char *path;
    bool seekable;       /* a regular file with as much data as the header promises, not a pipe */
    uint64_t begin;      /* offset of the data, if the file is seekable */
    uint64_t bytes;      /* bytes of all data */
    uint64_t bytes_read; /* bytes that were read so far */
} cli_npy;

/* cli_npy_open() reads the header, so that the caller can check type and shape. cli_npy_rows() then
 * reads the selected rows, which must be within the shape, and closes the file. cli_npy_close()
 * closes it without reading. cli_npy_read() reads all; data is NULL if the array is empty. */
void cli_npy_open(const char *path, cli_npy *array);
void cli_npy_rows(cli_npy *array, const cli_picked *picked);
void cli_npy_close(cli_npy *array);
void cli_npy_read(const char *path, cli_npy *array);

/* The bytes of a file that is no array. */
void *cli_bytes_read(const char *path, size_t *size);

/* The number of rows to read: those that are selected, or all. It fails if the array has not all of
 * them, or more rows than a command can take. */
uint32_t cli_npy_count(const cli_npy *array, const cli_picked *picked);

/* Reads `size` bytes of data at an offset of a seekable file, which has them. */
void cli_npy_at(cli_npy *array, uint64_t offset, void *to, size_t size);

/* Writes int32 ('i'), uint32 ('u') or float32 ('f') data of one to three dimensions. */
void cli_npy_write(const char *path, char kind, unsigned dims, const uint64_t *shape,
                   const void *data);

const char *cli_npy_type(const cli_npy *array, char name[16]); /* NumPy's name: "float64" */

/* Fails because the array is not of type and shape `what`: "int32 [rows, tokens]". If the type
 * differs, the message shows the conversion in NumPy, unless `what` has two shapes. */
_Noreturn void cli_npy_refuse(const cli_npy *array, const char *what);

/* ---------------------------------------------- arrays, cli/common/arrays.c */

/* What rows of a step have in files. */
typedef enum cli_input { CLI_LOGITS, CLI_MASK, CLI_BIAS, CLI_INPUTS } cli_input;

/* An array [rows, width]. */
typedef struct cli_array {
    void *data;
    uint32_t rows, width;
    uint32_t file_rows;
    const cli_picked *picked; /* which rows of the file these are; NULL: all */
    int32_t type;             /* a cls_dtype; of a mask a cls_mask_kind */
    size_t size;              /* bytes of an element */
} cli_array;

/* Opens a file and sets all fields but those of cli_array_read(), which reads the rows. dtype: a
 * cls_dtype of logits, or -1: the type of the file. */
void cli_array_open(cli_input what, const char *path, int32_t dtype, cli_npy *npy,
                    cli_array *array);
void cli_array_read(cli_npy *npy, const cli_picked *picked, cli_array *array);

/* Reads the prefixes of the infill stage; path NULL: no token is a prefix. */
void cli_prefixes_read(const char *path, uint32_t vocab, cls_infill *infill);

#endif
