/* Creates and runs oneDNN primitives together with the reorders around them. device/cpu/dnnl.h
 * explains ports; the order of calls is sw_dnnl_op_init, sw_dnnl_op_run once per pass,
 * sw_dnnl_op_fini. The engine and the stream of oneDNN belong to our stream, so only its owner
 * calls. */
#include "device/cpu/dnnl.h"

#include "base/os.h"
#include <string.h>

struct context {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
};

static void free_context(void *p)
{
    struct context *c = p;

    if (c->stream)
        dnnl_stream_destroy(c->stream);
    if (c->engine)
        dnnl_engine_destroy(c->engine);
    sw_free(c);
}

static const char *status_name(dnnl_status_t status)
{
    switch (status) {
    case dnnl_out_of_memory:
        return "out of memory";
    case dnnl_invalid_arguments:
        return "invalid arguments";
    case dnnl_unimplemented:
        return "not implemented for these shapes";
    default:
        return "runtime error";
    }
}

int sw_dnnl_check(dnnl_status_t status, const char *what, struct sw_err *err)
{
    if (status == dnnl_success)
        return SW_OK;

    int code = status == dnnl_out_of_memory   ? SW_ERR_NOMEM
               : status == dnnl_unimplemented ? SW_ERR_UNSUPPORTED
                                              : SW_ERR_LIBRARY;
    return sw_err_set(err, code, "oneDNN: %s: %s", what, status_name(status));
}

static int init_context(struct context *c, struct sw_err *err)
{
    int rc = sw_dnnl_check(dnnl_engine_create(&c->engine, dnnl_cpu, 0), "creating the engine", err);
    if (rc != SW_OK)
        return rc;

    return sw_dnnl_check(dnnl_stream_create(&c->stream, c->engine, dnnl_stream_default_flags),
                         "creating a stream", err);
}

int sw_dnnl_open(struct sw_stream *s, dnnl_engine_t *engine, dnnl_stream_t *stream,
                 struct sw_err *err)
{
    struct sw_cpu_stream *cs = sw_cpu_stream_of(s);

    if (!cs->dnnl) {
        struct context *c = sw_calloc(1, sizeof *c);
        if (!c)
            return sw_err_nomem(err, "oneDNN context", sizeof *c);

        int rc = init_context(c, err);
        if (rc != SW_OK) {
            free_context(c);
            return rc;
        }

        cs->dnnl = c;
        cs->dnnl_free = free_context;
    }

    struct context *c = cs->dnnl;
    *engine = c->engine;
    *stream = c->stream;

    return SW_OK;
}

struct sw_dnnl_layout sw_dnnl_chosen(const_dnnl_primitive_desc_t pd, dnnl_query_t what)
{
    return (struct sw_dnnl_layout){.chosen = dnnl_primitive_desc_query_md(pd, what, 0)};
}

struct sw_dnnl_layout sw_dnnl_workspace(const_dnnl_primitive_desc_t pd, size_t *bytes)
{
    struct sw_dnnl_layout saved = sw_dnnl_chosen(pd, dnnl_query_workspace_md);

    *bytes = saved.chosen ? dnnl_memory_desc_get_size(saved.chosen) : 0;
    return *bytes > 0 ? saved : (struct sw_dnnl_layout){0};
}

const char *sw_dnnl_impl(const_dnnl_primitive_desc_t pd)
{
    const char *name = "?";
    if (dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &name) != dnnl_success)
        return "?";
    return name;
}

int sw_dnnl_attr(bool relu, dnnl_primitive_attr_t *attr, struct sw_err *err)
{
    dnnl_post_ops_t post = NULL;
    dnnl_status_t st = dnnl_primitive_attr_create(attr);

    if (st == dnnl_success)
        st = dnnl_primitive_attr_set_scratchpad_mode(*attr, dnnl_scratchpad_mode_user);

    if (st == dnnl_success && relu) {
        st = dnnl_post_ops_create(&post);
        if (st == dnnl_success)
            st = sw_dnnl_append_relu(post);
        if (st == dnnl_success)
            st = dnnl_primitive_attr_set_post_ops(*attr, post);
        if (post)
            dnnl_post_ops_destroy(post);
    }

    return sw_dnnl_check(st, "preparing attributes", err);
}

int sw_dnnl_need_room(struct sw_err *err)
{
    return sw_cpu_need_room("code that oneDNN compiles", 48 << 20, err);
}

