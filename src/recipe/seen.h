/* A hash map from (owner, name) to a pointer. It finds duplicate keys and sections of a recipe in
 * constant time, so that a hostile file with a million lines takes linear time. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sw_seen_slot {
    const char *name; /* borrowed until sw_seen_fini; NULL: free */
    const void *owner;
    void *value;
};

/* Zero-initialise; free with sw_seen_fini. One owner. */
struct sw_seen {
    struct sw_seen_slot *slots; /* owned, a power of two of them */
    size_t count, capacity;
};

void sw_seen_fini(struct sw_seen *s);
/* The value stored for the pair, or NULL. name need not be zero-terminated. */
void *sw_seen_find(const struct sw_seen *s, const void *owner, const char *name, size_t bytes);
/* Stores a new pair with a value that is not NULL. False: out of memory. */
bool sw_seen_add(struct sw_seen *s, const void *owner, const char *name, void *value);
