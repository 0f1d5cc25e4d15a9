/* Threads of a search. They are started for it and end with it: they share an atomic task number,
 * and a lock guards the first error. The contract is in search/parallel.h. */
#include "search/parallel.h"

#include "base/os.h"
#include "base/stop.h"
#include "thread/atomic.h"
#include "thread/thread.h"

enum { SHARD_ROWS = 4096 }; /* fewer are not worth a task */

struct team {
    sw_search_task *run;
    void *user;
    int64_t tasks;
    _Atomic int64_t next;
    atomic_int failed; /* set before the last tasks are skipped */
    struct sw_mutex lock;
    struct sw_err first; /* guarded by lock, as is code */
    int code;
};

struct member {
    struct sw_thread thread;
    struct team *team;
    int number;
};

static void fail(struct team *t, int code, const struct sw_err *err)
{
    sw_mutex_lock(&t->lock);
    if (t->code == SW_OK) {
        t->code = code;
        t->first = *err;
    }
    sw_mutex_unlock(&t->lock);

    atomic_store(&t->failed, 1);
}

static void member_main(void *arg)
{
    const struct member *m = arg;
    struct team *t = m->team;
    struct sw_err err = {0};

    while (!atomic_load(&t->failed)) {
        const int64_t task = atomic_fetch_add(&t->next, 1);
        if (task >= t->tasks)
            return;

        int rc = sw_stop_check(&err);
        if (rc == SW_OK)
            rc = t->run(t->user, task, m->number, &err);
        if (rc != SW_OK)
            fail(t, rc, &err);
    }
}

int sw_search_parallel(int threads, int64_t tasks, sw_search_task *run, void *user,
                       struct sw_err *err)
{
    struct team t = {.run = run, .user = user, .tasks = tasks};
    const int count = tasks < threads ? (int)tasks : threads;
    struct member *members = sw_calloc((size_t)count + 1, sizeof *members);
    if (!members)
        return sw_err_nomem(err, "threads of a search", (size_t)count * sizeof *members);

    sw_mutex_init(&t.lock);

    for (int i = 0; i < count; i++) {
        struct sw_err why;

        members[i].team = &t;
        members[i].number = i;
        int rc = sw_thread_start(&members[i].thread, "search", member_main, &members[i], &why);
        if (rc != SW_OK) {
            fail(&t, rc, &why);
            break;
        }
    }

    for (int i = 0; i < count; i++)
        sw_thread_join(&members[i].thread);

    const int code = t.code;
    if (code != SW_OK && err)
        *err = t.first;
    sw_mutex_fini(&t.lock);
    sw_free(members);
    return code;
}

struct sw_search_division sw_search_divide(int64_t queries, int64_t rows, int64_t block,
                                           int threads)
{
    struct sw_search_division d = {queries, rows, block, 1, rows};
    const int64_t blocks = (queries + block - 1) / block;

    if (blocks < threads && rows >= 2 * SHARD_ROWS) {
        const int64_t most = rows / SHARD_ROWS;

        d.shards = (threads + blocks - 1) / blocks;
        d.shards = d.shards < most ? d.shards : most;
        d.each = (rows + d.shards - 1) / d.shards;
    }

    return d;
}

int64_t sw_search_tasks(const struct sw_search_division *d)
{
    return (d->queries + d->block - 1) / d->block * d->shards;
}

struct sw_search_part sw_search_part_of(const struct sw_search_division *d, int64_t task)
{
    const int64_t query = task / d->shards * d->block, shard = task % d->shards;
    struct sw_search_part p = {.shard = shard, .query = query, .queries = d->block};

    if (query + p.queries > d->queries)
        p.queries = d->queries - query;
    p.row = shard * d->each;
    p.end = p.row + d->each < d->rows ? p.row + d->each : d->rows;

    return p;
}