static int create(dnnl_primitive_t *out, const_dnnl_primitive_desc_t pd, const char *what,
                  struct sw_err *err)
{
    int rc = sw_dnnl_need_room(err);
    if (rc != SW_OK)
        return rc;
    return sw_dnnl_check(dnnl_primitive_create(out, pd), what, err);
}

static int make_memory(struct sw_dnnl_op *op, const sw_dnnl_md *md, dnnl_memory_t *out,
                       struct sw_err *err)
{
    return sw_dnnl_check(dnnl_memory_create(out, md, op->engine, DNNL_MEMORY_NONE),
                         "creating a memory object", err);
}

static int make_reorder(struct sw_dnnl_op *op, struct sw_dnnl_port *port, const sw_dnnl_md *inner,
                        const sw_dnnl_md *outer, struct sw_err *err)
{
    const sw_dnnl_md *from = port->output ? inner : outer;
    const sw_dnnl_md *to = port->output ? outer : inner;
    dnnl_primitive_desc_t pd = NULL;

    int rc = sw_dnnl_check(
        dnnl_reorder_primitive_desc_create(&pd, from, op->engine, to, op->engine, NULL),
        "preparing a reorder", err);
    if (rc != SW_OK)
        goto out;
    rc = create(&port->reorder, pd, "creating a reorder", err);
    if (rc != SW_OK)
        goto out;

    rc = make_memory(op, outer, &port->outer, err);
    port->scratch_offset = op->scratch_bytes;
    op->scratch_bytes += sw_aligned(dnnl_memory_desc_get_size(inner), 64);

out:
    if (pd)
        dnnl_primitive_desc_destroy(pd);
    return rc;
}

static int make_port(struct sw_dnnl_op *op, struct sw_dnnl_port *port, const sw_dnnl_md *inner,
                     const sw_dnnl_md *outer, const sw_dnnl_md *view, struct sw_err *err)
{
    int rc = make_memory(op, inner, &port->inner, err);
    if (rc != SW_OK)
        return rc;

    if (outer && !dnnl_memory_desc_equal(inner, outer)) {
        rc = make_reorder(op, port, inner, outer, err);
        if (rc != SW_OK)
            return rc;
    }

    return view ? make_memory(op, view, &port->view, err) : SW_OK;
}

static int add_port(struct sw_dnnl_op *op, const struct sw_dnnl_port_spec *spec, struct sw_err *err)
{
    struct sw_dnnl_port *port = &op->port[op->port_count++];
    sw_dnnl_md *inner = NULL, *outer = NULL, *view = NULL;

    *port = (struct sw_dnnl_port){.arg = spec->arg, .slot = spec->slot, .output = spec->output};

    dnnl_status_t st = sw_dnnl_md_new(&spec->inner, &inner);
    if (st == dnnl_success)
        st = sw_dnnl_md_new(&spec->outer, &outer);
    if (st == dnnl_success)
        st = sw_dnnl_md_new(&spec->view, &view);

    int rc = sw_dnnl_check(st, "describing a layout", err);
    if (rc == SW_OK)
        rc = make_port(op, port, inner, outer, view, err);

    sw_dnnl_md_free(inner);
    sw_dnnl_md_free(outer);
    sw_dnnl_md_free(view);

    return rc;
}

int sw_dnnl_op_init(struct sw_dnnl_op *op, struct sw_stream *s, const_dnnl_primitive_desc_t pd,
                    const struct sw_dnnl_port_spec *ports, int count, struct sw_err *err)
{
    memset(op, 0, sizeof *op);

    int rc = sw_dnnl_open(s, &op->engine, &op->stream, err);
    if (rc != SW_OK)
        return rc;
    rc = create(&op->primitive, pd, "creating a primitive", err);
    if (rc != SW_OK)
        return rc;

    const sw_dnnl_md *md = sw_dnnl_chosen(pd, dnnl_query_scratchpad_md).chosen;
    size_t bytes = md ? dnnl_memory_desc_get_size(md) : 0;
    if (bytes > 0) {
        op->scratch_bytes = sw_aligned(bytes, 64);
        rc = make_memory(op, md, &op->scratchpad, err);
        if (rc != SW_OK)
            return rc;
    }

    for (int i = 0; i < count; i++) {
        if (sw_dnnl_is_empty(&ports[i].inner))
            continue;

        rc = add_port(op, &ports[i], err);
        if (rc != SW_OK)
            return rc;
    }

    return SW_OK;
}

