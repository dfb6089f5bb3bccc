/* SPDX-License-Identifier: MIT */
/* What the subcommands of clsample share. Functions that return int and can
 * fail print one sentence by cli_fail() and return 1; 0 is success. */
#ifndef CLS_CLI_H
#define CLS_CLI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <jansson.h>

#include "clsample.h"

int cls_cmd_devices(int argc, char **argv);
int cls_cmd_sample(int argc, char **argv);
int cls_cmd_verify(int argc, char **argv);
int cls_cmd_explain(int argc, char **argv);
int cls_cmd_demo(int argc, char **argv);
int cls_cmd_bench(int argc, char **argv);
int cls_cmd_selftest(int argc, char **argv);
int cls_cmd_report(int argc, char **argv);

/* --------------------------------------------------------- errors, cli/main.c */

#if defined(__GNUC__)
__attribute__((format(printf, 1, 2)))
#endif
int cli_fail(const char *format, ...); /* "clsample: SENTENCE" to stderr; returns 1 */
#if defined(__GNUC__)
__attribute__((format(printf, 1, 2)))
#endif
void cli_warn(const char *format, ...); /* "clsample: warning: SENTENCE" to stderr */
int cli_no_memory(void);
const char *
cli_sentence(void); /* what cli_fail() said last, without the name; "" before the first */

/* For commands that measure. After this the first SIGINT (Ctrl-C) only sets what cli_interrupted()
 * returns: the command prints what it has and returns, and main() ends the process by the signal.
 * The second SIGINT ends it at once. */
void cli_hear_interrupt(void);
bool cli_interrupted(void);

/* ------------------------------------------------------- options, cli/options.c */

typedef enum cli_type {
    CLI_FLAG,   /* bool; takes no value */
    CLI_SWITCH, /* int32_t: 1; takes no value */
    CLI_STRING, /* const char *, into argv */
    CLI_INT,    /* int32_t */
    CLI_UINT,   /* uint32_t */
    CLI_UINT64, /* uint64_t */
    CLI_FLOAT,  /* float */
    CLI_CHOICE, /* int32_t: which of the words of `choices` */
    CLI_LIST    /* cli_list: may be given again, each time adds its text */
} cli_type;

typedef struct cli_list {
    const char **text; /* the texts into argv; free() it */
    uint32_t count;
} cli_list;

/* One option: parsing, --help and error messages are made from it. A program's
 * defaults are what the variables hold before cli_parse(). */
typedef struct cli_option {
    const char *name; /* without the dashes */
    cli_type type;
    void *value;         /* a variable of the type's kind; untouched if not given */
    const char *meta;    /* the value's name in --help; NULL for flags */
    const char *help;    /* one line */
    const char *choices; /* CLI_CHOICE: words with | between them */
    bool given;          /* out */
} cli_option;

typedef enum cli_parsed { CLI_GO, CLI_HELPED, CLI_FAILED } cli_parsed;

/* Reads "--name value" and "--name=value"; --help prints `usage`, `about` and
 * the options. options ends with an entry whose name is NULL. argv[0] is the
 * subcommand's name. Use: switch on the result; CLI_HELPED exits 0. */
cli_parsed cli_parse(int argc, char **argv, const char *usage, const char *about,
                     cli_option *options);

/* Parses text as the option's type into its value; `what` names the option in
 * the error sentence ("--top-k"). */
int cli_set(const cli_option *option, const char *what, const char *text);

/* Rows of the files that are asked for, in this order; row NULL: all, as where there is none of
 * these. */
typedef struct cli_picked {
    const char *option; /* that asked, for sentences: "--rows" */
    uint32_t count, *row;
} cli_picked;

/* Adds the rows of a text, "0,3,8-15", to picked, whose option is set; free() its rows. */
int cli_picked_parse(const char *text, uint32_t most, cli_picked *picked);
uint32_t cli_row_number(const cli_picked *picked,
                        uint32_t i); /* in the files, of the i-th that was read */

/* ------------------------------------------------------- devices, cli/device.c */

typedef struct cli_device {
    cl_platform_id platform;
    cl_device_id device;
    cl_device_type type;
    char platform_name[128], name[128], c_version[64], driver[64];
    bool usable, is_default;
    bool infinities;      /* its floats have these, and NaN */
    char reason[256];     /* why not usable */
    cls_device_info info; /* if usable */
} cli_device;

/* All devices of all platforms. The index is the number that --device takes. */
typedef struct cli_devices {
    uint32_t count;
    cli_device *device;
    uint32_t bare_count; /* platforms without a device */
    char (*bare)[128];   /* their names */
} cli_devices;

int cli_devices_find(const cls_context_options *options,
                     cli_devices *list); /* options may be NULL; finding none is no error */
