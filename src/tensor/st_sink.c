/* Writes the bytes of a safetensors file through a buffer and adds them to the hash. The contract
 * is in tensor/st_format.h. */
#include "base/os.h"
#include "tensor/st_format.h"
#include <string.h>

int sw_st_flush(struct sw_st_sink *s, struct sw_err *err)
{
    int rc = sw_os_write_all(s->fd, s->buf, s->used, s->path, err);
    if (rc != SW_OK)
        return rc;

    sw_hash_update(s->hash, s->buf, s->used);
    s->written += s->used;
    s->used = 0;

    return SW_OK;
}

int sw_st_put(struct sw_st_sink *s, const void *bytes, size_t n, struct sw_err *err)
{
    const unsigned char *p = bytes;

    while (n) {
        size_t room = SW_ST_CHUNK_BYTES - s->used, part = n < room ? n : room;

        memcpy(s->buf + s->used, p, part);
        s->used += part;
        p += part;
        n -= part;

        int rc = s->used == SW_ST_CHUNK_BYTES ? sw_st_flush(s, err) : SW_OK;
        if (rc != SW_OK)
            return rc;
    }

    return SW_OK;
}

int sw_st_emit(struct sw_st_sink *sink, const void *bytes, size_t n, struct sw_err *err)
{
    if (n > sink->expected)
        return sw_err_set(err, SW_ERR_INVALID, "the source returned more bytes than its shape has");
    sink->expected -= n;
    return sw_st_put(sink, bytes, n, err);
}
