/* SPDX-License-Identifier: MIT */
/* Which program a process compiles, and which ones its calls launch. The functions of OpenCL that
 * tell it are replaced in the table through which the library and the command call OpenCL. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "accept/accept.h"

typedef struct named {
    const void *object; /* a cl_program or a cl_kernel */
    const char *name;
} named;

/* A launch of the text that runs. */
typedef struct launch {
    uint32_t statement;
    const char *name;
} launch;

/* What is known of a program, whatever its type of logits. */
typedef struct known {
    const char *name;
    uint64_t launched; /* in all */
    uint64_t agreed;   /* in texts that were equal */
    uint64_t pending;  /* in this text */
} known;

/* So many launches of a program are told one by one; later ones once a second, since telling takes
 * longer than enqueuing. */
enum { OFTEN = 100 };

static cls_opencl_functions real;
static const char *compiling = "a test of the device"; /* what comes before the first program */
static struct {
    named *item;
    size_t count;
} programs, kernels;
static struct {
    launch *item;
    size_t count;
} launches;
static known names[256];
static size_t n_names;
static const uint32_t *statement;
static time_t last_word;

static const char *find(const named *item, size_t count, const void *object)
{
    for (size_t i = count; i-- > 0;)
        if (item[i].object == object)
            return item[i].name;
    return NULL;
}

/* Room for one more. A text frees what cli_grow() gets while it runs. */
static void *grown(void *item, size_t count, size_t size)
{
    void *const more =
        (count & (count - 1)) == 0 ? realloc(item, (count != 0 ? 2 * count : 1) * size) : item;
    if (more == NULL)
        cli_die("out of memory for %zu bytes", count * size);
    return more;
}

/* Handles of what was released come again. */
static void set(named **item, size_t *count, const void *object, const char *name)
{
    for (size_t i = 0; i < *count; i++)
        if ((*item)[i].object == object) {
            (*item)[i].name = name;
            return;
        }
    *item = grown(*item, *count, sizeof **item);
    (*item)[(*count)++] = (named){object, name};
}

static known *known_of(const char *name)
{
    size_t i = 0;
    while (i < n_names && names[i].name != name && strcmp(names[i].name, name) != 0)
        i++;
    if (i == sizeof names / sizeof *names)
        return &names[0];
    if (i == n_names)
        names[n_names++] = (known){.name = name};
    return &names[i];
}

static void say_at(const char *program, const char *does)
{
    last_word = time(NULL);
    accept_say("at", json_pack("{s:s, s:s}", "program", program, "does", does));
}

static void on_program(const char *program)
{
    compiling = program;
    say_at(program, "is compiled");
}

static cl_int CL_API_CALL build(cl_program program, cl_uint n, const cl_device_id *devices,
                                const char *options, void(CL_CALLBACK *notify)(cl_program, void *),
                                void *data)
{
    set(&programs.item, &programs.count, program, compiling);
    return (real.clBuildProgram)(program, n, devices, options, notify, data);
}

static cl_kernel CL_API_CALL create_kernel(cl_program program, const char *name, cl_int *error)
{
    cl_kernel const kernel = (real.clCreateKernel)(program, name, error);
    const char *const of = find(programs.item, programs.count, program);
    if (kernel != NULL)
        set(&kernels.item, &kernels.count, kernel, of != NULL ? of : compiling);
    return kernel;
}

static cl_int CL_API_CALL enqueue(cl_command_queue queue, cl_kernel kernel, cl_uint dims,
                                  const size_t *from, const size_t *global, const size_t *local,
                                  cl_uint n, const cl_event *wait, cl_event *done)
{
    const char *const of = find(kernels.item, kernels.count, kernel);
    if (of != NULL) {
        known *const k = known_of(of);
        if (k->launched < OFTEN || time(NULL) > last_word)
            say_at(of, k->launched == 0 ? "runs for the first time" : "runs");
        k->launched++;
        k->pending++;
        if (statement != NULL) {
            launches.item = grown(launches.item, launches.count, sizeof *launches.item);
            launches.item[launches.count++] = (launch){*statement, of};
        }
    }
    return (real.clEnqueueNDRangeKernel)(queue, kernel, dims, from, global, local, n, wait, done);
}

static cl_int CL_API_CALL program_info(cl_program program, cl_program_info what, size_t size,
                                       void *to, size_t *got)
{
    const char *const of = find(programs.item, programs.count, program);
    if (what == CL_PROGRAM_BINARIES && of != NULL) /* for which some drivers compile once more */
        say_at(of, "gives its compiled form");
    return (real.clGetProgramInfo)(program, what, size, to, got);
}

void accept_names_watch(void)
{
    /* The table is constant for all others; nobody else runs in this process yet. */
    cls_opencl_functions *const table = (cls_opencl_functions *)(uintptr_t)cls_opencl();
    real = *table;
    table->clBuildProgram = build;
    table->clCreateKernel = create_kernel;
    table->clEnqueueNDRangeKernel = enqueue;
    table->clGetProgramInfo = program_info;
    cli_compiling = on_program;
}

void accept_names_begin(const uint32_t *now)
{
    statement = now;
    free(launches.item);
    launches.item = NULL;
    launches.count = 0;
    for (size_t i = 0; i < n_names; i++)
        names[i].pending = 0;
}

void accept_names_agree(void)
{
    for (size_t i = 0; i < n_names; i++)
        names[i].agreed += names[i].pending;
}

json_t *accept_names_of(uint32_t of)
{
    json_t *const list = json_array(), *object;
    for (size_t i = 0; i < launches.count; i++) {
        const launch *const l = &launches.item[i];
        size_t at;
        bool found = false;
        if (l->statement != of)
            continue;
        json_array_foreach(list, at, object)
        {
            if (strcmp(cli_string(object, "program"), l->name) != 0)
                continue;
            json_object_set_new(object, "launched",
                                json_integer(cli_integer(object, "launched") + 1));
            found = true;
        }
        if (!found)
            json_array_append_new(list,
                                  json_pack("{s:s, s:i, s:I}", "program", l->name, "launched", 1,
                                            "agreed", (json_int_t)known_of(l->name)->agreed));
    }
    return list;
}
