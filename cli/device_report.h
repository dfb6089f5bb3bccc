/* SPDX-License-Identifier: MIT */
/* clsample report: describes, checks and measures a device, and writes one JSON object.
 *
 *     device_report.c         the command; runs the parts and writes the files
 *     device_report_limits.c  what OpenCL reports about the device
 *     device_report_start.c   times the context, the first token and the programs
 *     device_report_page.c    writes the object as a page of Markdown
 *
 * A part that fails adds its error message to the object, and the next part runs. The files are
 * written before each part. If a driver ends the process, they have the results so far and the
 * name of the part that was running. */
#ifndef CLS_CLI_DEVICE_REPORT_H
#define CLS_CLI_DEVICE_REPORT_H

#include <stdio.h>

#include "cli.h"

typedef struct cli_report {
    cli_target target;
    cls_context_options options;
    bool quick;
    json_t *json;      /* the object */
    const char *path;  /* of the file for the object */
    char page[1024];   /* the path of the page */
    uint32_t failures; /* entries of "failures" in the object */
} cli_report;

/* Adds a part and its error message to the failures. */
void cli_report_fail(cli_report *report, const char *part, const char *message);

/* Writes both files. doing: the part that runs next; NULL: all parts are done. */
void cli_report_save(cli_report *report, const char *doing);

/* ------------------------------------------------ the parts, which add to the object */

/* "device": names, versions, limits, float properties and extensions. */
void cli_report_device(cli_report *report);

/* "shape" and "start". It opens the queue and the context, and fails if there is none. */
int cli_report_context(cli_report *report);

/* "start": the time of the first token. */
void cli_report_first(cli_report *report);

/* "compile" and "programs": compiles the programs of all features. */
void cli_report_compile(cli_report *report);

/* "programs": those that are compiled so far. */
void cli_report_programs(cli_report *report);

/* ----------------------------------------------------------------------- the page */

#define CLI_PAGE_TITLE "# clsample report: " /* what a page begins with */

void cli_report_page(const json_t *json, FILE *file);

#endif
