/* A set of cores by hwloc's logical numbers: a plain value, all zero is the empty set. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SW_MAX_CORES = 1024 };

struct sw_core_set {
    uint64_t bits[SW_MAX_CORES / 64];
};

/* core is 0 .. SW_MAX_CORES-1. */
void sw_core_set_add(struct sw_core_set *s, int core);
void sw_core_set_remove(struct sw_core_set *s, int core);
void sw_core_set_add_all(struct sw_core_set *s, const struct sw_core_set *other);
void sw_core_set_remove_all(struct sw_core_set *s, const struct sw_core_set *other);
bool sw_core_set_has(const struct sw_core_set *s, int core); /* false for any number outside */
int sw_core_set_count(const struct sw_core_set *s);
bool sw_core_set_overlaps(const struct sw_core_set *a, const struct sw_core_set *b);
/* The lowest core above `after`, or -1: for (c = next(s, -1); c >= 0; c = next(s, c)). */
int sw_core_set_next(const struct sw_core_set *s, int after);
/* "0-1", "0,2", "" into out; a text that does not fit ends with "...". Returns out. */
const char *sw_core_set_text(const struct sw_core_set *s, char *out, size_t bytes);
/* Reads such a text; false if it is none, or a number is outside. */
bool sw_core_set_parse(const char *text, struct sw_core_set *out);
