/* Requests are bits that the workers' common decision after a step reads, so all of them react at
 * the same step; the gate is where they wait during a pause, and where they leave an evaluation
 * together. */
#include "worker/gate.h"

#include "base/stop.h"

int sw_requests_get(const struct sw_requests *r)
{
    const int stops = sw_stop_requests();
    const int of_process = stops == 0 ? 0 : stops == 1 ? SW_JOB_STOP : SW_JOB_STOP | SW_JOB_ABORT;
    return __atomic_load_n(&r->bits, __ATOMIC_RELAXED) | of_process;
}

void sw_requests_set(struct sw_requests *r, enum sw_job_request_kind what)
{
    if (what == SW_JOB_CONTINUE)
        __atomic_fetch_and(&r->bits, ~(SW_JOB_PAUSE | SW_JOB_RELEASE), __ATOMIC_RELAXED);
    else
        __atomic_fetch_or(&r->bits, (int)what, __ATOMIC_RELAXED);
}

static bool ends(struct sw_requests *r, int requested)
{
    /* Kept when the request is withdrawn afterwards: the workers end all the same. */
    if ((requested & SW_JOB_RELEASE) && !(requested & SW_JOB_STOP))
        __atomic_store_n(&r->releases, 1, __ATOMIC_RELAXED);
    return requested & (SW_JOB_STOP | SW_JOB_RELEASE);
}

bool sw_requests_end(struct sw_requests *r)
{
    return ends(r, sw_requests_get(r));
}

bool sw_requests_replan(struct sw_requests *r, int requested)
{
    if (!(requested & SW_JOB_REPLAN))
        return false;

    __atomic_store_n(&r->replans, 1, __ATOMIC_RELAXED);
    return true;
}

int sw_requests_take(struct sw_requests *r, int64_t step)
{
    int requested = sw_requests_get(r);

    __atomic_fetch_and(&r->bits, ~(requested & SW_JOB_CHECKPOINT_NOW), __ATOMIC_RELAXED);
    if (r->agree)
        requested = r->agree(r->agree_user, step, requested);
    if (ends(r, requested))
        requested |= SW_JOB_STOP;

    return requested;
}

/* Poll interval: requests also come from signal handlers, which cannot wake a thread. */
enum { POLL_MS = 50 };

static void close_gate(void *gate)
{
    struct sw_gate *g = gate;

    sw_mutex_lock(&g->lock);
    g->closed = true;
    sw_cond_broadcast(&g->changed);
    sw_mutex_unlock(&g->lock);
}

int sw_gate_init(struct sw_requests *r, struct sw_fault *fault, struct sw_err *err)
{
    r->gate = (struct sw_gate){.through = -1, .eval_step = -1};
    sw_mutex_init(&r->gate.lock);
    sw_cond_init(&r->gate.changed);
    return sw_fault_attach(fault, close_gate, &r->gate, err);
}

void sw_gate_fini(struct sw_requests *r, struct sw_fault *fault)
{
    sw_fault_detach(fault, &r->gate);
    sw_cond_fini(&r->gate.changed);
    sw_mutex_fini(&r->gate.lock);
}

/* By the leader: ends the pause for all workers when its request is gone. */
static void end_if_over(struct sw_requests *r, int64_t t, int requested)
{
    struct sw_gate *g = &r->gate;
    if ((requested & SW_JOB_PAUSE) && !(requested & SW_JOB_STOP))
        return;

    sw_mutex_lock(&g->lock);
    g->through = t;
    g->stop = requested & SW_JOB_STOP;
    sw_cond_broadcast(&g->changed);
    sw_mutex_unlock(&g->lock);
}

/* Workers may wait for each other within a round, so all of them make the last round that any has
 * begun. */
bool sw_gate_begin_round(struct sw_requests *r, int64_t step, int64_t n)
{
    struct sw_gate *g = &r->gate;
    const bool stop = sw_requests_end(r);

    sw_mutex_lock(&g->lock);

    if (g->eval_step != step) {
        g->eval_step = step;
        g->eval_begun = 0;
        g->eval_rounds = INT64_MAX;
    }

    if (stop && g->eval_rounds > g->eval_begun)
        g->eval_rounds = g->eval_begun;

    const bool begins = n < g->eval_rounds;
    if (begins && n >= g->eval_begun)
        g->eval_begun = n + 1;
    sw_mutex_unlock(&g->lock);

    return begins;
}

int sw_gate_wait(struct sw_requests *r, int64_t step, bool leads, bool *over, bool *checkpoint,
                 bool *stop, struct sw_err *err)
{
    struct sw_gate *g = &r->gate;

    *checkpoint = false;
    if (leads) {
        const int requested = sw_requests_take(r, SW_GATE_PAUSED);
        *checkpoint = requested & SW_JOB_CHECKPOINT_NOW;
        end_if_over(r, step, requested);
    }

    sw_mutex_lock(&g->lock);

    if (g->through < step && !g->closed && !*checkpoint)
        sw_cond_wait_ms(&g->changed, &g->lock, POLL_MS);
    *over = g->through >= step;
    *stop = *over && g->stop;

    bool closed = g->closed;
    sw_mutex_unlock(&g->lock);
    return closed ? sw_err_set(err, SW_ERR_CANCELLED, "the job is ending") : SW_OK;
}
