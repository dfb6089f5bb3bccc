/* SPDX-License-Identifier: MIT */
/* Finds the sub-groups of a device by its extensions, and tests on the device whether sub-groups
 * and work-groups compute correctly. */
#include "device/device.h"
#include "core/groups_test.h"

#include <stdio.h>
#include <stdlib.h>

#define COMPUTE_CAPABILITY_MAJOR_NV 0x4000
#define NO_SUBGROUPS "the device has no sub-groups that the library supports"

/* The kinds of sub-groups by extension. Vendors' extensions come first, since they work in OpenCL C
 * 1.2. Some devices with a vendor's extension lack Khronos' (Adreno), and some drivers report the
 * feature of sub-groups without its extension (rusticl). The last entry is therefore the extension
 * of the shuffle, which the kernels use. */
static const struct {
    const char *extension;
    uint32_t subgroups;
} known[] = {
    {"cl_nv_device_attribute_query", CLS_SUBGROUPS_NV},
    {"cl_qcom_subgroup_shuffle", CLS_SUBGROUPS_QCOM},
    {"cl_intel_subgroups", CLS_SUBGROUPS_INTEL},
    {"cl_amd_device_attribute_query", CLS_SUBGROUPS_AMD},
    {"cl_khr_subgroup_shuffle", CLS_SUBGROUPS_KHR},
};

/* The platforms whose sub-groups are tried on CPUs. A driver's fault there may be one that no test
 * catches: PoCL 6.0 never comes to the end of compiling the test of groups, whose loops of barriers
 * and shuffles it turns into loops over work-items. The library's own shape has groups of one
 * work-item on CPUs, so that a driver that is missing here only loses what was asked for. Intel's
 * runtime agrees in all cases of the self-test in groups of 64 and 256 with sub-groups
 * (doc/devices.md). Nobody has seen rusticl's programs of such groups to their end. */
static const char *const platforms_of_cpus[] = {"Intel(R) OpenCL"};

/* Whether a list of words, separated by spaces, contains a word. */
static int has_word(const char *list, const char *word)
{
    const size_t n = strlen(word);
    for (const char *at = strstr(list, word); at != NULL; at = strstr(at + n, word))
        if ((at == list || at[-1] == ' ') && (at[n] == ' ' || at[n] == '\0'))
            return 1;
    return 0;
}

/* Returns a text that the device reports, to be freed, or NULL. */
static char *text_of(cl_device_id device, cl_device_info what)
{
    size_t size = 0;
    if (clGetDeviceInfo(device, what, 0, NULL, &size) != CL_SUCCESS)
        return NULL;
    char *const text = calloc(size + 1, 1);
    if (text != NULL && clGetDeviceInfo(device, what, size, text, NULL) == CL_SUCCESS)
        return text;
    free(text);
    return NULL;
}

/* Whether the shuffle is in the device's core, so that its extension need not be listed. */
static int has_core_shuffle(cl_device_id device)
{
    int major = 0, minor = 0;
    char *const version = text_of(device, CL_DEVICE_VERSION);
    const int n = version != NULL ? sscanf(version, "OpenCL %d.%d", &major, &minor) : 0;
    free(version);
    return n == 2 && (major > 3 || (major == 3 && minor >= 1));
}

/* Whether Adreno's compiler miscompiles sub-groups or crashes on them: E031.38 and E031.41 do, and
 * E031.45 does not. */
static int has_broken_compiler(cl_device_id device)
{
    char *const driver = text_of(device, CL_DRIVER_VERSION);
    const char *const at = driver != NULL ? strstr(driver, "E031.") : NULL;
    int version = 0;
    const int broken = at != NULL && sscanf(at, "E031.%d", &version) == 1 && version < 45;
    free(driver);
    return broken;
}

/* Whether a CPU's sub-groups are tried. */
static int is_trusted_cpu(cl_device_id device)
{
    cl_platform_id platform = NULL;
    char name[64] = "";
    if (clGetDeviceInfo(device, CL_DEVICE_PLATFORM, sizeof platform, &platform, NULL) !=
            CL_SUCCESS ||
        platform == NULL ||
        clGetPlatformInfo(platform, CL_PLATFORM_NAME, sizeof name - 1, name, NULL) != CL_SUCCESS)
        return 0;
    for (size_t i = 0; i < sizeof platforms_of_cpus / sizeof platforms_of_cpus[0]; i++)
        if (strcmp(name, platforms_of_cpus[i]) == 0)
            return 1;
    return 0;
}

