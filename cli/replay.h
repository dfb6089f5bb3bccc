/* SPDX-License-Identifier: MIT */
/* The parts of clsample replay: cli/replay.c and cli/replay_reason.c. */
#ifndef CLS_CLI_REPLAY_H
#define CLS_CLI_REPLAY_H

#include "log.h"

/* Writes why the reference gives another token than the log, or nothing where the token's status
 * says that. */
int cli_replay_reason(const cli_logged *logged, const cls_host_result *drawn, char *text,
                      size_t size);

#endif
