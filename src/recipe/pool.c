/* A bump allocator over a list of chunks: an allocation takes the next bytes of the current chunk,
 * and nothing is freed before sw_pool_fini. A failed allocation also sets pool.failed, so that
 * callers may check once after many allocations. The contract is in recipe/pool.h. */
#include "recipe/pool.h"
#include "base/os.h"
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { CHUNK_BYTES = 8192, ALIGN = _Alignof(max_align_t) };

struct sw_pool_chunk {
    struct sw_pool_chunk *next;
    size_t used, room; /* bytes of data */
    _Alignas(max_align_t) unsigned char data[];
};

void sw_pool_fini(struct sw_pool *p)
{
    while (p->chunks) {
        struct sw_pool_chunk *next = p->chunks->next;
        sw_free(p->chunks);
        p->chunks = next;
    }

    p->failed = false;
}

static struct sw_pool_chunk *add_chunk(struct sw_pool *p, size_t bytes)
{
    size_t room = bytes > CHUNK_BYTES ? bytes : CHUNK_BYTES;
    struct sw_pool_chunk *c = sw_calloc(1, sizeof(*c) + room);
    if (!c)
        return NULL;

    c->room = room;

    /* A large block gets a chunk of its own behind the current one, which stays in use. */
    if (p->chunks && bytes > CHUNK_BYTES / 2) {
        c->next = p->chunks->next;
        p->chunks->next = c;
    } else {
        c->next = p->chunks;
        p->chunks = c;
    }

    return c;
}

void *sw_pool_alloc(struct sw_pool *p, size_t count, size_t size)
{
    if (size && count > (SIZE_MAX / 4) / size) {
        p->failed = true;
        return NULL;
    }

    size_t bytes = (count * size + ALIGN - 1) / ALIGN * ALIGN;
    struct sw_pool_chunk *c = p->chunks;
    if (!c || c->room - c->used < bytes)
        c = add_chunk(p, bytes);
    if (!c) {
        p->failed = true;
        return NULL;
    }

    void *out = c->data + c->used;
    c->used += bytes;
    return out;
}

char *sw_pool_copy(struct sw_pool *p, const char *s, size_t bytes)
{
    char *out = sw_pool_alloc(p, bytes + 1, 1);
    if (out)
        memcpy(out, s, bytes);
    return out;
}

/* Formats into the rest of the current chunk, and a second time only if the text does not fit. */
char *sw_pool_format(struct sw_pool *p, const char *fmt, ...)
{
    struct sw_pool_chunk *c = p->chunks;
    size_t room = c ? c->room - c->used : 0;
    char *rest = room ? (char *)c->data + c->used : NULL;
    va_list ap, again;

    va_start(ap, fmt);
    va_copy(again, ap);

    size_t bytes = (size_t)vsnprintf(rest, room, fmt, ap) + 1;
    if (bytes > room && room)
        memset(rest, 0, room);

    char *out = sw_pool_alloc(p, bytes, 1);
    if (out && bytes > room)
        vsnprintf(out, bytes, fmt, again);
    va_end(again);
    va_end(ap);

    return out;
}
