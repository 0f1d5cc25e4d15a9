/* CUDA graphs. A capture is thread-local: other threads may use this GPU or others meanwhile. */
#include "base/os.h"
#include "device/cuda/cuda_calls.h"
#include "device/cuda/cuda_private.h"
#include <cuda_runtime_api.h>

struct graph {
    struct sw_cuda_device *device; /* borrowed */
    cudaGraphExec_t exec;          /* owned */
};

static struct graph *graph_of(struct sw_graph *g)
{
    return (struct graph *)(void *)g;
}

int sw_cuda_capture_refuse(struct sw_cuda_stream *s, const char *what, struct sw_err *err)
{
    struct sw_err why;

    if (!s->captured)
        return SW_OK;

    int rc = sw_err_set(&why, SW_ERR_UNSUPPORTED, "%s: %s cannot be part of a graph",
                        s->device->base.name, what);
    if (s->refused.code == SW_OK)
        s->refused = why;
    if (err)
        *err = why;

    return rc;
}

int sw_cuda_capture_begin(struct sw_stream *stream, struct sw_err *err)
{
    struct sw_cuda_stream *s = sw_cuda_stream_of(stream);

    s->captured = false;
    s->refused.code = SW_OK;

    int rc = sw_cuda_enter(s->device, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_cuda_check(s->device,
                       (int)cudaStreamBeginCapture(s->stream, cudaStreamCaptureModeThreadLocal),
                       "capturing a stream", err);
    if (rc != SW_OK)
        return rc;

    s->captured = true;
    return SW_OK;
}

/* Instantiates the graph and uploads it now rather than at the first launch. */
static int instantiate(struct sw_cuda_stream *s, cudaGraph_t captured, cudaGraphExec_t *out,
                       struct sw_err *err)
{
    cudaError_t status = cudaGraphInstantiate(out, captured, 0);
    if (status == cudaSuccess)
        status = cudaGraphUpload(*out, s->stream);
    return sw_cuda_check(s->device, (int)status, "instantiating a graph", err);
}

int sw_cuda_capture_end(struct sw_stream *stream, struct sw_graph **out, struct sw_err *err)
{
    struct sw_cuda_stream *s = sw_cuda_stream_of(stream);
    cudaGraph_t captured = NULL;
    struct graph *g = sw_calloc(1, sizeof *g);

    sw_cuda_use(s->device);
    s->captured = false;

    /* Ends the capture even after an error, since otherwise the stream would stay in capture mode.
     */
    int rc = sw_cuda_check(s->device, (int)cudaStreamEndCapture(s->stream, &captured),
                           "ending a capture", err);
    if (s->refused.code != SW_OK) {
        rc = s->refused.code;
        if (err)
            *err = s->refused;
    }

    if (rc == SW_OK && !g)
        rc = sw_err_nomem(err, "a graph", sizeof *g);

    if (rc == SW_OK) {
        g->device = s->device;
        rc = instantiate(s, captured, &g->exec, err);
    }

    if (captured)
        (void)cudaGraphDestroy(captured);
    if (rc == SW_OK) {
        *out = (struct sw_graph *)(void *)g;
        return SW_OK;
    }

    if (g && g->exec)
        (void)cudaGraphExecDestroy(g->exec);
    sw_free(g);

    return rc;
}

int sw_cuda_graph_launch(struct sw_stream *stream, struct sw_graph *graph, struct sw_err *err)
{
    struct sw_cuda_stream *s = sw_cuda_stream_of(stream);

    int rc = sw_cuda_enter(s->device, err);
    if (rc != SW_OK)
        return rc;

    return sw_cuda_check(s->device, (int)cudaGraphLaunch(graph_of(graph)->exec, s->stream),
                         "launching a graph", err);
}

void sw_cuda_graph_free(struct sw_graph *graph)
{
    struct graph *g = graph_of(graph);
    sw_cuda_use(g->device);
    (void)cudaGraphExecDestroy(g->exec);
    sw_free(g);
}
