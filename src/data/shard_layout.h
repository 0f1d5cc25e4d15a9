/* The layout of a shard (see the diagram in data/shard.h), shared by reader and writer. Internal to
 * data/shard_*.c. */
#pragma once

#include "data/shard.h"
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "values are written as they lie in memory");

enum {
    SW_SHARD_AT_VERSION = 8,
    SW_SHARD_AT_FIELDS = 12,
    SW_SHARD_AT_HEADER_BYTES = 16,
    SW_SHARD_AT_FILE_BYTES = 24,
    SW_SHARD_AT_RECORDS = 32,
    SW_SHARD_AT_CLASSES = 40,
    SW_SHARD_AT_INDEX = 48,
    SW_SHARD_AT_INDEX_SUM = 56,
    SW_SHARD_AT_ORIGIN_BYTES = 64,
    SW_SHARD_AT_TABLE = 80,
    SW_SHARD_ENTRY_BYTES = 80, /* of the field table */
    SW_SHARD_ENTRY_KIND = 32,
    SW_SHARD_ENTRY_TYPE = 36,
    SW_SHARD_ENTRY_NDIM = 40,
    SW_SHARD_ENTRY_ZERO = 44,
    SW_SHARD_ENTRY_DIM = 48,
    SW_SHARD_SUM_BYTES = 8,
    SW_SHARD_ALIGNMENT = 8,
    SW_SHARD_HEADER_ALIGNMENT = 64,
    SW_SHARD_INDEX_BYTES = 16, /* of one record */
    SW_SHARD_PICTURE_HEAD = 24,
    SW_SHARD_MAGIC_BYTES = 8,
    SW_SHARD_MIN_HEADER = 192, /* one field and the checksum, rounded up */
};

#define SW_SHARD_MAGIC "\x89SWSHD\r\n"

static inline uint32_t sw_shard_u32(const unsigned char *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline uint64_t sw_shard_u64(const unsigned char *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline void sw_shard_put32(unsigned char *p, uint32_t v)
{
    memcpy(p, &v, sizeof v);
}

static inline void sw_shard_put64(unsigned char *p, uint64_t v)
{
    memcpy(p, &v, sizeof v);
}

/* Checks a field: its name, its type, and dimensions whose product does not overflow. Returns NULL,
 * or the reason as a clause for a message that names the field. */
const char *sw_shard_field_fault(const struct sw_shard_field *f);
/* Checks a value against its field: NULL or the reason, as above. */
const char *sw_shard_value_fault(const struct sw_shard_field *f, const struct sw_shard_value *v);
