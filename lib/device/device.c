/* SPDX-License-Identifier: MIT */
/* Queries a device's limits and chooses the shape of the kernels for it. No other file queries
 * limits. */
#include "device/device.h"

#include <stdio.h>
#include <stdlib.h>

static cls_status get_info(cl_device_id device, cl_device_info info, const char *name, size_t size,
                           void *value)
{
    const cl_int code = clGetDeviceInfo(device, info, size, value, NULL);
    return cls_opencl_status(code, "cannot query the device's %s", name);
}
/* Queries one value, or returns from the calling function with the error. */
#define GET(info, value) \
    do { \
        const cls_status got = get_info(device, info, #info, sizeof(value), &(value)); \
        if (got != CLS_OK) \
            return got; \
    } while (0)

/* Bytes of local memory that the row kernels' list and scratch take (cl/row/shortlist.cl), and in
 * groups of several items the view of the row, 360 bytes (cl/row/view.cl). */
static uint64_t list_bytes(uint64_t entries, uint64_t work_group)
{
    return entries * (4 * sizeof(uint32_t) + sizeof(uint64_t)) + work_group * sizeof(uint64_t) +
           (work_group == 1 ? 64 : 384);
}

/* Bytes of local memory that the kernels over tiles need. The pass needs most. If a group has
 * several work-items, it keeps a sum per pivot and share, which is the part of a tile that one
 * work-item measures. If several shares make up a max tile, it also keeps a sum per pivot and max
 * tile. See cl/row/measure.cl. */
static uint64_t survey_bytes(uint64_t vector, uint64_t work_group)
{
    const uint64_t shares = CLS_TILE / vector / 4, teams = work_group / shares;
    const uint64_t sums = teams == 0 ? work_group : teams * shares;
    const uint64_t folded =
        teams == 0 || shares == CLS_MAX_TILES_PER_TILE ? 0 : teams * CLS_MAX_TILES_PER_TILE;
    return work_group == 1 ? 64 : (sums + folded) * CLS_PIVOTS * sizeof(uint64_t) + 384;
}

/* ------------------------------------------------------------------ the device */

/* The device's properties on which the shape depends. */
typedef struct properties {
    cl_device_type type;
    cl_bool available, compiler, little_endian;
    cl_uint compute_units, vector_width;
    cl_ulong local_mem_size;
    size_t max_work_group, max_parameter_size;
    cl_device_fp_config float_config;
    int int64;  /* 1 if the device has 64-bit integers */
    int nvidia; /* 1 if the compiler accepts cl_nv_compiler_options */
    int intel;  /* 1 if it is Intel's compiler for CPUs */
    char version[128];
} properties;

/* Sets int64, nvidia and intel. A device of the embedded profile has 64-bit integers only if it
 * reports cles_khr_int64. */
static cls_status query_extensions(cl_device_id device, properties *p)
{
    char profile[64] = "", *extensions;
    size_t size = 0;
    GET(CL_DEVICE_PROFILE, profile);
    p->int64 = strcmp(profile, "EMBEDDED_PROFILE") != 0;
    cl_int code = clGetDeviceInfo(device, CL_DEVICE_EXTENSIONS, 0, NULL, &size);
    if (code != CL_SUCCESS || size == 0)
        return cls_opencl_status(code, "cannot query the device's CL_DEVICE_EXTENSIONS");
    if ((extensions = calloc(size + 1, 1)) == NULL)
        return cls_no_memory("the device's extensions");
    code = clGetDeviceInfo(device, CL_DEVICE_EXTENSIONS, size, extensions, NULL);
    p->int64 = p->int64 || strstr(extensions, "cles_khr_int64") != NULL;
    p->nvidia = strstr(extensions, "cl_nv_compiler_options") != NULL;
    p->intel = strstr(extensions, "cl_intel_vec_len_hint") != NULL;
    free(extensions);
    return cls_opencl_status(code, "cannot query the device's CL_DEVICE_EXTENSIONS");
}

static cls_status query_properties(cl_device_id device, properties *p)
{
    int major = 0, minor = 0;
    memset(p, 0, sizeof *p);
    GET(CL_DEVICE_TYPE, p->type);
    GET(CL_DEVICE_AVAILABLE, p->available);
    GET(CL_DEVICE_COMPILER_AVAILABLE, p->compiler);
    GET(CL_DEVICE_ENDIAN_LITTLE, p->little_endian);
    GET(CL_DEVICE_MAX_COMPUTE_UNITS, p->compute_units);
    GET(CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT, p->vector_width);
    GET(CL_DEVICE_LOCAL_MEM_SIZE, p->local_mem_size);
    GET(CL_DEVICE_MAX_WORK_GROUP_SIZE, p->max_work_group);
    GET(CL_DEVICE_SINGLE_FP_CONFIG, p->float_config);
    GET(CL_DEVICE_MAX_PARAMETER_SIZE, p->max_parameter_size);
    GET(CL_DEVICE_VERSION, p->version);
    p->version[sizeof p->version - 1] = '\0';
    if (!p->available)
        return cls_fail(CLS_UNSUPPORTED_DEVICE, CL_SUCCESS,
                        "the device reports that it is not available");
    if (!p->little_endian)
        return cls_fail(CLS_UNSUPPORTED_DEVICE, CL_SUCCESS,
                        "the device is big-endian; the library requires a little-endian device");
    if (sscanf(p->version, "OpenCL %d.%d", &major, &minor) != 2 || major < 1 ||
        (major == 1 && minor < 2))
        return cls_fail(CLS_UNSUPPORTED_DEVICE, CL_SUCCESS,
                        "the device reports \"%s\"; OpenCL 1.2 or later is required", p->version);
    if (!(p->float_config & CL_FP_INF_NAN))
        return cls_fail(CLS_UNSUPPORTED_DEVICE, CL_SUCCESS,
                        "the device has no infinities and NaN (its CL_DEVICE_SINGLE_FP_CONFIG "
                        "lacks CL_FP_INF_NAN), which the library requires");
    if (p->max_parameter_size < CLS_MAX_ARGUMENTS * sizeof(uint64_t))
        return cls_fail(CLS_UNSUPPORTED_DEVICE, CL_SUCCESS,
                        "the device accepts %zu bytes of kernel arguments; %zu are required",
                        p->max_parameter_size, CLS_MAX_ARGUMENTS * sizeof(uint64_t));
    const cls_status status = query_extensions(device, p);
    return status != CLS_OK || p->int64
               ? status
               : cls_fail(CLS_UNSUPPORTED_DEVICE, CL_SUCCESS,
                          "the device has no 64-bit integers (it is of the embedded profile and "
                          "lacks cles_khr_int64), which the library requires");
}

/* ----------------------------------------------------------------- the options */

enum { DEFAULT_SHORTLIST = 1024 }; /* entries, where local memory allows */

static cls_status check_context_options(const cls_context_options *o)
{
    if (o->vector != 0 && o->vector != 2 && o->vector != 4 && o->vector != 8 && o->vector != 16)
        return cls_refuse("options->vector is %u; it must be 0, 2, 4, 8 or 16",
                          (unsigned)o->vector);
    if (o->shortlist != 0 &&
        (o->shortlist < 16 || o->shortlist > 2048 || (o->shortlist & (o->shortlist - 1)) != 0))
        return cls_refuse(
            "options->shortlist is %u; it must be 0 or a power of two from 16 to 2048",
            (unsigned)o->shortlist);
    if (o->dtypes >> CLS_DTYPES != 0)
        return cls_refuse("options->dtypes is 0x%x, which has bits that belong to no cls_dtype",
                          (unsigned)o->dtypes);
    if (o->work_group > 1024 || o->row_group > 1024)
        return cls_refuse("options->%s is %u; it must be at most 1024",
                          o->work_group > 1024 ? "work_group" : "row_group",
                          (unsigned)(o->work_group > 1024 ? o->work_group : o->row_group));
    if (o->tier > CLS_TIER_SUBGROUPS)
        return cls_refuse("options->tier is %u, which is not a cls_tier", (unsigned)o->tier);
    if (o->max_local_mem_size != 0 && o->max_local_mem_size < 1024)
        return cls_refuse("options->max_local_mem_size is %llu; it must be 0 or at least 1024",
                          (unsigned long long)o->max_local_mem_size);
    if (o->binary == NULL && o->binary_size != 0)
        return cls_refuse("options->binary is NULL, but options->binary_size is %zu; it must be 0",
                          o->binary_size);
    if (o->groups_per_unit > 1024)
        return cls_refuse("options->groups_per_unit is %u; it must be at most 1024",
                          (unsigned)o->groups_per_unit);
    const cls_status reserved = cls_reserved_check("options->reserved", o->reserved);
    if (reserved != CLS_OK)
        return reserved;
    if (o->host_threads > CLS_MAX_THREADS)
        return cls_refuse("options->host_threads is %u; it must be at most %d",
                          (unsigned)o->host_threads, CLS_MAX_THREADS);
    const cls_status status = cls_switch_check("options->cache_always", o->cache_always);
    return status == CLS_OK ? cls_switch_check("options->build_log_stays", o->build_log_stays)
                            : status;
}

/* ------------------------------------------------------------------- the shape */

void cls_shape_adjust_vector(cls_shape *shape)
{
    /* A work-item's sums of weights fit 32-bit lanes for at most 256 vectors of a tile. */
    if (shape->vector == 2 && (shape->work_group == 1 || shape->row_group == 1))
        shape->vector = 4;
}

/* Returns the largest power of two that is not above n. */
static uint32_t power_below(uint64_t n)
{
    uint32_t power = 1;
    while (power <= n / 2 && power < 1024)
        power *= 2;
    return power;
}

/* In groups of 5 Intel's runtime for CPUs gives wrong tokens that no proof sees (doc/porting.md).
 */
static cls_status check_groups(const properties *p, const cls_context_options *o)
{
    const uint32_t n = power_below(o->work_group) == o->work_group ? o->row_group : o->work_group;
    if (!p->intel || n == 0 || power_below(n) == n)
        return CLS_OK;
    return cls_refuse("options->%s is %u; on Intel's runtime for CPUs it must be a power of two, "
                      "since other groups may get wrong tokens there",
                      n == o->work_group ? "work_group" : "row_group", (unsigned)n);
}

/* Groups whose size is chosen here are a power of two, as tests and other users have them. */
static cls_status choose_groups(const properties *p, const cls_context_options *o, cls_shape *shape)
{
    const int cpu = (p->type & CL_DEVICE_TYPE_CPU) != 0;
    const uint64_t local = shape->local_mem_size, group = shape->max_work_group;
    if (o->work_group > group || o->row_group > group)
        return cls_refuse(
            "options->%s is %u; %s %llu", o->work_group > group ? "work_group" : "row_group",
            (unsigned)(o->work_group > group ? o->work_group : o->row_group),
            group < p->max_work_group ? "options->max_work_group is" : "the device takes at most",
            (unsigned long long)group);
    const cls_status status = check_groups(p, o);
    if (status != CLS_OK)
        return status;
    /* Compilers for CPUs make the fastest code of one work-item with wide vectors. A compiler that
     * splits vectors into scalars takes minutes for 16 lanes (llvmpipe: half as long for 8; with 4
     * a loop would exceed the number of trips that llvmpipe allows). */
    shape->work_group = o->work_group != 0 ? o->work_group
                        : cpu              ? 1
                                           : power_below(group < 256 ? group : 256);
    shape->vector = o->vector != 0               ? o->vector
                    : cpu && p->vector_width < 4 ? 8
                    : cpu || local < 8192        ? 16
                                                 : 4;
    while (o->work_group == 0 && shape->work_group > 1 &&
           survey_bytes(shape->vector, shape->work_group) > local)
        shape->work_group /= 2;
    /* On a CPU the work-items of a group run one after another. A row gains nothing from several,
     * and PoCL 3.1 takes minutes to compile the barriers of these kernels. */
    shape->row_group = o->row_group != 0 ? o->row_group : cpu ? 1 : power_below(shape->work_group);
    cls_shape_adjust_vector(shape);
    return CLS_OK;
}

/* Chooses the length of lists, and checks that they and the sums over tiles fit local memory. */
static cls_status choose_shortlist(const properties *p, const cls_context_options *o,
                                   cls_shape *shape)
{
    const uint64_t local = shape->local_mem_size;
    shape->shortlist = o->shortlist != 0 ? o->shortlist : DEFAULT_SHORTLIST;
    while (o->shortlist == 0 && shape->shortlist > 16 &&
           list_bytes(shape->shortlist, shape->row_group) > local)
        shape->shortlist /= 2;
    if (list_bytes(shape->shortlist, shape->row_group) > local ||
        survey_bytes(shape->vector, shape->work_group) > local)
        return cls_no_field(
            cls_fail(o->work_group != 0 || o->row_group != 0 || o->vector != 0 || o->shortlist != 0
                         ? CLS_BAD_ARGUMENT
                         : CLS_UNSUPPORTED_DEVICE,
                     CL_SUCCESS,
                     "work_group %u, row_group %u, vector %u and shortlist %u need more local "
                     "memory than %s, %llu bytes; choose smaller ones",
                     (unsigned)shape->work_group, (unsigned)shape->row_group,
                     (unsigned)shape->vector, (unsigned)shape->shortlist,
                     local < p->local_mem_size ? "options->max_local_mem_size" : "the device has",
                     (unsigned long long)local));
    return CLS_OK;
}

/* GPUs with more local memory run several groups all the same, and few of them say how much a
 * compute unit has. Groups of one work-item are for CPUs, which have no local memory. */
int cls_shape_wants_small_lists(const cls_shape *shape)
{
    const uint64_t local = shape->local_mem_size, group = shape->row_group;
    return cls_test_small_lists || (group > 1 && local <= 32768 &&
                                    local / list_bytes(CLS_SMALL_LIST, group) >
                                        local / list_bytes(shape->shortlist, group));
}

/* Fails if the options name a tier that the device does not have. */
static cls_status choose_tier(cl_device_id device, const cls_context_options *o, cls_shape *shape)
{
    const int several = shape->work_group > 1 || shape->row_group > 1;
    const char *reason = NULL;
    shape->tier = CLS_TIER_INT64;
    shape->subgroups = CLS_SUBGROUPS_NONE;
    shape->standard = 120;
    if (!several)
        reason = "groups have one work-item on this device; set options->work_group";
    else if (o->tier != CLS_TIER_INT64)
        shape->subgroups = cls_subgroups_candidate(device, &reason);
    if (reason != NULL && o->tier == CLS_TIER_SUBGROUPS)
        return cls_fail(CLS_UNSUPPORTED_DEVICE, CL_SUCCESS,
                        "options->tier is CLS_TIER_SUBGROUPS, but %s", reason);
    if (shape->subgroups != CLS_SUBGROUPS_NONE)
        shape->tier = CLS_TIER_SUBGROUPS;
    return CLS_OK;
}

cls_status cls_shape_query(cl_device_id device, const cls_context_options *callers,
                           cls_shape *shape)
{
    cls_context_options o;
    properties p;
    cls_context_options_init(&o);
    cls_status status = callers != NULL ? CLS_STRUCT_READ(&o, callers, "options") : CLS_OK;
    if (status == CLS_OK && device == NULL)
        status = cls_refuse("device is NULL");
    if (status == CLS_OK)
        status = check_context_options(&o);
    if (status == CLS_OK)
        status = cls_opencl_find(&o);
    if (status == CLS_OK)
        status = query_properties(device, &p);
    if (status != CLS_OK)
        return status;
    if (!p.compiler && o.binary == NULL && o.cache_dir == NULL)
        return cls_fail_no_compiler();
    shape->host = 0;
    shape->compiler = p.compiler != CL_FALSE;
    shape->nvidia = p.nvidia;
    shape->extra_options = cls_test_build_options != NULL ? cls_test_build_options : "";
    shape->compute_units = p.compute_units;
    shape->groups_per_unit = o.groups_per_unit != 0 ? o.groups_per_unit : 32;
    shape->local_mem_size = o.max_local_mem_size != 0 && o.max_local_mem_size < p.local_mem_size
                                ? o.max_local_mem_size
                                : p.local_mem_size;
    const uint64_t parameters =
        o.max_parameter_size != 0 && o.max_parameter_size < p.max_parameter_size
            ? o.max_parameter_size
            : p.max_parameter_size;
    shape->by_value = parameters >= CLS_BY_VALUE_SIZE;
    shape->max_work_group = o.max_work_group != 0 && o.max_work_group < p.max_work_group
                                ? o.max_work_group
                                : p.max_work_group;
    status = choose_groups(&p, &o, shape);
    if (status == CLS_OK)
        status = choose_shortlist(&p, &o, shape);
    return status == CLS_OK ? choose_tier(device, &o, shape) : status;
}

cls_status cls_shape_of_host(const cls_context_options *o, cls_shape *shape)
{
    memset(shape, 0, sizeof *shape);
    shape->host = 1;
    shape->work_group = shape->row_group = shape->vector = shape->compute_units = 1;
    shape->shortlist = o->shortlist != 0 ? o->shortlist : DEFAULT_SHORTLIST;
    shape->tier = CLS_TIER_INT64;
    return check_context_options(o);
}

cls_status cls_fail_no_compiler(void)
{
    return cls_fail(CLS_UNSUPPORTED_DEVICE, CL_COMPILER_NOT_AVAILABLE,
                    "the device has no compiler; give options->binary or cache_dir with programs "
                    "that were compiled for this kind of device");
}

uint32_t cls_shape_round(const cls_shape *shape)
{
    const uint32_t shares = CLS_TILE / (4 * shape->vector);
    return shape->work_group > shares ? shape->work_group / shares : 1;
}

/* There are enough groups to fill the device and to balance rows that need less work, but at least
 * one mass tile for each group. As soon as each unit has two groups all the same, a group gets as
 * many tiles as it reads at once, or a multiple: with one tile most of its items would idle, and
 * every group waits for its first logits. The number of tiles is limited so that the loops of a
 * work-item stay below the 65,535 trips that llvmpipe allows. */
uint32_t cls_shape_tiles_per_group(const cls_shape *shape, uint64_t tiles)
{
    const uint64_t units = shape->compute_units, round = cls_shape_round(shape);
    uint64_t n = tiles / (shape->groups_per_unit * units);
    if (tiles >= 2 * units * round)
        n = n < round ? round : n / round * round;
    return n < 1 ? 1 : n > CLS_MOST_TILES_PER_GROUP ? CLS_MOST_TILES_PER_GROUP : (uint32_t)n;
}

/* -------------------------------------------------------------------- queries */

void cls_shape_report(const cls_shape *shape, uint32_t origin, cls_device_info *callers)
{
    cls_device_info info;
    const size_t size = callers->struct_size;
    cls_device_info_init(&info);
    info.struct_size = size;
    info.work_group = shape->work_group;
    info.vector = shape->vector;
    info.row_group = shape->row_group;
    info.shortlist = shape->shortlist;
    info.compute_units = shape->compute_units;
    info.groups_per_unit = shape->groups_per_unit;
    info.local_mem_size = shape->local_mem_size;
    info.max_work_group = shape->max_work_group;
    info.tier = shape->tier;
    info.subgroups = shape->subgroups;
    info.host = (uint32_t)shape->host;
    info.origin = origin;
    info.arithmetic = CLS_ARITHMETIC_VERSION;
    memcpy(callers, &info, size < sizeof info ? size : sizeof info);
}

cls_status cls_device_query(cl_device_id device, const cls_context_options *options,
                            cls_device_info *info)
{
    cls_device_info check;
    cls_shape shape;
    cls_status status = CLS_STRUCT_READ_OUTPUT(&check, info, "info");
    if (status == CLS_OK)
        status = cls_shape_query(device, options, &shape);
    if (status == CLS_OK)
        cls_shape_report(&shape, CLS_ORIGIN_SOURCE, info);
    return status;
}
