/* SPDX-License-Identifier: MIT */
/* The stub's platform, device and objects; its queues are in stub_queue.c. */
#include "stub_cl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct _cl_platform_id {
    int none;
};
struct _cl_device_id {
    int none;
};
#define CL_DEVICE_SVM_CAPABILITIES 0x1053
#define CL_DEVICE_DEVICE_MEM_CAPABILITIES_INTEL 0x4191
cl_bitfield stub_svm, stub_usm;
static struct _cl_platform_id the_platform;
static struct _cl_device_id the_device;

/* -------------------------------------------------------------------- counting */

const char *const stub_kind_names[STUB_KINDS] = {"contexts", "queues",  "buffers",
                                                 "programs", "kernels", "events"};
static atomic_long alive[STUB_KINDS];

long stub_alive(stub_kind kind) { return atomic_load(&alive[kind]); }

void *stub_new(stub_kind kind, size_t size)
{
    stub_object *const o = calloc(1, size);
    if (o == NULL)
        abort();
    o->kind = kind;
    atomic_init(&o->references, 1);
    atomic_fetch_add_explicit(&alive[kind], 1, memory_order_relaxed);
    return o;
}

/* The library must not use freed objects or objects of another kind. Sanitizers detect the first;
 * an error reports the second. */
cl_int stub_retain(stub_object *o, stub_kind kind, cl_int error)
{
    if (o == NULL || o->kind != kind)
        return error;
    atomic_fetch_add_explicit(&o->references, 1, memory_order_relaxed);
    return CL_SUCCESS;
}

int stub_release(stub_object *o)
{
    const int before = atomic_fetch_sub_explicit(&o->references, 1, memory_order_acq_rel);
    if (before < 1) {
        fprintf(stderr, "one of the %s was released too often\n", stub_kind_names[o->kind]);
        abort();
    }
    return before == 1;
}

void stub_free(stub_object *o)
{
    atomic_fetch_sub_explicit(&alive[o->kind], 1, memory_order_relaxed);
    free(o);
}

static void report(cl_int *out, cl_int code)
{
    if (out != NULL)
        *out = code;
}

/* ------------------------------------------------------------------- questions */

stub_device_texts stub_texts = {.version = "OpenCL 1.2 stub",
                                .driver = "1",
                                .extensions = "",
                                .platform = "Stub",
                                .type = CL_DEVICE_TYPE_GPU};

static cl_int answer(const void *value, size_t n, size_t size, void *out, size_t *size_out)
{
    if (size_out != NULL)
        *size_out = n;
    if (out != NULL && size < n)
        return CL_INVALID_VALUE;
    if (out != NULL)
        memcpy(out, value, n);
    return CL_SUCCESS;
}
#define ANSWER(type, x) answer(&(const type){x}, sizeof(type), size, out, size_out)
#define ANSWER_TEXT(x) answer(x, strlen(x) + 1, size, out, size_out)

stub_lack stub_lacks;
cl_device_id stub_device(void) { return &the_device; }

cl_int clGetPlatformIDs(cl_uint n, cl_platform_id *out, cl_uint *n_out)
{
    if (n > 0 && out != NULL)
        out[0] = &the_platform;
    if (n_out != NULL)
        *n_out = 1;
    return CL_SUCCESS;
}

cl_int clGetPlatformInfo(cl_platform_id platform, cl_platform_info what, size_t size, void *out,
                         size_t *size_out)
{
    (void)platform;
    const char *const version = stub_texts.platform_version;
    switch (what) {
    case CL_PLATFORM_EXTENSIONS:
        return ANSWER_TEXT("");
    case CL_PLATFORM_VERSION:
        return ANSWER_TEXT(version != NULL ? version : "OpenCL 1.2 stub");
    default:
        return ANSWER_TEXT(stub_texts.platform);
    }
}

cl_int clGetDeviceIDs(cl_platform_id platform, cl_device_type type, cl_uint n, cl_device_id *out,
                      cl_uint *n_out)
{
    (void)platform, (void)type;
    if (n > 0 && out != NULL)
        out[0] = &the_device;
    if (n_out != NULL)
        *n_out = 1;
    return CL_SUCCESS;
}

