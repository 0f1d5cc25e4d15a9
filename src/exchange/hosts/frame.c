/* Writes and checks the heads of frames. */
#include "exchange/hosts/frame.h"

#include "base/little_endian.h"

#include <string.h>

static const unsigned char magic[4] = {'S', 'W', 'F', '1'};

void sw_frame_put64(unsigned char *at, uint64_t value)
{
    sw_le_put(at, value, 8);
}

uint64_t sw_frame_get64(const unsigned char *at)
{
    return sw_le_get(at, 8);
}

uint32_t sw_frame_chunk(uint64_t total, uint64_t offset)
{
    uint64_t left = total - offset;

    return left < SW_FABRIC_CHUNK ? (uint32_t)left : SW_FABRIC_CHUNK;
}

void sw_frame_write(const struct sw_fabric_frame *f, unsigned char head[SW_FRAME_HEAD])
{
    memcpy(head, magic, sizeof magic);
    sw_le_put(head + 4, f->bytes, 4);
    sw_le_put(head + 8, f->tag.kind, 2);
    sw_le_put(head + 10, f->tag.urgency, 2);
    sw_le_put(head + 12, f->tag.item, 4);
    sw_le_put(head + 16, f->tag.version, 8);
    sw_le_put(head + 24, f->total, 8);
    sw_le_put(head + 32, f->offset, 8);
}

static int check(const struct sw_fabric_frame *f, struct sw_err *err)
{
    if (f->total > SW_FABRIC_MOST_BYTES)
        return sw_err_set(err, SW_ERR_FORMAT, "a message of %llu bytes; at most %llu are allowed",
                          (unsigned long long)f->total, (unsigned long long)SW_FABRIC_MOST_BYTES);

    /* Only an empty message has a chunk at its end. */
    if (f->offset % SW_FABRIC_CHUNK != 0 || f->offset > f->total ||
        (f->offset == f->total && f->total > 0))
        return sw_err_set(err, SW_ERR_FORMAT,
                          "a chunk at offset %llu of a message of %llu bytes; chunks have %d bytes",
                          (unsigned long long)f->offset, (unsigned long long)f->total,
                          SW_FABRIC_CHUNK);

    if (f->bytes != sw_frame_chunk(f->total, f->offset))
        return sw_err_set(err, SW_ERR_FORMAT,
                          "a chunk of %lu bytes at offset %llu of a message of %llu bytes; it must "
                          "have %lu",
                          (unsigned long)f->bytes, (unsigned long long)f->offset,
                          (unsigned long long)f->total,
                          (unsigned long)sw_frame_chunk(f->total, f->offset));

    return SW_OK;
}

int sw_frame_parse(const unsigned char head[SW_FRAME_HEAD], struct sw_fabric_frame *out,
                   struct sw_err *err)
{
    if (memcmp(head, magic, sizeof magic) != 0)
        return sw_err_set(err, SW_ERR_FORMAT,
                          "a frame begins with bytes %02x %02x %02x %02x, not with \"SWF1\"",
                          head[0], head[1], head[2], head[3]);

    const struct sw_fabric_frame f = {.tag = {.kind = (uint16_t)sw_le_get(head + 8, 2),
                                              .urgency = (uint16_t)sw_le_get(head + 10, 2),
                                              .item = (uint32_t)sw_le_get(head + 12, 4),
                                              .version = sw_le_get(head + 16, 8)},
                                      .total = sw_le_get(head + 24, 8),
                                      .offset = sw_le_get(head + 32, 8),
                                      .bytes = (uint32_t)sw_le_get(head + 4, 4)};

    int rc = check(&f, err);
    if (rc == SW_OK)
        *out = f;
    return rc;
}
