/* zlib behind a stream that reads a range of an open file, with memory from base/os.h. The only
 * file of the project that includes zlib. */
#include "data/inflate.h"
#include "base/os.h"
#include "base/stop.h"
#include <zlib.h>

enum {
    IN_BYTES = 1 << 16,
    OUT_BYTES = 1 << 20 /* between two checks for a stop request */
};

struct sw_inflater {
    const char *what;            /* borrowed */
    int fd;                      /* borrowed */
    const unsigned char *memory; /* borrowed; the stream, if it is not in fd */
    z_stream z;
    uint64_t in_offset; /* next byte of the file */
    uint64_t in_end;
    uint64_t in_first;
    bool ended; /* the end was reached and the checksum was correct */
    unsigned char in[IN_BYTES];
};

static void *zlib_alloc(void *user, unsigned items, unsigned size)
{
    return sw_calloc(items, size);
}

static void zlib_free(void *user, void *p)
{
    sw_free(p);
}

static int window_bits(enum sw_inflate_kind kind)
{
    return kind == SW_INFLATE_GZIP ? 15 + 16 : kind == SW_INFLATE_ZLIB ? 15 : -15;
}

int sw_inflater_new(int fd, uint64_t first, uint64_t bytes, enum sw_inflate_kind kind,
                    const char *what, struct sw_inflater **out, struct sw_err *err)
{
    struct sw_inflater *s = sw_calloc(1, sizeof *s);
    if (!s)
        return sw_err_nomem(err, "a buffer for compressed data", sizeof *s);

    s->what = what;
    s->fd = fd;
    s->in_first = s->in_offset = first;
    s->in_end = first + bytes;
    s->z.zalloc = zlib_alloc;

    s->z.zfree = zlib_free;
    if (inflateInit2(&s->z, window_bits(kind)) != Z_OK) {
        sw_free(s);
        return sw_err_nomem(err, "the state of zlib", 0);
    }

    *out = s;
    return SW_OK;
}

void sw_inflater_free(struct sw_inflater *s)
{
    if (!s)
        return;
    inflateEnd(&s->z);
    sw_free(s);
}

static int refill(struct sw_inflater *s, struct sw_err *err)
{
    const uint64_t left = s->in_end - s->in_offset;
    const size_t most = s->memory ? 1u << 30 : IN_BYTES;
    const size_t n = left < most ? (size_t)left : most;
    if (n == 0)
        return sw_err_set(err, SW_ERR_FORMAT,
                          "%s: the compressed file is truncated after %llu bytes", s->what,
                          (unsigned long long)(s->in_end - s->in_first));

    s->z.next_in = s->memory ? (unsigned char *)(uintptr_t)(s->memory + s->in_offset) : s->in;

    int rc =
        s->memory ? SW_OK : sw_os_pread_all(s->fd, s->in, n, (off_t)s->in_offset, s->what, err);
    s->in_offset += n;
    s->z.avail_in = (uInt)n;

    return rc;
}

int sw_inflate(struct sw_inflater *s, void *out, uint64_t want, uint64_t *got, struct sw_err *err)
{
    *got = 0;
    while (*got < want && !s->ended) {
        uint64_t room = want - *got;
        uInt step = room < OUT_BYTES ? (uInt)room : OUT_BYTES;
        int rc = sw_stop_check(err);

        if (!rc && s->z.avail_in == 0)
            rc = refill(s, err);
        if (rc)
            return rc;

        s->z.next_out = (unsigned char *)out + *got;
        s->z.avail_out = step;

        int answer = inflate(&s->z, Z_NO_FLUSH);
        *got += step - s->z.avail_out;

        if (answer == Z_STREAM_END)
            s->ended = true;
        else if (answer == Z_MEM_ERROR)
            return sw_err_nomem(err, "the state of zlib", 0);
        else if (answer != Z_OK && answer != Z_BUF_ERROR)
            return sw_err_set(
                err, SW_ERR_FORMAT,
                "%s: the compressed data are damaged after %llu bytes of content (%s)", s->what,
                (unsigned long long)s->z.total_out, s->z.msg ? s->z.msg : "zlib");
    }

    return SW_OK;
}

int sw_inflate_bytes(const struct sw_compressed *in, bool whole, void *out, uint64_t want,
                     uint64_t *got, struct sw_err *err)
{
    struct sw_inflater *s = NULL;
    unsigned char spare;
    uint64_t more = 0;

    int rc = sw_inflater_new(-1, 0, in->bytes, in->kind, in->what, &s, err);
    if (rc)
        return rc;

    s->memory = in->data;
    rc = sw_inflate(s, out, want, got, err);
    if (!rc && whole && *got == want)
        rc = sw_inflate(s, &spare, 1, &more, err);

    if (!rc && whole && (more || *got < want || sw_inflater_left(s)))
        rc = sw_err_set(err, SW_ERR_FORMAT,
                        "%s: the compressed data do not end after the expected %llu bytes",
                        in->what, (unsigned long long)want);

    sw_inflater_free(s);
    return rc;
}

bool sw_inflater_ended(const struct sw_inflater *s)
{
    return s->ended;
}

uint64_t sw_inflater_left(const struct sw_inflater *s)
{
    return s->in_end - s->in_offset + s->z.avail_in;
}

uint32_t sw_crc32(uint32_t crc, const void *bytes, size_t n)
{
    return (uint32_t)crc32_z(crc, bytes, n);
}
