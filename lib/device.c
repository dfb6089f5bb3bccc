/* SPDX-License-Identifier: MIT */
/* The only place that asks a device what it can do, and shapes kernels for it. */
#include "internal.h"

#include <stdio.h>

static cls_status get(cl_device_id device, cl_device_info what, const char *name, size_t size, void *value)
{
    const cl_int code = clGetDeviceInfo(device, what, size, value, NULL);
    return code == CL_SUCCESS ? CLS_OK : cls_fail(CLS_OPENCL_ERROR, code, "cannot query the device's %s", name);
}
#define GET(what, value)                                                    \
    do {                                                                    \
        const cls_status got = get(device, what, #what, sizeof(value), &(value)); \
        if (got != CLS_OK)                                                  \
            return got;                                                     \
    } while (0)

/* The local memory that the row kernels' list and scratch take; see cl/05_shortlist.cl. */
static uint64_t list_bytes(uint64_t entries, uint64_t work_group)
{
    return entries * (4 * sizeof(uint32_t) + sizeof(uint64_t)) + work_group * sizeof(uint64_t) + 64;
}

/* What the survey takes where a group has several work-items. */
static uint64_t survey_bytes(uint64_t vector, uint64_t work_group)
{
    return work_group == 1 ? 64 : CLS_TILE / vector * 4 + CLS_MAX_TILES_PER_TILE * 4 + work_group * sizeof(uint64_t) + 64;
}

cls_status cls_shape_query(cl_device_id device, const cls_context_options *callers, cls_shape *shape)
{
    cls_context_options o;
    cl_device_type type;
    cl_bool available, compiler, little;
    cl_uint units, wide;
    cl_ulong local;
    size_t group;
    char version[128] = "";
    int major = 0, minor = 0;
    cls_context_options_default(&o, sizeof o);
    if (callers != NULL) {
        const cls_status status = cls_struct_read(&o, sizeof o, callers, "options");
        if (status != CLS_OK)
            return status;
    }
    if (device == NULL)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "device is NULL");
    if (o.vector != 0 && o.vector != 2 && o.vector != 4 && o.vector != 8 && o.vector != 16)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "options->vector is %u; it must be 0, 2, 4, 8 or 16",
                        (unsigned)o.vector);
    if (o.shortlist != 0 && (o.shortlist < 16 || o.shortlist > 2048 || (o.shortlist & (o.shortlist - 1)) != 0))
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "options->shortlist is %u; it must be 0 or a power of two from 16 to 2048",
                        (unsigned)o.shortlist);
    if (o.dtypes >> CLS_DTYPES != 0)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "options->dtypes is 0x%x, which has bits beyond the dtypes",
                        (unsigned)o.dtypes);

    GET(CL_DEVICE_TYPE, type);
    GET(CL_DEVICE_AVAILABLE, available);
    GET(CL_DEVICE_COMPILER_AVAILABLE, compiler);
    GET(CL_DEVICE_ENDIAN_LITTLE, little);
    GET(CL_DEVICE_MAX_COMPUTE_UNITS, units);
    GET(CL_DEVICE_PREFERRED_VECTOR_WIDTH_FLOAT, wide);
    GET(CL_DEVICE_LOCAL_MEM_SIZE, local);
    GET(CL_DEVICE_MAX_WORK_GROUP_SIZE, group);
    GET(CL_DEVICE_VERSION, version);
    version[sizeof version - 1] = '\0';
    if (!available)
        return cls_fail(CLS_UNSUPPORTED_DEVICE, CL_SUCCESS, "the device says that it is not available");
    if (!compiler)
        return cls_fail(CLS_UNSUPPORTED_DEVICE, CL_SUCCESS, "the device has no OpenCL C compiler");
    if (!little)
        return cls_fail(CLS_UNSUPPORTED_DEVICE, CL_SUCCESS, "the device is big-endian; masks and seeds are little-endian");
    if (sscanf(version, "OpenCL %d.%d", &major, &minor) != 2 || major < 1 || (major == 1 && minor < 2))
        return cls_fail(CLS_UNSUPPORTED_DEVICE, CL_SUCCESS, "the device has \"%s\"; OpenCL 1.2 is needed", version);

    if (o.work_group > 1024 || o.row_group > 1024)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "options->%s is %u; it must be at most 1024",
                        o.work_group > 1024 ? "work_group" : "row_group",
                        (unsigned)(o.work_group > 1024 ? o.work_group : o.row_group));
    const int cpu = (type & CL_DEVICE_TYPE_CPU) != 0;
    if (o.work_group > group || o.row_group > group)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "options->%s is %u; the device takes at most %zu",
                        o.work_group > group ? "work_group" : "row_group",
                        (unsigned)(o.work_group > group ? o.work_group : o.row_group), group);
    shape->compute_units = units;
    shape->local_mem_size = local;
    shape->max_work_group = group;
    /* One item and wide vectors are what compilers for CPUs are fast with; but
     * those that take vectors apart compile 16 lanes for minutes (llvmpipe: 8
     * in half the time, and 4 would make more loop trips than it can count). */
    shape->work_group = o.work_group != 0 ? o.work_group : cpu ? 1 : group < 256 ? (uint32_t)group : 256;
    shape->vector = o.vector != 0 ? o.vector : cpu && wide < 4 ? 8 : cpu || local < 8192 ? 16 : 4;
    while (o.work_group == 0 && shape->work_group > 1 && survey_bytes(shape->vector, shape->work_group) > local)
        shape->work_group /= 2;
    /* On a CPU a group's items run one after another: a row gains nothing from
     * several, and PoCL 3.1 needs minutes to compile these kernels' barriers. */
    shape->row_group = o.row_group != 0 ? o.row_group : cpu ? 1 : shape->work_group;
    /* Sums of weights fit 32-bit lanes for up to 256 vectors of a tile an item. */
    if (shape->vector == 2 && (shape->work_group == 1 || shape->row_group == 1))
        shape->vector = o.vector = 4;
    shape->shortlist = o.shortlist != 0 ? o.shortlist : 1024;
    while (o.shortlist == 0 && shape->shortlist > 16 && list_bytes(shape->shortlist, shape->row_group) > local)
        shape->shortlist /= 2;
    if (list_bytes(shape->shortlist, shape->row_group) > local || survey_bytes(shape->vector, shape->work_group) > local)
        return cls_fail(o.work_group != 0 || o.vector != 0 || o.shortlist != 0 ? CLS_BAD_ARGUMENT : CLS_UNSUPPORTED_DEVICE,
                        CL_SUCCESS, "work_group %u, row_group %u, vector %u and shortlist %u need more than the device's %llu bytes of local memory",
                        (unsigned)shape->work_group, (unsigned)shape->row_group, (unsigned)shape->vector,
                        (unsigned)shape->shortlist,
                        (unsigned long long)local);
    return CLS_OK;
}

