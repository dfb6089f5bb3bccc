/* SPDX-License-Identifier: MIT */
/* clsample run --record: the calls of a side as the library writes them (options->record). */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "run/calls.h"

/* Where the text of a sampler goes, and the folder for its other files. */
typedef struct recorded {
    char *text, *folder;
} recorded;

static int write_part(void *user, const char *name, uint64_t offset, const void *bytes, size_t size)
{
    const recorded *const to = user;
    char *path = to->text;
    if (name != NULL) {
        path = cli_alloc(strlen(to->folder) + strlen(name) + 1, 1);
        strcat(strcpy(path, to->folder), name);
    }
    FILE *const file = fopen(path, offset == 0 ? "wb" : "ab");
    if (file == NULL || fwrite(bytes, 1, size, file) != size || fclose(file) != 0)
        cli_die("%s: cannot be written: %s", path, strerror(errno));
    return 0;
}

/* The text of the first sampler of a script is the file that was asked for, FILE.run; those of
 * later ones are FILE-2.run, FILE-3.run and so on. */
void run_record_calls(run_side *side, cls_sampler_options *o)
{
    const char *const path = side->records_to;
    if (path == NULL)
        return;
    const char *const slash = strrchr(path, '/'), *const name = slash != NULL ? slash + 1 : path,
                      *const dot = strrchr(name, '.');
    const int stem = (int)(dot != NULL && dot != name ? (size_t)(dot - path) : strlen(path));
    const size_t size = strlen(path) + 16;
    recorded *const to = cli_alloc(1, sizeof *to);
    char *const prefix = cli_alloc(size, 1);
    char number[16] = "";
    if (side->recorded++ != 0)
        snprintf(number, sizeof number, "-%" PRIu32, side->recorded);
    to->text = cli_alloc(size, 1);
    to->folder = cli_alloc(size, 1);
    snprintf(to->text, size, "%.*s%s%s", stem, path, number, path + stem);
    memcpy(to->folder, path, (size_t)(name - path));
    snprintf(prefix, size, "%.*s%s", stem - (int)(name - path), name, number);
    o->record = write_part;
    o->record_user = to;
    o->record_name = prefix;
    o->record_arrays = 1;
}
