/* SPDX-License-Identifier: MIT */
/* What differs, and the program that it points at. */
#include <string.h>

#include "accept/accept.h"

int accept_find(const char *what, const char *program, const char *message)
{
    accept_say("finding", json_pack("{s:s, s:o, s:o}", "what", what, "program",
                                    program != NULL ? cli_text(program) : json_null(), "message",
                                    cli_text(message)));
    return 1;
}

const char *accept_named_in(const char *message)
{
    static const char before[] = "the program ";
    static char name[64];
    const char *const at = strstr(message, before);
    if (at == NULL)
        return NULL;
    const char *const from = at + strlen(before);
    snprintf(name, sizeof name, "%.*s", (int)strcspn(from, " "), from);
    return name;
}

int accept_fail(const char *what)
{
    const char *const message = cli_reason();
    return accept_find(what, accept_named_in(message), message);
}

const char *accept_suspect(json_t *programs)
{
    const char *name = NULL;
    json_int_t least = 0;
    size_t i;
    json_t *p;
    json_array_foreach(programs, i, p) if (name == NULL || cli_integer(p, "agreed") <= least)
    {
        name = cli_string(p, "program");
        least = cli_integer(p, "agreed");
    }
    return name;
}