cl_int clGetDeviceInfo(cl_device_id device, cl_device_info what, size_t size, void *out,
                       size_t *size_out)
{
    if (device != &the_device)
        return CL_INVALID_DEVICE;
    switch (what) {
    case CL_DEVICE_TYPE:
        return ANSWER(cl_device_type, stub_texts.type);
    case CL_DEVICE_PLATFORM:
        return ANSWER(cl_platform_id, &the_platform);
    case CL_DEVICE_AVAILABLE:
    case CL_DEVICE_COMPILER_AVAILABLE:
    case CL_DEVICE_ENDIAN_LITTLE:
        return ANSWER(cl_bool, CL_TRUE);
    case CL_DEVICE_VENDOR_ID:
    case CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT:
    case CL_DEVICE_MAX_COMPUTE_UNITS:
        return ANSWER(cl_uint, 4);
    case CL_DEVICE_ADDRESS_BITS:
        return ANSWER(cl_uint, 64);
    case CL_DEVICE_SINGLE_FP_CONFIG:
        return ANSWER(cl_device_fp_config,
                      CL_FP_ROUND_TO_NEAREST |
                          (stub_lacks == STUB_LACKS_INFINITIES ? 0u : CL_FP_INF_NAN));
    case CL_DEVICE_LOCAL_MEM_SIZE:
        return ANSWER(cl_ulong, 49152);
    case CL_DEVICE_GLOBAL_MEM_SIZE:
    case CL_DEVICE_MAX_MEM_ALLOC_SIZE:
        return ANSWER(cl_ulong, (cl_ulong)-1);
    case CL_DEVICE_MAX_WORK_GROUP_SIZE:
        return ANSWER(size_t, 256);
    case CL_DEVICE_MAX_PARAMETER_SIZE:
        return ANSWER(size_t, 256);
    case CL_DEVICE_VERSION:
        return ANSWER_TEXT(stub_texts.version);
    case CL_DEVICE_OPENCL_C_VERSION:
        return ANSWER_TEXT("OpenCL C 1.2 stub");
    case CL_DEVICE_PROFILE:
        return ANSWER_TEXT(stub_lacks == STUB_LACKS_INT64 ? "EMBEDDED_PROFILE" : "FULL_PROFILE");
    case CL_DEVICE_EXTENSIONS:
        return ANSWER_TEXT(stub_texts.extensions);
    case CL_DEVICE_NAME:
    case CL_DEVICE_VENDOR:
        return ANSWER_TEXT("Stub");
    case CL_DRIVER_VERSION:
        return ANSWER_TEXT(stub_texts.driver);
    case CL_DEVICE_SVM_CAPABILITIES:
        return ANSWER(cl_bitfield, stub_svm);
    case CL_DEVICE_DEVICE_MEM_CAPABILITIES_INTEL:
        return ANSWER(cl_bitfield, stub_usm);
    default:
        return CL_INVALID_VALUE;
    }
}

/* --------------------------------------------------------------------- contexts */

cl_context clCreateContext(const cl_context_properties *properties, cl_uint n,
                           const cl_device_id *devices,
                           void(CL_CALLBACK *notify)(const char *, const void *, size_t, void *),
                           void *data, cl_int *code)
{
    (void)properties, (void)n, (void)devices, (void)notify, (void)data;
    report(code, CL_SUCCESS);
    return stub_new(STUB_CONTEXT, sizeof(struct _cl_context));
}

cl_int clRetainContext(cl_context c)
{
    return stub_retain(&c->object, STUB_CONTEXT, CL_INVALID_CONTEXT);
}

cl_int clReleaseContext(cl_context c)
{
    if (stub_release(&c->object))
        stub_free(&c->object);
    return CL_SUCCESS;
}

cl_int clGetContextInfo(cl_context c, cl_context_info what, size_t size, void *out,
                        size_t *size_out)
{
    (void)c;
    switch (what) {
    case CL_CONTEXT_DEVICES:
        return ANSWER(cl_device_id, &the_device);
    case CL_CONTEXT_NUM_DEVICES:
        return ANSWER(cl_uint, 1);
    default:
        return CL_INVALID_VALUE;
    }
}

/* ---------------------------------------------------------------------- buffers */

unsigned char *stub_memory(cl_mem m)
{
    unsigned char *data = atomic_load(&m->data), *const fresh =
                                                     data == NULL && m->size <= STUB_MEMORY
                                                         ? calloc(m->size, 1)
                                                         : NULL;
    if (fresh == NULL || atomic_compare_exchange_strong(&m->data, &data, fresh))
        return data != NULL ? data : fresh;
    free(fresh); /* another queue's thread has allocated it already */
    return data;
}

