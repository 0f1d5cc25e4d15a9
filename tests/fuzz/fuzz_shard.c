/* A shard of untrusted bytes: opening and reading every record must end in SW_OK or an error, never
 * in a crash. The first byte selects whether checksums are corrected first, so that the code after
 * them is reached; the rest is the file. */
#include "base/hash.h"
#include "base/os.h"
#include "data/shard.h"
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

enum { HEADER = 192, MAX_READS = 4096 };

static uint64_t get64(const unsigned char *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static void put64(unsigned char *p, uint64_t v)
{
    memcpy(p, &v, sizeof v);
}

static void mend(unsigned char *b, uint64_t bytes)
{
    const uint64_t header = get64(b + 16), records = get64(b + 32), index = get64(b + 48);
    put64(b + 24, bytes);
    if (index <= bytes && records == (bytes - index) / 16) {
        for (uint64_t i = 0; i < records; i++) {
            const uint64_t begin = get64(b + index + 16 * i);
            const uint64_t end = i + 1 < records ? get64(b + index + 16 * i + 16) : index;
            if (begin <= end && end <= index)
                put64(b + index + 16 * i + 8, sw_hash_bytes64(b + begin, end - begin));
        }
        put64(b + 56, sw_hash_bytes64(b + index, bytes - index));
    }
    if (header >= 8 && header <= bytes)
        put64(b + header - 8, sw_hash_bytes64(b, header - 8));
}

static void read_all(const struct sw_shard *s)
{
    unsigned char sum = 0;
    int64_t reads = 0;
    for (int64_t i = 0; i < s->records && reads < MAX_READS; i++) {
        for (int f = 0; f < s->field_count; f++, reads++) {
            struct sw_shard_value v;
            if (sw_shard_read(s, i, f, &v, NULL))
                continue;
            for (size_t k = 0; k < v.bytes; k++)
                sum ^= ((const unsigned char *)v.data)[k];
        }
    }
    __asm__ volatile("" : : "r"(sum)); /* the bytes are actually read */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct sw_shard s;
    struct sw_err err;
    if (bytes < 1)
        return 0;
    unsigned char *copy = sw_os()->alloc(bytes); /* aligned; the sanitizer checks its end */
    if (!copy)
        return 0;
    memcpy(copy, data + 1, bytes - 1);
    if (data[0] & 1 && bytes - 1 >= HEADER)
        mend(copy, bytes - 1);
    if (sw_shard_parse(&s, "input", copy, bytes - 1, &err) == SW_OK)
        read_all(&s);
    sw_shard_close(&s);
    sw_free(copy);
    return 0;
}
