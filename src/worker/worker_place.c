/* The placement of a worker: its row, host memory near it, and its stream. */
#include "worker/worker_place.h"
#include "base/os.h"
#include "history/snapshot.h"
#include "machine/bind.h"
#include "worker/worker.h"

const struct sw_placement_row *sw_worker_placement(const struct sw_worker *w)
{
    return sw_placement_worker(w->shared.place->placement, w->rank->global_rank);
}

/* A block for copies of a device that is too small for pinned pages of its own. */
static bool is_small(const struct sw_worker *w, size_t bytes)
{
    return !w->device->host_memory && bytes < SW_DEVICE_PAGES_BYTES;
}

/* The worker's NUMA nodes are used, whichever thread fills the memory. */
int sw_worker_take_memory(void *worker, size_t bytes, const char *what, void **out,
                          struct sw_err *err)
{
    const struct sw_worker *w = worker;
    const struct sw_job_place *place = w->shared.place;

    if (is_small(w, bytes))
        return sw_device_host_alloc(w->device, bytes, what, out, err);

    uint64_t nodes = sw_machine_os_nodes(place->machine, sw_worker_placement(w)->node_mask);
    int rc = sw_device_alloc_on(place->host, bytes, nodes, what, out, err);
    if (rc != SW_OK)
        return rc;

    sw_device_pin(w->device, *out, bytes);
    return SW_OK;
}

void sw_worker_free_memory(void *worker, void *p, size_t bytes)
{
    const struct sw_worker *w = worker;

    if (is_small(w, bytes)) {
        sw_device_host_free(w->device, p, bytes);
        return;
    }

    sw_device_unpin(w->device, p, bytes);
    sw_device_free(w->shared.place->host, p, bytes);
}

int sw_worker_attach(struct sw_worker *w, struct sw_err *err)
{
    const struct sw_placement_row *row = sw_worker_placement(w);

    int rc = sw_bind_thread(w->shared.place->machine, &row->cores, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_driver_host()->start_team(row->threads, err);
    if (rc != SW_OK)
        return rc;

    sw_stream_attach(w->stream);
    return w->device->host_memory
               ? SW_OK
               : sw_stream_new(w->shared.place->host, row->threads, &w->host_stream, err);
}

int sw_worker_wait(struct sw_worker *w, struct sw_err *err)
{
    if (w->device->host_memory || !w->slot) /* an evaluation outside of a run is not monitored */
        return sw_stream_wait(w->stream, err);

    sw_slot_wait_on(w->slot, (struct sw_wait){.kind = SW_WAIT_DEVICE}, "its device",
                    sw_os()->monotonic_ns());

    int rc = sw_stream_wait(w->stream, err);
    sw_slot_wait(w->slot, NULL, sw_os()->monotonic_ns());
    return rc;
}
