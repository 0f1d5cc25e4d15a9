/* Frames: what goes over the wire between two hosts. A message is cut into chunks, and each chunk
 * travels behind a head of 40 bytes, little-endian:
 *
 *     bytes  0..3    the characters "SWF1"
 *            4..7    bytes of this chunk
 *            8..9    kind of the message
 *           10..11   urgency of the message
 *           12..15   item
 *           16..23   version
 *           24..31   bytes of the whole message
 *           32..39   offset of this chunk in the message
 *
 * Every chunk but the last of a message has SW_FABRIC_CHUNK bytes, so that a message has only one
 * legal sequence of heads. A head comes from another machine: sw_frame_parse accepts exactly what
 * sw_frame_write produces. Any thread may call. */
#pragma once

#include "base/err.h"
#include <stddef.h>
#include <stdint.h>

enum { SW_FRAME_HEAD = 40, SW_FABRIC_CHUNK = 256 << 10 };

/* The longest message. */
#define SW_FABRIC_MOST_BYTES ((uint64_t)1 << 40)

struct sw_fabric_tag {
    uint16_t kind;    /* what the message is; its users agree on the values (fabric.h) */
    uint16_t urgency; /* smaller goes first: the layer, for parameters; logs come last */
    uint32_t item;    /* slice, bucket, layer, link */
    uint64_t version;
    float change; /* not sent: of messages of one urgency that wait, the largest goes first */
};

struct sw_fabric_frame {
    struct sw_fabric_tag tag;
    uint64_t total, offset; /* bytes: of the message, and of it before this chunk */
    uint32_t bytes;         /* of this chunk */
};

/* The bytes of the chunk that begins at `offset` of a message. */
uint32_t sw_frame_chunk(uint64_t total, uint64_t offset);
void sw_frame_write(const struct sw_fabric_frame *f, unsigned char head[SW_FRAME_HEAD]);
/* Errors: SW_ERR_FORMAT, with the field and its value; *out is then unchanged. */
int sw_frame_parse(const unsigned char head[SW_FRAME_HEAD], struct sw_fabric_frame *out,
                   struct sw_err *err) SW_MUST_CHECK;

/* Numbers of control messages are little-endian, too. */
void sw_frame_put64(unsigned char *at, uint64_t value);
uint64_t sw_frame_get64(const unsigned char *at);
