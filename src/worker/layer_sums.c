/* Sums of layers by the devices of a group. Each worker fetches the rows of the others by itself,
 * on its compute stream: the rows are so short that the time is that of the copies' start. */
#include "worker/layer_sums.h"

#include "base/os.h"
#include "device/op.h"
#include "kernels/ops/sums.h"

enum { TURNS = 2, LINE = 8 /* doubles: rows begin at multiples of 64 bytes */ };

struct member {
    struct sw_stream *stream;     /* borrowed */
    double *rows;                 /* owned device memory [TURNS][workers][room] */
    struct sw_event *made[TURNS]; /* owned: the worker's row of that turn is stored */
    int turn;
};

struct sw_layer_sums {
    struct member *member; /* owned [workers] */
    int workers;
    size_t room, bytes; /* of a row in doubles, and of a worker's memory */
};

static size_t room_of(int most)
{
    return ((size_t)most + LINE - 1) / LINE * LINE;
}

size_t sw_layer_sums_bytes(int workers, int most)
{
    return TURNS * (size_t)workers * room_of(most) * sizeof(double);
}

int sw_layer_sums_new(int workers, int most, struct sw_layer_sums **out, struct sw_err *err)
{
    struct sw_layer_sums *s = sw_calloc(1, sizeof *s);

    if (s)
        s->member = sw_calloc((size_t)workers, sizeof *s->member);
    if (!s || !s->member) {
        sw_free(s);
        return sw_err_nomem(err, "sums of layers", (size_t)workers * sizeof *s->member);
    }

    s->workers = workers;
    s->room = room_of(most);
    s->bytes = sw_layer_sums_bytes(workers, most);
    *out = s;

    return SW_OK;
}

void sw_layer_sums_free(struct sw_layer_sums *s)
{
    if (!s)
        return;

    for (int i = 0; i < s->workers; i++) {
        const struct member *m = &s->member[i];

        if (!m->stream)
            continue;
        for (int turn = 0; turn < TURNS; turn++)
            sw_event_free(m->stream->dev, m->made[turn]);
        sw_device_free(m->stream->dev, m->rows, s->bytes);
    }

    sw_free(s->member);
    sw_free(s);
}

int sw_layer_sums_join(struct sw_layer_sums *s, int worker, struct sw_stream *stream,
                       struct sw_err *err)
{
    struct member *m = &s->member[worker];
    void *memory;

    int rc = sw_device_alloc(stream->dev, s->bytes, "sums of layers", &memory, err);
    if (rc != SW_OK)
        return rc;

    m->rows = memory;
    m->stream = stream;
    sw_device_name(stream->dev, m->rows, s->bytes, "sums of layers");

    for (int turn = 0; turn < TURNS; turn++) {
        rc = sw_event_new(stream->dev, &m->made[turn], err);
        if (rc != SW_OK)
            return rc;
    }

    return SW_OK;
}

/* The place of a worker's row in the table of another one, or in its own. */
static double *row_in(const struct sw_layer_sums *s, const struct member *table, int turn,
                      int worker)
{
    return table->rows + (size_t)(turn * s->workers + worker) * s->room;
}

int sw_layer_sums_put(struct sw_layer_sums *s, int worker, const double *values, int count,
                      struct sw_err *err)
{
    struct member *m = &s->member[worker];

    int rc = sw_copy(m->stream, row_in(s, m, m->turn, worker), values,
                     (size_t)count * sizeof *values, err);
    if (rc != SW_OK)
        return rc;

    return sw_event_record(m->stream, m->made[m->turn], err);
}

static int fetch(const struct sw_layer_sums *s, const struct member *to, int worker, int count,
                 struct sw_err *err)
{
    const struct member *from = &s->member[worker];

    int rc = sw_event_wait(to->stream, from->made[to->turn], err);
    if (rc != SW_OK)
        return rc;

    return sw_copy_peer(to->stream, to->stream->dev, row_in(s, to, to->turn, worker),
                        from->stream->dev, row_in(s, from, to->turn, worker),
                        (size_t)count * sizeof(double), err);
}

int sw_layer_sums_take(struct sw_layer_sums *s, int worker, double *values, int count,
                       struct sw_err *err)
{
    struct member *m = &s->member[worker];
    const struct sw_leaf_sums_args sum = {.leaves = s->workers,
                                          .room = (int)s->room,
                                          .count = count,
                                          .rows = row_in(s, m, m->turn, 0),
                                          .sums = values};

    for (int i = 0; i < s->workers; i++) {
        if (i == worker)
            continue;

        int rc = fetch(s, m, i, count, err);
        if (rc != SW_OK)
            return rc;
    }

    m->turn ^= 1;
    return sw_op_run(m->stream, &sw_op_leaf_sums, &sum, err);
}
