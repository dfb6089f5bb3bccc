/* SPDX-License-Identifier: MIT */
/* The parameters of LiteRT-LM: a protobuf object of C++, which its own class writes for us. */
#define _GNU_SOURCE /* RTLD_DEFAULT, dladdr() */
#include "plugin.h"

#include <string.h>

static bool read_varint(const uint8_t **at, const uint8_t *end, uint64_t *value)
{
    *value = 0;
    for (unsigned shift = 0; shift < 64 && *at < end; shift += 7) {
        const uint8_t byte = *(*at)++;
        *value |= (uint64_t)(byte & 127) << shift;
        if (byte < 128)
            return true;
    }
    return false;
}

/* Reads a message in protobuf's wire format, which ends with a zero or at `end`. */
static bool read_wire(const uint8_t *at, const uint8_t *end, struct parameters *to)
{
    uint64_t tag, value = 0;
    while (at < end && *at != 0) {
        float number = 0;
        if (!read_varint(&at, end, &tag))
            return false;
        const int kind = (int)(tag & 7);
        if ((kind == 0 || kind == 2) && !read_varint(&at, end, &value))
            return false;
        const uint64_t skipped = kind == 1 ? 8 : kind == 2 ? value : kind == 5 ? 4 : 0;
        if (kind == 3 || kind == 4 || kind > 5 || skipped > (uint64_t)(end - at))
            return false;
        if (kind == 5)
            memcpy(&number, at, 4);
        at += skipped;
        switch (tag) { /* the field and its kind */
        case LITERT_FIELD_TYPE << 3:
            to->type = value;
            break;
        case LITERT_FIELD_K << 3:
            to->k = (int32_t)(uint32_t)value;
            break;
        case LITERT_FIELD_P << 3 | 5:
            to->p = number;
            break;
        case LITERT_FIELD_TEMPERATURE << 3 | 5:
            to->temperature = number;
            break;
        case LITERT_FIELD_SEED << 3:
            to->seed = (uint32_t)value;
            to->has_seed = true;
            break;
        default: /* a field of another release */
            break;
        }
    }
    return true;
}

/* Looks for MessageLite::SerializeToArray() among what the process exports, and in the library that
 * has the class of the message: the first word of a C++ object points into it. */
static void *find_serializer(const void *message)
{
    static const char *const names[] = {
        "_ZNK6proto211MessageLite16SerializeToArrayEPvi",
        "_ZNK6google8protobuf11MessageLite16SerializeToArrayEPvi",
    };
    Dl_info where;
    void *found = NULL, *library = NULL;
    if (dladdr(*(void *const *)message, &where) != 0 && where.dli_fname != NULL)
        library = dlopen(where.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    for (size_t i = 0; i < 2 && found == NULL; i++) {
        if (library != NULL)
            found = dlsym(library, names[i]);
        if (found == NULL)
            found = dlsym(RTLD_DEFAULT, names[i]);
    }
    if (library != NULL)
        dlclose(library);
    return found;
}

int read_message(const void *message, struct parameters *to, char **error)
{
    uint8_t wire[1024] = {0};
    memset(to, 0, sizeof *to);
    if (message == NULL) /* all fields have their defaults */
        return LITERT_OK;
    bool (*serialize)(const void *message, void *to, int size);
    void *const found = find_serializer(message);
    memcpy(&serialize, &found, sizeof serialize);
    if (serialize == NULL)
        return fail(error, LITERT_UNAVAILABLE,
                    "LiteRT-LM does not export MessageLite::SerializeToArray(), by which its "
                    "parameters are read");
    if (!serialize(message, wire, sizeof wire) || !read_wire(wire, wire + sizeof wire, to))
        return fail(error, LITERT_INVALID_ARGUMENT, "the parameters cannot be read");
    return LITERT_OK;
}
