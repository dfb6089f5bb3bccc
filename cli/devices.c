/* SPDX-License-Identifier: MIT */
/* clsample devices: lists the OpenCL devices and how the library would use them. */
#include <inttypes.h>
#include <stdio.h>

#include "cli.h"

static void print(const cli_device *device, uint32_t index)
{
    const cls_device_info *info = &device->info;
    printf("%c %" PRIu32 "  %s\n", device->is_default ? '*' : ' ', index, device->name);
    printf("       platform  %s, driver %s\n", device->platform_name, device->driver);
    printf("       type      %s, %s\n", cli_device_type(device->type), device->c_version);
    if (!device->usable) {
        printf("       unusable  %s\n", device->reason);
        return;
    }
    printf("       limits    %" PRIu32 " compute unit%s, work-groups to %" PRIu64 ", %" PRIu64
           " KiB of local memory\n",
           info->compute_units, info->compute_units == 1 ? "" : "s", info->max_work_group,
           info->local_mem_size / 1024);
    printf("       shape     work-group %" PRIu32 ", vector %" PRIu32 ", shortlist %" PRIu32 "\n",
           info->work_group, info->vector, info->shortlist);
    printf("       tier      %s", cli_tier_name(info->tier));
    if (info->subgroups != CLS_SUBGROUPS_NONE)
        printf(" (%s's), if they compute correctly", cli_subgroups_name(info->subgroups));
    putchar('\n');
}

static int print_json(const cli_devices *list)
{
    json_t *const array = json_array();
    for (uint32_t i = 0; i < list->count; i++)
        json_array_append_new(array, cli_device_json(&list->device[i], i));
    return cli_print_json(array);
}

int cls_cmd_devices(int argc, char **argv)
{
    bool json = false;
    cli_devices list;
    int failed;
    cli_option options[] = {
        {"json", CLI_FLAG, &json, NULL, "print an array; an index is the number for --device"},
        CLI_NO_OPTION};
    const cli_parsed parsed =
        cli_parse(argc, argv, "devices [--json]",
                  "Lists the OpenCL devices, with the numbers that --device takes.\n"
                  "The default, marked *, is the first usable GPU, or else accelerator, custom "
                  "device or CPU.",
                  options);
    if (parsed != CLI_GO)
        return parsed == CLI_FAILED;
    if (cli_devices_find(NULL, &list) != 0)
        return 1;
    if (json) {
        failed = print_json(&list);
    } else {
        for (uint32_t i = 0; i < list.count; i++)
            print(&list.device[i], i);
        for (uint32_t i = 0; i < list.empty_count; i++)
            printf("     platform %s has no device\n", list.empty_platforms[i]);
        failed = cli_flush_output();
    }
    if (!failed && list.count == 0)
        failed = cli_no_device();
    return failed;
}