cl_mem clCreateBuffer(cl_context context, cl_mem_flags flags, size_t size, void *host, cl_int *code)
{
    cl_mem m;
    if (size == 0 || clRetainContext(context) != CL_SUCCESS) {
        report(code, size == 0 ? CL_INVALID_BUFFER_SIZE : CL_INVALID_CONTEXT);
        return NULL;
    }
    m = stub_new(STUB_BUFFER, sizeof *m);
    m->context = context;
    m->size = size;
    if (flags & CL_MEM_COPY_HOST_PTR)
        memcpy(stub_memory(m), host, size);
    report(code, CL_SUCCESS);
    return m;
}

cl_int clRetainMemObject(cl_mem m)
{
    return stub_retain(&m->object, STUB_BUFFER, CL_INVALID_MEM_OBJECT);
}

cl_int clReleaseMemObject(cl_mem m)
{
    if (stub_release(&m->object)) {
        clReleaseContext(m->context);
        free(atomic_load(&m->data));
        stub_free(&m->object);
    }
    return CL_SUCCESS;
}

atomic_uint stub_memory_queries;

cl_int clGetMemObjectInfo(cl_mem m, cl_mem_info what, size_t size, void *out, size_t *size_out)
{
    atomic_fetch_add_explicit(&stub_memory_queries, 1, memory_order_relaxed);
    if (m == NULL || m->object.kind != STUB_BUFFER)
        return CL_INVALID_MEM_OBJECT;
    switch (what) {
    case CL_MEM_SIZE:
        return ANSWER(size_t, m->size);
    case CL_MEM_CONTEXT:
        return ANSWER(cl_context, m->context);
    case CL_MEM_FLAGS:
        return ANSWER(cl_mem_flags, CL_MEM_READ_WRITE);
    case CL_MEM_TYPE:
        return ANSWER(cl_mem_object_type, CL_MEM_OBJECT_BUFFER);
    case CL_MEM_ASSOCIATED_MEMOBJECT:
        return ANSWER(cl_mem, NULL);
    default:
        return CL_INVALID_VALUE;
    }
}

/* --------------------------------------------------------------------- programs */

static cl_program new_program(cl_context context, cl_int *code)
{
    const cl_int known = clRetainContext(context);
    cl_program p = NULL;
    if (known == CL_SUCCESS) {
        p = stub_new(STUB_PROGRAM, sizeof *p);
        p->context = context;
    }
    report(code, known);
    return p;
}

cl_program clCreateProgramWithSource(cl_context context, cl_uint n, const char **strings,
                                     const size_t *lengths, cl_int *code)
{
    (void)n, (void)strings, (void)lengths;
    return new_program(context, code);
}

cl_program clCreateProgramWithBinary(cl_context context, cl_uint n, const cl_device_id *devices,
                                     const size_t *lengths, const unsigned char **binaries,
                                     cl_int *status, cl_int *code)
{
    (void)n, (void)devices, (void)lengths, (void)binaries;
    report(status, CL_SUCCESS);
    return new_program(context, code);
}

cl_int (*stub_build)(const char *options);

cl_int clBuildProgram(cl_program p, cl_uint n, const cl_device_id *devices, const char *options,
                      void(CL_CALLBACK *notify)(cl_program, void *), void *data)
{
    (void)p, (void)n, (void)devices, (void)notify, (void)data;
    return stub_build != NULL ? stub_build(options) : CL_SUCCESS;
}

cl_int clGetProgramBuildInfo(cl_program p, cl_device_id device, cl_program_build_info what,
                             size_t size, void *out, size_t *size_out)
{
    (void)p, (void)device;
    switch (what) {
    case CL_PROGRAM_BUILD_STATUS:
        return ANSWER(cl_build_status, CL_BUILD_SUCCESS);
    case CL_PROGRAM_BUILD_LOG:
        return ANSWER_TEXT("nothing was compiled\n");
    default:
        return CL_INVALID_VALUE;
    }
}

