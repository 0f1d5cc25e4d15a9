/* CUDA_VISIBLE_DEVICES, read as CUDA reads it: numbers or beginnings of UUIDs; the first item that
 * names no GPU, or one that was named before, ends the list. */
#include "base/str.h"
#include "machine/io.h"
#include <stdio.h>
#include <string.h>

/* The GPU that an item names, or -1. */
static int named_by(const char *item, int count, const char *const *uuid)
{
    int64_t number;
    int found = -1;

    if (sw_parse_int(item, &number))
        return number >= 0 && number < count ? (int)number : -1;

    for (int i = 0; i < count && sw_str_starts(item, "GPU-"); i++) {
        if (!sw_str_starts(uuid[i], item))
            continue;
        if (found >= 0)
            return -1; /* the prefix is ambiguous */

        found = i;
    }

    return found;
}

int sw_gpus_visible(const char *text, int count, const char *const *uuid, int *out)
{
    int visible = 0;

    if (!text) {
        for (; visible < count; visible++)
            out[visible] = visible;
        return visible;
    }

    while (*text) {
        char item[64];

        text += strspn(text, " \t");

        size_t n = strcspn(text, ",");
        int length = (int)n;
        while (length > 0 && (text[length - 1] == ' ' || text[length - 1] == '\t'))
            length--;
        snprintf(item, sizeof item, "%.*s", length, text);

        int gpu = named_by(item, count, uuid);
        for (int i = 0; i < visible; i++)
            gpu = out[i] == gpu ? -1 : gpu;
        if (gpu < 0)
            return visible;

        out[visible++] = gpu;
        text += n + (text[n] == ',');
    }

    return visible;
}
