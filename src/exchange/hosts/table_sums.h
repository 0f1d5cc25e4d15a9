/* The outer sums of a parameter table (struct sw_table_outer) as sums over hosts: every slice is an
 * item, the slices of the lowest parameters the most urgent. Rows of factors are gathered. Neither
 * the table nor its workers know of hosts. Thread rule: made by one thread before the workers run;
 * used by the table's servers and by threads of the fabric. */
#pragma once

#include "exchange/hosts/hosts_rows.h"
#include "exchange/hosts/hosts_sum.h"
#include "exchange/hosts/router.h"
#include "exchange/table/table.h"
#include "thread/fault.h"

struct sw_table_sums {
    struct sw_table *table;     /* borrowed */
    struct sw_hosts_sum *sum;   /* owned */
    struct sw_hosts_rows *rows; /* owned */
    uint64_t before;            /* the version at which the sums begin */
    struct sw_fault *fault;     /* borrowed: set when a host is lost */
};

/* For sw_table_args, before the rest is known. */
struct sw_table_outer sw_table_sums_outer(struct sw_table_sums *s);
/* The table is frozen, and at version `before`; all hosts have the same slices. The caller opens a
 * fabric with the sinks of sw_table_sums_receive and room for sw_table_sums_room messages, passes
 * it to sw_table_sums_start, and attaches s->sum to the fault. Errors: SW_ERR_NOMEM,
 * SW_ERR_INVALID. */
struct sw_table_sums_args {
    struct sw_table *table;       /* borrowed */
    const struct sw_hosts *hosts; /* borrowed during the call */
    uint64_t before;
    int small_most;         /* sw_hosts_sum_args */
    struct sw_fault *fault; /* borrowed */
};
int sw_table_sums_init(struct sw_table_sums *s, const struct sw_table_sums_args *args,
                       struct sw_err *err) SW_MUST_CHECK;
void sw_table_sums_receive(const struct sw_table_sums *s, struct sw_fabric_router *router);
int sw_table_sums_room(const struct sw_table_sums *s);
void sw_table_sums_start(struct sw_table_sums *s, struct sw_fabric *f);
void sw_table_sums_fini(struct sw_table_sums *s); /* after the fabric is freed */
