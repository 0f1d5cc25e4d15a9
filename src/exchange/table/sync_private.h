/* Shared by the files of the exchange between server groups. Each calls only those before it:
 * sync_tree.c (the trees along which deltas are forwarded), sync_flight.c (deltas in flight),
 * sync_remote.c (what comes from groups elsewhere), sync.c (life, and merging everything at once).
 */
#pragma once

#include "exchange/table/sync.h"
#include "exchange/table/table_private.h"

/* The slices of a parameter on a server. */
struct sw_sync_slices {
    int param, server;
    int64_t count, offset; /* elements, and where they are in the arrays of a group */
};

/* A group's deltas of one unit. The posted delta lies in the room of its origin, where all tables
 * of the process read it; a delta from elsewhere arrives in this process's room of its origin. */
struct sw_sync_post {
    struct sw_sync *sync;
    int origin, unit;
    int requested; /* atomic: a request of a worker is in the inbox */
    uint64_t done; /* steps at the last exchange; the server's own */
    /* All below is under the lock. */
    uint64_t version; /* of the delta in the room */
    uint64_t route;   /* the groups of its tree (bits) */
    int readers;      /* of an origin here: living groups that have not added it yet */
    int users;        /* with groups elsewhere: who still reads the room: sends, and a server */
    int writer;       /* the group from which a delta arrives; -1: none */
    int acks;         /* acknowledgements that are about to be handed over */
    bool kept;        /* a delta that has arrived waits for sw_sync_resume */
    bool owes;        /* its acknowledgement must precede what the origin is told of losses */
};

struct sw_sync {
    struct sw_table **tables; /* owned array; NULL: elsewhere */
    int count, servers, params;
    int own;         /* the first group whose table is here */
    bool has_remote; /* all others are elsewhere */
    int64_t period;
    uint64_t after;
    bool *neighbours; /* owned [count][count] */
    int *parent;  /* owned [origin][table]: the table that forwards the origin's deltas to it; -1:
                     the origin. Without losses */
    uint64_t all; /* the groups of these trees (bits; all bits if no table is elsewhere) */
    struct sw_sync_slices *units; /* owned [params][servers] */
    float **base;  /* owned [table]: values at the last exchange plus what came in since */
    float **delta; /* owned [table]: the rooms */
    struct sw_sync_post *posts; /* owned [origin][unit] */
    int64_t *sent;              /* owned [from][to][server], atomic */
    uint64_t *merged; /* owned [table][origin][unit], atomic: steps of the origin whose updates the
                         values contain; of a table elsewhere, that it has acknowledged */
    int in_flight;    /* atomic: messages that are not handled yet, own deltas that not all have
                         added, sends to groups elsewhere */
    uint64_t living;  /* atomic; changed under the lock: bits of groups */
    void *memory;     /* owned device memory: base and delta */
    size_t bytes;
    struct sw_sync_outer outer;
    struct sw_mutex lock; /* guards all below, and parts of posts */
    struct sw_cond added;
    bool held;                      /* no delta is added */
    uint64_t step;                  /* the last one that was merged, or is being merged */
    int adding;                     /* servers that add a delta */
    uint64_t suspects;              /* groups that somebody has lost */
    uint64_t heard[SW_SYNC_GROUPS]; /* which groups each group has lost */
    int owing[SW_SYNC_GROUPS];      /* of an origin: units that owe */
    bool untold[SW_SYNC_GROUPS];    /* the origin must be told of losses when none owes */
};

/* A delta travels with its route behind it. */
enum { SW_SYNC_TRAILER = sizeof(uint64_t) };

static inline int sw_sync_unit_of(const struct sw_sync *s, int param, int server)
{
    return param * s->servers + server;
}

static inline struct sw_sync_post *sw_sync_post_of(const struct sw_sync *s, int origin, int unit)
{
    return &s->posts[(size_t)origin * (size_t)sw_sync_units(s) + (size_t)unit];
}

static inline uint64_t *sw_sync_merged_of(const struct sw_sync *s, int table, int origin, int unit)
{
    size_t row = (size_t)(table * s->count + origin);
    return &s->merged[row * (size_t)sw_sync_units(s) + (size_t)unit];
}

static inline bool sw_sync_lives(const struct sw_sync *s, int group)
{
    return !s->has_remote || (__atomic_load_n(&s->living, __ATOMIC_RELAXED) >> group & 1);
}

/* sync_tree.c: the parent of every group in the tree of an origin's deltas over the groups of
 * `route`. A group that is not in it, or that the tree does not reach, gets them from the origin.
 * Returns the tree without losses, or scratch [count]. */
const int *sw_sync_tree(const struct sw_sync *s, int origin, uint64_t route, int *scratch);
/* Finds the trees without losses. Errors: SW_ERR_NOMEM, SW_ERR_INVALID. */
int sw_sync_find_trees(struct sw_sync *s, struct sw_err *err) SW_MUST_CHECK;

/* sync_flight.c: sends a message to a server of a table here, and counts it. */
int sw_sync_send(struct sw_sync *s, int from, int to, int server,
                 const struct sw_message *m) SW_MUST_CHECK;
/* Sends the delta of a post to a group elsewhere; under the lock `users` and in_flight have been
 * increased for it. A group that is lost is no error. */
int sw_sync_post_outside(struct sw_sync *s, struct sw_sync_post *p, int to,
                         uint64_t version) SW_MUST_CHECK;
/* Somebody does not read the room of a post any more. The last one acknowledges it. */
void sw_sync_release(struct sw_sync *s, struct sw_sync_post *p);
/* Under the lock: the lost groups (bits) of which the origin can be told now; 0: none. */
uint64_t sw_sync_take_untold(struct sw_sync *s, int origin);
/* And then, without the lock; lost 0 is accepted. */
void sw_sync_tell_lost(struct sw_sync *s, int origin, uint64_t lost);
