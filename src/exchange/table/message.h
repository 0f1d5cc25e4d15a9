/* Messages between the workers and servers of a process. Every server has an inbox, a queue of
 * these (thread/queue.h). A message names a parameter and never carries values, which stay in
 * shared memory: who sends it has written them, who takes it from the queue sees them. */
#pragma once

#include "thread/queue.h"
#include <stdint.h>

enum sw_message_kind {
    SW_MSG_UPDATE, /* the sender's gradient of step `version` is complete */
    SW_MSG_APPLY,  /* update `version` of update group `param` is decided: apply what was summed, or
                      drop  it */
    SW_MSG_SYNC,   /* all updates `version` of the parameter are made: exchange what is due */
    SW_MSG_DELTA,  /* another server group's change of the parameter is there to be added */
};

struct sw_message {
    enum sw_message_kind kind;
    int from;  /* index of the sending unit among the inbox's senders */
    int param; /* index in the parameter table */
    uint64_t version;
    int64_t bytes; /* of a delta */
};
