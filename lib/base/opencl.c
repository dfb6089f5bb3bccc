/* SPDX-License-Identifier: MIT */
/* Finds OpenCL's functions. */
#if !defined(_WIN32) && !defined(_GNU_SOURCE)
#define _GNU_SOURCE /* RTLD_DEFAULT */
#endif
#include "base/base.h"

#include <stdatomic.h>
#if defined(_WIN32)
#define WIN32_LEAN_AND_MEAN
#define NOGDI
#include <windows.h>
#else
#include <dlfcn.h>
#endif

static cls_opencl_functions table;
static atomic_flag is_locked = ATOMIC_FLAG_INIT; /* guards the table and is_filled */
static int is_filled;

static const char *const function_names[] = {
#define NAME(name) #name,
    CLS_OPENCL_FUNCTIONS(NAME) CLS_OPENCL_SVM_FUNCTIONS(NAME)
#undef NAME
};
enum {
    FUNCTIONS = sizeof function_names / sizeof function_names[0],
#define ONE(name) +1
    NEEDED = CLS_OPENCL_FUNCTIONS(ONE) /* come first */
#undef ONE
};

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

#if defined(_WIN32)
static void *open_library(const char *name) { return (void *)LoadLibraryA(name); }

static void *find_in_library(void *library, const char *name)
{
    return (void *)(uintptr_t)GetProcAddress((HMODULE)library, name);
}
#else
static void *open_library(const char *name) { return dlopen(name, RTLD_NOW | RTLD_LOCAL); }

static void *find_in_library(void *library, const char *name) { return dlsym(library, name); }
#endif

/* Looks up all functions. Returns the name of one that is missing, or NULL. */
static const char *find_all(void *(*find)(void *user, const char *name), void *user,
                            void *found[FUNCTIONS])
{
    for (int i = 0; i < FUNCTIONS; i++)
        if ((found[i] = find(user, function_names[i])) == NULL && i < NEEDED)
            return function_names[i];
    return NULL;
}

static cls_status fail_lacking(const char *missing)
{
    return cls_fail(CLS_UNSUPPORTED_DEVICE, CL_SUCCESS,
                    "this OpenCL has no function %s, which is of version 1.2", missing);
}

/* Finds the functions that the process has already, as if this library linked OpenCL: those of a
 * layer that was preloaded, too. If it has none, opens OpenCL's library, which stays open. */
static cls_status find_by_ourselves(void *found[FUNCTIONS])
{
    const char *missing = NULL;
#if !defined(_WIN32) /* where OpenCL.dll is not opened twice */
    if (find_all(find_in_library, RTLD_DEFAULT, found) == NULL)
        return CLS_OK;
#endif
    for (size_t i = 0; i < sizeof libraries / sizeof libraries[0] && missing == NULL; i++) {
        void *const library = open_library(libraries[i]);
        if (library != NULL && (missing = find_all(find_in_library, library, found)) == NULL)
            return CLS_OK;
    }
    return missing != NULL
               ? fail_lacking(missing)
               : cls_fail(CLS_UNSUPPORTED_DEVICE, CL_SUCCESS,
                          "OpenCL was not found: %s cannot be opened; install OpenCL's loader and "
                          "a device's driver (on Debian ocl-icd-libopencl1, and pocl-opencl-icd "
                          "for the CPU), or sample on the host, which needs neither",
                          libraries[0]);
}

/* Fills the table, or compares what the options find with it. */
static cls_status fill_table(const cls_context_options *o)
{
    void *found[FUNCTIONS];
    if (o != NULL && o->find_opencl != NULL) {
        const char *const missing = find_all(o->find_opencl, o->find_opencl_user, found);
        if (missing != NULL)
            return fail_lacking(missing);
        if (is_filled && memcmp(found, &table, NEEDED * sizeof *found) != 0)
            return cls_refuse("options->find_opencl finds another OpenCL than the one that this "
                              "process's first context found");
    } else if (!is_filled) {
        const cls_status status = find_by_ourselves(found);
        if (status != CLS_OK)
            return status;
    }
    if (!is_filled)
        memcpy(&table, found, sizeof table); /* ISO C has no cast to a pointer to a function */
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

const cls_opencl_functions *cls_opencl(void) { return &table; }
