/* Draws a machine as boxes: packages, NUMA nodes, cores and GPUs, colored by the workers on
 * them. */
#include "base/os.h"
#include "cli/plot/picture.h"
#include "ui/plot_boxes.h"
#include <string.h>

enum { TEXT_BYTES = 96 };

struct drawing {
    struct sw_nested_box *boxes; /* owned */
    char (*texts)[TEXT_BYTES];   /* owned: titles and notes of the boxes, two each */
    int count, room;
    const struct sw_machine *m;
    const struct sw_placement *p;
};

static int add_box(struct drawing *d, int parent, int colour, bool down, const char *title,
                   const char *note)
{
    int i = d->count++;
    char *t = d->texts[2 * i], *n = d->texts[2 * i + 1];

    snprintf(t, TEXT_BYTES, "%.*s", TEXT_BYTES - 1, title);
    snprintf(n, TEXT_BYTES, "%.*s", TEXT_BYTES - 1, note);
    d->boxes[i] = (struct sw_nested_box){
        .title = t, .note = n, .parent = parent, .colour = colour, .down = down};

    return i;
}

/* "w0.1" for worker0.1. */
static void add_short(char *out, const char *role)
{
    size_t n = strlen(out);
    const char *number = role + strcspn(role, "0123456789");
    snprintf(out + n, TEXT_BYTES - n, "%s%c%s", n ? " " : "", role[0], number);
}

/* Returns the color of the first worker on a core, -1 without one, and the short names of all on
 * it. */
static int find_core_worker(const struct drawing *d, int core, char *out)
{
    int colour = -1;

    out[0] = 0;
    for (int i = 0; i < d->p->worker_count + d->p->server_count; i++) {
        if (!sw_core_set_has(&d->p->rows[i].cores, core))
            continue;

        add_short(out, d->p->rows[i].role);
        if (colour < 0)
            colour = i;
    }

    return colour;
}

static int find_gpu_worker(const struct drawing *d, int gpu, char *out)
{
    int colour = -1;

    out[0] = 0;
    for (int i = 0; i < d->p->worker_count; i++) {
        if (d->p->rows[i].gpu != gpu)
            continue;

        add_short(out, d->p->rows[i].role);
        if (colour < 0)
            colour = i;
    }

    return colour;
}

static void add_cores(struct drawing *d, int parent, const struct sw_core_set *cores)
{
    char title[TEXT_BYTES], note[TEXT_BYTES];

    for (int c = sw_core_set_next(cores, -1); c >= 0; c = sw_core_set_next(cores, c)) {
        int colour = find_core_worker(d, c, note);
        snprintf(title, sizeof title, "core %d", c);
        add_box(d, parent, colour, false, title, note);
    }
}

/* Adds the GPUs and network cards near a node; -1: those near no node. */
static void add_io(struct drawing *d, int parent, int node)
{
    char title[TEXT_BYTES], note[TEXT_BYTES];

    for (int i = 0; i < d->m->io_count; i++) {
        const struct sw_io *io = &d->m->io[i];
        if (io->node != node)
            continue;

        if (io->kind == SW_IO_GPU) {
            int colour = find_gpu_worker(d, io->gpu, note);
            snprintf(title, sizeof title, "GPU %d", io->gpu);
            add_box(d, parent, colour, false, title, *note ? note : io->bus);
        } else if (io->kind == SW_IO_NIC) {
            add_box(d, parent, -1, false, "network", io->name[0] ? io->name : io->bus);
        }
    }
}

static void add_machine(struct drawing *d)
{
    char title[TEXT_BYTES], note[TEXT_BYTES], bytes[32];
    const struct sw_machine *m = d->m;

    snprintf(title, sizeof title, "%s%s%d cores, %s", m->host, m->host[0] ? ": " : "",
             m->core_count, sw_human_bytes(bytes, (double)m->memory_bytes));

    int machine = add_box(d, -1, -1, true, title, m->cpu_model), package = -1;
    for (int n = 0; n < m->node_count; n++) {
        const struct sw_numa_node *node = &m->nodes[n];

        if (n == 0 || node->package != m->nodes[n - 1].package) {
            snprintf(title, sizeof title, "package %d", node->package);
            package = add_box(d, machine, -1, true, title, "");
        }

        if (node->number >= 0)
            snprintf(title, sizeof title, "NUMA node %d", node->number);
        else
            snprintf(title, sizeof title, "cores without a usable NUMA node");

        snprintf(note, sizeof note, "%s", sw_human_bytes(bytes, (double)node->memory_bytes));

        int box = add_box(d, package, -1, false, title, node->number >= 0 ? note : "");
        add_cores(d, box, &node->cores);
        add_io(d, box, n);
    }

    add_io(d, machine, -1);
}

/* Adds a box with every worker and server, its device and cores. */
static void add_roles(struct drawing *d)
{
    char note[TEXT_BYTES], cores[48];
    int roles = add_box(d, -1, -1, false, "workers and servers", "");

    for (int i = 0; i < d->p->worker_count + d->p->server_count; i++) {
        const struct sw_placement_row *r = &d->p->rows[i];
        snprintf(note, sizeof note, "%s, cores %s", r->device,
                 sw_core_set_text(&r->cores, cores, sizeof cores));
        add_box(d, roles, i < d->p->worker_count ? i : -1, false, r->role, note);
    }
}

int sw_draw_placement(const char *path, const struct sw_machine *m, const struct sw_placement *p,
                      struct sw_err *err)
{
    struct drawing d = {.m = m, .p = p};
    struct sw_plot *plot = NULL;

    d.room =
        2 + 2 * m->node_count + m->core_count + m->io_count + p->worker_count + p->server_count;
    d.boxes = sw_calloc((size_t)d.room, sizeof *d.boxes);
    d.texts = sw_calloc(2 * (size_t)d.room, sizeof *d.texts);

    int rc = d.boxes && d.texts ? SW_OK : sw_err_nomem(err, "boxes of a drawing", 0);
    if (rc == SW_OK) {
        add_machine(&d);
        add_roles(&d);
        struct sw_plot_size size = sw_nested_layout(d.boxes, d.count);
        rc = sw_plot_begin(&plot, path, sw_picture_format_of(path), (int)size.w, (int)size.h, err);
    }

    if (rc == SW_OK) {
        sw_nested_draw(plot, 0, 0, d.boxes, d.count);
        rc = sw_plot_end(plot, err);
    }

    sw_free(d.boxes);
    sw_free(d.texts);
    return rc;
}
