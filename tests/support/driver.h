/* SPDX-License-Identifier: MIT */
/* Replaces some OpenCL functions of the real driver by functions that count calls, refuse them, or
 * return wrong results. Works in programs that link driver.c. */
#ifndef TESTS_DRIVER_H
#define TESTS_DRIVER_H

#include <clsample.h>

#define DRIVER_BUILDS 96

typedef struct driver {
    /* Behaviour, set by the test. */
    int no_compiler;        /* reports no compiler and refuses sources */
    cl_uint other_device;   /* the device query whose result is changed */
    cl_uint other_platform; /* the platform query whose result is changed */
    int gpu;                /* reports that devices are GPUs, without sub-groups */
    /* Programs for larger work-groups do not build. If failing_kernel is not NULL, this holds only
     * for the program with this kernel. build_refusal: the code of these builds. */
    uint32_t max_built_group;
    cl_int build_refusal;
    const char *failing_kernel;
    /* Kernels in larger work-groups fail to launch with the code `refusal`, except the test of
     * work-groups and, if it is not NULL, exempt_kernel. */
    uint32_t max_launched_group;
    cl_int refusal;
    const char *exempt_kernel;
    /* Launches of this kernel do nothing, and new buffers are zero: others may read what it should
     * have written. */
    const char *idle_kernel;
    size_t kernel_group; /* reported as the largest work-group of kernels; 0: unchanged */
    uint32_t
        max_local_group; /* kernels in larger work-groups report 100,000 bytes of local memory */
    int no_binaries;     /* refuses compiled programs */
    int nvidia;          /* reports that NVIDIA's options are supported, but refuses them */
    int right_reads;     /* this many reads are right, ... */
    int wrong_reads;     /* ... and this many after them have one wrong bit */

    /* Calls counted by the driver. */
    unsigned from_source, from_binary;
    unsigned builds;
    char options[DRIVER_BUILDS][200]; /* the options of the first builds */
} driver;

extern driver fake;

#endif
