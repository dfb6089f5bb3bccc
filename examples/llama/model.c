/* SPDX-License-Identifier: MIT */
/* The llama2 transformer: computes hidden states from tokens. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "llama.h"
#ifdef HAVE_CLBLAST
#include <clblast_c.h>
#endif

static const char source[] = {
#include "model.inc"
};

static cl_kernel kernel(const model *m, const char *name)
{
    cl_int error;
    cl_kernel k = clCreateKernel(m->program, name, &error);
    must_cl(error, name);
    return k;
}

static void compile(model *m)
{
    const config *c = &m->c;
    const char *text = source;
    char flags[512];
    cl_int error;
    snprintf(flags, sizeof flags,
             "-cl-std=CL1.2 -DDIM=%u -DHIDDEN=%u -DLAYERS=%u -DHEADS=%u -DKV_HEADS=%u "
             "-DHEAD_DIM=%u -DCONTEXT=%u -DBATCH=%u -DLANES=%d",
             c->dim, c->hidden, c->layers, c->heads, c->kv_heads, c->head_dim, c->context, m->batch,
             c->head_dim % 8 == 0   ? 8
             : c->head_dim % 4 == 0 ? 4
                                    : 2);
    m->program = clCreateProgramWithSource(m->d->context, 1, &text, NULL, &error);
    must_cl(error, "clCreateProgramWithSource");
    error = clBuildProgram(m->program, 1, &m->d->id, flags, NULL, NULL);
    if (error != CL_SUCCESS) {
        char log[4096] = "";
        clGetProgramBuildInfo(m->program, m->d->id, CL_PROGRAM_BUILD_LOG, sizeof log - 1, log,
                              NULL);
        die("the model's kernels do not compile on %s (OpenCL error %d): %s", m->d->name,
            (int)error, log);
    }
    m->embed = kernel(m, "embed");
    m->norm = kernel(m, "norm");
    m->rope = kernel(m, "rope");
    m->attend = kernel(m, "attend");
    m->swiglu = kernel(m, "swiglu");
    m->product = kernel(m, "product");
    m->halve = kernel(m, "halve");
}

/* Stacks matrices that share their input, so that one product computes all of them. */
static cl_mem stack(const device *d, uint32_t n, const float *const *parts, const size_t *counts)
{
    size_t count = 0, at = 0;
    for (uint32_t i = 0; i < n; i++)
        count += counts[i];
    float *all = allocate(count, sizeof *all);
    for (uint32_t i = 0; i < n; at += counts[i++])
        memcpy(all + at, parts[i], counts[i] * sizeof *all);
    cl_mem buffer = device_buffer(d, count * sizeof *all, all);
    free(all);
    return buffer;
}

static cl_mem floats(const device *d, uint64_t count, const float *data)
{
    if (count > SIZE_MAX / sizeof(float))
        die("the model needs more memory than this machine can address");
    return device_buffer(d, (size_t)count * sizeof(float), data);
}

/* Tables of (cos, sin) of position / 10000^(2i / head_dim). */
static cl_mem make_angles(const device *d, const config *c)
{
    const uint32_t half = c->head_dim / 2;
    float *angles = allocate((size_t)c->context * half, 2 * sizeof *angles);
    for (uint32_t p = 0; p < c->context; p++)
        for (uint32_t i = 0; i < half; i++) {
            const double angle = p * pow(10000, -2.0 * i / c->head_dim);
            angles[2 * ((size_t)p * half + i)] = (float)cos(angle);
            angles[2 * ((size_t)p * half + i) + 1] = (float)sin(angle);
        }
    cl_mem buffer = floats(d, (uint64_t)c->context * c->head_dim, angles);
    free(angles);
    return buffer;
}

