/* Sums of gradients over the devices of all hosts, by their library (NCCL): when the hosts have
 * met, each offers what it would choose (plan/reduce.c). If all offer the same, the library
 * reduces, by an id and in an order that host 0 sends; else servers do, and the sums over hosts are
 * made in host memory. All hosts decide from the same offers. */
#pragma once

#include "device/collective.h"
#include "exchange/hosts/router.h"
#include "thread/thread.h"
#include <stdbool.h>

struct sw_job;

enum { SW_HOST_OFFERS = 2 }; /* messages to one host that can be under way */

/* Whether a host can let its library sum, in the layout in which it is sent. */
struct sw_host_offer {
    char library[96]; /* its name; "": the host can use none */
    char why[200];    /* the reason, if so */
    uint64_t buckets; /* sw_reduce_hash */
    int32_t devices;
    int32_t unused;
    struct sw_collective_id id; /* of host 0's offer */
};

struct sw_job_collective {
    struct sw_host_offer offer[SW_MOST_HOSTS]; /* written by the fabric until it is heard */
    int *order;                                /* borrowed [count]: for that of host 0 */
    int count;
    bool wanted;          /* a host has offered a library */
    struct sw_mutex lock; /* guards all below */
    struct sw_cond changed;
    uint64_t heard; /* bits of hosts */
    bool ordered;
};

void sw_job_collective_init(struct sw_job *job, struct sw_fabric_router *router);
void sw_job_collective_fini(struct sw_job *job);
/* The fabric is open, and the table is not allocated: agrees with the other hosts. Errors: those of
 * the job's fault; SW_ERR_LIBRARY, SW_ERR_FORMAT. */
int sw_job_collective_agree(struct sw_job *job, struct sw_err *err) SW_MUST_CHECK;
/* Says what came of it, if a host wanted a library, once the job reports events. */
void sw_job_collective_report(struct sw_job *job);
