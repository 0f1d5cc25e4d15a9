/* All-gather of rows over hosts: of two arrays, x [rows, inputs] and dy [rows, outputs], each host
 * has some rows of its own, and gets those of all others. From these factors every host makes the
 * same gradient of a fully-connected layer, which would be larger than they are (Poseidon, section
 * 3.3: sufficient factors): (K-1) times the own rows are sent, whatever the layer's size.
 *
 * Rows of the next version may arrive while the arrays are still used, so what comes from others is
 * kept beside them until the own rows of that version are given. No host can be more than one
 * version ahead: for the one after that it needs rows that it does not have.
 *
 * Thread rule: new, start and free by one thread; give by one thread at a time for an item. */
#pragma once

#include "exchange/hosts/fabric.h"
#include "exchange/hosts/kinds.h"

struct sw_hosts_rows;

struct sw_hosts_rows_item {
    int64_t inputs, outputs;
    int64_t rows;     /* of all hosts; host h has the h-th part of them (base/tree.h: sw_part) */
    int64_t together; /* rows that are not divided; a divisor of `rows` */
    uint16_t urgency; /* the layer */
};

struct sw_hosts_rows_args {
    int hosts, own;
    const struct sw_hosts_rows_item *items; /* copied; the same on all hosts */
    int count;
    /* The rows of all hosts are in the arrays, and the own ones are not needed any more. Called by
     * threads of the fabric or from within give; never waits. */
    void (*gathered)(void *user, int item, uint64_t version);
    void *user;
};

/* Allocates room for two versions of the rows of all other hosts. Errors: SW_ERR_NOMEM. */
int sw_hosts_rows_new(const struct sw_hosts_rows_args *args, struct sw_hosts_rows **out,
                      struct sw_err *err) SW_MUST_CHECK;
void sw_hosts_rows_free(struct sw_hosts_rows *r); /* after the fabric is freed; NULL is accepted */
/* For sw_fabric_args and the router. */
int sw_hosts_rows_room(const struct sw_hosts_rows *r);
struct sw_fabric_sink sw_hosts_rows_sink(struct sw_hosts_rows *r);
void sw_hosts_rows_start(struct sw_hosts_rows *r, struct sw_fabric *f); /* before the first give */

/* x [rows, inputs] and dy [rows, outputs], borrowed until gathered(item, version), have the own
 * rows of that version (1, 2, ...); the others are filled in. Never waits. Errors: SW_ERR_LOST,
 * SW_ERR_CANCELLED; SW_ERR_INVALID for a version that is not the next. */
int sw_hosts_rows_give(struct sw_hosts_rows *r, int item, uint64_t version, float *x, float *dy,
                       struct sw_err *err) SW_MUST_CHECK;
