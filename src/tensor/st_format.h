/* Constants and helpers shared by the writer and the reader of safetensors files. Internal to
 * tensor/st_*.c. */
#pragma once

#include "base/hash.h"
#include "tensor/safetensors.h"

#define SW_ST_CHECKSUM "sw.checksum"
#define SW_ST_METADATA "__metadata__"

enum { SW_ST_LENGTH_BYTES = 8, SW_ST_CHECKSUM_BYTES = 16 };

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "values are written in memory byte order");

/* The dtype of a name, or -1. */
int sw_st_dtype_from_name(const char *name);
/* Checked size of a tensor: false when a dimension is negative or the bytes do not fit in 62 bits.
 */
bool sw_st_size(enum sw_st_dtype t, int ndim, const int64_t *shape, uint64_t *bytes);
/* The hash as its 16 bytes in the file, most significant first, so that they read like the hex
 * text. */
void sw_st_checksum_bytes(struct sw_hash h, unsigned char out[SW_ST_CHECKSUM_BYTES]);
/* The dtype in a file that stores the kernels' type. */
enum sw_st_dtype sw_st_dtype_of(enum sw_dtype t);
/* State of a file that is being written; one owner. */
struct sw_st_sink {
    int fd;
    const char *path; /* for messages */
    struct sw_hash_state *hash;
    unsigned char *buf; /* SW_ST_CHUNK_BYTES */
    size_t used;
    uint64_t written;  /* bytes handed to the file */
    uint64_t expected; /* bytes of the current tensor not yet emitted */
};
/* sw_st_put appends bytes through the buffer; sw_st_flush writes the buffer to the file. Errors:
 * those of sw_os_write_all. */
int sw_st_put(struct sw_st_sink *s, const void *bytes, size_t n, struct sw_err *err) SW_MUST_CHECK;
int sw_st_flush(struct sw_st_sink *s, struct sw_err *err) SW_MUST_CHECK;
