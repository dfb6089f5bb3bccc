/* SPDX-License-Identifier: MIT */
/* The only file that knows CLBlast. Its calls take no wait list. It compiles at the first call for
 * a context and device, and keeps the programs, which retain the OpenCL context, for the life of
 * the process. */
#include "head.h"

#ifdef HAVE_CLBLAST
#include <clblast_c.h>
#endif

int cls_head_has_clblast(void)
{
#ifdef HAVE_CLBLAST
    return 1;
#else
    return 0;
#endif
}

int cls_head_clblast_fits(uint64_t offset, uint64_t rows, uint64_t stride)
{
    /* CLBlast pads both sides of a matrix to its tiles, which are 128 at most. */
    return stride < INT32_MAX && offset < INT32_MAX &&
           offset + (rows + 128) * (stride + 128) < INT32_MAX;
}

#ifdef HAVE_CLBLAST
static cls_status translate(CLBlastStatusCode status)
{
    const int code = (int)status;
    if (status == CLBlastSuccess)
        return CLS_OK;
    if (status == CLBlastOpenCLBuildProgramFailure)
        return cls_fail(CLS_BUILD_FAILED, code, "CLBlast's GEMM does not compile for the device");
    if (code > -1000) /* the numbers of OpenCL */
        return cls_fail(CLS_OPENCL_ERROR, code, "CLBlast's GEMM could not be enqueued");
    return cls_fail(CLS_UNSUPPORTED_DEVICE, CL_SUCCESS,
                    "CLBlast refuses the device: its GEMM returns status %d", code);
}
#endif

cls_status cls_head_clblast(const cls_head *h, cl_command_queue queue, cl_mem logits,
                            uint64_t logits_offset)
{
#ifdef HAVE_CLBLAST
    return translate(CLBlastSgemm(CLBlastLayoutRowMajor, CLBlastTransposeNo, CLBlastTransposeYes,
                                  h->max_rows, h->vocab, h->hidden, h->scale, h->scratch, 0,
                                  h->hidden, h->weight.buffer, h->weight_offset, h->weight_stride,
                                  0.0f, logits, logits_offset, h->vocab, &queue, NULL));
#else
    (void)h, (void)queue, (void)logits, (void)logits_offset;
    return cls_fail(CLS_UNSUPPORTED_DEVICE, CL_SUCCESS, "the library was built without CLBlast");
#endif
}
