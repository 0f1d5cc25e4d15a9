/* Captures: a graph is the list of the operations queued during the capture, in that order, which a
 * launch queues again. So every launch does all checks of a stream: pointers, which must be in the
 * same allocations as in the capture, and the order between streams.
 *
 * Captures are as strict as those of CUDA. Events recorded in a capture belong to it: they become
 * marks, for which the graph has its own events. A stream joins by waiting for such an event, and
 * the captured stream must wait for all its work before the end; this is checked with the numbers
 * of operations of every stream that come before a mark. */
#include "device/sim/capture.h"
#include "base/os.h"
#include "device/sim/memory.h"
#include <string.h>

void sw_sim_graph_free(struct sw_graph *graph)
{
    struct sw_sim_graph *g = sw_sim_graph_of(graph);

    for (int i = 0; i < g->mark_count; i++)
        sw_sim_event_free(g->marks[i].event);
    sw_free(g->marks);
    sw_free(g->nodes);
    sw_free(g);
}

/* ---- Capturing ---- */

/* Marks the capture as failed and stores its first error. */
static int fail_capture(struct sw_sim_graph *g, int rc, const struct sw_err *why,
                        struct sw_err *err)
{
    if (g->error.code == SW_OK)
        g->error = *why;
    if (err)
        *err = *why;

    return rc;
}

int sw_sim_capture_refuse(struct sw_sim_stream *s, const char *what, struct sw_err *err)
{
    struct sw_err why;

    if (!s->capture)
        return SW_OK;

    int rc = sw_err_set(&why, SW_ERR_UNSUPPORTED, "%s: %s cannot be part of a graph",
                        s->base.dev->name, what);
    return fail_capture(s->capture, rc, &why, err);
}

static struct sw_sim_member *find(struct sw_sim_graph *g, const struct sw_sim_stream *s)
{
    for (int i = 0; i < g->members; i++)
        if (g->member[i].stream == s)
            return &g->member[i];
    return NULL;
}

static int add_member(struct sw_sim_graph *g, struct sw_sim_stream *s, struct sw_err *err)
{
    struct sw_err why;

    if (g->members == SW_SIM_GRAPH_STREAMS) {
        int rc =
            sw_err_set(&why, SW_ERR_UNSUPPORTED, "%s: a graph cannot have more than %d streams",
                       s->base.dev->name, SW_SIM_GRAPH_STREAMS);
        return fail_capture(g, rc, &why, err);
    }

    g->member[g->members++] = (struct sw_sim_member){.stream = s};
    s->capture = g;
    return SW_OK;
}

static int add_node(struct sw_sim_graph *g, const struct sw_sim_node *n, struct sw_err *err)
{
    struct sw_err why;

    int rc = sw_grow(&g->nodes, sizeof *g->nodes, g->count, &g->room, 64, "a graph", &why);
    if (rc != SW_OK)
        return fail_capture(g, rc, &why, err);

    g->nodes[g->count++] = *n;
    return SW_OK;
}

int sw_sim_capture_op(struct sw_sim_stream *s, const struct sw_sim_op *op, struct sw_err *err)
{
    struct sw_sim_member *m = find(s->capture, s);

    if (!op->type->counted) /* it serves the host, or creates an object */
        return sw_sim_capture_refuse(s, op->type->name, err);

    m->position.of[m - s->capture->member]++;
    return add_node(s->capture, &(struct sw_sim_node){SW_SIM_OPERATION, SW_SIM_NO_MARK, s, *op},
                    err);
}

static int new_mark(struct sw_sim_graph *g, struct sw_err *err)
{
    struct sw_err why;

    int rc =
        sw_grow(&g->marks, sizeof *g->marks, g->mark_count, &g->mark_room, 16, "a graph", &why);
    if (rc == SW_OK)
        rc = sw_sim_event_new(&g->device->base, &g->marks[g->mark_count].event, &why);
    if (rc != SW_OK)
        return fail_capture(g, rc, &why, err);

    g->mark_count++;
    return SW_OK;
}

