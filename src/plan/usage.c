/* Counts what other runs use, and chooses cores beside them. The contract is in plan/usage.h. */
#include "plan/usage.h"

#include "base/text.h"
#include "plan/core_split.h"

static uint64_t gpu_bit(int gpu)
{
    return gpu < 64 ? UINT64_C(1) << gpu : 0;
}

/* The cores of the map that a run has, and its GPUs. */
static struct sw_core_set cores_of(const struct sw_machine *m, const struct sw_reserved *r)
{
    struct sw_core_set cores = {0};

    for (int i = 0; i < m->core_count; i++)
        if (sw_core_set_has(&r->cores, m->cores[i].number))
            sw_core_set_add(&cores, m->cores[i].number);
    return cores;
}

static uint64_t gpus_of(const struct sw_machine *m, const struct sw_reserved *r)
{
    uint64_t gpus = 0;

    for (int i = 0; i < m->gpu_count; i++)
        if (sw_reserved_has_gpu(r, sw_machine_gpu(m, i)->bus))
            gpus |= gpu_bit(i);
    return gpus;
}

void sw_usage_read(const struct sw_machine *m, const struct sw_registry *registry,
                   const struct sw_registration *own, struct sw_usage *out)
{
    bool before = true;

    *out = (struct sw_usage){0};
    for (int i = 0; i < sw_registry_count(registry); i++) {
        const struct sw_reserved *r = sw_registry_at(registry, i);

        if (sw_registration_is(own, r)) {
            before = false;
            continue;
        }

        if (r->state == SW_RESERVED_QUEUED && before) {
            out->queued_cores += r->wants_cores;
            out->queued_gpus += r->wants_gpus;
            out->queued_runs++;
        }

        if (r->state != SW_RESERVED_USED)
            continue;

        struct sw_core_set cores = cores_of(m, r);
        for (int c = sw_core_set_next(&cores, -1); c >= 0; c = sw_core_set_next(&cores, c))
            out->runs[c]++;
        out->used_gpus |= gpus_of(m, r);
    }
}

/* The cores of the map that exactly so many runs use. */
static struct sw_core_set cores_with(const struct sw_machine *m, const struct sw_usage *u, int runs)
{
    struct sw_core_set cores = {0};

    for (int i = 0; i < m->core_count; i++)
        if (u->runs[m->cores[i].number] == runs)
            sw_core_set_add(&cores, m->cores[i].number);
    return cores;
}

struct sw_core_set sw_usage_free_cores(const struct sw_machine *m, const struct sw_usage *u)
{
    return cores_with(m, u, 0);
}

int sw_usage_free_gpus(const struct sw_machine *m, const struct sw_usage *u)
{
    int count = 0;
    for (int i = 0; i < m->gpu_count; i++)
        count += !(u->used_gpus & gpu_bit(i));
    return count;
}

/* ---- Choosing ---- */

/* The node to take `count` cores from: the one with the fewest cores among those with enough, else
 * the one with the most. -1: no node of the mask has any. */
static int best_node(const struct sw_core_split *s, int count, uint64_t node_mask)
{
    int best = -1;

    for (int n = 0; n < s->nodes; n++) {
        if (!(node_mask >> n & 1) || s->cores[n] == 0)
            continue;

        bool fits = s->cores[n] >= count, best_fits = best >= 0 && s->cores[best] >= count;
        if (best < 0 || (fits && !best_fits) ||
            (fits == best_fits &&
             (fits ? s->cores[n] < s->cores[best] : s->cores[n] > s->cores[best])))
            best = n;
    }

    return best;
}

struct sw_core_set sw_usage_pick(const struct sw_machine *m, const struct sw_core_set *from,
                                 int count, uint64_t node_mask)
{
    struct sw_core_set left = *from, taken = {0};

    while (count > 0) {
        struct sw_core_split split = sw_core_split_of(m, &left);
        int node = best_node(&split, count, node_mask);

        if (node < 0)
            node = best_node(&split, count, ~UINT64_C(0));
        if (node < 0)
            break;

        struct sw_core_set some = sw_core_split_take(m, &left, UINT64_C(1) << node, count);
        count -= sw_core_set_count(&some);
        sw_core_set_add_all(&taken, &some);
    }

    return taken;
}