void cli_devices_free(cli_devices *list);
const char *cli_device_type(cl_device_type type);   /* "GPU", "accelerator", "custom", "CPU" */
const char *cli_tier_name(uint32_t tier);           /* as --tier calls it */
const char *cli_subgroups_name(uint32_t subgroups); /* whose they are */
json_t *cli_device_json(const cli_device *device, uint32_t index);
const char *cli_origin_name(uint32_t origin); /* of compiled kernels: "source", "binary", "cache" */
json_t *
cli_shape_json(const cls_context *context); /* and tier and origin; NULL: the library's error */

/* --------------------------------------------------------- one device, cli/open.c */

/* A device, opened: the OpenCL objects and the library's context. */
typedef struct cli_target {
    cli_device at;
    uint32_t index;
    cl_context cl;
    cl_command_queue queue;
    cls_context *context;
} cli_target;

/* clang-format off */
/* How the library uses a device, of any command that opens one; into a cls_context_options. */
#define CLI_DEVICE_OPTIONS(o) \
    {"tier", CLI_CHOICE, &(o)->tier, "TIER", \
     "auto (default), base, int64 or subgroups: how much of OpenCL to use", \
     "auto|base|int64|subgroups", 0}, \
    {"max-work-group", CLI_UINT, &(o)->max_work_group, "N", \
     "as if the device took no larger groups (default: what it has)", NULL, 0}, \
    {"max-local-mem", CLI_UINT64, &(o)->max_local_mem_size, "BYTES", \
     "as if it had no more local memory (default: what it has)", NULL, 0}, \
    {"cache-dir", CLI_STRING, &(o)->cache_dir, "DIR", \
     "keep compiled kernels in this folder, and take them from there", NULL, 0}
/* clang-format on */

/* Ends the line that tells which kernels are being compiled, and shows the compiler's
 * log if they were not; returns the status. To be called with that of each call of
 * the library that may compile. */
cls_status cli_compiled(cls_status status);

/* which: the text of --device, NULL for the default device. properties: of the
 * queue (CL_QUEUE_PROFILING_ENABLE, ...), 0 for none. Compiles. */
int cli_open(const char *which, const cls_context_options *options,
             cl_command_queue_properties properties, cli_target *target);
void cli_close(cli_target *target);

/* The same in its three parts, for whoever looks at each. The first also refuses a folder for
 * compiled kernels that cannot be used, and warns of one that cannot be written. `any` takes a
 * device that cannot be used, too, and the first where none can be. The last two leave what there
 * is to cli_close(). */
int cli_find(const char *which, const cls_context_options *options, bool any, cli_target *target);
int cli_open_queue(cli_target *target, cl_command_queue_properties properties);
int cli_open_context(cli_target *target, const cls_context_options *options);

/* The compiler's log of the context that was opened last; "" if it had nothing to say. */
const char *cli_build_log(void);

/* A sentence for a failed call: what was tried, and the library's message. */
int cli_fail_library(const char *what);
int cli_fail_opencl(const char *what, cl_int error);

/* ---------------------------------------------------------- output, cli/output.c */

int cli_print_json(
    json_t *value); /* to stdout, with a newline; takes the reference; NULL is out of memory */
json_t *cli_text(const char *text); /* a string; '?' for what is no UTF-8 */
json_t *cli_real(double x);         /* null where JSON has no number for it */
int cli_flush(void);                /* 1 if stdout could not be written */
const char *cli_status_words(int32_t status, char words[64]); /* "nan, inf"; "ok" */

/* A bar of `width` columns, filled to x in [0, 1]. */
void cli_bar(double x, int width);

/* The self-test's stages, as report has them, too, and the sum of their cases; cli/selftest.c */
json_t *cli_stages_json(const cls_selftest_report *report, uint32_t *cases);

/* ------------------------------------------------------------ text, cli/pieces.c */

/* A vocabulary's text, as llama2.c stores it: int32 longest piece, then for
 * each id a float32 score, an int32 length and the bytes. */
typedef struct cli_pieces {
    uint32_t count;
    char (*text)[16]; /* free() it */
} cli_pieces;
int cli_pieces_read(const char *path, uint32_t vocab, cli_pieces *pieces);

/* A token's text, or its number. */
void cli_pieces_name(const cli_pieces *pieces, int32_t token, char name[16]);

/* ------------------------------------------------------------- files, cli/npy.c */

