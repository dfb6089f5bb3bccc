/* SPDX-License-Identifier: MIT */
#ifndef CLSAMPLE_LITERT_PARAMS_FILE_H
#define CLSAMPLE_LITERT_PARAMS_FILE_H

#include "clsample.h"

#include <stdbool.h>

/* Reads the parameters that LiteRT-LM has no field for from a JSON object into *params, which has
 * defaults or other values. On failure why says why. params_forget() frees the lists in either
 * case. */
bool params_read(const char *path, cls_params *params, char *why, size_t why_size);
void params_forget(cls_params *params);

#endif
