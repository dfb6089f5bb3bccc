/* SPDX-License-Identifier: MIT */
/* The OpenCL that a test program wants, in front of the real one: calls that count,
 * refuse or lie. Only in programs that link driver.c. */
#ifndef TESTS_DRIVER_H
#define TESTS_DRIVER_H

#include <clsample.h>

#define DRIVER_BUILDS 96

typedef struct driver {
    /* What it does. */
    int no_compiler;        /* says so, and takes no source */
    cl_uint other_device;   /* what it says differently of devices ... */
    cl_uint other_platform; /* ... and of platforms */
    int gpu;                /* devices are GPUs */
    uint32_t most_built;    /* programs for larger groups don't build ... */
    uint32_t most_launched; /* ... and those for groups above this don't run */
    cl_int refusal;         /* with this code */
    const char
        *only; /* the kernel that alone does not build; NULL: all of them, but the test of groups */
    const char
        *spared; /* a kernel that runs in any groups, as the test of groups does; NULL: no other */
    size_t kernel_group; /* kernels take no larger groups; 0: what they take */
    uint32_t most_local; /* ... and those in groups above it 100,000 bytes of local memory */
    int no_binaries;     /* takes no compiled programs */
    int nvidia;          /* says that it takes NVIDIA's options, and refuses them */
    int lies;            /* so many reads bring a wrong bit ... */
    int truths;          /* ... after so many that do not */

    /* What it saw. */
    unsigned from_source, from_binary;
    unsigned builds;
    char options[DRIVER_BUILDS][200]; /* of the first ones */
} driver;

extern driver fake;

#endif
