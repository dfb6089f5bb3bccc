/* SPDX-License-Identifier: MIT */
/* The logarithm and the power that decide tokens: of min-p, XTC, top-a, DRY, typical verification.
 * C libraries round theirs differently, which moves a limit by one unit. These use only operations
 * that IEEE 754 rounds exactly, so that every machine gets the same words. Both are right to some
 * 2^-52 and more, which is 2^-28 of the spacing of the floats and words that they are rounded to.
 */
#include "request/request.h"

/* log2(e) and, for what it lacks, its rest. */
#define LOG2_E 0x1.71547652b82fep+0
#define LOG2_E_REST 0x1.777d0ffda0d24p-56

/* The odd powers' coefficients of artanh: 1 / 3, 1 / 5, ... */
static const double coefficients[] = {1.0 / 3,  1.0 / 5,  1.0 / 7,  1.0 / 9,  1.0 / 11, 1.0 / 13,
                                      1.0 / 15, 1.0 / 17, 1.0 / 19, 1.0 / 21, 1.0 / 23};
#define TERMS (sizeof coefficients / sizeof *coefficients)

double cls_log2(double x)
{
    int exponent;
    if (!(x > 0.0))
        return -HUGE_VAL;
    if (isinf(x))
        return HUGE_VAL;
    double m = frexp(x, &exponent); /* from 0.5 on, below 1 */
    if (m < 0x1.6a09e667f3bcdp-1) { /* the root of 0.5 */
        m *= 2.0;
        exponent--;
    }
    /* ln(m) = 2 artanh(s), with s of at most 0.172: the first term left out is below 2^-63. */
    const double s = (m - 1.0) / (m + 1.0), square = s * s;
    double sum = 0.0;
    for (size_t i = TERMS; i-- > 0;)
        sum = (sum + coefficients[i]) * square;
    const double ln = 2.0 * s + 2.0 * s * sum;
    return (double)exponent + (ln * LOG2_E + ln * LOG2_E_REST);
}

/* A number as the sum of two, of which the second is at most half a unit of the first: 106 bits. */
typedef struct pair {
    double high, low;
} pair;

/* The upper half of a number's bits (Veltkamp). */
static double upper_half(double x)
{
    const double scaled = x * 134217729.0; /* 2^27 + 1 */
    return scaled - (scaled - x);
}

/* The product, by Dekker's exact product of the first parts. */
static pair product(pair a, pair b)
{
    const double high = a.high * b.high, ah = upper_half(a.high), bh = upper_half(b.high),
                 al = a.high - ah, bl = b.high - bh;
    const double error = ((ah * bh - high) + ah * bl + al * bh) + al * bl,
                 low = error + (a.high * b.low + a.low * b.high);
    const pair p = {high + low, low - ((high + low) - high)};
    return p;
}

double cls_power(float base, uint32_t exponent)
{
    pair result = {1.0, 0.0}, square = {(double)base, 0.0};
    for (; exponent != 0; exponent >>= 1) {
        if (exponent & 1)
            result = product(result, square);
        if (!(fabs(result.high) < 0x1p200) || !(fabs(square.high) < 0x1p200))
            return exponent == 1 ? result.high : HUGE_VAL; /* beyond every float */
        square = product(square, square);
    }
    return result.high;
}
