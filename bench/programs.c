/* SPDX-License-Identifier: MIT */
/* The library's programs as a driver gets them: a line each, and the text of one.
 *
 *     programs [GROUP [VECTOR [SUBGROUPS]]]    name, kernel file, whether it goes over tiles,
 * options programs --text NAME                     its source
 *
 * For bench/gpu-resources.sh, which compiles them for GPUs that are not there. */
#include "programs/programs.h"

#include <stdio.h>
#include <stdlib.h>

static int print_text(const char *name)
{
    for (int v = 0; v < CLS_VARIANTS; v++) {
        if (strcmp(cls_variants[v].name, name) != 0)
            continue;
        for (unsigned i = 0; i < *cls_variants[v].count; i++)
            fputs(cls_variants[v].source[i], stdout);
        return 0;
    }
    fprintf(stderr, "programs: there is no program %s\n", name);
    return 1;
}

int main(int argc, char **argv)
{
    cls_shape shape;
    cls_grouping as = {256, CLS_TIER_INT64, CLS_SUBGROUPS_NONE, 120, 1024};
    if (argc == 3 && strcmp(argv[1], "--text") == 0)
        return print_text(argv[2]);
    memset(&shape, 0, sizeof shape);
    shape.vector = 4;
    shape.extra = "";
    if (argc > 1)
        as.group = (uint32_t)strtoul(argv[1], NULL, 10);
    if (argc > 2)
        shape.vector = (uint32_t)strtoul(argv[2], NULL, 10);
    if (argc > 3)
        as.subgroups = (uint32_t)strtoul(argv[3], NULL, 10);
    if (as.subgroups != CLS_SUBGROUPS_NONE)
        as.tier = CLS_TIER_SUBGROUPS;
    shape.nvidia = as.subgroups == CLS_SUBGROUPS_NV;
    for (int v = 0; v < CLS_VARIANTS; v++) {
        char options[CLS_BUILD_OPTIONS];
        cls_program_options(&shape, &as, CLS_F32, &cls_variants[v], options);
        printf("%s %s %d %s\n", cls_variants[v].name, cls_variants[v].file,
               cls_kernel_part(cls_variants[v].kernel) == CLS_OVER_TILES, options);
    }
    return 0;
}