/* Returns the kind of sub-groups that a device's extensions and its version suggest. */
static uint32_t suggested(cl_device_id device, const char *list)
{
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (has_word(list, known[i].extension))
            return known[i].subgroups;
    return has_core_shuffle(device) ? CLS_SUBGROUPS_KHR : CLS_SUBGROUPS_NONE;
}

/* Returns NULL if sub-groups of this kind may be tried on a device of this type, otherwise the
 * reason. `list`: its extensions. */
static const char *why_not(cl_device_id device, cl_device_type type, const char *list,
                           uint32_t kind)
{
    cl_uint major = 0;
    /* AMD's builtins exist in the compiler for GPUs only. */
    if (kind == CLS_SUBGROUPS_NONE || (kind == CLS_SUBGROUPS_AMD && !(type & CL_DEVICE_TYPE_GPU)))
        return NO_SUBGROUPS;
    if ((type & CL_DEVICE_TYPE_CPU) && !is_trusted_cpu(device))
        return "the device is a CPU with a driver whose sub-groups the library does not trust";
    if (strstr(list, "cl_qcom_") != NULL && has_broken_compiler(device))
        return "the device's compiler is older than E031.45 and miscompiles sub-groups";
    if (kind == CLS_SUBGROUPS_NV && (clGetDeviceInfo(device, COMPUTE_CAPABILITY_MAJOR_NV,
                                                     sizeof major, &major, NULL) != CL_SUCCESS ||
                                     major < 7))
        return "the device is older than Volta and has no shfl.sync";
    return NULL;
}

uint32_t cls_subgroups_candidate(cl_device_id device, const char **reason)
{
    cl_device_type type = 0;
    *reason = NULL;
    if (cls_test_subgroups != CLS_SUBGROUPS_NONE)
        return cls_test_subgroups;
    *reason = NO_SUBGROUPS;
    if (clGetDeviceInfo(device, CL_DEVICE_TYPE, sizeof type, &type, NULL) != CL_SUCCESS)
        return CLS_SUBGROUPS_NONE;
    char *const list = text_of(device, CL_DEVICE_EXTENSIONS);
    if (list == NULL)
        return CLS_SUBGROUPS_NONE;
    const uint32_t kind = suggested(device, list);
    *reason = why_not(device, type, list, kind);
    free(list);
    return *reason == NULL ? kind : CLS_SUBGROUPS_NONE;
}

/* Compares what the kernel cls_groups_test wrote with what it must write. Returns NULL, or what is
 * wrong. Without sub-groups (`subgroups`) words 12 and 13 are constants. */
static const char *check_output(const uint32_t *out, uint32_t group, uint32_t subgroups)
{
    static const char unwritten[] = "work-items do not write what they compute";
    static const uint32_t halves[4] = {0x3f800000u, 0xc0000000u, 0x33800000u, 0x477fe000u};
    const uint32_t size = out[12];
    int32_t max = INT32_MIN, min = INT32_MAX;
    uint32_t low = UINT32_MAX, sum = 0, any = 0, high = 0, floats = 0;
    uint64_t mass = 0;
    if (subgroups == CLS_SUBGROUPS_NONE && size != 1)
        return unwritten;
    if (size == 0 || (size & (size - 1)) != 0 || group % size != 0)
        return "the size of sub-groups does not divide that of the group";
    for (uint32_t i = 0; i < group; i++) {
        const uint32_t x = group_test_input(i);
        max = (int32_t)x > max ? (int32_t)x : max;
        min = (int32_t)x < min ? (int32_t)x : min;
        low = x < low ? x : low;
        sum += x;
        any |= x & 0x01010101u;
        high = x >> 8 > high ? x >> 8 : high;
        floats += x >> 24;
        mass += (uint64_t)(x >> 16) << 32 | x;
    }
    const uint32_t ranges = (uint32_t)CLS_AS_I32((float)(low >> 8)) +
                            3 * (uint32_t)CLS_AS_I32((float)high) + 5 * (uint32_t)min + 7 * low;
    uint32_t before = 0;
    uint64_t mass_before = 0;
    for (uint32_t i = 0; i < group; i++) {
        const uint32_t *const got = out + (size_t)i * CLS_GROUP_WORDS, x = group_test_input(i);
        if (got[12] != size || got[13] != i % size)
            return subgroups == CLS_SUBGROUPS_NONE
                       ? unwritten
                       : "sub-groups do not consist of consecutive work-items";
        if (got[0] != (uint32_t)max || got[1] != sum || got[2] != any ||
            got[3] != (uint32_t)CLS_AS_I32((float)high) ||
            got[4] != (uint32_t)CLS_AS_I32((float)floats) || got[5] != (uint32_t)(mass >> 32) ||
            got[6] != (uint32_t)mass || got[15] != ranges)
            return "a reduction is wrong";
        if (got[7] != before || got[8] != sum || got[9] != (uint32_t)(mass_before >> 32) ||
            got[10] != (uint32_t)mass_before)
            return "a scan is wrong";
        if (got[11] != group_test_input(group - 1))
            return "a broadcast is wrong";
        if (got[14] != halves[i & 3])
            return "float16 values are read wrongly in this version of OpenCL C";
        before += x;
        mass_before += (uint64_t)(x >> 16) << 32 | x;
    }
    return NULL;
}