/* `count` cores of the set, so that each of the workers can have an equal number in one node. */
static struct sw_core_set pick_for(const struct sw_machine *m, const struct sw_core_set *from,
                                   int count, int workers)
{
    struct sw_core_set left = *from, taken = {0};
    struct sw_core_split split = sw_core_split_of(m, from);
    uint64_t nodes = 0;
    const int each = workers > 1 ? count / workers : 0;

    if (each > 0 && sw_core_split_fit(&split, workers, each) && split.size == each)
        for (int n = 0; n < split.nodes; n++) {
            struct sw_core_set some =
                sw_core_split_take(m, &left, UINT64_C(1) << n, each * split.sets[n]);
            nodes |= split.sets[n] > 0 ? UINT64_C(1) << n : 0;
            sw_core_set_add_all(&taken, &some);
        }

    struct sw_core_set rest = sw_usage_pick(m, &left, count - sw_core_set_count(&taken), nodes);
    sw_core_set_add_all(&taken, &rest);
    return taken;
}

struct sw_core_set sw_usage_choose(const struct sw_machine *m, const struct sw_usage *u,
                                   const struct sw_core_request *request)
{
    struct sw_core_set all = sw_machine_cores(m), chosen = sw_usage_free_cores(m, u);
    int least = request->cores ? request->cores : request->least;
    int free = sw_core_set_count(&chosen), left;

    if (free == 0 && !request->cores)
        return all;
    if (least > m->core_count)
        least = m->core_count;
    if (free >= least)
        return request->cores ? pick_for(m, &chosen, least, request->workers) : chosen;

    for (int runs = 1; (left = least - sw_core_set_count(&chosen)) > 0; runs++) {
        struct sw_core_set used = cores_with(m, u, runs);
        struct sw_core_set some = sw_usage_pick(m, &used, left, ~UINT64_C(0));
        sw_core_set_add_all(&chosen, &some);
    }

    return chosen;
}

/* ---- Who else ---- */

static void add_gpus(const struct sw_machine *m, uint64_t gpus, struct sw_bytes *out)
{
    const char *comma = "";

    for (int i = 0; i < m->gpu_count; i++)
        if (gpus & gpu_bit(i)) {
            sw_bytes_printf(out, "%s%d", comma, i);
            comma = ",";
        }
}

static void add_run(const struct sw_machine *m, const struct sw_reserved *r,
                    const struct sw_core_set *cores, uint64_t gpus, struct sw_bytes *out)
{
    struct sw_core_set common = cores_of(m, r), others = common;
    char text[128], title[128];

    sw_core_set_remove_all(&others, cores);
    sw_core_set_remove_all(&common, &others);
    gpus &= gpus_of(m, r);

    const int count = sw_core_set_count(&common) + __builtin_popcountll(gpus);
    if (count == 0)
        return;

    sw_bytes_add(out, out->length ? "; " : "");
    if (sw_core_set_count(&common) > 0)
        sw_bytes_printf(out, "core%s %s", sw_core_set_count(&common) == 1 ? "" : "s",
                        sw_core_set_text(&common, text, sizeof text));
    if (gpus) {
        sw_bytes_add(out, sw_core_set_count(&common) > 0 ? " and GPU " : "GPU ");
        add_gpus(m, gpus, out);
    }

    sw_bytes_printf(out, " %s used by %s", count == 1 ? "is" : "are",
                    sw_reserved_title(r, title, sizeof title));
}

void sw_usage_add_users(const struct sw_machine *m, const struct sw_registry *registry,
                        const struct sw_registration *own, const struct sw_core_set *cores,
                        uint64_t gpus, struct sw_bytes *out)
{
    for (int i = 0; i < sw_registry_count(registry); i++) {
        const struct sw_reserved *r = sw_registry_at(registry, i);
        if (r->state == SW_RESERVED_USED && !sw_registration_is(own, r))
            add_run(m, r, cores, gpus, out);
    }
}