cl_int clGetProgramInfo(cl_program p, cl_program_info what, size_t size, void *out,
                        size_t *size_out)
{
    static const unsigned char binary[16] = "a stub's binary";
    (void)p;
    switch (what) {
    case CL_PROGRAM_NUM_DEVICES:
        return ANSWER(cl_uint, 1);
    case CL_PROGRAM_DEVICES:
        return ANSWER(cl_device_id, &the_device);
    case CL_PROGRAM_BINARY_SIZES:
        return ANSWER(size_t, sizeof binary);
    case CL_PROGRAM_BINARIES:
        if (out != NULL && *(unsigned char **)out != NULL)
            memcpy(*(unsigned char **)out, binary, sizeof binary);
        return CL_SUCCESS;
    default:
        return CL_INVALID_VALUE;
    }
}

cl_int clRetainProgram(cl_program p)
{
    return stub_retain(&p->object, STUB_PROGRAM, CL_INVALID_PROGRAM);
}

cl_int clReleaseProgram(cl_program p)
{
    if (stub_release(&p->object)) {
        clReleaseContext(p->context);
        stub_free(&p->object);
    }
    return CL_SUCCESS;
}

/* ---------------------------------------------------------------------- kernels */

cl_kernel clCreateKernel(cl_program program, const char *name, cl_int *code)
{
    const cl_int known = clRetainProgram(program);
    cl_kernel k = NULL;
    if (known == CL_SUCCESS) {
        k = stub_new(STUB_KERNEL, sizeof *k);
        k->program = program;
        k->what = stub_kernel_find(name);
        snprintf(k->name, sizeof k->name, "%s", name);
    }
    report(code, known);
    return k;
}

cl_int clReleaseKernel(cl_kernel k)
{
    if (stub_release(&k->object)) {
        clReleaseProgram(k->program);
        stub_free(&k->object);
    }
    return CL_SUCCESS;
}

/* Two threads must not call this for one kernel at once, as in OpenCL; hence no lock. */
atomic_uint stub_arguments_set;

cl_int clSetKernelArg(cl_kernel k, cl_uint i, size_t size, const void *value)
{
    atomic_fetch_add_explicit(&stub_arguments_set, 1, memory_order_relaxed);
    if (i >= STUB_ARGUMENTS)
        return CL_INVALID_ARG_INDEX;
    if (value == NULL) /* local memory */
        return CL_SUCCESS;
    if (size > sizeof k->argument[i])
        return CL_INVALID_ARG_SIZE;
    memcpy(&k->argument[i], value, size);
    k->pointers &= ~(UINT64_C(1) << i);
    return CL_SUCCESS;
}

cl_int stub_set_code;

static cl_int CL_API_CALL set_pointer(cl_kernel k, cl_uint i, const void *pointer)
{
    const cl_int code = stub_set_code != CL_SUCCESS
                            ? stub_set_code
                            : clSetKernelArg(k, i, sizeof pointer, &pointer);
    k->pointers |= code == CL_SUCCESS ? UINT64_C(1) << i : 0;
    return code;
}

const char *stub_missing;

void *clGetExtensionFunctionAddressForPlatform(cl_platform_id platform, const char *name)
{
    static const struct {
        const char *name;
        void (*function)(void);
    } all[] = {{"clSetKernelArgMemPointerINTEL", (void (*)(void))set_pointer},
               {"clEnqueueMemcpyINTEL", (void (*)(void))stub_copy}};
    void *found = NULL;
    for (size_t i = 0; i < sizeof all / sizeof *all && platform == &the_platform; i++)
        if (strcmp(all[i].name, name) == 0 &&
            (stub_missing == NULL || strcmp(name, stub_missing) != 0))
            memcpy(&found, &all[i].function, sizeof found);
    return found;
}

cl_int clGetKernelWorkGroupInfo(cl_kernel k, cl_device_id device, cl_kernel_work_group_info what,
                                size_t size, void *out, size_t *size_out)
{
    (void)k, (void)device;
    switch (what) {
    case CL_KERNEL_WORK_GROUP_SIZE:
        return ANSWER(size_t, 256);
    case CL_KERNEL_PREFERRED_WORK_GROUP_SIZE_MULTIPLE:
        return ANSWER(size_t, 32);
    case CL_KERNEL_LOCAL_MEM_SIZE:
    case CL_KERNEL_PRIVATE_MEM_SIZE:
        return ANSWER(cl_ulong, 0);
    default:
        return CL_INVALID_VALUE;
    }
}
