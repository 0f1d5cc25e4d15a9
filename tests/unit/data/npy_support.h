/* Arrays and archives as numpy writes them, made by tests byte by byte. */
#pragma once

#include "data_support.h"

/* A whole .npy file in malloc's memory: descr such as "<f4", shape such as "(3, 2)". */
static inline unsigned char *npy_make(const char *descr, const char *shape, const void *values,
                                      size_t n, size_t *bytes)
{
    char dict[256];
    const size_t used = (size_t)snprintf(
        dict, sizeof dict, "{'descr': '%s', 'fortran_order': False, 'shape': %s, }", descr, shape);
    const size_t head = (10 + used + 1 + 63) / 64 * 64, length = head - 10;
    unsigned char *b = malloc(head + n);
    assert_non_null(b);
    memset(b, ' ', head);
    memcpy(b, "\x93NUMPY\x01\x00", 8);
    b[8] = (unsigned char)length;
    b[9] = (unsigned char)(length >> 8);
    memcpy(b + 10, dict, used);
    b[head - 1] = '\n';
    memcpy(b + head, values, n);
    *bytes = head + n;
    return b;
}

static inline const char *npy_write(const char *name, const char *descr, const char *shape,
                                    const void *values, size_t n)
{
    size_t bytes = 0;
    unsigned char *b = npy_make(descr, shape, values, n, &bytes);
    const char *path = support_write(name, b, bytes);
    free(b);
    return path;
}

static inline const char *npy_gzip(const char *name, const char *descr, const char *shape,
                                   const void *values, size_t n)
{
    size_t bytes = 0;
    unsigned char *b = npy_make(descr, shape, values, n, &bytes);
    const char *path = support_gzip(name, b, bytes);
    free(b);
    return path;
}

/* ---- ZIP archives ---- */

/* Grows as members are added; zip_end adds the list of members. */
struct zip_maker {
    unsigned char bytes[1 << 16], list[1 << 12];
    size_t used, listed;
    int count;
    bool zip64; /* sizes as all ones, and an extra field, as force_zip64 writes them */
};

static inline void zip_put(unsigned char *to, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++)
        to[i] = (unsigned char)(value >> (8 * i));
}

static inline size_t zip_deflate(const void *in, size_t n, unsigned char *out, size_t room)
{
    z_stream z = {.next_in = (unsigned char *)(uintptr_t)in,
                  .avail_in = (unsigned)n,
                  .next_out = out,
                  .avail_out = (unsigned)room};
    assert_int_equal(deflateInit2(&z, 9, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY), Z_OK);
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    deflateEnd(&z);
    return z.total_out;
}

static inline void zip_add(struct zip_maker *z, const char *name, const void *bytes, size_t n,
                           bool deflated)
{
    const size_t name_bytes = strlen(name), at = z->used;
    unsigned char *local = z->bytes + at, *entry = z->list + z->listed;
    const uint32_t crc = (uint32_t)crc32(0, bytes, (unsigned)n);
    const size_t body = at + 30 + name_bytes;
    size_t packed = n;
    if (deflated)
        packed = zip_deflate(bytes, n, z->bytes + body, sizeof z->bytes - body);
    else
        memcpy(z->bytes + body, bytes, n);
    memset(local, 0, 30);
    memcpy(local, "PK\3\4", 4);
    zip_put(local + 8, deflated ? 8 : 0, 2);
    zip_put(local + 14, crc, 4);
    zip_put(local + 18, packed, 4);
    zip_put(local + 22, n, 4);
    zip_put(local + 26, name_bytes, 2);
    memcpy(local + 30, name, name_bytes);
    z->used = body + packed;

    const size_t extra = z->zip64 ? 4 + 3 * 8 : 0;
    memset(entry, 0, 46);
    memcpy(entry, "PK\1\2", 4);
    zip_put(entry + 10, deflated ? 8 : 0, 2);
    zip_put(entry + 16, crc, 4);
    zip_put(entry + 20, z->zip64 ? 0xffffffff : packed, 4);
    zip_put(entry + 24, z->zip64 ? 0xffffffff : n, 4);
    zip_put(entry + 28, name_bytes, 2);
    zip_put(entry + 30, extra, 2);
    zip_put(entry + 42, z->zip64 ? 0xffffffff : at, 4);
    memcpy(entry + 46, name, name_bytes);
    unsigned char *more = entry + 46 + name_bytes;
    if (z->zip64) {
        zip_put(more, 1, 2);
        zip_put(more + 2, 24, 2);
        zip_put(more + 4, n, 8);
        zip_put(more + 12, packed, 8);
        zip_put(more + 20, at, 8);
    }
    z->listed += 46 + name_bytes + extra;
    z->count++;
}

static inline void zip_add_array(struct zip_maker *z, const char *name, const char *descr,
                                 const char *shape, const void *values, size_t n, bool deflated)
{
    size_t bytes = 0;
    unsigned char *b = npy_make(descr, shape, values, n, &bytes);
    zip_add(z, name, b, bytes, deflated);
    free(b);
}

static inline void zip_end(struct zip_maker *z)
{
    const size_t at = z->used;
    memcpy(z->bytes + at, z->list, z->listed);
    unsigned char *p = z->bytes + at + z->listed;
    if (z->zip64) {
        memset(p, 0, 76);
        memcpy(p, "PK\6\6", 4);
        zip_put(p + 4, 44, 8);
        zip_put(p + 24, (uint64_t)z->count, 8);
        zip_put(p + 32, (uint64_t)z->count, 8);
        zip_put(p + 40, z->listed, 8);
        zip_put(p + 48, at, 8);
        memcpy(p + 56, "PK\6\7", 4);
        zip_put(p + 64, at + z->listed, 8);
        zip_put(p + 72, 1, 4);
        p += 76;
    }
    memset(p, 0, 22);
    memcpy(p, "PK\5\6", 4);
    zip_put(p + 8, (uint64_t)z->count, 2);
    zip_put(p + 10, (uint64_t)z->count, 2);
    zip_put(p + 12, z->zip64 ? 0xffffffff : z->listed, 4);
    zip_put(p + 16, z->zip64 ? 0xffffffff : at, 4);
    z->used = (size_t)(p - z->bytes) + 22;
}