/* A NumPy array of one or two dimensions, little endian, C order. */
typedef struct cli_npy {
    char kind;      /* 'f', 'i', 'u' or 'b' (bool, a byte each) */
    unsigned size;  /* bytes of an element */
    char descr[16]; /* both as the header has them: "<f4" */
    unsigned dims;
    uint64_t shape[2]; /* of the file */
    void *data;        /* free() it */

    /* While it is open. */
    FILE *file;
    const char *path;
    bool
        seeks; /* it is a file, not a pipe, and its data are as long as the header says; they ... */
    uint64_t begin; /* ... begin here */
    uint64_t bytes; /* of all data; */
    uint64_t taken; /* those that were read so far */
} cli_npy;

/* Opening reads the header, so that its owner can look at type and shape; then the picked rows,
 * which must be among those of the shape, are read and the file is closed, or it is closed at once.
 * A failure has closed it. */
int cli_npy_open(const char *path, cli_npy *array);
int cli_npy_rows(cli_npy *array, const cli_picked *picked);
void cli_npy_close(cli_npy *array);

int cli_npy_read(const char *path, cli_npy *array);
int cli_npy_read_any(const char *path, cli_npy *array); /* an empty one, too: data is NULL then */
/* Writes int32 ('i'), uint32 ('u') or float32 ('f') data of one to three dimensions. */
int cli_npy_write(const char *path, char kind, unsigned dims, const uint64_t *shape,
                  const void *data);

const char *cli_npy_type(const cli_npy *array, char name[16]); /* as NumPy calls it: "float64" */
/* The sentence that it is not WHAT: "int32 [rows, tokens]", the type to convert to first. */
int cli_npy_refuse(const cli_npy *array, const char *path, const char *what);

/* ---------------------------------------------------------- logits, cli/logits.c */

/* Logits [rows, vocab]: dtype_name NULL, "f32", "f16" or "bf16". */
typedef struct cli_logits {
    void *data;
    uint32_t rows, vocab;
    uint32_t file_rows; /* of which `rows` are here */
    cls_dtype dtype;
    size_t size; /* of an element */
} cli_logits;
int cli_logits_read(const char *path, const char *dtype_name, const cli_picked *picked,
                    cli_logits *logits);

/* -------------------------------------------------------------- sampling, cli/run.c */

/* What the rows' requests have so far: token ids [rows, width], -1 padded. */
typedef struct cli_tokens {
    int32_t *ids; /* NULL: nothing */
    uint32_t width;
} cli_tokens;

typedef struct cli_report cli_report; /* cli/report.h */

/* What to draw, and where to put it: C order, NULL where it isn't wanted. */
typedef struct cli_job {
    const cli_logits *logits;
    const cli_picked *picked; /* the files' rows that these are; NULL: all of them */
    const cls_params *params; /* [rows] */
    const void *mask;         /* [rows, mask_width] of mask_kind; NULL: everything is allowed */
    uint32_t mask_width;
    cls_mask_kind mask_kind;
    const void *bias; /* [rows, vocab] of bias_dtype; NULL: none */
    cls_dtype bias_dtype;
    cli_tokens prompt, output;
    uint32_t ahead;   /* tokens that may join the outputs: drafts */
    uint32_t history; /* the latest tokens that the rows' requests keep; 0: none look at them */
    const cls_infill *infill; /* NULL: no row has that stage */
    uint32_t draws;           /* of the same state, at the positions from cli_position() on */
    cls_logprob_kind kind;
    int32_t *tokens;    /* [rows, draws] */
    float *logprobs;    /* [rows, draws] */
    int32_t *status;    /* [rows, draws] */
    float *probs;       /* [rows, vocab], of the first draw */
    cli_report *report; /* likewise */
} cli_job;

/* A request is a row's parameters, prompt and output: request r is that of row r, but for drafts.
 */

/* The position of a request's first draw: its parameter, moved on by the tokens of its output. */
uint64_t cli_position(const cli_job *job, uint32_t request);

/* A request's row as the reference takes it, at its first draw. */
void cli_host_row(const cli_job *job, uint32_t request, uint32_t row, cls_host_row *host);

/* What a sampler needs for `requests` of them; but for the numbers of rows and slots. */
void cli_sampler_options(const cli_job *job, uint32_t requests, cls_sampler_options *options);
int cli_slot_begin(const cli_job *job, uint32_t request, cls_sampler *sampler, uint32_t slot);

size_t cli_mask_size(const cli_job *job); /* of a mask's element, and a bias's */
size_t cli_bias_size(const cli_job *job);

/* A buffer with a copy of `from`, or for results. */
int cli_buffer(cli_target *target, cl_mem *buffer, const char *what, size_t size, const void *from);
int cli_fetch(cli_target *target, cl_mem from, void *to,
              size_t size); /* waits; `to` NULL: nothing */

int cli_run(cli_target *target,
            const cli_job *job);      /* on the device, all rows in one step a draw */
int cli_run_host(const cli_job *job); /* the reference */

#endif
