/* SPDX-License-Identifier: MIT */
/* The only place that asks a device what it can do, and shapes kernels for it. */
#include "device/device.h"

#include <stdio.h>
#include <stdlib.h>

static cls_status get(cl_device_id device, cl_device_info what, const char *name, size_t size,
                      void *value)
{
    const cl_int code = clGetDeviceInfo(device, what, size, value, NULL);
    return code == CL_SUCCESS
               ? CLS_OK
               : cls_fail(CLS_OPENCL_ERROR, code, "cannot query the device's %s", name);
}
#define GET(what, value) \
    do { \
        const cls_status got = get(device, what, #what, sizeof(value), &(value)); \
        if (got != CLS_OK) \
            return got; \
    } while (0)

/* The local memory that the row kernels' list and scratch take; see cl/row/list.cl. */
static uint64_t list_bytes(uint64_t entries, uint64_t work_group)
{
    return entries * (4 * sizeof(uint32_t) + sizeof(uint64_t)) + work_group * sizeof(uint64_t) + 64;
}

/* What the pass, the largest of the kernels over tiles, takes where a group has
 * several work-items: sums for each pivot by share of a tile and, where shares make up
 * max tiles, by these; see cl/row/measure.cl. */
static uint64_t survey_bytes(uint64_t vector, uint64_t work_group)
{
    const uint64_t shares = CLS_TILE / vector / 4, teams = work_group / shares;
    const uint64_t sums = teams == 0 ? work_group : teams * shares;
    const uint64_t folded =
        teams == 0 || shares == CLS_MAX_TILES_PER_TILE ? 0 : teams * CLS_MAX_TILES_PER_TILE;
    return work_group == 1 ? 64 : (sums + folded) * CLS_PIVOTS * sizeof(uint64_t) + 384;
}

/* ------------------------------------------------------------------ the device */

const char *cls_limits_pretended;

/* What decides the shape. */
typedef struct facts {
    cl_device_type type;
    cl_bool available, compiler, little;
    cl_uint units, wide;
    cl_ulong local;
    size_t group, parameters;
    cl_device_fp_config floats;
    int int64;
    int nvidia; /* whether the compiler takes NVIDIA's options */
    char version[128];
} facts;

/* Embedded profiles have 64-bit integers only where they say so. */
static cls_status ask_extensions(cl_device_id device, facts *f)
{
    char profile[64] = "", *extensions;
    size_t size = 0;
    GET(CL_DEVICE_PROFILE, profile);
    f->int64 = strcmp(profile, "EMBEDDED_PROFILE") != 0;
    cl_int code = clGetDeviceInfo(device, CL_DEVICE_EXTENSIONS, 0, NULL, &size);
    if (code != CL_SUCCESS || size == 0)
        return code == CL_SUCCESS ? CLS_OK
                                  : cls_fail(CLS_OPENCL_ERROR, code,
                                             "cannot query the device's CL_DEVICE_EXTENSIONS");
    if ((extensions = calloc(size + 1, 1)) == NULL)
        return cls_fail(CLS_OUT_OF_MEMORY, CL_SUCCESS,
                        "out of host memory for the device's extensions");
    code = clGetDeviceInfo(device, CL_DEVICE_EXTENSIONS, size, extensions, NULL);
    f->int64 = f->int64 || strstr(extensions, "cles_khr_int64") != NULL;
    f->nvidia = strstr(extensions, "cl_nv_compiler_options") != NULL;
    free(extensions);
    return code == CL_SUCCESS
               ? CLS_OK
               : cls_fail(CLS_OPENCL_ERROR, code, "cannot query the device's CL_DEVICE_EXTENSIONS");
}

static cls_status ask(cl_device_id device, facts *f)
{
    int major = 0, minor = 0;
    memset(f, 0, sizeof *f);
    GET(CL_DEVICE_TYPE, f->type);
    GET(CL_DEVICE_AVAILABLE, f->available);
    GET(CL_DEVICE_COMPILER_AVAILABLE, f->compiler);
    GET(CL_DEVICE_ENDIAN_LITTLE, f->little);
    GET(CL_DEVICE_MAX_COMPUTE_UNITS, f->units);
    GET(CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT, f->wide);
    GET(CL_DEVICE_LOCAL_MEM_SIZE, f->local);
    GET(CL_DEVICE_MAX_WORK_GROUP_SIZE, f->group);
    GET(CL_DEVICE_SINGLE_FP_CONFIG, f->floats);
    GET(CL_DEVICE_MAX_PARAMETER_SIZE, f->parameters);
    GET(CL_DEVICE_VERSION, f->version);
    f->version[sizeof f->version - 1] = '\0';
    if (!f->available)
        return cls_fail(CLS_UNSUPPORTED_DEVICE, CL_SUCCESS,
                        "the device says that it is not available");
    if (!f->little)
        return cls_fail(CLS_UNSUPPORTED_DEVICE, CL_SUCCESS,
                        "the device is big-endian; masks and seeds are little-endian");
    if (sscanf(f->version, "OpenCL %d.%d", &major, &minor) != 2 || major < 1 ||
        (major == 1 && minor < 2))
        return cls_fail(CLS_UNSUPPORTED_DEVICE, CL_SUCCESS,
                        "the device has \"%s\"; OpenCL 1.2 is needed", f->version);
    if (f->parameters < CLS_MAX_ARGUMENTS * sizeof(uint64_t))
        return cls_fail(CLS_UNSUPPORTED_DEVICE, CL_SUCCESS,
                        "the device takes %zu bytes of kernel arguments; %zu are needed",
                        f->parameters, CLS_MAX_ARGUMENTS * sizeof(uint64_t));
    return ask_extensions(device, f);
}

/* ----------------------------------------------------------------- the options */

static cls_status check_options(const cls_context_options *o)
{
    if (o->vector != 0 && o->vector != 2 && o->vector != 4 && o->vector != 8 && o->vector != 16)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS,
                        "options->vector is %u; it must be 0, 2, 4, 8 or 16", (unsigned)o->vector);
    if (o->shortlist != 0 &&
        (o->shortlist < 16 || o->shortlist > 2048 || (o->shortlist & (o->shortlist - 1)) != 0))
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS,
                        "options->shortlist is %u; it must be 0 or a power of two from 16 to 2048",
                        (unsigned)o->shortlist);
    if (o->dtypes >> CLS_DTYPES != 0)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS,
                        "options->dtypes is 0x%x, which has bits beyond the dtypes",
                        (unsigned)o->dtypes);
    if (o->work_group > 1024 || o->row_group > 1024)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "options->%s is %u; it must be at most 1024",
                        o->work_group > 1024 ? "work_group" : "row_group",
                        (unsigned)(o->work_group > 1024 ? o->work_group : o->row_group));
    if (o->tier > CLS_TIER_SUBGROUPS)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "options->tier is %u, which is no cls_tier",
                        (unsigned)o->tier);
    if (o->max_local_mem != 0 && o->max_local_mem < 1024)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS,
                        "options->max_local_mem is %llu; it must be 0 or at least 1024",
                        (unsigned long long)o->max_local_mem);
    if (o->binary == NULL && o->binary_size != 0)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS,
                        "options->binary is NULL, but binary_size is %zu; it must be 0 then",
                        o->binary_size);
    return cls_reserved_check("options->reserved", o->reserved);
}

