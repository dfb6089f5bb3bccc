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
        return cls_refuse("%s is NULL", name);
    memcpy(&size, callers, sizeof size);
    if (size < min_size || size > 65536)
        return cls_refuse("%s->struct_size is %zu; it must be at least %zu. Call the struct's "
                          "_init() function first",
                          name, size, min_size);
    for (size_t i = our_size; i < size && !is_output; i++)
        if (((const unsigned char *)callers)[i] != 0)
            return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS,
                            "%s has a field at byte %zu that this version of the library, %s, does "
                            "not know. Leave the field 0, or use a newer library",
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
                      : cls_refuse("%s is %llu; it is reserved for later versions and must be 0",
                                   name, (unsigned long long)value);
}

cls_status cls_switch_check(const char *name, int32_t value)
{
    return value == 0 || value == 1 ? CLS_OK
                                    : cls_refuse("%s is %d; it must be 0 or 1", name, (int)value);
}

cls_status cls_bias_check(const char *call, int present, const char *field, int32_t dtype,
                          float *factor)
{
    const float size = *factor < 0.0f ? -*factor : *factor;
    if (present && (dtype < 0 || dtype >= CLS_DTYPES))
        return cls_refuse("%s->%sdtype is %d, which is not a cls_dtype", call, field, (int)dtype);
    if (*factor == 0.0f)
        *factor = 1.0f;
    else if (!(size >= FLT_MIN && size <= FLT_MAX))
        return cls_refuse(
            "%s->%sfactor is %g; it must be finite, and 0 (which is 1) or at least 2^-126 in size",
            call, field, (double)*factor);
    return CLS_OK;
}

cls_status cls_softcap_check(const char *name, float cap)
{
    return cap == 0.0f || (cap >= CLS_SOFTCAP_LEAST && cap <= CLS_SOFTCAP_MOST)
               ? CLS_OK
               : cls_refuse("%s is %g; it must be 0 (off) or from 2^-100 to 2^100", name,
                            (double)cap);
}

float cls_softcap_reciprocal(float cap) { return (float)(1.0 / (double)cap); }