int sw_sim_capture_record(struct sw_sim_stream *s, struct sw_sim_event *e, struct sw_err *err)
{
    struct sw_sim_graph *g = s->capture;

    int rc = new_mark(g, err);
    if (rc != SW_OK)
        return rc;

    int mark = g->mark_count - 1;
    g->marks[mark].position = find(g, s)->position;
    sw_mutex_lock(&e->lock);
    e->captured = g->number;
    e->mark = mark;
    sw_mutex_unlock(&e->lock);

    return add_node(g, &(struct sw_sim_node){.kind = SW_SIM_RECORD, .mark = mark, .stream = s},
                    err);
}

int sw_sim_capture_wait(struct sw_sim_stream *s, struct sw_sim_event *e, struct sw_err *err)
{
    struct sw_sim_device *d = s->device;

    sw_mutex_lock(&d->lock);

    struct sw_sim_graph *g = d->capture;
    sw_mutex_unlock(&d->lock);
    sw_mutex_lock(&e->lock);

    uint64_t captured = e->captured;
    int mark = e->mark, rc = SW_OK;
    sw_mutex_unlock(&e->lock);
    if (!g || captured != g->number) {
        rc = sw_sim_capture_refuse(s, "waiting for an event that was recorded outside the capture",
                                   err);
        return rc != SW_OK
                   ? rc
                   : sw_err_set(err, SW_ERR_INVALID, "%s: event_wait: the event belongs to a graph",
                                s->base.dev->name);
    }

    if (!s->capture)
        rc = add_member(g, s, err);
    if (rc != SW_OK)
        return rc;

    struct sw_sim_graph_position *ordered_after = &find(g, s)->position;
    for (int i = 0; i < SW_SIM_GRAPH_STREAMS; i++)
        if (g->marks[mark].position.of[i] > ordered_after->of[i])
            ordered_after->of[i] = g->marks[mark].position.of[i];

    return add_node(g, &(struct sw_sim_node){.kind = SW_SIM_WAIT, .mark = mark, .stream = s}, err);
}

int sw_sim_capture_begin(struct sw_stream *stream, struct sw_err *err)
{
    struct sw_sim_stream *s = sw_sim_stream_of(stream);
    struct sw_sim_device *d = s->device;
    struct sw_sim_graph *g = sw_calloc(1, sizeof *g);

    int rc = g ? SW_OK : sw_err_nomem(err, "a graph", sizeof *g);
    if (rc != SW_OK)
        return rc;

    g->device = d;
    sw_mutex_lock(&d->lock);

    if (d->capture)
        rc = sw_err_set(err, SW_ERR_UNSUPPORTED, "%s is already being captured", d->base.name);
    else
        d->capture = g;

    g->number = ++d->captures;
    sw_mutex_unlock(&d->lock);

    if (rc == SW_OK)
        rc = add_member(g, s, err);
    else
        sw_free(g);

    return rc;
}

/* Checks that the captured stream waits for all work of every stream that joined. */
static int check_members(struct sw_sim_graph *g)
{
    for (int i = 1; i < g->members; i++)
        if (g->member[i].position.of[i] > g->member[0].position.of[i])
            return sw_err_set(
                &g->error, SW_ERR_UNSUPPORTED,
                "%s: the captured stream does not wait for all work of a second stream",
                g->device->base.name);

    return SW_OK;
}

int sw_sim_capture_end(struct sw_stream *stream, struct sw_graph **out, struct sw_err *err)
{
    struct sw_sim_stream *s = sw_sim_stream_of(stream);
    struct sw_sim_graph *g = s->capture;
    if (!g || g->member[0].stream != s)
        return sw_err_set(err, SW_ERR_INVALID, "%s: capture_end: this stream is not being captured",
                          stream->dev->name);

    int rc = g->error.code == SW_OK ? check_members(g) : g->error.code;
    for (int i = 0; i < g->members; i++)
        g->member[i].stream->capture = NULL;
    sw_mutex_lock(&g->device->lock);
    g->device->capture = NULL;
    sw_mutex_unlock(&g->device->lock);
    if (rc == SW_OK) {
        *out = (struct sw_graph *)(void *)g;
        return SW_OK;
    }

    if (err)
        *err = g->error;
    sw_sim_graph_free((struct sw_graph *)(void *)g);

    return rc;
}