/* ------------------------------------------------------------------- the shape */

void cls_shape_settle(cls_shape *shape)
{
    /* Sums of weights fit 32-bit lanes for up to 256 vectors of a tile an item. */
    if (shape->vector == 2 && (shape->work_group == 1 || shape->row_group == 1))
        shape->vector = 4;
}

static cls_status choose_groups(const facts *f, const cls_context_options *o, cls_shape *shape)
{
    const int cpu = (f->type & CL_DEVICE_TYPE_CPU) != 0;
    const uint64_t local = shape->local_mem_size, group = shape->max_work_group;
    if (o->work_group > group || o->row_group > group)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "options->%s is %u; %s %llu",
                        o->work_group > group ? "work_group" : "row_group",
                        (unsigned)(o->work_group > group ? o->work_group : o->row_group),
                        group < f->group ? "options->max_work_group is"
                                         : "the device takes at most",
                        (unsigned long long)group);
    /* One item and wide vectors are what compilers for CPUs are fast with; but
     * those that take vectors apart compile 16 lanes for minutes (llvmpipe: 8
     * in half the time, and 4 would make more loop trips than it can count). */
    shape->work_group = o->work_group != 0 ? o->work_group
                        : cpu              ? 1
                        : group < 256      ? (uint32_t)group
                                           : 256;
    shape->vector = o->vector != 0        ? o->vector
                    : cpu && f->wide < 4  ? 8
                    : cpu || local < 8192 ? 16
                                          : 4;
    while (o->work_group == 0 && shape->work_group > 1 &&
           survey_bytes(shape->vector, shape->work_group) > local)
        shape->work_group /= 2;
    /* On a CPU a group's items run one after another: a row gains nothing from
     * several, and PoCL 3.1 needs minutes to compile these kernels' barriers. */
    shape->row_group = o->row_group != 0 ? o->row_group : cpu ? 1 : shape->work_group;
    cls_shape_settle(shape);
    shape->shortlist = o->shortlist != 0 ? o->shortlist : 1024;
    while (o->shortlist == 0 && shape->shortlist > 16 &&
           list_bytes(shape->shortlist, shape->row_group) > local)
        shape->shortlist /= 2;
    if (list_bytes(shape->shortlist, shape->row_group) > local ||
        survey_bytes(shape->vector, shape->work_group) > local)
        return cls_fail(o->work_group != 0 || o->row_group != 0 || o->vector != 0 ||
                                o->shortlist != 0
                            ? CLS_BAD_ARGUMENT
                            : CLS_UNSUPPORTED_DEVICE,
                        CL_SUCCESS,
                        "work_group %u, row_group %u, vector %u and shortlist %u need more local "
                        "memory than %s, %llu bytes",
                        (unsigned)shape->work_group, (unsigned)shape->row_group,
                        (unsigned)shape->vector, (unsigned)shape->shortlist,
                        local < f->local ? "options->max_local_mem" : "the device has",
                        (unsigned long long)local);
    return CLS_OK;
}

