/* Devices of a host are at one step or at two successive ones, since an abort finds some before
 * their updates and others behind. Every device has all parameters, so one at the later step is
 * read; running statistics are those of the worker that has them. */
#include "worker/rescue.h"

#include "worker/worker.h"

/* A worker whose device has completed the latest step; NULL: none has completed any. */
static struct sw_worker *find_latest(struct sw_worker *workers, int64_t first)
{
    struct sw_worker *latest = NULL;
    int64_t step = first;

    for (int i = 0; i < workers->topology->workers; i++) {
        int64_t own = sw_exchange_last_step(workers[i].exchange);

        if (own > step) {
            step = own;
            latest = &workers[i];
        }
    }

    return latest;
}

/* Ends what the worker's streams still do; their errors are those of the abort. */
static void drain(struct sw_worker *w)
{
    struct sw_err ignored;

    sw_microbatches_wait(w->microbatches[SW_SPLIT_TRAIN]);
    int rc = sw_stream_wait(w->stream, &ignored);
    (void)rc;
}

/* Reads the device by a new stream. */
static int rescue(struct sw_worker *w, bool values, int64_t step, struct sw_err *err)
{
    struct sw_stream *own = w->stream, *fresh;

    int rc = sw_stream_new(w->device, 1, &fresh, err);
    if (rc != SW_OK)
        return rc;

    w->stream = fresh;
    if (values)
        rc = sw_exchange_rescue(w->exchange, fresh, err);
    if (rc == SW_OK)
        rc = sw_buffers_rescue(w, step, err);
    w->stream = own;

    sw_stream_free(fresh);
    return rc;
}

int sw_workers_rescue(struct sw_worker *workers, int64_t first, int64_t *step, struct sw_err *err)
{
    const struct sw_worker *latest = find_latest(workers, first);
    int rc = SW_OK;

    *step = latest ? sw_exchange_last_step(latest->exchange) : first;
    for (int i = 0; i < workers->topology->workers; i++)
        drain(&workers[i]);

    for (int i = 0; latest && i < workers->topology->workers && rc == SW_OK; i++) {
        rc = rescue(&workers[i], &workers[i] == latest, *step, err);
        workers[i].step = *step;
    }

    return rc;
}
