/* All-reduce by the library of the devices (device/collective.h): each bucket is one group call, in
 * place. The library determines the order of a sum.
 *
 * Libraries open connections and allocate memory when they first sum an array of some size, and may
 * wait for devices meanwhile. Therefore every bucket is summed once before anything else is queued.
 * This runs on a thread of its own, because a library that does not work on the machine hangs here.
 * Aborting it and cancelling the devices usually ends that; a thread that still hangs keeps all
 * memory it uses. */
#include "base/os.h"
#include "exchange/reduce/allreduce_private.h"

enum { ABORT_MS = 10000 /* how long an aborted library may take to return */ };

static int64_t stage(const int64_t *elements, int buckets, int ranks)
{
    return 0;
}

static int wait_for_all(struct sw_allreduce *a, int b, struct sw_err *err)
{
    for (int r = 0; r < a->ranks; r++) {
        int rc = sw_event_wait(a->rank[r].stream, a->rank[r].at[b].made, err);
        if (rc != SW_OK)
            return rc;
    }

    return SW_OK;
}

/* Ends the group even after an error, because otherwise the library could not be closed. */
static int sum(struct sw_allreduce *a, int b, struct sw_err *err)
{
    struct sw_err ending;

    int rc = sw_collective_begin(a->library, err);
    if (rc != SW_OK)
        return rc;

    for (int r = 0; r < a->ranks && rc == SW_OK; r++)
        rc = sw_collective_sum(a->library, r, a->rank[r].stream, sw_allreduce_place(a, r, b),
                               a->bucket[b].elements, err);

    int ended = sw_collective_end(a->library, &ending);
    if (rc == SW_OK && ended != SW_OK && err)
        *err = ending;

    return rc == SW_OK ? ended : rc;
}

static int queue(struct sw_allreduce *a, int b, struct sw_err *err)
{
    int rc = wait_for_all(a, b, err);
    if (rc != SW_OK)
        return rc;
    rc = sum(a, b, err);
    if (rc != SW_OK)
        return rc;

    for (int r = 0; r < a->ranks; r++) {
        rc = sw_event_record(a->rank[r].stream, a->rank[r].at[b].done, err);
        if (rc != SW_OK)
            return rc;
    }

    return SW_OK;
}

static void first_main(void *arg)
{
    struct sw_allreduce_first *f = arg;

    for (int b = 0; b < f->a->buckets && f->rc == SW_OK; b++)
        f->rc = queue(f->a, b, &f->err);
    for (int r = 0; r < f->a->ranks && f->rc == SW_OK; r++)
        f->rc = sw_stream_wait(f->a->rank[r].stream, &f->err);
}

/* Ends the sums on all members: the others wait for one that failed, and nobody can free a stream
 * that waits. If the library does not return from this, it is marked as hanging. */
static void abort_sums(struct sw_allreduce *a, int limit_ms)
{
    sw_collective_abort(a->library);
    bool ended = sw_collective_abort_ends(a->library, limit_ms);
    (void)ended; /* as the mark says */
}

/* The sums did not end in time: aborts them, too, and waits for their thread. */
static void abort_first(struct sw_allreduce_first *f, int limit_ms)
{
    for (int r = 0; r < f->a->ranks; r++)
        sw_device_cancel(f->a->rank[r].device);

    abort_sums(f->a, limit_ms);
    if (!sw_thread_join_timed(&f->thread, limit_ms))
        f->a->library->hanging = f;
}

/* Sums every bucket once. The buckets are zero, and so are the sums. */
static int prepare(struct sw_allreduce *a, int first_ms, struct sw_err *err)
{
    const int limit_ms = first_ms < ABORT_MS ? first_ms : ABORT_MS;
    struct sw_allreduce_first *f = sw_calloc(1, sizeof *f);
    if (!f)
        return sw_err_nomem(err, "an all-reduce", sizeof *f);

    f->a = a;

    int rc = sw_thread_start(&f->thread, "first-sums", first_main, f, err);
    if (rc == SW_OK && sw_thread_join_timed(&f->thread, first_ms)) {
        rc = f->rc;
        if (rc != SW_OK)
            abort_sums(a, limit_ms);
        if (rc != SW_OK && err)
            *err = f->err;
    } else if (rc == SW_OK) {
        abort_first(f, limit_ms);
        rc = sw_err_set(err, SW_ERR_LIBRARY,
                        "the first all-reduce over %d devices did not finish within %d s; try "
                        "all_reduce = copies",
                        a->ranks, first_ms / 1000);
    }

    if (a->library->hanging != f)
        sw_free(f);
    return rc;
}

const struct sw_allreduce_backend sw_allreduce_library = {
    .min_ranks = 1, .stage = stage, .queue = queue, .prepare = prepare};