void model_open(model *m, device *d, const checkpoint *w, uint32_t batch, uint32_t slots)
{
    const config *c = &w->c;
    const size_t dim = c->dim, hidden = c->hidden, kv = c->kv_dim;
    const uint64_t cache = (uint64_t)slots * c->layers * c->context * kv;
    m->d = d;
    m->c = *c;
    m->batch = batch;
    m->slots = slots;
    compile(m);
    m->layer = allocate(c->layers, sizeof *m->layer);
    for (uint32_t l = 0; l < c->layers; l++) {
        const float *const qkv[] = {w->wq + l * dim * dim, w->wk + l * kv * dim,
                                    w->wv + l * kv * dim};
        const float *const gates[] = {w->w1 + l * hidden * dim, w->w3 + l * hidden * dim};
        m->layer[l].att_norm = floats(d, dim, w->att_norm + l * dim);
        m->layer[l].wqkv = stack(d, 3, qkv, (size_t[]){dim * dim, kv * dim, kv * dim});
        m->layer[l].wo = floats(d, dim * dim, w->wo + l * dim * dim);
        m->layer[l].ffn_norm = floats(d, dim, w->ffn_norm + l * dim);
        m->layer[l].w13 = stack(d, 2, gates, (size_t[]){hidden * dim, hidden * dim});
        m->layer[l].w2 = floats(d, dim * hidden, w->w2 + l * dim * hidden);
    }
    m->embedding = floats(d, c->vocab * (uint64_t)dim, w->embedding);
    m->classifier =
        c->own_classifier ? floats(d, c->vocab * (uint64_t)dim, w->classifier) : m->embedding;
    m->last_norm = floats(d, dim, w->norm);
    m->angles = make_angles(d, c);
    m->keys = floats(d, cache, NULL);
    m->values = floats(d, cache, NULL);
    m->rows = device_buffer(d, ROW_FIELDS * (size_t)batch * sizeof(int32_t), NULL);
    m->x = floats(d, batch * (uint64_t)dim, NULL);
    m->normed = floats(d, batch * (uint64_t)dim, NULL);
    m->qkv = floats(d, batch * (uint64_t)(dim + 2 * kv), NULL);
    m->mixed = floats(d, batch * (uint64_t)dim, NULL);
    m->gates = floats(d, batch * (uint64_t)(2 * hidden), NULL);
    m->inner = floats(d, batch * (uint64_t)hidden, NULL);
}

/* Some drivers compile a kernel at its first launch. This happens here, before the first step. */
void model_warm_up(model *m)
{
    int32_t *rows = allocate(ROW_FIELDS * (size_t)m->batch, sizeof *rows);
    cl_event uploaded;
    model_forward(m, rows, 1, m->c.layers, m->rows, &uploaded);
    must_cl(clFinish(m->d->queue), "clFinish");
    clReleaseEvent(uploaded);
    free(rows);
}

void model_close(model *m)
{
    cl_mem all[] = {m->embedding, m->last_norm, m->angles, m->keys,  m->values, m->rows,
                    m->x,         m->normed,    m->qkv,    m->mixed, m->gates,  m->inner};
    cl_kernel kernels[] = {m->embed, m->norm, m->rope, m->attend, m->swiglu, m->product, m->halve};
    for (uint32_t l = 0; l < m->c.layers; l++) {
        cl_mem layer[] = {m->layer[l].att_norm, m->layer[l].wqkv, m->layer[l].wo,
                          m->layer[l].ffn_norm, m->layer[l].w13,  m->layer[l].w2};
        for (size_t i = 0; i < sizeof layer / sizeof *layer; i++)
            clReleaseMemObject(layer[i]);
    }
    if (m->classifier != m->embedding)
        clReleaseMemObject(m->classifier);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        clReleaseMemObject(all[i]);
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
        clReleaseKernel(kernels[i]);
    clReleaseProgram(m->program);
    free(m->layer);
}

static void set(cl_kernel k, cl_uint n, const cl_mem *buffers)
{
    for (cl_uint i = 0; i < n; i++)
        must_cl(clSetKernelArg(k, i, sizeof *buffers, buffers + i), "clSetKernelArg");
}

static void set_uint(cl_kernel k, cl_uint i, cl_uint value)
{
    must_cl(clSetKernelArg(k, i, sizeof value, &value), "clSetKernelArg");
}

/* loops: each work-item has long loops. On CPUs it is then a separate work-group, which is ten
 * times faster since the compiler vectorizes the loops. Other work-groups have the same size for
 * any number of rows, because some drivers compile a kernel again for each size. */
static void launch(const model *m, cl_kernel k, size_t width, size_t rows, bool loops)
{
    const size_t all[2] = {width, rows};
    size_t group[2] = {64, 1};
    if (loops)
        group[0] = 1;
    while (width % group[0] != 0)
        group[0]--;
    must_cl(clEnqueueNDRangeKernel(m->d->queue, k, 2, NULL, all,
                                   loops && !m->d->is_cpu ? NULL : group, 0, NULL, NULL),
            "clEnqueueNDRangeKernel");
}