static cls_status choose_tier(cl_device_id device, const facts *f, const cls_context_options *o,
                              cls_shape *shape)
{
    const int several = shape->work_group > 1 || shape->row_group > 1;
    const char *why = NULL;
    shape->tier = f->int64 ? CLS_TIER_INT64 : CLS_TIER_BASE;
    shape->subgroups = CLS_SUBGROUPS_NONE;
    shape->standard = 120;
    if (o->tier > CLS_TIER_BASE && !f->int64)
        why = "the device has no 64-bit integers (an embedded profile without cles_khr_int64)";
    else if (o->tier == CLS_TIER_SUBGROUPS && !several)
        why = "groups are of one work-item here; give options->work_group";
    else if (several && f->int64 && (o->tier == CLS_TIER_AUTO || o->tier == CLS_TIER_SUBGROUPS))
        shape->subgroups = cls_subgroups_candidate(device);
    if (why == NULL && o->tier == CLS_TIER_SUBGROUPS && shape->subgroups == CLS_SUBGROUPS_NONE)
        why = "the device has no sub-groups that the library knows";
    if (why != NULL)
        return cls_fail(CLS_UNSUPPORTED_DEVICE, CL_SUCCESS, "options->tier is %s, but %s",
                        o->tier == CLS_TIER_INT64 ? "CLS_TIER_INT64" : "CLS_TIER_SUBGROUPS", why);
    if (shape->subgroups != CLS_SUBGROUPS_NONE)
        shape->tier = CLS_TIER_SUBGROUPS;
    else if (o->tier == CLS_TIER_BASE)
        shape->tier = CLS_TIER_BASE;
    return CLS_OK;
}

cls_status cls_shape_query(cl_device_id device, const cls_context_options *callers,
                           cls_shape *shape)
{
    cls_context_options o;
    facts f;
    cls_context_options_default(&o, sizeof o);
    cls_status status = callers != NULL ? CLS_STRUCT_READ(&o, callers, "options") : CLS_OK;
    if (status == CLS_OK && device == NULL)
        status = cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "device is NULL");
    if (status == CLS_OK)
        status = check_options(&o);
    if (status == CLS_OK)
        status = ask(device, &f);
    if (status != CLS_OK)
        return status;
    if (!f.compiler && o.binary == NULL && o.cache_dir == NULL)
        return cls_shape_no_compiler();
    shape->compiler = f.compiler != CL_FALSE;
    shape->nvidia = f.nvidia;
    shape->extra = cls_limits_pretended != NULL ? cls_limits_pretended : "";
    shape->limited = cls_limits_pretended != NULL || !(f.floats & CL_FP_INF_NAN);
    shape->compute_units = f.units;
    shape->local_mem_size =
        o.max_local_mem != 0 && o.max_local_mem < f.local ? o.max_local_mem : f.local;
    shape->max_work_group =
        o.max_work_group != 0 && o.max_work_group < f.group ? o.max_work_group : f.group;
    status = choose_groups(&f, &o, shape);
    return status == CLS_OK ? choose_tier(device, &f, &o, shape) : status;
}

cls_status cls_shape_no_compiler(void)
{
    return cls_fail(CLS_UNSUPPORTED_DEVICE, CL_COMPILER_NOT_AVAILABLE,
                    "the device has no compiler; give options->binary or cache_dir with programs "
                    "made on such a device");
}

/* --------------------------------------------------------------------- answers */

void cls_shape_tell(const cls_shape *shape, uint32_t origin, cls_device_info *callers)
{
    cls_device_info info;
    const size_t size = callers->struct_size;
    CLS_STRUCT_INIT(&info, sizeof info);
    info.struct_size = size;
    info.work_group = shape->work_group;
    info.vector = shape->vector;
    info.row_group = shape->row_group;
    info.shortlist = shape->shortlist;
    info.compute_units = shape->compute_units;
    info.local_mem_size = shape->local_mem_size;
    info.max_work_group = shape->max_work_group;
    info.tier = shape->tier;
    info.subgroups = shape->subgroups;
    info.origin = origin;
    memcpy(callers, &info, size < sizeof info ? size : sizeof info);
}

cls_status cls_device_query(cl_device_id device, const cls_context_options *options,
                            cls_device_info *info)
{
    cls_device_info check;
    cls_shape shape;
    cls_status status = CLS_STRUCT_OUT(&check, info, "info");
    if (status == CLS_OK)
        status = cls_shape_query(device, options, &shape);
    if (status == CLS_OK)
        cls_shape_tell(&shape, CLS_ORIGIN_SOURCE, info);
    return status;
}

void cls_context_options_default(cls_context_options *options, size_t struct_size)
{
    CLS_STRUCT_INIT(options, struct_size);
}
