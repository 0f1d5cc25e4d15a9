/* A worker's copy of the parameters on a device whose memory the host cannot reach. Values and
 * gradients travel by the worker's copy queue, lowest layers first, while the device computes: a
 * layer's forward waits for its copy by an event, and the gradient of a layer goes to the host as
 * soon as the kernels that make it are done; when it is there the servers are told, from a thread
 * of the device. One owner: the worker. */
#ifndef SW_TRAIN_REPLICA_H
#define SW_TRAIN_REPLICA_H

#include "device/copy_queue.h"
#include "param/table.h"
#include "sync/fault.h"

struct sw_replica;

struct sw_replica_args {
    struct sw_table *table;   /* borrowed; allocated before sw_replica_new */
    struct sw_device *device; /* borrowed */
    struct sw_stream *stream; /* borrowed: the compute stream */
    struct sw_fault *fault;   /* borrowed: told when a gradient cannot reach the host */
    int worker;
    const char *unit;  /* borrowed: the worker's name */
    const int *params; /* the table's indices of the worker's parameters, in layer order */
    int count;
};

/* Takes device memory for values and gradients. Errors: SW_ERR_NOMEM, those of the device. */
int sw_replica_new(const struct sw_replica_args *args, struct sw_replica **out,
                   struct sw_err *err) SW_MUST_CHECK;
void sw_replica_free(struct sw_replica *r); /* NULL is accepted */
/* Bytes of device memory. */
size_t sw_replica_bytes(const struct sw_replica *r);

/* Where parameter `param` (the table's index) lives on the device; NULL when the worker has not got
 * it. */
float *sw_replica_value(const struct sw_replica *r, int param);
float *sw_replica_gradient(const struct sw_replica *r, int param);

/* The table has version `version` of the parameter: what is queued on the compute stream from here
 * on sees it. Also starts the copies of all other parameters that are there already. */
int sw_replica_need(struct sw_replica *r, int param, uint64_t version,
                    struct sw_err *err) SW_MUST_CHECK;
/* Who waits for versions looks here now and then: the error of a copy that never arrived. */
int sw_replica_check(struct sw_replica *r, struct sw_err *err) SW_MUST_CHECK;
/* Gradients that are on their way to the host. Any thread. */
int sw_replica_under_way(const struct sw_replica *r);
/* What is queued so far makes the gradient of step `version`: copies it to the host, then tells the
 * servers. */
int sw_replica_give(struct sw_replica *r, int param, uint64_t version,
                    struct sw_err *err) SW_MUST_CHECK;

#endif