cl_mem model_classifier(model *m, uint32_t first, uint32_t count, bool half)
{
    const size_t row = m->c.dim * sizeof(float), n = (size_t)count * m->c.dim;
    if (!half && count == m->c.vocab) {
        must_cl(clRetainMemObject(m->classifier), "clRetainMemObject");
        return m->classifier;
    }
    cl_mem part = device_buffer(m->d, n * (half ? sizeof(cl_half) : sizeof(float)), NULL);
    if (half) {
        set(m->halve, 2, (cl_mem[]){m->classifier, part});
        set_uint(m->halve, 2, first);
        launch(m, m->halve, n, 1, false);
    } else {
        must_cl(clEnqueueCopyBuffer(m->d->queue, m->classifier, part, first * row, 0, count * row,
                                    0, NULL, NULL),
                "clEnqueueCopyBuffer");
    }
    return part;
}

const char *model_products(void)
{
#ifdef HAVE_CLBLAST
    return "CLBlast";
#else
    return "own kernel";
#endif
}

void model_product(model *m, cl_mem x, cl_mem w, cl_mem y, uint32_t out, uint32_t in, bool add)
{
#ifdef HAVE_CLBLAST
    const CLBlastStatusCode code =
        CLBlastSgemm(CLBlastLayoutRowMajor, CLBlastTransposeNo, CLBlastTransposeYes, m->batch, out,
                     in, 1, x, 0, in, w, 0, in, add ? 1 : 0, y, 0, out, &m->d->queue, NULL);
    if (code != CLBlastSuccess)
        die("CLBlast cannot multiply [%u, %u] by [%u, %u]: error %d", m->batch, in, in, out,
            (int)code);
#else
    set(m->product, 3, (cl_mem[]){x, w, y});
    set_uint(m->product, 3, in);
    set_uint(m->product, 4, add);
    launch(m, m->product, out, m->batch, false);
#endif
}

static void normalize(model *m, cl_mem weight, uint32_t n)
{
    set(m->norm, 3, (cl_mem[]){m->normed, m->x, weight});
    launch(m, m->norm, 1, n, true);
}

void model_forward(model *m, const int32_t *rows, uint32_t n, uint32_t layers, cl_mem tokens,
                   cl_event *uploaded)
{
    const config *c = &m->c;
    const uint32_t qkv_dim = c->dim + 2 * c->kv_dim;
    must_cl(clEnqueueWriteBuffer(m->d->queue, m->rows, CL_FALSE, 0,
                                 ROW_FIELDS * m->batch * sizeof *rows, rows, 0, NULL, uploaded),
            "clEnqueueWriteBuffer");
    set(m->embed, 4, (cl_mem[]){m->x, m->embedding, m->rows, tokens});
    launch(m, m->embed, c->dim, n, false);
    for (uint32_t l = 0; l < layers; l++) {
        normalize(m, m->layer[l].att_norm, n);
        model_product(m, m->normed, m->layer[l].wqkv, m->qkv, qkv_dim, c->dim, false);
        set(m->rope, 5, (cl_mem[]){m->qkv, m->keys, m->values, m->rows, m->angles});
        set_uint(m->rope, 5, l);
        launch(m, m->rope, qkv_dim / 2, n, false);
        set(m->attend, 5, (cl_mem[]){m->mixed, m->qkv, m->keys, m->values, m->rows});
        set_uint(m->attend, 5, l);
        launch(m, m->attend, c->heads, n, true);
        model_product(m, m->mixed, m->layer[l].wo, m->x, c->dim, c->dim, true);
        normalize(m, m->layer[l].ffn_norm, n);
        model_product(m, m->normed, m->layer[l].w13, m->gates, 2 * c->hidden, c->dim, false);
        set(m->swiglu, 2, (cl_mem[]){m->inner, m->gates});
        launch(m, m->swiglu, c->hidden, n, false);
        model_product(m, m->inner, m->layer[l].w2, m->x, c->dim, c->hidden, true);
    }
    normalize(m, m->last_norm, n);
}
