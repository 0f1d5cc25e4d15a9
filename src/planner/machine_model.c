/* Paths through the machine model: up to the closest common hub and down again, or over the link of
 * a pair. */
#include "planner/machine_model.h"
#include "base/os.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

_Static_assert(SW_PATH_LINKS >= 2 * SW_MODEL_DEPTH, "a path up to the root and down");

void sw_machine_model_free(struct sw_machine_model *m)
{
    if (!m)
        return;

    sw_free(m->device);
    sw_free(m->hub);
    sw_free(m->pair);
    sw_free(m);
}

/* ---- Links ---- */

int sw_machine_model_links(const struct sw_machine_model *m)
{
    return 2 * (m->hub_count + m->pair_count);
}

double sw_machine_model_rate(const struct sw_machine_model *m, int link)
{
    const int i = link / 2;
    const double rate = i < m->hub_count ? m->hub[i].bytes_per_s.value
                                         : m->pair[i - m->hub_count].bytes_per_s.value;
    return rate > 0 ? rate : (double)INFINITY;
}

double sw_machine_model_latency(const struct sw_machine_model *m, int link)
{
    const int i = link / 2;
    return i < m->hub_count ? m->hub[i].latency_s : m->pair[i - m->hub_count].latency_s;
}

const char *sw_machine_model_link_name(const struct sw_machine_model *m, int link, char out[80])
{
    const int i = link / 2;
    const bool back = link % 2;

    if (i < m->hub_count) {
        snprintf(out, 80, "%s, %s", m->hub[i].name, back ? "receiving" : "sending");
        return out;
    }

    const struct sw_pair_model *p = &m->pair[i - m->hub_count];
    snprintf(out, 80, "%.36s to %.36s", m->device[back ? p->b : p->a].name,
             m->device[back ? p->a : p->b].name);
    return out;
}

/* ---- Paths ---- */

static int common_hub(const struct sw_machine_model *m, int a, int b)
{
    while (a != b) {
        if (a > b)
            a = m->hub[a].parent;
        else
            b = m->hub[b].parent;
    }

    return a;
}

/* The hub itself or the closest one above it that has memory; the root, if none has. */
static int memory_hub(const struct sw_machine_model *m, int hub)
{
    while (!m->hub[hub].memory && m->hub[hub].parent >= 0)
        hub = m->hub[hub].parent;
    return hub;
}

/* The highest hub of a host: the first one, since parents come first. */
static int host_hub(const struct sw_machine_model *m, int host)
{
    int hub = 0;
    while (m->hub[hub].host != host)
        hub++;
    return hub;
}

/* Adds a copy over links [first, end) of the path to its latency; returns its seconds per byte. */
static double add_copy(const struct sw_machine_model *m, struct sw_model_path *p, int first,
                       int end)
{
    double slowest = 0, latency = 0;

    for (int i = first; i < end; i++) {
        slowest = fmax(slowest, 1 / sw_machine_model_rate(m, p->link[i]));
        latency = fmax(latency, sw_machine_model_latency(m, p->link[i]));
    }

    p->latency_s += latency;
    return slowest;
}

/* The path from hub to hub that turns round at `top`, an ancestor of both. */
static struct sw_model_path path_over(const struct sw_machine_model *m, int from, int to, int top,
                                      bool stops)
{
    struct sw_model_path p = {.count = 0};
    int down = 0;

    for (int h = from; h != top; h = m->hub[h].parent)
        p.link[p.count++] = 2 * h;
    const int up = p.count;

    for (int h = to; h != top; h = m->hub[h].parent)
        down++;
    p.count += down;
    for (int h = to, i = p.count; h != top; h = m->hub[h].parent)
        p.link[--i] = 2 * h + 1;

    p.stop = stops ? up : p.count;

    const double before_s = add_copy(m, &p, 0, p.stop), after_s = add_copy(m, &p, p.stop, p.count);
    p.bytes_per_s = 1 / (before_s + after_s);
    return p;
}

static int by_devices(const void *a, const void *b)
{
    const struct sw_pair_model *x = a, *y = b;
    return x->a != y->a ? x->a - y->a : x->b - y->b;
}

/* The link of a pair, or NULL. */
static const struct sw_pair_model *find_pair(const struct sw_machine_model *m, int a, int b)
{
    const struct sw_pair_model pair = {.a = a < b ? a : b, .b = a < b ? b : a};

    if (m->pair_count == 0)
        return NULL;
    return bsearch(&pair, m->pair, (size_t)m->pair_count, sizeof pair, by_devices);
}

static struct sw_model_path path_of_pair(const struct sw_machine_model *m, int pair, bool back)
{
    const int link = 2 * (m->hub_count + pair) + back;

    return (struct sw_model_path){.link = {link},
                                  .count = 1,
                                  .stop = 1,
                                  .bytes_per_s = sw_machine_model_rate(m, link),
                                  .latency_s = m->pair[pair].latency_s};
}

struct sw_model_path sw_machine_model_staged_path(const struct sw_machine_model *m, int from,
                                                  int to)
{
    const struct sw_device_model *a = &m->device[from], *b = &m->device[to];

    if (from == to || a->host != b->host || a->host_memory || b->host_memory)
        return sw_machine_model_path(m, from, to);
    return path_over(m, a->hub, b->hub, memory_hub(m, common_hub(m, a->hub, b->hub)), true);
}

struct sw_model_path sw_machine_model_path(const struct sw_machine_model *m, int from, int to)
{
    const struct sw_device_model *a = &m->device[from], *b = &m->device[to];
    const bool same_host = a->host == b->host;
    const int common = common_hub(m, a->hub, b->hub);

    const struct sw_pair_model *pair = find_pair(m, from, to);

    if (pair)
        return path_of_pair(m, (int)(pair - m->pair), pair->a == to);
    if (from == to || (same_host && a->host_memory && b->host_memory))
        return (struct sw_model_path){.bytes_per_s = (double)INFINITY};
    if (!same_host || m->peers || a->host_memory || b->host_memory)
        return path_over(m, a->hub, b->hub, common, false);
    return path_over(m, a->hub, b->hub, memory_hub(m, common), true);
}

/* The hub whose memory of the host the device uses. */
static int hub_of_memory(const struct sw_machine_model *m, int device, int host)
{
    const struct sw_device_model *d = &m->device[device];
    return d->host == host ? memory_hub(m, d->hub) : host_hub(m, host);
}

struct sw_model_path sw_machine_model_to_host(const struct sw_machine_model *m, int device,
                                              int host)
{
    const int from = m->device[device].hub, to = hub_of_memory(m, device, host);
    return path_over(m, from, to, common_hub(m, from, to), false);
}

struct sw_model_path sw_machine_model_from_host(const struct sw_machine_model *m, int host,
                                                int device)
{
    const int from = hub_of_memory(m, device, host), to = m->device[device].hub;
    return path_over(m, from, to, common_hub(m, from, to), false);
}
