/* SPDX-License-Identifier: MIT */
/* The reference as functions of one row. */
#ifndef CLS_STATELESS_H
#define CLS_STATELESS_H

#include "reference/reference.h"

/* A row as a request on the host of its own. */
typedef struct cls_stateless {
    cls_host_row row;
    cls_params params;
    cls_host *host;
    cls_row_inputs in;
} cls_stateless;

/* Checks a row and opens it; cls_host_destroy(w->host) closes it in any case. */
cls_status cls_stateless_open(cls_stateless *w, const cls_host_row *row);

/* Does what cls_host_sample() does, and sets the record of the row: its masses, target and cut.
 * Fails as that does. */
cls_status cls_reference(const cls_host_row *row, cls_row *trace, cls_host_result *result);

cls_status cls_kept_check(const char *name, const int32_t *ids, uint32_t capacity, uint32_t vocab);

#endif
