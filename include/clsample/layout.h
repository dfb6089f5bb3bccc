/* SPDX-License-Identifier: MIT */
/* clsample: sizes and offsets of the public structs, for bindings to other languages. */
#ifndef CLSAMPLE_LAYOUT_H
#define CLSAMPLE_LAYOUT_H

#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A field of a public struct, as the C compiler laid it out for the library. This struct never
 * changes. */
typedef struct cls_field {
    const char *structure;   /* such as "cls_params" */
    const char *name;        /* such as "temperature" */
    uint32_t structure_size; /* bytes of the whole struct */
    uint32_t offset;         /* bytes from the beginning of the struct */
    uint32_t size;           /* bytes of the field; of an array all its elements */
    uint32_t reserved;       /* 0 */
} cls_field;

/* Lists the fields of all public structs: returns the field with this index, and NULL after the
 * last one. Indices begin at 0. The fields of a struct follow each other in their order. The
 * returned structs are static. Any thread may call this. */
CLS_API const cls_field *cls_struct_field(uint32_t index);

#ifdef __cplusplus
}
#endif
#endif /* CLSAMPLE_LAYOUT_H */
