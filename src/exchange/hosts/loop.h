/* Engine `loop`: hosts as threads of one process, with a virtual clock, for tests. Chunks are
 * copied straight from the sender's memory to the receiver's. A seed decides how long each chunk
 * takes, so chunks of different urgencies may overtake each other and hosts run in many orders;
 * with seed 0 every chunk takes the same time. The clock moves when chunks are delivered and when a
 * test moves it (sw_loop_advance), never because time passes: a slow machine loses no host.
 *
 * A host passes sw_loop_end(network, host) as sw_fabric_args.conf and sw_loop_clock(network, host)
 * as its clock. Thread rule: any thread; new and free while no host is open. */
#pragma once

#include "exchange/hosts/fabric.h"

struct sw_loop;
struct sw_loop_end;

struct sw_loop_conf {
    int hosts;
    uint64_t seed;
    int window;             /* chunks that a host can have on the way to another one; 0: 1 */
    int64_t delay_ns;       /* of a chunk; with a seed the most. 0: 100 us */
    const int64_t *skew_ns; /* borrowed [hosts]: of their wall clocks; NULL: none */
    /* Kills a host in the middle of the chunk of this number, from 1, among those from and to it;
     * 0: never. */
    int kill_host;
    int64_t kill_chunk;
};

/* Starts the thread that delivers chunks. Errors: SW_ERR_NOMEM. */
int sw_loop_new(const struct sw_loop_conf *conf, struct sw_loop **out,
                struct sw_err *err) SW_MUST_CHECK;
void sw_loop_free(struct sw_loop *l); /* NULL is accepted */
const struct sw_loop_end *sw_loop_end(const struct sw_loop *l, int host);
const struct sw_fabric_clock *sw_loop_clock(const struct sw_loop *l, int host);

/* Moves the clock, with all that happens meanwhile, and returns when it is there. */
void sw_loop_advance(struct sw_loop *l, int64_t ns);
/* SW_LOOP_CUT: a cable that is out; chunks from and to the host stay where they are.
 * SW_LOOP_STOPPED: and the host does nothing, as a stopped process. */
enum sw_loop_state { SW_LOOP_RUNS, SW_LOOP_CUT, SW_LOOP_STOPPED };
void sw_loop_set(struct sw_loop *l, int host, enum sw_loop_state state);
/* A process that is killed: all its connections break, at both ends. */
void sw_loop_kill(struct sw_loop *l, int host);
/* Has the host begun to open its fabric? */
bool sw_loop_came(const struct sw_loop *l, int host);

extern const struct sw_fabric_engine sw_fabric_loop;
