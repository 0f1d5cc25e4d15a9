/* A scratch buffer that grows to the largest size requested, for data whose size is not known in
 * advance, such as the bytes of an encoded image or its pixels. It never shrinks, so a thread that
 * has seen its largest image allocates no more. One owner, one thread. */
#pragma once

#include "base/err.h"
#include <stddef.h>

enum { SW_ROOM_ALIGNMENT = 64 };

/* Zero-initialize; free with sw_room_fini. */
struct sw_room {
    unsigned char *memory; /* aligned to SW_ROOM_ALIGNMENT; NULL while empty */
    size_t bytes;
    void *block; /* owned; private: the allocation that contains memory */
};

/* Makes room->bytes at least `bytes`; the content is lost when the buffer grows. `what` names the
 * data in the message. Errors: SW_ERR_NOMEM. */
int sw_room_need(struct sw_room *room, size_t bytes, const char *what,
                 struct sw_err *err) SW_MUST_CHECK;
void sw_room_fini(struct sw_room *room); /* a zeroed one is accepted */
