/* SPDX-License-Identifier: MIT */
/* clsample report: all that there is to tell of a device, as one JSON object.
 *
 *     device_report.c   the command; the parts in turn; the files
 *     device_limits.c   what OpenCL says of the device
 *     device_start.c    the context, the first token, the programs
 *     device_page.c     the object as a page for people
 *
 * A part that fails leaves its sentence, and the next one runs. The files are
 * written anew before each part: a driver that ends the process leaves what was
 * known until then, and in whose time it did. */
#ifndef CLS_CLI_DEVICE_REPORT_H
#define CLS_CLI_DEVICE_REPORT_H

#include <stdio.h>

#include "cli.h"

typedef struct cli_device_report {
    cli_target target;
    cls_context_options options;
    bool quick;
    json_t *json;      /* the object */
    const char *path;  /* of its file ... */
    char page[1024];   /* ... and of the page's */
    uint32_t failures; /* of json's "failures" */
} cli_device_report;

/* Adds to the failures: a part, and the sentence on it. */
void cli_device_report_fail(cli_device_report *report, const char *part, const char *sentence);

/* Writes both files; `doing` (a part) is what the process is about to do, NULL: it is done. */
int cli_device_report_save(cli_device_report *report, const char *doing);

double cli_seconds(void);                  /* from some start */
const char *cli_dtype_name(int32_t dtype); /* "float32"; "-" for none */

/* ------------------------------------------------------- the parts, into the object */

void cli_device_report_device(
    cli_device_report *report); /* "device": name, versions, limits, floats, extensions */
int cli_device_report_context(
    cli_device_report *report); /* "shape", "start"; opens. 1: there is no context */
void cli_device_report_first(cli_device_report *report);   /* "start": the first token */
void cli_device_report_compile(cli_device_report *report); /* "compile", then "programs" */
void cli_device_report_programs(
    cli_device_report *report); /* "programs": those that are there by now */

/* ----------------------------------------------------------------------- the page */

void cli_page_write(const json_t *json, FILE *file);

#endif
