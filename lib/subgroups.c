/* SPDX-License-Identifier: MIT */
/* Which sub-group functions a device has: none that are known yet. */
#include "internal.h"

uint32_t cls_subgroups_candidate(cl_device_id device)
{
    (void)device;
    return CLS_SUBGROUPS_NONE;
}

cls_status cls_subgroups_find(cl_context context, cl_device_id device, cls_shape *shape, char **log)
{
    (void)context;
    (void)device;
    (void)log;
    shape->subgroups = CLS_SUBGROUPS_NONE;
    return CLS_OK;
}
