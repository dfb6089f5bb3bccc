/* SPDX-License-Identifier: MIT */
/* Why a call of the library or of OpenCL failed, in the words of the command. */
#include <stdio.h>
#include <string.h>

#include "common/cli.h"

const char *cli_reason(void)
{
    static const char *const names[][2] = {{"options->binary or cache_dir", "--cache-dir"},
                                           {"options->tier", "--tier"},
                                           {"CLS_TIER_SUBGROUPS", "subgroups"},
                                           {"options->max_work_group", "--max-work-group"},
                                           {"options->max_local_mem_size", "--max-local-mem"},
                                           {"options->max_parameter_size", "--max-parameters"},
                                           {"options->cache_dir", "--cache-dir"},
                                           {"options->work_group", "--work-group"},
                                           {"options->row_group", "--row-group"},
                                           {"options->vector", "--vector"},
                                           {"options->shortlist", "--shortlist"},
                                           {"options->groups_per_unit", "--groups-per-unit"}};
    static char text[1024];
    const char *at = cls_error_message();
    size_t n = 0;
    while (*at != '\0' && n + 1 < sizeof text) {
        size_t i = 0;
        while (i < sizeof names / sizeof *names && strncmp(at, names[i][0], strlen(names[i][0])))
            i++;
        if (i == sizeof names / sizeof *names) {
            text[n++] = *at++;
            continue;
        }
        n += (size_t)snprintf(text + n, sizeof text - n, "%s", names[i][1]);
        at += strlen(names[i][0]);
    }
    text[n < sizeof text ? n : sizeof text - 1] = '\0';
    return text;
}

int cli_try(cls_status status, const char *what)
{
    return status == CLS_OK ? 0 : cli_fail("%s: %s", what, cli_reason());
}

int cli_try_opencl(cl_int error, const char *what)
{
    return error == CL_SUCCESS ? 0 : cli_fail("%s: OpenCL error %d", what, (int)error);
}
