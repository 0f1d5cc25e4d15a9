/* The time breakdown of a step. The worker's thread charges every moment of a step to one part, so
 * read, decode, h2d, forward, backward, update, comm_exposed, wait and idle sum to the step. On a
 * device with its own memory the thread only queues work and then waits; that wait is charged to
 * what the device did meanwhile, according to marks in its stream. comm_hidden is not part of the
 * sum: it runs in parallel. */
#include "worker/ledger.h"
#include "base/os.h"
#include "worker/server.h"
#include "worker/worker.h"

void sw_step_timer_charge(struct sw_worker *w, float *part_ms, double *total_ms)
{
    int64_t now_ns = sw_os()->monotonic_ns();
    double ms = (double)(now_ns - w->timer.charged_ns) * 1e-6;

    w->timer.charged_ns = now_ns;
    *part_ms += (float)ms;
    if (total_ms)
        *total_ms += ms;
}

static double common_ms(int64_t a_from, int64_t a_to, int64_t b_from, int64_t b_to)
{
    int64_t from = a_from > b_from ? a_from : b_from, to = a_to < b_to ? a_to : b_to;
    return to > from ? (double)(to - from) * 1e-6 : 0;
}

/* Device time has another origin. The last mark was reached just now, or before the worker began to
 * wait; in the latter case none of the device's time overlaps with the wait. */
int sw_ledger_wait(struct sw_worker *w, int behind, struct sw_err *err)
{
    float *const parts[] = {&w->timer.ledger.h2d_ms, &w->timer.ledger.forward_ms,
                            &w->timer.ledger.backward_ms};

    sw_step_timer_charge(w, &w->timer.ledger.idle_ms, NULL);

    int64_t from_ns = w->timer.charged_ns;
    int rc = sw_flight_wait(w, behind, err);

    const int64_t *mark_ns = sw_exchange_marks(w->exchange, behind);
    if (rc != SW_OK || !mark_ns)
        return rc;

    w->timer.charged_ns = sw_os()->monotonic_ns();

    int64_t shift_ns = w->timer.charged_ns - mark_ns[SW_MARKS - 1];
    double rest_ms = (double)(w->timer.charged_ns - from_ns) * 1e-6;
    for (int i = 0; i + 1 < SW_MARKS; i++) {
        double ms = common_ms(from_ns, w->timer.charged_ns, mark_ns[i] + shift_ns,
                              mark_ns[i + 1] + shift_ns);
        *parts[i] += (float)ms;
        rest_ms -= ms;
    }

    w->timer.ledger.idle_ms += (float)rest_ms;
    return rc;
}

static double since_ms(int64_t *before_ns, int64_t now_ns)
{
    double ms = (double)(now_ns - *before_ns) * 1e-6;
    *before_ns = now_ns;
    return ms;
}

void sw_ledger_add_hidden(struct sw_worker *w, double copied_ms[2])
{
    static const enum sw_copy_direction directions[] = {SW_COPY_TO_DEVICE, SW_COPY_TO_HOST};
    const struct sw_server *servers = sw_worker_servers(w);
    int64_t served_ns = 0;

    for (int s = 0; s < w->topology->servers_per_group; s++)
        if (!servers[s].hosted)
            served_ns += sw_table_served_ns(w->table, s);

    double ms = since_ms(&w->timer.served_ns, served_ns);
    for (int d = 0; d < 2; d++) {
        int64_t ns = sw_exchange_copied_ns(w->exchange, directions[d]);
        copied_ms[d] = since_ms(&w->timer.copied_ns[d], ns);
        ms += copied_ms[d];
    }

    ms -= (double)w->timer.ledger.comm_exposed_ms;
    w->timer.ledger.comm_hidden_ms = ms > 0 ? (float)ms : 0;
}