static int set_handle(dnnl_memory_t memory, void **last, void *pointer, struct sw_err *err)
{
    if (*last == pointer)
        return SW_OK;
    *last = pointer;
    return sw_dnnl_check(dnnl_memory_set_data_handle(memory, pointer), "setting a pointer", err);
}

static int run_reorder(struct sw_dnnl_op *op, struct sw_dnnl_port *port, struct sw_err *err)
{
    dnnl_exec_arg_t args[2] = {
        {DNNL_ARG_FROM, port->output ? port->inner : port->outer},
        {DNNL_ARG_TO, port->output ? port->outer : port->inner},
    };

    return sw_dnnl_check(dnnl_primitive_execute(port->reorder, op->stream, 2, args), "reorder",
                         err);
}

static int set_port_pointers(struct sw_dnnl_port *port, void *const *array, struct sw_err *err)
{
    void *outer = array[port->slot], *inner = outer;

    if (port->reorder) {
        int rc = set_handle(port->outer, &port->handle_outer, outer, err);
        if (rc != SW_OK)
            return rc;
        inner = (char *)array[SW_PLAN_SCRATCH] + port->scratch_offset;
    }

    if (port->view) {
        int rc = set_handle(port->view, &port->handle_view, inner, err);
        if (rc != SW_OK)
            return rc;
    }

    return set_handle(port->inner, &port->handle, inner, err);
}

int sw_dnnl_op_run(struct sw_dnnl_op *op, const struct sw_plan_args *a, struct sw_err *err)
{
    dnnl_exec_arg_t args[SW_DNNL_PORTS + 1];
    void *array[SW_PLAN_ARRAYS];
    int n = 0;

    int rc = op->has_run ? SW_OK : sw_dnnl_need_room(err);
    if (rc != SW_OK)
        return rc;

    op->has_run = true;
    sw_plan_list(a, array);
    for (int i = 0; i < op->port_count; i++) {
        struct sw_dnnl_port *port = &op->port[i];

        rc = set_port_pointers(port, array, err);
        if (rc != SW_OK)
            return rc;

        if (port->reorder && !port->output) {
            rc = run_reorder(op, port, err);
            if (rc != SW_OK)
                return rc;
        }

        args[n++] = (dnnl_exec_arg_t){port->arg, port->view ? port->view : port->inner};
    }

    if (op->scratchpad) {
        rc = set_handle(op->scratchpad, &op->scratchpad_handle, a->scratch, err);
        if (rc != SW_OK)
            return rc;
        args[n++] = (dnnl_exec_arg_t){DNNL_ARG_SCRATCHPAD, op->scratchpad};
    }

    rc = sw_dnnl_check(dnnl_primitive_execute(op->primitive, op->stream, n, args),
                       "running a primitive", err);
    if (rc != SW_OK)
        return rc;

    for (int i = 0; i < op->port_count; i++) {
        if (!op->port[i].reorder || !op->port[i].output)
            continue;

        rc = run_reorder(op, &op->port[i], err);
        if (rc != SW_OK)
            return rc;
    }

    return SW_OK;
}

void sw_dnnl_op_fini(struct sw_dnnl_op *op)
{
    for (int i = 0; i < op->port_count; i++) {
        struct sw_dnnl_port *port = &op->port[i];

        if (port->reorder)
            dnnl_primitive_destroy(port->reorder);
        if (port->outer)
            dnnl_memory_destroy(port->outer);
        if (port->view)
            dnnl_memory_destroy(port->view);
        if (port->inner)
            dnnl_memory_destroy(port->inner);
    }

    if (op->scratchpad)
        dnnl_memory_destroy(op->scratchpad);
    if (op->primitive)
        dnnl_primitive_destroy(op->primitive);
    memset(op, 0, sizeof *op);
}

#define TEXT_OF_(x) #x
#define TEXT_OF(x) TEXT_OF_(x)

const char *sw_cpu_dnnl_version(void)
{
    return "oneDNN " TEXT_OF(DNNL_VERSION_MAJOR) "." TEXT_OF(DNNL_VERSION_MINOR) "." TEXT_OF(
        DNNL_VERSION_PATCH);
}
