/* The server role: the thin waiting shell around sw_table_serve.
 *
 * Messages in: updates of workers, in its inbox. Messages out: none; the table's versions move, and
 * who waits for one is woken. A server with cores of its own is a thread that sleeps on its inbox.
 * One that shares its worker's cores has no thread: the worker empties the inbox between two
 * layers, with its whole team, so that nothing is oversubscribed and an update still runs before
 * the layers below do their backward. The inbox is closed at the end of the job or by its fault,
 * which ends the thread; an error of the table becomes the job's fault under the server's name. */
#include "base/os.h"
#include "train/job_private.h"

static int serve(struct sw_server *s, const struct sw_message *m, struct sw_err *err)
{
    return sw_table_serve(s->job->table, s->index, m, err);
}

int sw_server_poll(struct sw_server *s, struct sw_err *err)
{
    struct sw_message m;
    int rc;
    while ((rc = sw_channel_try_receive(sw_table_inbox(s->job->table, s->index), &m)) == SW_OK) {
        rc = serve(s, &m, err);
        if (rc != SW_OK) {
            sw_fault_set(&s->job->fault, s->unit, err);
            return rc;
        }
    }
    return rc == SW_ERR_BUSY ? SW_OK : rc;
}

void sw_server_main(void *server)
{
    struct sw_server *s = server;
    struct sw_job *job = s->job;
    struct sw_err err = {0};
    const struct sw_placement_row *row =
        sw_placement_server(job->placement, &job->shape, 0, s->index);
    int rc = sw_bind_thread(job->machine, &row->cores, &err);
    while (rc == SW_OK) {
        struct sw_message m;
        sw_slot_phase(s->slot, SW_PHASE_IDLE, -1, -1, NULL, sw_os()->monotonic_ns());
        rc = sw_channel_receive(sw_table_inbox(job->table, s->index), &m);
        if (rc != SW_OK)
            return; /* closed: the job has ended or failed elsewhere */
        sw_slot_phase(s->slot, SW_PHASE_UPDATE, (int64_t)m.version, m.param,
                      sw_table_param(job->table, m.param)->name, sw_os()->monotonic_ns());
        rc = serve(s, &m, &err);
    }
    sw_fault_set(&job->fault, s->unit, &err);
}
