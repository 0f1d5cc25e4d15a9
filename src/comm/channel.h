/* Channels: how units (workers, servers) of one process talk. Every unit has one inbox; a message
 * names a parameter slice and never carries values, which stay in shared memory. The channel counts
 * what each sender sent, for the link_traffic table.
 * Any thread sends; the owner of the inbox receives. Closing ends every wait: what is queued is
 * still delivered, then SW_ERR_CANCELLED. */
#ifndef SW_COMM_CHANNEL_H
#define SW_COMM_CHANNEL_H

#include "base/err.h"
#include "sync/atomic.h"
#include "sync/queue.h"
#include <stdint.h>

enum sw_message_kind {
    SW_MSG_GET,    /* worker asks for the values of version `version` */
    SW_MSG_PUT,    /* values were set from outside: initial values, a checkpoint */
    SW_MSG_UPDATE, /* the sender's gradient of step `version` is complete */
    SW_MSG_VALUE,  /* server answers: version `version` is there */
    SW_MSG_APPLY,  /* update `version` of party `param` is decided: apply what was summed, or drop
                      it */
    SW_MSG_SYNC,   /* all updates `version` of the parameter are made: exchange what is due */
    SW_MSG_DELTA,  /* another server group's change of the parameter is there to be added */
    SW_MSG_STOP,   /* no more messages from this sender */
    SW_MSG_KINDS
};

struct sw_message {
    enum sw_message_kind kind;
    int from;  /* index of the sending unit among the channel's senders */
    int param; /* index in the parameter table */
    int slice;
    uint64_t version;
    int64_t bytes; /* payload that the message stands for */
};

struct sw_traffic {
    uint64_t messages, bytes;
};

struct sw_channel {
    struct sw_queue queue;
    int senders;
    struct sw_traffic_cell *cells; /* owned; [senders][SW_MSG_KINDS], atomic counters */
};

/* capacity: messages that may be under way at once; a sender waits while it is full, so make it
 * large enough for everything that can be outstanding. Errors: SW_ERR_NOMEM. */
int sw_channel_init(struct sw_channel *c, int senders, size_t capacity,
                    struct sw_err *err) SW_MUST_CHECK;
void sw_channel_fini(struct sw_channel *c);
/* SW_OK or SW_ERR_CANCELLED. */
int sw_channel_send(struct sw_channel *c, const struct sw_message *m) SW_MUST_CHECK;
/* Waits for the next message. SW_OK or SW_ERR_CANCELLED. */
int sw_channel_receive(struct sw_channel *c, struct sw_message *m) SW_MUST_CHECK;
/* SW_ERR_BUSY when there is none. */
int sw_channel_try_receive(struct sw_channel *c, struct sw_message *m) SW_MUST_CHECK;
/* Is something waiting to be received? Any thread; takes no lock. */
bool sw_channel_pending(const struct sw_channel *c);
void sw_channel_close(struct sw_channel *c);
void sw_channel_close_v(void *channel); /* for sw_fault_attach */

/* Sent so far by one sender with one kind; read at any time. */
struct sw_traffic sw_channel_traffic(const struct sw_channel *c, int from,
                                     enum sw_message_kind kind);
const char *
sw_message_kind_name(enum sw_message_kind kind); /* get put update value apply sync delta stop */

#endif