static void tell(const cls_shape *shape, cls_device_info *callers)
{
    cls_device_info info;
    const size_t size = callers->struct_size;
    cls_struct_init(&info, sizeof info);
    info.struct_size = size;
    info.work_group = shape->work_group;
    info.vector = shape->vector;
    info.row_group = shape->row_group;
    info.shortlist = shape->shortlist;
    info.compute_units = shape->compute_units;
    info.local_mem_size = shape->local_mem_size;
    info.max_work_group = shape->max_work_group;
    memcpy(callers, &info, size < sizeof info ? size : sizeof info);
}

cls_status cls_device_query(cl_device_id device, const cls_context_options *options, cls_device_info *info)
{
    cls_device_info check;
    cls_shape shape;
    cls_status status = cls_struct_read(&check, sizeof check, info, "info");
    if (status == CLS_OK)
        status = cls_shape_query(device, options, &shape);
    if (status == CLS_OK)
        tell(&shape, info);
    return status;
}

cls_status cls_context_info(const cls_context *context, cls_device_info *info)
{
    cls_device_info check;
    cls_status status = cls_struct_read(&check, sizeof check, info, "info");
    if (status == CLS_OK && context == NULL)
        status = cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "context is NULL");
    if (status == CLS_OK)
        tell(&context->shape, info);
    return status;
}

void cls_context_options_default(cls_context_options *options, size_t struct_size)
{
    cls_struct_init(options, struct_size);
}
