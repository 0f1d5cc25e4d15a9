/* Memory that grows to the largest thing met, for what has no size in advance: the bytes of one
 * encoded picture, its pixels. It never shrinks, so that a thread which has met its largest picture
 * takes no more. One owner, one thread. */
#pragma once

#include "base/err.h"
#include <stddef.h>

enum { SW_ROOM_ALIGNMENT = 64 };

/* Zero-initialise; free with sw_room_fini. */
struct sw_room {
    unsigned char *memory; /* aligned to SW_ROOM_ALIGNMENT; NULL while empty */
    size_t bytes;
    void *block; /* owned; private: what memory lies in */
};

/* Makes room->bytes at least `bytes`; what was in there is lost when it grows. `what` names the
 * thing in the message. Errors: SW_ERR_NOMEM. */
int sw_room_need(struct sw_room *room, size_t bytes, const char *what,
                 struct sw_err *err) SW_MUST_CHECK;
void sw_room_fini(struct sw_room *room); /* a zeroed one is accepted */
