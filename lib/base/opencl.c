/* SPDX-License-Identifier: MIT */
/* Finds OpenCL's functions, if the library does not link OpenCL's. */
#include "base/base.h"

#ifndef CLS_DLOPEN_OPENCL

cls_status cls_opencl_find(const cls_context_options *o)
{
    return o->find_opencl == NULL
               ? CLS_OK
               : cls_refuse("options->find_opencl must be NULL, since this library links OpenCL's");
}

#else

#include <stdatomic.h>
#if defined(_WIN32)
#define WIN32_LEAN_AND_MEAN
#define NOGDI
#include <windows.h>
#else
#include <dlfcn.h>
#endif

cls_opencl_functions cls_opencl;
static cls_pointer_calls svm;                    /* is filled with the table */
static atomic_flag is_locked = ATOMIC_FLAG_INIT; /* guards the table and is_filled */
static int is_filled;

static const char *const function_names[] = {
#define NAME(name) #name,
    CLS_OPENCL_FUNCTIONS(NAME)
#undef NAME
};
enum { FUNCTIONS = sizeof function_names / sizeof function_names[0] };

/* Where OpenCL's library is: by its name, and on Android where vendors put it. */
static const char *const libraries[] = {
#if defined(_WIN32)
    "OpenCL.dll",
#elif defined(__APPLE__)
    "/System/Library/Frameworks/OpenCL.framework/OpenCL",
#elif defined(__ANDROID__)
    "libOpenCL.so",       "/vendor/lib64/libOpenCL.so", "/system/vendor/lib64/libOpenCL.so",
    "libOpenCL-pixel.so", "/vendor/lib/libOpenCL.so",   "/system/vendor/lib/libOpenCL.so",
#else
    "libOpenCL.so.1",
    "libOpenCL.so",
#endif
};

/* Opens OpenCL's library, which stays open. Returns NULL if there is none. */
static void *open_library(void)
{
    void *library = NULL;
    for (size_t i = 0; i < sizeof libraries / sizeof libraries[0] && library == NULL; i++)
#if defined(_WIN32)
        library = (void *)LoadLibraryA(libraries[i]);
#else
        library = dlopen(libraries[i], RTLD_NOW | RTLD_LOCAL);
#endif
    return library;
}

static void *find_in_library(void *library, const char *name)
{
#if defined(_WIN32)
    return (void *)(uintptr_t)GetProcAddress((HMODULE)library, name);
#else
    return dlsym(library, name);
#endif
}

/* Fills the table, or compares what the options find with it. */
static cls_status fill_table(const cls_context_options *o)
{
    void *found[FUNCTIONS];
    void *(*find)(void *user, const char *name) = o->find_opencl;
    void *user = o->find_opencl_user;
    if (find == NULL) {
        if (is_filled)
            return CLS_OK;
        find = find_in_library;
        if ((user = open_library()) == NULL)
            return cls_fail(CLS_UNSUPPORTED_DEVICE, CL_SUCCESS,
                            "OpenCL's library %s was not found, and options->find_opencl is NULL",
                            libraries[0]);
    }
    for (int i = 0; i < FUNCTIONS; i++)
        if ((found[i] = find(user, function_names[i])) == NULL)
            return cls_fail(CLS_UNSUPPORTED_DEVICE, CL_SUCCESS,
                            "this OpenCL has no function %s, which is of version 1.2",
                            function_names[i]);
    if (is_filled && memcmp(found, &cls_opencl, sizeof found) != 0)
        return cls_refuse("options->find_opencl finds another OpenCL than the one that this "
                          "process's first context found");
    if (!is_filled) { /* ISO C has no cast to a pointer to a function */
        void *const later[] = {find(user, "clSetKernelArgSVMPointer"),
                               find(user, "clEnqueueSVMMemcpy")};
        memcpy(&cls_opencl, found, sizeof found);
        memcpy(&svm, later, sizeof later);
    }
    is_filled = 1;
    return CLS_OK;
}

cls_status cls_opencl_find(const cls_context_options *o)
{
    while (atomic_flag_test_and_set(&is_locked)) {
    }
    const cls_status status = fill_table(o);
    atomic_flag_clear(&is_locked);
    return status;
}

cls_pointer_calls cls_opencl_svm(void) { return svm; }

#endif
