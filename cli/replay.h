/* SPDX-License-Identifier: MIT */
/* The parts of clsample replay: cli/replay.c and cli/replay_reason.c. */
#ifndef CLS_CLI_REPLAY_H
#define CLS_CLI_REPLAY_H

#include "log.h"

/* Writes why the reference does not draw the logged token, 0 or more, although it draws another. */
int cli_replay_reason(const cli_logged *logged, char *text, size_t size);

#endif