/* The test's memory, on the host and on the device. */
typedef struct groups_test {
    cl_command_queue queue;
    cl_kernel kernel;
    uint32_t group;
    size_t size[3];    /* of the buffers, in bytes */
    cl_mem buffer[3];  /* what a group wrote, float16 values, and which items differ */
    uint32_t *host[3]; /* the contents of the first and the last of them */
} groups_test;

enum { OUT, HALVES, WRONG };
enum { GROUPS_OF_UNIT = 32, MOST_UNITS = 128 };

static void close_test(groups_test *t)
{
    for (int i = 0; i < 3; i++) {
        if (t->buffer[i] != NULL)
            clReleaseMemObject(t->buffer[i]);
        free(t->host[i]);
    }
    if (t->kernel != NULL)
        clReleaseKernel(t->kernel);
    if (t->queue != NULL)
        clReleaseCommandQueue(t->queue);
}

static cl_int open_test(cl_context cl, cl_device_id device, cl_program program, uint32_t group,
                        size_t groups, groups_test *t)
{
    static const uint16_t halves[4] = {0x3c00, 0xc000, 0x0001, 0x7bff};
    const size_t sizes[3] = {(size_t)group * CLS_GROUP_WORDS * sizeof(uint32_t), sizeof halves,
                             groups * group * sizeof(uint32_t)};
    cl_int code = CL_SUCCESS;
    memset(t, 0, sizeof *t);
    t->group = group;
    for (int i = 0; i < 3; i++)
        if ((t->host[i] = calloc(1, t->size[i] = sizes[i])) == NULL)
            return CL_OUT_OF_HOST_MEMORY;
    memcpy(t->host[HALVES], halves, sizeof halves);
    t->queue = clCreateCommandQueue(cl, device, 0, &code);
    if (code == CL_SUCCESS)
        t->kernel = clCreateKernel(program, "cls_groups_test", &code);
    for (cl_uint i = 0; i < 3 && code == CL_SUCCESS; i++) {
        t->buffer[i] = clCreateBuffer(cl, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, t->size[i],
                                      t->host[i], &code);
        if (code == CL_SUCCESS)
            code = clSetKernelArg(t->kernel, i, sizeof t->buffer[i], &t->buffer[i]);
    }
    return code;
}

/* Runs a number of groups, some times, and reads a buffer that they write. */
static cl_int run_groups(groups_test *t, size_t groups, int times, cl_uint compares, int buffer)
{
    const size_t local = t->group, global = groups * local;
    cl_int code = clSetKernelArg(t->kernel, 3, sizeof compares, &compares);
    for (int i = 0; i < times && code == CL_SUCCESS; i++)
        code = clEnqueueNDRangeKernel(t->queue, t->kernel, 1, NULL, &global, &local, 0, NULL, NULL);
    return code == CL_SUCCESS ? clEnqueueReadBuffer(t->queue, t->buffer[buffer], CL_TRUE, 0,
                                                    t->size[buffer], t->host[buffer], 0, NULL, NULL)
                              : code;
}

/* Returns how many units to fill. Oclgrind would simulate those of a GPU for minutes. */
static uint32_t units_to_fill(cl_device_id device, const cls_shape *shape)
{
    const uint32_t units = shape->compute_units;
    char version[256] = "";
    clGetDeviceInfo(device, CL_DEVICE_VERSION, sizeof version - 1, version, NULL);
    return units < 1 || strstr(version, "Oclgrind") != NULL ? 1
           : units > MOST_UNITS                             ? MOST_UNITS
                                                            : units;
}

