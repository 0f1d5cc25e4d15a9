/* Sets of cores as words of bits, and their text ("0-1", "0,2"). */
#include "machine/core_set.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS = SW_MAX_CORES / 64 };

void sw_core_set_add(struct sw_core_set *s, int core)
{
    s->bits[core / 64] |= UINT64_C(1) << (core % 64);
}

void sw_core_set_remove(struct sw_core_set *s, int core)
{
    s->bits[core / 64] &= ~(UINT64_C(1) << (core % 64));
}

void sw_core_set_add_all(struct sw_core_set *s, const struct sw_core_set *other)
{
    for (int i = 0; i < WORDS; i++)
        s->bits[i] |= other->bits[i];
}

void sw_core_set_remove_all(struct sw_core_set *s, const struct sw_core_set *other)
{
    for (int i = 0; i < WORDS; i++)
        s->bits[i] &= ~other->bits[i];
}

bool sw_core_set_has(const struct sw_core_set *s, int core)
{
    return core >= 0 && core < SW_MAX_CORES && (s->bits[core / 64] >> (core % 64) & 1);
}

int sw_core_set_count(const struct sw_core_set *s)
{
    int count = 0;
    for (int i = 0; i < WORDS; i++)
        count += __builtin_popcountll(s->bits[i]);
    return count;
}

bool sw_core_set_overlaps(const struct sw_core_set *a, const struct sw_core_set *b)
{
    for (int i = 0; i < WORDS; i++) {
        if (a->bits[i] & b->bits[i])
            return true;
    }

    return false;
}

int sw_core_set_next(const struct sw_core_set *s, int after)
{
    for (int core = after + 1; core < SW_MAX_CORES; core++) {
        if (sw_core_set_has(s, core))
            return core;
    }

    return -1;
}

const char *sw_core_set_text(const struct sw_core_set *s, char *out, size_t bytes)
{
    size_t length = 0;

    out[0] = '\0';
    for (int first = sw_core_set_next(s, -1); first >= 0;) {
        int last = first;
        char item[32];

        while (sw_core_set_has(s, last + 1))
            last++;

        const char *comma = length ? "," : "";
        int n = last > first ? snprintf(item, sizeof item, "%s%d-%d", comma, first, last)
                             : snprintf(item, sizeof item, "%s%d", comma, first);
        first = sw_core_set_next(s, last);

        size_t room = first >= 0 ? sizeof "..." : 1; /* what must still fit afterwards */
        if (length + (size_t)n + room > bytes) {
            snprintf(out + length, bytes - length, "...");
            break;
        }

        memcpy(out + length, item, (size_t)n + 1);
        length += (size_t)n;
    }

    return out;
}

/* The number at *text, which moves behind it, or -1. */
static int read_core(const char **text)
{
    char *end;
    long number = isdigit((unsigned char)**text) ? strtol(*text, &end, 10) : -1;

    if (number < 0 || number >= SW_MAX_CORES)
        return -1;

    *text = end;
    return (int)number;
}

bool sw_core_set_parse(const char *text, struct sw_core_set *out)
{
    *out = (struct sw_core_set){0};
    if (!*text)
        return true;

    for (;; text++) {
        int first = read_core(&text), last = first;

        if (first >= 0 && *text == '-') {
            text++;
            last = read_core(&text);
        }

        if (first < 0 || last < first)
            return false;
        for (int core = first; core <= last; core++)
            sw_core_set_add(out, core);
        if (*text != ',')
            return *text == '\0';
    }
}
