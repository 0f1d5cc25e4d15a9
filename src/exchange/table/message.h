/* Messages between the workers and servers of a process. Every server has an inbox, a queue of
 * these (thread/queue.h). A message names a parameter and never carries values, which stay in
 * shared memory: the queue orders the sender's writes before the receiver's reads. */
#pragma once

#include "thread/queue.h"
#include <stdint.h>

enum sw_message_kind {
    SW_MSG_UPDATE, /* the sender's gradient of step `version` is complete */
    SW_MSG_APPLY,  /* update control is done for update `version` of update group `param`: apply or
                      drop it */
    SW_MSG_SYNC,   /* all updates `version` of the parameter are applied: exchange deltas if due */
    SW_MSG_DELTA,  /* another server group's delta of the parameter can be added */
    SW_MSG_SUM,    /* the sum of slice `param` over all tables is in place of its gradient */
    SW_MSG_VALUES, /* new values of the parameter, made outside of the table, are where update group
                      `from` reads */
    SW_MSG_LOST,   /* update group `param` is gone */
};

struct sw_message {
    enum sw_message_kind kind;
    int from;  /* index of the sender among the inbox's senders */
    int param; /* index in the parameter table */
    uint64_t version;
    int64_t bytes; /* of a delta */
    int staleness; /* of new values */
};
