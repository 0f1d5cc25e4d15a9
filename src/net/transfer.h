/* Where workers of a group hand over parts of outputs. Nobody waits but for a piece that he needs:
 * who sends marks it as sent, and computes on; who has done with it marks it as taken. Where all
 * reach each other's memory that is all: who sends says where his part lies, and does not write
 * there before it was taken. Between devices there is staging memory for every connection of a net
 * and every pair of workers, filled by the one and read by the other in an order of events; two
 * buffers take turns, so that the next pass can be sent while the last one is read, and for a third
 * the sender waits. Made once for the nets of all workers of one kind (training, evaluation), then
 * frozen but for the memory itself. */
#pragma once

#include "net/net.h"

struct sw_transfer;

/* How workers wait for one another. */
struct sw_transfer_waits {
    /* Until over(what), which is asked again whenever somebody tells. SW_ERR_CANCELLED: it never
     * will be. */
    int (*wait)(void *user, int worker, bool (*over)(const void *what), const void *what);
    void (*tell)(void *user); /* any worker */
    void *user;
};

/* nets[w] is worker w's; memory is taken from `host`, a device whose memory the host reaches. Sets
 * the exchange of every net. *out is NULL when no net has connections. Free after the nets' last
 * pass, and before the nets. */
int sw_transfer_new(struct sw_net *const *nets, int workers, struct sw_device *host,
                    const struct sw_transfer_waits *waits, struct sw_transfer **out,
                    struct sw_err *err) SW_MUST_CHECK;
void sw_transfer_free(struct sw_transfer *e); /* NULL is accepted */
/* What sw_transfer_new would take for nets like this one. */
size_t sw_transfer_plan(const struct sw_net *net);

/* Nanoseconds that copies of what worker `from` sends to worker `to` have taken so far, into
 * staging memory and out of it. Any thread. */
int64_t sw_transfer_ns(const struct sw_transfer *e, int from, int to);

/* What a connection moves in a step, in values: what leaves a worker, and what the papers count,
 * who take a worker's own share for sent, too (tech report, equation 5). */
struct sw_net_movement {
    const char *operation[2]; /* forward, backward; NULL: there is no backward */
    int64_t moved[2], counted[2];
};
/* False: node i is no connection. */
bool sw_net_movement(const struct sw_net *net, int i, struct sw_net_movement *m);
/* What node i sends from worker `from` to all others, forward and, in training, backward. */
int64_t sw_net_sent_bytes(const struct sw_net *net, int i, int from);

/* Feature bytes that worker `from` sends to worker `to` in a step: forward and, in training,
 * backward. */
int64_t sw_net_moved_bytes(const struct sw_net *net, int from, int to);
