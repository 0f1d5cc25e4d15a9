/* A hash table with open addressing and linear probing, at most half full, so that every search
 * ends at a free slot. The table borrows the names. The contract is in recipe/seen.h. */
#include "recipe/seen.h"
#include "base/hash.h"
#include "base/os.h"
#include <string.h>

void sw_seen_fini(struct sw_seen *s)
{
    sw_free(s->slots);
    *s = (struct sw_seen){0};
}

static struct sw_seen_slot *probe(const struct sw_seen *s, const void *owner, const char *name,
                                  size_t bytes)
{
    size_t mask = s->capacity - 1;
    size_t i = (size_t)(sw_hash_bytes(name, bytes).low ^ ((uintptr_t)owner >> 4)) & mask;

    for (;; i = (i + 1) & mask) {
        struct sw_seen_slot *slot = &s->slots[i];
        if (!slot->name || (slot->owner == owner && strncmp(slot->name, name, bytes) == 0 &&
                            slot->name[bytes] == '\0'))
            return slot;
    }
}

void *sw_seen_find(const struct sw_seen *s, const void *owner, const char *name, size_t bytes)
{
    return s->capacity ? probe(s, owner, name, bytes)->value : NULL;
}

static bool grow(struct sw_seen *s)
{
    struct sw_seen bigger = {.count = s->count, .capacity = s->capacity ? 2 * s->capacity : 64};

    bigger.slots = sw_calloc(bigger.capacity, sizeof(*bigger.slots));
    if (!bigger.slots)
        return false;

    for (size_t i = 0; i < s->capacity; i++) {
        const struct sw_seen_slot *old = &s->slots[i];
        if (old->name)
            *probe(&bigger, old->owner, old->name, strlen(old->name)) = *old;
    }

    sw_free(s->slots);
    *s = bigger;
    return true;
}

bool sw_seen_add(struct sw_seen *s, const void *owner, const char *name, void *value)
{
    if (s->count + 1 > s->capacity / 2 && !grow(s))
        return false;

    *probe(s, owner, name, strlen(name)) =
        (struct sw_seen_slot){.name = name, .owner = owner, .value = value};
    s->count++;

    return true;
}
