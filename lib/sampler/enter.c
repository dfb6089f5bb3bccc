/* SPDX-License-Identifier: MIT */
/* What calls on a sampler begin and end with: one thread uses it at a time. */
#include "sampler/sampler.h"

cls_status cls_sampler_lock(cls_sampler *s)
{
    return s == NULL || !atomic_flag_test_and_set_explicit(&s->in_use, memory_order_acquire)
               ? CLS_OK
               : cls_fail(CLS_IN_USE, CL_SUCCESS,
                          "sampler is in use by another call: only one thread at a time may use "
                          "it, and no callback during a call");
}

cls_status cls_sampler_enter(cls_sampler *s)
{
    const cls_status status = cls_sampler_lock(s);
    if (s == NULL || status != CLS_OK || s->refusal == NULL)
        return status;
    return cls_sampler_leave(s, cls_refuse_call("%s", s->refusal));
}

cls_status cls_sampler_leave(cls_sampler *s, cls_status status)
{
    if (s != NULL)
        atomic_flag_clear_explicit(&s->in_use, memory_order_release);
    return status;
}
