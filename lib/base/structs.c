/* SPDX-License-Identifier: MIT */
/* Public structs of any size: those of older and of newer programs. */
#include "base/base.h"

#include <string.h>

int cls_struct_init(void *object, size_t caller_size, size_t first)
{
    const size_t known = caller_size < first ? 0 : caller_size;
    if (object == NULL || caller_size < sizeof caller_size)
        return 0; /* nothing that could hold a struct_size */
    memset(object, 0, caller_size);
    memcpy(object, &known, sizeof known); /* struct_size comes first */
    return known != 0;
}

cls_status cls_struct_read(void *object, size_t ours, size_t first, const void *callers,
                           const char *name, int written)
{
    size_t size;
    if (callers == NULL)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "%s is NULL", name);
    memcpy(&size, callers, sizeof size);
    if (size < first || size > 65536)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS,
                        "%s->struct_size is %zu, and it must be at least %zu: it is sizeof the "
                        "struct, not of a pointer, as its "
                        "_default() function is told, or as it is set where there is none",
                        name, size, first);
    for (size_t i = ours; i < size && !written; i++)
        if (((const unsigned char *)callers)[i] != 0)
            return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS,
                            "%s has a field, at byte %zu, that this library, version %s, does not "
                            "know: leave it 0, or use a newer library",
                            name, i, CLS_VERSION_STRING);
    memcpy(object, callers, size < ours ? size : ours);
    memcpy(object, &ours, sizeof ours);
    return CLS_OK;
}

cls_status cls_reserved_check(const char *what, uint64_t value)
{
    return value == 0 ? CLS_OK
                      : cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS,
                                 "%s is %llu; it is for later versions, and must be 0", what,
                                 (unsigned long long)value);
}
