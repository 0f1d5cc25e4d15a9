/* Hosts of one process, for tests of what hosts exchange: each has an end of a loop, and runs in a
 * thread of its own. A test's struct of a host has a struct peer as its first field. */
#pragma once

#include "unit/device/device_support.h"

#include "exchange/hosts/loop.h"
#include "exchange/hosts/router.h"
#include "thread/thread.h"

enum { MOST = 4 };

struct peer {
    int host, hosts, rc;
    size_t bytes;         /* of the test's struct */
    struct sw_loop *loop; /* of all hosts */
    struct sw_hosts list;
    struct sw_fabric *fabric;
    struct sw_thread thread;
    struct sw_err err;
};

static inline struct peer *peer_of(void *nodes, int host)
{
    return (struct peer *)((char *)nodes + (size_t)host * ((struct peer *)nodes)->bytes);
}

/* Zeroed structs of `bytes` each, of conf->hosts hosts. */
static inline void *peers_new(const struct sw_loop_conf *conf, size_t bytes)
{
    static const struct sw_host names[MOST] = {
        {.name = "ada"}, {.name = "bob"}, {.name = "cyd"}, {.name = "dan"}};
    struct sw_loop *loop;
    struct sw_err err;
    struct peer *nodes = calloc((size_t)conf->hosts, bytes);
    assert_non_null(nodes);
    nodes->bytes = bytes;
    ASSERT_OK(sw_loop_new(conf, &loop, &err));
    for (int h = 0; h < conf->hosts; h++)
        *peer_of(nodes, h) = (struct peer){.host = h,
                                           .hosts = conf->hosts,
                                           .bytes = bytes,
                                           .loop = loop,
                                           .list = {.host = names, .count = conf->hosts, .own = h}};
    return nodes;
}

/* Frees all, after `fini` for each host, when nothing more can arrive. */
static inline void peers_free(void *nodes, void (*fini)(void *node))
{
    struct peer *first = nodes;
    for (int h = 0; h < first->hosts; h++)
        sw_fabric_free(peer_of(nodes, h)->fabric);
    for (int h = 0; h < first->hosts; h++)
        fini(peer_of(nodes, h));
    sw_loop_free(first->loop);
    free(nodes);
}

static inline int peer_open(struct peer *p, struct sw_fabric_sink sink, int room)
{
    const struct sw_fabric_args args = {.hosts = &p->list,
                                        .room = room,
                                        .sink = sink,
                                        .conf = sw_loop_end(p->loop, p->host),
                                        .clock = sw_loop_clock(p->loop, p->host)};
    return sw_fabric_open(&sw_fabric_loop, &args, &p->fabric, &p->err);
}

static inline void peers_start(void *nodes, void (*run)(void *node))
{
    struct sw_err err;
    for (int h = 0; h < ((struct peer *)nodes)->hosts; h++) {
        struct peer *p = peer_of(nodes, h);
        ASSERT_OK(sw_thread_start(&p->thread, "host", run, p, &err));
    }
}

/* Runs all hosts to their ends. */
static inline void peers_run(void *nodes, void (*run)(void *node))
{
    peers_start(nodes, run);
    for (int h = 0; h < ((struct peer *)nodes)->hosts; h++)
        sw_thread_join(&peer_of(nodes, h)->thread);
}

static inline void assert_ran(void *nodes)
{
    for (int h = 0; h < ((struct peer *)nodes)->hosts; h++) {
        struct sw_err err = peer_of(nodes, h)->err;
        ASSERT_OK(peer_of(nodes, h)->rc);
    }
}
