/* The limit of what a device sends to the host and to other devices, such as gradients, factors and
 * activations: a token bucket (base/token_bucket.h) that all its streams share. Copies are cut into
 * chunks, and each waits for its turn on the thread that would queue it (the copy queue's sender)
 * or in the stream itself, never on a thread that computes.
 *
 * Any thread, except that a stream is used by its owner. */
#pragma once

#include "device/device.h"

struct sw_send_limit;

/* bytes_per_s > 0. A device owns it once it is stored in dev->send_limit, before streams are
 * created. Errors: SW_ERR_NOMEM. */
int sw_send_limit_new(int64_t bytes_per_s, struct sw_send_limit **out,
                      struct sw_err *err) SW_MUST_CHECK;
/* The same limit, to be freed once more: for another worker on the same device. */
struct sw_send_limit *sw_send_limit_share(struct sw_send_limit *l);
void sw_send_limit_free(struct sw_send_limit *l); /* NULL is accepted */
/* Ends all waits, now and later: the job is ending. */
void sw_send_limit_close_v(void *limit); /* for sw_fault_attach */

/* Bytes of a chunk: what the limit lets through in some milliseconds. */
size_t sw_send_limit_chunk(const struct sw_send_limit *l);

/* Waits until a chunk may go, and charges it. False: *stop (atomic) was set, then
 * sw_send_limit_wake called; or the limit is closed. */
bool sw_send_limit_wait(struct sw_send_limit *l, size_t bytes, const bool *stop);
/* Of a chunk that was charged, another number of bytes is sent. */
void sw_send_limit_correct(struct sw_send_limit *l, size_t charged, size_t sent);
void sw_send_limit_wake(struct sw_send_limit *l);

/* As sw_copy_peer and sw_copy_2d, from memory of src_dev to that of another device or the host, in
 * chunks that wait in the stream for their turn if src_dev has a limit. A chunk is larger than
 * sw_send_limit_chunk where the copy would have more than SW_SEND_CHUNKS, or a row is. Errors:
 * those of the copies, SW_ERR_NOMEM. */
enum { SW_SEND_CHUNKS = 32 };
int sw_send_peer(struct sw_stream *s, struct sw_device *dst_dev, void *dst,
                 struct sw_device *src_dev, const void *src, size_t bytes,
                 struct sw_err *err) SW_MUST_CHECK;
int sw_send_2d(struct sw_stream *s, const struct sw_copy_2d *c, struct sw_err *err) SW_MUST_CHECK;
