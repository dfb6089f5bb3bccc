/* SPDX-License-Identifier: MIT */
/* What the reference computes of a row on its way. */
#ifndef ONE_ROW_HOST_H
#define ONE_ROW_HOST_H

#include "one_row.h"
#include "host/host.h"

/* A row as a request on the host of its own. */
typedef struct cls_stateless {
    one_row row;
    cls_params params;
    cls_host *host;
    cls_row_inputs in;
} cls_stateless;

/* Opens a row; cls_host_destroy(w->host) closes it in any case. */
cls_status cls_stateless_open(cls_stateless *w, const one_row *row);

/* Does what one_sample() does, and sets the record of the row: its masses, target and cut. */
cls_status cls_reference(const one_row *row, cls_row *trace, one_result *result);

#endif
