/* Offloading activations to host memory. One stream per direction copies concurrently with the
 * compute stream; events order the copies:
 *
 *     OFFLOAD       event `made` on compute; stream out waits for it, copies, records `left`
 *     WAIT_OFFLOAD  compute waits for `left`: the memory may be overwritten
 *     RELOAD        event `ready` on compute (the second memory is free); stream in waits for it
 *                   and for `left`, copies, records `back`
 *     WAIT_RELOAD   compute waits for `back`: the values can be read
 *
 * Compute waits for the copy back of every offloaded activation, so all copies of a step are
 * complete when the compute stream has finished the step. */
#include "net/net_private.h"

#include "base/os.h"

struct sw_offload {
    struct sw_device *dev;                           /* borrowed */
    struct sw_stream *out, *in;                      /* owned */
    struct moving {                                  /* of an offloaded root, else all NULL */
        struct sw_event *made, *left, *ready, *back; /* owned */
    } * of;                                          /* owned [count] */
    int count;
    char *memory; /* borrowed host memory */
};

static int make_events(struct sw_offload *s, struct moving *m, struct sw_err *err)
{
    struct sw_event **const events[] = {&m->made, &m->left, &m->ready, &m->back};
    int rc = SW_OK;

    for (size_t i = 0; i < sizeof events / sizeof *events && rc == SW_OK; i++)
        rc = sw_event_new(s->dev, events[i], err);
    return rc;
}

int sw_offload_new(const struct sw_net *net, struct sw_offload **out, struct sw_err *err)
{
    struct sw_offload *s = sw_calloc(1, sizeof *s);
    if (!s)
        return sw_err_nomem(err, "copies of features", sizeof *s);

    s->dev = net->args.stream->dev;
    s->count = net->graph.count;
    s->of = sw_calloc((size_t)net->graph.count, sizeof *s->of);

    int rc = s->of ? SW_OK : sw_err_nomem(err, "copies of features", sizeof *s->of);
    if (rc == SW_OK)
        rc = sw_stream_new(s->dev, 1, &s->out, err);
    if (rc == SW_OK)
        rc = sw_stream_new(s->dev, 1, &s->in, err);

    for (int i = 0; i < net->graph.count && rc == SW_OK; i++)
        if (net->memory.node[i].host_at != SW_NO_OFFSET)
            rc = make_events(s, &s->of[i], err);

    if (rc != SW_OK) {
        sw_offload_free(s);
        return rc;
    }

    sw_stream_name(s->out, "swap out");
    sw_stream_name(s->in, "swap in");
    *out = s;

    return SW_OK;
}

void sw_offload_free(struct sw_offload *s)
{
    if (!s)
        return;

    sw_stream_free(s->out);
    sw_stream_free(s->in);

    for (int i = 0; s->of && i < s->count; i++) {
        sw_event_free(s->dev, s->of[i].made);
        sw_event_free(s->dev, s->of[i].left);
        sw_event_free(s->dev, s->of[i].ready);
        sw_event_free(s->dev, s->of[i].back);
    }

    sw_free(s->of);
    sw_free(s);
}

void sw_offload_bind(struct sw_offload *s, void *memory)
{
    s->memory = memory;
}

/* Makes stream `behind` wait for everything queued on `ahead` so far. */
static int follow(struct sw_stream *behind, struct sw_stream *ahead, struct sw_event *e,
                  struct sw_err *err)
{
    int rc = sw_event_record(ahead, e, err);
    return rc == SW_OK ? sw_event_wait(behind, e, err) : rc;
}

/* Queues the copy of an activation to the host, or back to its second memory. */
static int start(struct sw_net *net, int root, bool out, struct sw_err *err)
{
    const struct sw_net_places *places = &net->memory.node[root];
    const struct sw_offload *s = net->offload;
    const struct moving *m = &s->of[root];
    const size_t bytes = sw_desc_bytes(&net->shapes.node[root].layer.dst.desc);
    struct sw_stream *stream = out ? s->out : s->in;
    char *host = s->memory + places->host_at;

    int rc = follow(stream, net->args.stream, out ? m->made : m->ready, err);
    if (rc == SW_OK && !out)
        rc = sw_event_wait(stream, m->left, err);
    if (rc != SW_OK)
        return rc;

    rc = out ? sw_copy(stream, host, sw_net_at(net, places->data), bytes, err)
             : sw_copy(stream, sw_net_at(net, places->data_again), host, bytes, err);
    return rc == SW_OK ? sw_event_record(stream, out ? m->left : m->back, err) : rc;
}

int sw_offload_run(struct sw_net *net, const struct sw_exec_op *op, struct sw_err *err)
{
    const struct moving *m = &net->offload->of[op->node];

    switch (op->kind) {
    case SW_EXEC_OFFLOAD:
        return start(net, op->node, true, err);
    case SW_EXEC_RELOAD:
        return start(net, op->node, false, err);
    case SW_EXEC_WAIT_OFFLOAD:
        return sw_event_wait(net->args.stream, m->left, err);
    default:
        return sw_event_wait(net->args.stream, m->back, err);
    }
}
