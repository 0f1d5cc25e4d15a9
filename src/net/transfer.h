/* Exchange of activations between the workers of a group. A worker waits only for a piece that it
 * needs: the sender marks the piece as sent and computes on; the receiver marks it as taken after
 * its last use. If all workers share host memory nothing else is needed: the sender publishes the
 * address of its shard, and does not overwrite it before it was taken. Between devices every
 * connection of a net and every pair of workers has staging memory, which one worker fills and the
 * other reads, ordered by events. It is double-buffered, so that a sender can be one pass ahead.
 * Made once for the nets of all workers of one kind (training, evaluation), then frozen except for
 * the memory itself. */
#pragma once

#include "net/net.h"

struct sw_transfer;

/* How workers wait for each other. */
struct sw_transfer_waits {
    /* Waits until over(what) is true; it is tested again after each call of tell. Returns
     * SW_ERR_CANCELLED if the job ends. */
    int (*wait)(void *user, int worker, bool (*over)(const void *what), const void *what);
    void (*notify)(void *user); /* called by any worker */
    void *user;
};

/* nets[w] belongs to worker w; staging memory is allocated on `host`, a device in host memory. Sets
 * the exchange of every net. *out is NULL if no net has connections. Free after the nets' last pass
 * and before the nets. */
int sw_transfer_new(struct sw_net *const *nets, int workers, struct sw_device *host,
                    const struct sw_transfer_waits *waits, struct sw_transfer **out,
                    struct sw_err *err) SW_MUST_CHECK;
void sw_transfer_free(struct sw_transfer *e); /* NULL is accepted */
/* Bytes of staging memory that sw_transfer_new would allocate for nets like this one. */
size_t sw_transfer_plan(const struct sw_net *net);

/* Total nanoseconds of copies from worker `from` to worker `to` so far, into staging memory and out
 * of it. Any thread. */
int64_t sw_transfer_ns(const struct sw_transfer *e, int from, int to);

/* Elements that a connection moves in a step: `moved` leave a worker; `counted` is the count of the
 * papers, which includes a worker's own shard (tech report, equation 5). */
struct sw_net_movement {
    const char *operation[2]; /* forward, backward; NULL: no backward */
    int64_t moved[2], counted[2];
};
/* Returns false if node i is not a connection. */
bool sw_net_movement(const struct sw_net *net, int i, struct sw_net_movement *m);
/* Bytes that node i sends from worker `from` to all others, forward and, in training, backward. */
int64_t sw_net_sent_bytes(const struct sw_net *net, int i, int from);

/* Bytes of activations that worker `from` sends to worker `to` in a step, forward and, in training,
 * backward. */
int64_t sw_net_moved_bytes(const struct sw_net *net, int from, int to);
