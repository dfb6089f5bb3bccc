/* SPDX-License-Identifier: MIT */
/* clsample devices: prints the OpenCL devices. */
#include <stdio.h>
#include <string.h>

#include "common/cli.h"

static void print(const cli_device *device)
{
    const json_t *const json = device->json;
    const json_int_t units = cli_integer(json, "compute_units");
    cli_put(json_is_true(json_object_get(json, "default")) ? "* " : "  ", json);
    cli_put("{device}  {name}\n       platform  {platform}, driver {driver}\n"
            "       type      {type}, {opencl_c}\n",
            json);
    if (!device->usable) {
        cli_put("       unusable  {reason}\n", json);
        return;
    }
    cli_put(units == 1 ? "       limits    {compute_units} compute unit"
                       : "       limits    {compute_units} compute units",
            json);
    cli_put(", work-groups to {max_work_group}, ", json);
    printf("%" JSON_INTEGER_FORMAT " KiB of local memory\n",
           cli_integer(json, "local_mem_size") / 1024);
    cli_put("       shape     work-group {work_group}, vector {vector}, shortlist {shortlist}\n"
            "       tier      {tier}",
            json);
    if (strcmp(cli_string(json, "subgroups"), "none") != 0)
        cli_put(" ({subgroups}'s), if they compute correctly", json);
    putchar('\n');
}

static void print_all(const cli_devices *list)
{
    size_t i;
    json_t *platform;
    for (uint32_t d = 0; d < list->count; d++)
        print(&list->device[d]);
    json_array_foreach(list->empty_platforms, i, platform)
        printf("     platform %s has no device\n", json_string_value(platform));
}

int cls_cmd_devices(int argc, char **argv)
{
    bool json = false;
    cli_devices list;
    const cli_option options[] = {
        CLI_TITLE("Output"),
        {"json", CLI_FLAG, &json, NULL, "print an array; an index is the number for --device"},
        CLI_NO_OPTION};
    cli_parse(argc, argv, "devices [--json]",
              "Lists the OpenCL devices, with the numbers that --device takes. The default, marked "
              "*, is the first usable GPU, or else accelerator, custom device or CPU.",
              options);
    cli_devices_find(NULL, &list);
    json_t *const all = json_array();
    for (uint32_t i = 0; i < list.count; i++)
        json_array_append(all, list.device[i].json);
    if (json)
        cli_print_json(all);
    else
        print_all(&list);
    if (list.count == 0)
        cli_no_device();
    return 0;
}
