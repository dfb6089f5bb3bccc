/* SPDX-License-Identifier: MIT */
/* Proves that a process which uses the library may call fork(): a child that uses no device
 * leaves its parent's steps undisturbed, and a child forked before its parent uses OpenCL can
 * use a device. A child must not use what its parent has opened; this is not tested, since
 * some drivers hang. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client.h"

static int ended_well(pid_t child)
{
    int status = 0;
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) &&
           WEXITSTATUS(status) == 0;
}

/* Steps with a child after each; the parent's tokens are the reference's. */
START_TEST(parent_goes_on)
{
    enum { STEPS = 6 };
    device *const d = fixture_device(_i);
    batch *const b = batch_new(2, 100, CLS_F32, 0, 0);
    client s;
    for (uint32_t row = 0; row < b->rows; row++)
        batch_row(b, row, ROW_NORMAL1, row);
    client_open(&s, b, d, fixture_context(d, 1u << CLS_F32, 0, 0, 0), STEPS);
    for (uint32_t i = 0; i < STEPS; i++) {
        client_step(&s, d->queue, i, 0, NULL, NULL);
        must_cl(clFlush(d->queue));
        const pid_t child = fork();
        if (child == 0) {
            const one_row h = batch_host_row(b, 0);
            one_result result = {0};
            alarm(60);
            _exit(one_sample(&h, &result) == CLS_OK && result.token >= 0 ? EXIT_SUCCESS
                                                                         : EXIT_FAILURE);
        }
        ck_assert_msg(ended_well(child), "%s: the child of step %u", d->name, i);
    }
    client_check(&s, STEPS, d->name);
    client_close(&s);
    batch_free(b);
}
END_TEST

static int run(void)
{
    fixture_begin(ON_DEVICES);
    add_device_test(parent_goes_on);
    return fixture_end();
}

int main(void)
{
    fflush(stdout);
    const pid_t early = fork(); /* before this process has opened anything */
    if (early == 0)
        exit(run());
    int status = 0;
    if (waitpid(early, &status, 0) != early || !WIFEXITED(status))
        return 99;
    return WEXITSTATUS(status) != EXIT_SUCCESS ? WEXITSTATUS(status) : run();
}
