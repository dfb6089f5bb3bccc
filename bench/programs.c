/* SPDX-License-Identifier: MIT */
/* Lists the library's programs, or prints the source of one, as a driver gets it.
 *
 *     programs [GROUP [VECTOR [SUBGROUPS]]]    a line for each program: its name, its kernel file,
 *                                              whether it runs over tiles, its build options
 *     programs --text NAME                     the source of a program
 *     programs --log [NAME]                    the log of the driver's compiler for each program,
 *                                              or for one, on the first device, in the shape that
 *                                              it gets; NVIDIA's says what registers a kernel takes
 *     programs --build NAME DTYPE              compiles it as a context does for logits of this
 *                                              type (f32, f16, bf16), so that the driver's cache
 *                                              has it
 *
 * bench/gpu-resources.sh compiles them for GPUs that the machine does not have. */
#include "programs/programs.h"

#include <stdio.h>
#include <stdlib.h>

/* Prints the name of a program and the compiler's log. */
static int print_log(cl_context cl, cl_device_id device, const cls_shape *shape,
                     const cls_variant *variant, int32_t dtype, int verbose)
{
    const cls_build_config as = {cls_kernel_covers_tiles(variant->kernel) ? shape->work_group
                                                                          : shape->row_group,
                                 shape->tier, shape->subgroups, shape->standard, shape->shortlist};
    char options[CLS_BUILD_OPTIONS + 32], *log;
    size_t size = 0;
    cl_int code;
    cls_program_options(shape, &as, dtype, variant, options);
    if (shape->nvidia && verbose)
        strcat(options, " -cl-nv-verbose");
    printf("program %s %s\n", variant->name, options);
    const cl_program program = cls_program_create(cl, variant->source, *variant->count, &code);
    if (code == CL_SUCCESS)
        code = clBuildProgram(program, 1, &device, options, NULL, NULL);
    if (program != NULL) {
        clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, 0, NULL, &size);
        log = calloc(size + 1, 1);
        if (log != NULL)
            clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, size, log, NULL);
        puts(log != NULL ? log : "");
        free(log);
        clReleaseProgram(program);
    }
    if (code != CL_SUCCESS)
        fprintf(stderr, "programs: %s does not compile (OpenCL error %d)\n", variant->name,
                (int)code);
    return code != CL_SUCCESS;
}

/* Of the programs of that name; NULL: of all. */
static int print_logs(const char *name, int32_t dtype, int verbose)
{
    cl_platform_id platform;
    cl_device_id device;
    cls_shape shape;
    cl_int code;
    int failed = 0, found = 0;
    if (clGetPlatformIDs(1, &platform, NULL) != CL_SUCCESS ||
        clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL) != CL_SUCCESS) {
        fputs("programs: no OpenCL device\n", stderr);
        return 77;
    }
    if (cls_shape_query(device, NULL, &shape) != CLS_OK) {
        fprintf(stderr, "programs: %s\n", cls_error_message());
        return 1;
    }
    const cl_context cl = clCreateContext(NULL, 1, &device, NULL, NULL, &code);
    if (code != CL_SUCCESS) {
        fprintf(stderr, "programs: no context (OpenCL error %d)\n", (int)code);
        return 1;
    }
    if (shape.tier == CLS_TIER_SUBGROUPS && cls_subgroups_find(cl, device, &shape) != NULL)
        shape.tier = CLS_TIER_INT64;
    for (int v = 0; v < CLS_VARIANTS; v++) {
        if (name != NULL && strcmp(cls_variants[v].name, name) != 0)
            continue;
        found = 1;
        failed |= print_log(cl, device, &shape, &cls_variants[v], dtype, verbose);
    }
    clReleaseContext(cl);
    return failed || !found;
}

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

static int32_t dtype_of(const char *name)
{
    return strcmp(name, "f16") == 0 ? CLS_F16 : strcmp(name, "bf16") == 0 ? CLS_BF16 : CLS_F32;
}

int main(int argc, char **argv)
{
    cls_shape shape;
    cls_build_config as = {256, CLS_TIER_INT64, CLS_SUBGROUPS_NONE, 120, 1024};
    if (argc == 3 && strcmp(argv[1], "--text") == 0)
        return print_text(argv[2]);
    if (argc >= 2 && argc <= 3 && strcmp(argv[1], "--log") == 0)
        return print_logs(argc == 3 ? argv[2] : NULL, CLS_F32, 1);
    if (argc == 4 && strcmp(argv[1], "--build") == 0)
        return print_logs(argv[2], dtype_of(argv[3]), 0);
    memset(&shape, 0, sizeof shape);
    shape.vector = 4;
    shape.by_value = 1;
    shape.extra_options = "";
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
               cls_kernel_covers_tiles(cls_variants[v].kernel), options);
    }
    return 0;
}
