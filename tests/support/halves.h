/* SPDX-License-Identifier: MIT */
/* The kernels' 64-bit arithmetic on pairs of 32-bit halves, compiled for the host in halves.c. */
#ifndef HALVES_H
#define HALVES_H

#include <stdint.h>

enum halves_function {
    HALVES_ADD,
    HALVES_SUB,
    HALVES_LESS,
    HALVES_IS_ZERO,
    HALVES_SHL,
    HALVES_SHR,
    HALVES_MUL32,
    HALVES_MUL,
    HALVES_DIV,
    HALVES_MUL_HI,
    HALVES_SELF_TEST,
    HALVES_FUNCTIONS
};

/* Returns f(a, b). Arguments that the function does not have are ignored. */
uint64_t halves(enum halves_function f, uint64_t a, uint64_t b);

#endif
