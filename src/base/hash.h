/* 128-bit XXH3 (libxxhash): checksums of files and identities of recipes. Not cryptographic. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct sw_hash {
    uint64_t low, high;
};

struct sw_hash sw_hash_bytes(const void *data, size_t bytes); /* XXH3-128 */
uint64_t sw_hash_bytes64(const void *data, size_t bytes);     /* XXH3-64 */

/* Streaming form, one owner. NULL when memory is exhausted. */
struct sw_hash_state;
struct sw_hash_state *sw_hash_new(void);
void sw_hash_free(struct sw_hash_state *s);
void sw_hash_update(struct sw_hash_state *s, const void *data, size_t bytes);
struct sw_hash sw_hash_finish(const struct sw_hash_state *s);

/* 32 lower-case hex digits and a zero. */
void sw_hash_hex(struct sw_hash h, char out[33]);
/* A 64-bit identity of a name, for Philox streams. */
uint64_t sw_hash_name(const char *name);