/* Runs the built program in as many groups as fill the device, four times. Sets *differ if a group
 * computes other words than the first one did. */
static cl_int compare_groups(groups_test *t, size_t groups, int *differ)
{
    const cl_int code = run_groups(t, groups, 4, 1, WRONG);
    *differ = 0;
    for (size_t i = 0; i < groups * t->group && code == CL_SUCCESS; i++)
        *differ |= t->host[WRONG][i] != 0;
    return code;
}

/* Runs the built program in one group, then in many. Returns NULL, or what is wrong. */
static const char *test_groups(cl_context cl, cl_device_id device, cl_program program,
                               const cls_shape *shape, uint32_t group, uint32_t subgroups)
{
    const size_t groups = (size_t)GROUPS_OF_UNIT * units_to_fill(device, shape);
    const char *reason = NULL;
    int differ = 0;
    groups_test t;
    cl_int code = open_test(cl, device, program, group, groups, &t);
    if (code == CL_SUCCESS)
        code = run_groups(&t, 1, 1, 0, OUT);
    if (code == CL_SUCCESS)
        reason = check_output(t.host[OUT], group, subgroups);
    if (code == CL_SUCCESS && reason == NULL)
        code = compare_groups(&t, groups, &differ);
    if (differ)
        reason = "results differ from group to group";
    if (code != CL_SUCCESS)
        reason = code == CL_OUT_OF_HOST_MEMORY ? "there is no host memory for the test of groups"
                                               : "the test of groups did not run";
    close_test(&t);
    return reason;
}

/* Tests one size of group, with sub-groups or without. Returns NULL if it computes correctly,
 * otherwise the reason. */
static const char *test_group(cl_context cl, cl_device_id device, const cls_shape *shape,
                              uint32_t group, uint32_t subgroups)
{
    char options[96];
    const char *reason = "the test of groups does not compile";
    cl_int code;
    const cl_program program =
        cls_program_create(cl, cls_source_groups_test, cls_source_groups_test_count, &code);
    if (code != CL_SUCCESS)
        return "the test of groups cannot be created";
    snprintf(options, sizeof options, "-w -cl-std=CL%u.%u -DWGS=%u -DSUBGROUPS=%u",
             (unsigned)shape->standard / 100, (unsigned)shape->standard / 10 % 10, (unsigned)group,
             (unsigned)subgroups);
    if (clBuildProgram(program, 1, &device, options, NULL, NULL) == CL_SUCCESS)
        reason = test_groups(cl, device, program, shape, group, subgroups);
    clReleaseProgram(program);
    return reason;
}

const char *cls_subgroups_find(cl_context cl, cl_device_id device, cls_shape *shape)
{
    /* Khronos' functions require OpenCL C 2.0, 3.0 or 3.1, depending on the driver. */
    static const uint32_t standards[] = {310, 120, 300, 200};
    const uint32_t groups[2] = {shape->work_group, shape->row_group};
    const char *reason;
    const uint32_t candidate = cls_subgroups_candidate(device, &reason);
    const int first = candidate == CLS_SUBGROUPS_KHR && has_core_shuffle(device) ? 0 : 1;
    for (int i = first; i < 4 && candidate != CLS_SUBGROUPS_NONE; i++) {
        shape->subgroups = candidate;
        shape->standard = standards[i];
        reason = groups[0] == 1 && groups[1] == 1 ? "groups have one work-item" : NULL;
        for (int k = 0; k < 2 && reason == NULL; k++)
            if (groups[k] > 1)
                reason = test_group(cl, device, shape, groups[k], shape->subgroups);
        if (reason == NULL || (candidate != CLS_SUBGROUPS_KHR && candidate != CLS_SUBGROUPS_QCOM))
            break;
    }
    if (reason != NULL) {
        shape->subgroups = CLS_SUBGROUPS_NONE;
        shape->standard = 120;
    }
    return reason;
}

const char *cls_groups_check(cl_context cl, cl_device_id device, const cls_shape *shape)
{
    const uint32_t groups[2] = {shape->work_group, shape->row_group};
    const char *reason = NULL;
    for (int k = 0; k < 2 && reason == NULL; k++)
        if (groups[k] > 1 && (k == 0 || groups[k] != groups[0]))
            reason = test_group(cl, device, shape, groups[k], CLS_SUBGROUPS_NONE);
    return reason;
}
