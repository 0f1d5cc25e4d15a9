/* Hosts of one process that connect their tables: a loop, a fabric and outer sums for each. The
 * code of a host is a function that runs in a thread of its own. */
#pragma once

#include "unit/exchange/table_support.h"

#include "exchange/hosts/loop.h"
#include "exchange/hosts/table_sums.h"

enum { MOST_HOSTS = 4 };

struct cluster;

struct host {
    struct cluster *cluster;
    struct sw_hosts list;
    struct sw_table_sums sums;
    struct sw_fabric_router router;
    struct sw_fabric *fabric; /* NULL: the only host */
    struct sw_fault fault;
    struct sw_thread thread;
    int rc;
    struct sw_err err;
    void *own; /* the test's */
};

struct cluster {
    int hosts;
    struct sw_loop *loop; /* NULL: one host */
    struct sw_host names[MOST_HOSTS];
    struct host host[MOST_HOSTS];
    int (*run)(struct host *h, struct sw_err *err);
};

static inline struct sw_table_outer outer_of(struct host *h)
{
    return h->cluster->hosts > 1 ? sw_table_sums_outer(&h->sums) : (struct sw_table_outer){0};
}

/* Connects the host's frozen table, at version `before`, with those of the others. */
static inline int connect_table(struct host *h, struct sw_table *t, uint64_t before,
                                struct sw_err *err)
{
    struct cluster *c = h->cluster;
    int rc = sw_fault_attach(&h->fault, sw_table_close_v, t, err);
    if (rc != SW_OK || c->hosts == 1)
        return rc;
    rc = sw_table_sums_init(
        &h->sums,
        &(struct sw_table_sums_args){
            .table = t, .hosts = &h->list, .before = before, .small_most = 512, .fault = &h->fault},
        err);
    if (rc != SW_OK)
        return rc;
    sw_table_sums_receive(&h->sums, &h->router);
    const struct sw_fabric_args args = {.hosts = &h->list,
                                        .room = sw_table_sums_room(&h->sums),
                                        .sink = sw_fabric_router_sink(&h->router),
                                        .conf = sw_loop_end(c->loop, h->list.own),
                                        .clock = sw_loop_clock(c->loop, h->list.own)};
    rc = sw_fabric_open(&sw_fabric_loop, &args, &h->fabric, err);
    if (rc != SW_OK)
        return rc;
    sw_table_sums_start(&h->sums, h->fabric);
    rc = sw_fault_attach(&h->fault, sw_hosts_sum_close_v, h->sums.sum, err);
    return rc == SW_OK ? sw_fault_attach(&h->fault, sw_fabric_close_v, h->fabric, err) : rc;
}

/* Before the table is freed. */
static inline void disconnect_table(struct host *h)
{
    sw_fabric_free(h->fabric);
    h->fabric = NULL;
    sw_table_sums_fini(&h->sums);
}

/* Waits until a version of a parameter is there, and runs the servers of the table meanwhile. */
static inline int serve_until(struct host *h, struct stand *s, int param, uint64_t version,
                              struct sw_err *err)
{
    int served[8], rc;
    for (int i = 0; i < s->table->args.servers; i++)
        served[i] = i;
    while ((rc = sw_table_wait(s->table, 0, param, version, served, s->table->args.servers,
                               1000)) == SW_ERR_BUSY) {
        rc = pump(s, err);
        if (rc != SW_OK)
            return rc;
    }
    return rc == SW_OK ? SW_OK : sw_fault_get(&h->fault, err);
}

static inline void host_main(void *user)
{
    struct host *h = user;
    h->rc = h->cluster->run(h, &h->err);
    if (h->rc == SW_OK && h->fabric)
        h->rc = sw_fabric_leave(h->fabric, 60000, &h->err);
    if (h->rc == SW_ERR_CANCELLED) /* the fault says why */
        h->rc = sw_fault_get(&h->fault, &h->err);
    if (h->rc != SW_OK) {
        sw_fault_set(&h->fault, "host", &h->err);
        if (h->fabric)
            sw_fabric_abort(h->fabric, &h->err, 60000);
    }
    disconnect_table(h);
}

static inline void cluster_begin(struct cluster *c, int hosts, const struct sw_loop_conf *conf,
                                 int (*run)(struct host *h, struct sw_err *err))
{
    static const char *const names[MOST_HOSTS] = {"ada", "bob", "cyd", "dan"};
    struct sw_err err;
    memset(c, 0, sizeof *c);
    c->hosts = hosts;
    c->run = run;
    if (hosts > 1)
        ASSERT_OK(sw_loop_new(conf, &c->loop, &err));
    for (int i = 0; i < hosts; i++) {
        c->names[i].name = names[i];
        c->host[i].cluster = c;
        c->host[i].list = (struct sw_hosts){.host = c->names, .count = hosts, .own = i};
        sw_fault_init(&c->host[i].fault);
    }
}

/* Runs all hosts to their ends. */
static inline void cluster_run(struct cluster *c)
{
    struct sw_err err;
    for (int i = 0; i < c->hosts; i++)
        ASSERT_OK(sw_thread_start(&c->host[i].thread, "host", host_main, &c->host[i], &err));
    for (int i = 0; i < c->hosts; i++)
        sw_thread_join(&c->host[i].thread);
}

static inline void cluster_end(struct cluster *c)
{
    for (int i = 0; i < c->hosts; i++)
        sw_fault_fini(&c->host[i].fault);
    sw_loop_free(c->loop);
}

static inline void assert_all_ok(const struct cluster *c)
{
    for (int i = 0; i < c->hosts; i++) {
        if (c->host[i].rc != SW_OK)
            print_error("host %d: %s\n", i, c->host[i].err.text);
        assert_int_equal(c->host[i].rc, SW_OK);
    }
}
