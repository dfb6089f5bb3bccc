/* SPDX-License-Identifier: MIT */
/* The 64-bit functions in two halves: halves.c. */
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

/* f(a, b); of a and b only what the function takes. */
uint64_t halves(enum halves_function f, uint64_t a, uint64_t b);

#endif
