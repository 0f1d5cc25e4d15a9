/* XXH3 hashes. libxxhash is used header-only, so that its state can be in our own allocation and
 * nothing depends on the layout in a shared library. The contract is in base/hash.h. */
#include "base/hash.h"
#include "base/hash_avx2.h"
#include "base/os.h"
#include <stdbool.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

/* The streaming state of the library needs 64-byte alignment, which alloc does not guarantee, so
 * the state is placed inside a larger block. */
struct sw_hash_state {
    XXH3_state_t *xxh; /* inside room */
    unsigned char room[sizeof(XXH3_state_t) + 64];
};

static struct sw_hash from_xxh(XXH128_hash_t h)
{
    return (struct sw_hash){.low = h.low64, .high = h.high64};
}

struct sw_hash sw_hash_bytes(const void *data, size_t bytes)
{
    return from_xxh(XXH3_128bits(data, bytes));
}

/* Below this size, choosing an implementation costs more than it saves. */
enum { LONG_BYTES = 1024 };

static bool has_avx2(void)
{
#ifdef __x86_64__
    return __builtin_cpu_supports("avx2");
#else
    return false;
#endif
}

uint64_t sw_hash_bytes64(const void *data, size_t bytes)
{
    return bytes >= LONG_BYTES && has_avx2() ? sw_hash_bytes64_avx2(data, bytes)
                                             : XXH3_64bits(data, bytes);
}

struct sw_hash_state *sw_hash_new(void)
{
    struct sw_hash_state *s = sw_calloc(1, sizeof *s);
    if (!s)
        return NULL;

    s->xxh = (XXH3_state_t *)(((uintptr_t)s->room + 63) & ~(uintptr_t)63);
    XXH3_INITSTATE(s->xxh);
    XXH3_128bits_reset(s->xxh);

    return s;
}

void sw_hash_free(struct sw_hash_state *s)
{
    sw_free(s);
}

/* XXH3_128bits_update fails for a NULL state or input only; empty pieces are skipped here. */
void sw_hash_update(struct sw_hash_state *s, const void *data, size_t bytes)
{
    if (bytes)
        XXH3_128bits_update(s->xxh, data, bytes);
}

struct sw_hash sw_hash_finish(const struct sw_hash_state *s)
{
    return from_xxh(XXH3_128bits_digest(s->xxh));
}

void sw_hash_hex(struct sw_hash h, char out[33])
{
    static const char digits[] = "0123456789abcdef";

    for (int i = 0; i < 16; i++) {
        out[i] = digits[(h.high >> (60 - 4 * i)) & 15];
        out[16 + i] = digits[(h.low >> (60 - 4 * i)) & 15];
    }

    out[32] = '\0';
}

uint64_t sw_hash_name(const char *name)
{
    return XXH3_64bits(name, strlen(name));
}
