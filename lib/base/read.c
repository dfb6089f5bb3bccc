/* SPDX-License-Identifier: MIT */
/* Reads and writes public structs of the caller's size, and checks fields that have few values. */
#include "base/base.h"

#include <float.h>
#include <string.h>

cls_status cls_struct_read(void *object, size_t our_size, size_t min_size, const void *callers,
                           const char *name, int is_output)
{
    size_t size;
    if (callers == NULL)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "%s is NULL", name);
    memcpy(&size, callers, sizeof size);
    if (size < min_size || size > 65536)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS,
                        "%s->struct_size is %zu; it must be at least %zu. Call the struct's "
                        "_init() function first",
                        name, size, min_size);
    for (size_t i = our_size; i < size && !is_output; i++)
        if (((const unsigned char *)callers)[i] != 0)
            return cls_fail(
                CLS_BAD_ARGUMENT, CL_SUCCESS,
                "%s has a field at byte %zu that this version of the library, %s, does not "
                "know. Leave the field 0, or use a newer library",
                name, i, CLS_VERSION_STRING);
    memset(object, 0, our_size);
    memcpy(object, callers, size < our_size ? size : our_size);
    memcpy(object, &our_size, sizeof our_size);
    return CLS_OK;
}

void cls_struct_write(const void *object, size_t our_size, void *callers)
{
    size_t size;
    memcpy(&size, callers, sizeof size);
    memcpy(callers, object, size < our_size ? size : our_size);
    memcpy(callers, &size, sizeof size);
}

cls_status cls_reserved_check(const char *name, uint64_t value)
{
    return value == 0 ? CLS_OK
                      : cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS,
                                 "%s is %llu; it is reserved for later versions and must be 0",
                                 name, (unsigned long long)value);
}

cls_status cls_switch_check(const char *name, int32_t value)
{
    return value == 0 || value == 1 ? CLS_OK
                                    : cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS,
                                               "%s is %d; it must be 0 or 1", name, (int)value);
}

cls_status cls_bias_check(const char *call, int present, const char *field, int32_t dtype,
                          float *factor)
{
    const float size = *factor < 0.0f ? -*factor : *factor;
    if (present && (dtype < 0 || dtype >= CLS_DTYPES))
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "%s->%sdtype is %d, which is not a cls_dtype",
                        call, field, (int)dtype);
    if (*factor == 0.0f)
        *factor = 1.0f;
    else if (!(size >= FLT_MIN && size <= FLT_MAX))
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS,
                        "%s->%sfactor is %g; it must be finite, and 0 (which is 1) or at least "
                        "2^-126 in size",
                        call, field, (double)*factor);
    return CLS_OK;
}

cls_status cls_method_check(const char *call, int32_t method, int has_parents)
{
    enum { GREEDY = 4 }; /* as if all temperatures were 0; it was removed */
    if (method == GREEDY)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS,
                        "%s->method is 4, which was CLS_VERIFY_GREEDY and is reserved: use "
                        "CLS_VERIFY_MATCH, and the temperature 0 for the requests",
                        call);
    if (method < CLS_VERIFY_MATCH || method > CLS_VERIFY_TYPICAL)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS,
                        "%s->method is %d, which is not a cls_verify_method", call, (int)method);
    return !has_parents || method == CLS_VERIFY_MATCH
               ? CLS_OK
               : cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS,
                          "%s->parents is set: %s->method must then be CLS_VERIFY_MATCH, but is %d",
                          call, call, (int)method);
}

cls_status cls_lookup_check(const char *call, uint32_t k, uint32_t min_n, uint32_t max_n,
                            int32_t fill, uint32_t vocab)
{
    if (k < 1 || k > CLS_MAX_DRAFTS)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "%s->k is %u; it must be 1 to %d", call,
                        (unsigned)k, CLS_MAX_DRAFTS);
    if (min_n < 1 || max_n < min_n || max_n > CLS_MAX_DRAFTS)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS,
                        "%s->min_n is %u and %s->max_n %u; they must be 1 to %d, and max_n at "
                        "least min_n",
                        call, (unsigned)min_n, call, (unsigned)max_n, CLS_MAX_DRAFTS);
    return fill == -1 || (fill >= 0 && (uint32_t)fill < vocab)
               ? CLS_OK
               : cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS,
                          "%s->fill is %d; it must be -1 or a token of the vocabulary of %u", call,
                          (int)fill, (unsigned)vocab);
}
