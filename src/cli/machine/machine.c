/* Prints the machine map as text: packages, NUMA nodes, cores, caches, the PCIe tree, and a matrix
 * of the paths between GPUs with the abbreviations of nvidia-smi. The contract is in
 * cli/machine/machine.h. */
#include "cli/machine/machine.h"
#include "machine/machine.h"
#include <stdio.h>

static const char *plural(int count)
{
    return count == 1 ? "" : "s";
}

/* Caches are counted in powers of two. */
static const char *cache_text(int64_t bytes, char *out, size_t size)
{
    if (bytes >= 1 << 20)
        snprintf(out, size, "%.3g MiB", (double)bytes / (1 << 20));
    else
        snprintf(out, size, "%lld KiB", (long long)(bytes >> 10));

    return out;
}

/* ---- Processors -------------------------------------------------------------------------------
 */

static void print_head(struct sw_bytes *out, const struct sw_machine *m)
{
    char memory[32];
    int nodes = 0;

    for (int n = 0; n < m->node_count; n++)
        nodes += m->nodes[n].number >= 0;
    sw_bytes_printf(out,
                    "machine      %s%s%d package%s, %d NUMA node%s, %d core%s with %d hardware "
                    "thread%s, %s\n",
                    m->host, m->host[0] ? ": " : "", m->package_count, plural(m->package_count),
                    nodes, plural(nodes), m->core_count, plural(m->core_count), m->pu_count,
                    plural(m->pu_count), sw_human_bytes(memory, (double)m->memory_bytes));
    if (m->cpu_model[0])
        sw_bytes_printf(out, "             %s\n", m->cpu_model);

    if (m->cpu_quota > 0)
        sw_bytes_printf(out,
                        "             cgroup quota of %.3g CPUs: at most %d computing "
                        "threads\n",
                        m->cpu_quota, sw_machine_threads(m));

    if (m->hidden_pus > 0)
        sw_bytes_printf(out,
                        "             %d more hardware thread%s hidden by a cpuset or taskset\n",
                        m->hidden_pus, plural(m->hidden_pus));
}

/* ", 2 hardware threads each", or "" where some have more than others. */
static void print_threads(struct sw_bytes *out, const struct sw_machine *m,
                          const struct sw_core_set *cores)
{
    int each = 0;

    for (int i = 0; i < m->core_count; i++) {
        if (!sw_core_set_has(cores, m->cores[i].number))
            continue;
        if (each && m->cores[i].pus != each)
            return;

        each = m->cores[i].pus;
    }

    sw_bytes_printf(out, ", %d hardware thread%s each", each, plural(each));
}

static void print_caches(struct sw_bytes *out, const struct sw_machine *m,
                         const struct sw_core_set *near)
{
    bool printed = false; /* all level-2 caches are alike and were printed at once */

    for (int i = 0; i < m->cache_count; i++) {
        const struct sw_cache *c = &m->caches[i];
        char size[32], cores[128];
        if (!sw_core_set_overlaps(&c->cores, near))
            continue;

        if (c->level > 2)
            sw_bytes_printf(out, "    L%d %s: cores %s\n", c->level,
                            cache_text(c->bytes, size, sizeof size),
                            sw_core_set_text(&c->cores, cores, sizeof cores));
        else if (!printed && sw_core_set_count(&c->cores) == 1)
            sw_bytes_printf(out, "    L2 %s for each core\n",
                            cache_text(c->bytes, size, sizeof size));
        else if (!printed)
            sw_bytes_printf(out, "    L2 %s for every %d cores\n",
                            cache_text(c->bytes, size, sizeof size), sw_core_set_count(&c->cores));

        printed |= c->level == 2;
    }
}

/* ---- Devices ----------------------------------------------------------------------------------
 */

static void print_device(struct sw_bytes *out, const struct sw_io *io)
{
    char rate[32];

    switch (io->kind) {
    case SW_IO_HOST_BRIDGE:
        sw_bytes_printf(out, "host bridge %s", io->bus);
        break;
    case SW_IO_BRIDGE:
        sw_bytes_printf(out, "PCIe bridge %s", io->bus);
        break;
    case SW_IO_GPU:
        sw_bytes_printf(out, "GPU %d %s: %s", io->gpu, io->bus, io->name);
        break;
    case SW_IO_NIC:
        sw_bytes_printf(out, "network %s: %s", io->bus, io->name[0] ? io->name : "--");
        break;
    }

    if (io->link_gb_per_s > 0)
        sw_bytes_printf(out, ", PCIe %s", sw_human_unit(rate, io->link_gb_per_s * 1e9, "B/s"));
    sw_bytes_add(out, "\n");
}

static void print_below(struct sw_bytes *out, const struct sw_machine *m, int parent, int node,
                        int indent)
{
    for (int i = parent + 1; i < m->io_count; i++) {
        if (m->io[i].parent != parent || m->io[i].node != node)
            continue;

        sw_bytes_printf(out, "%*s", indent, "");
        print_device(out, &m->io[i]);
        print_below(out, m, i, node, indent + 2);
    }
}

/* ---- The tree ---------------------------------------------------------------------------------
 */

static void print_node(struct sw_bytes *out, const struct sw_machine *m, int n)
{
    const struct sw_numa_node *node = &m->nodes[n];
    char memory[32], cores[128];

    if (node->number >= 0)
        sw_bytes_printf(out, "  NUMA node %d: %s, ", node->number,
                        sw_human_bytes(memory, (double)node->memory_bytes));
    else
        sw_bytes_add(out, "  cores without a usable NUMA node: ");

    sw_bytes_printf(out, "core%s %s", plural(sw_core_set_count(&node->cores)),
                    sw_core_set_text(&node->cores, cores, sizeof cores));
    print_threads(out, m, &node->cores);
    sw_bytes_add(out, "\n");
    print_caches(out, m, &node->cores);
    print_below(out, m, -1, n, 4);
}

static bool any_io(const struct sw_machine *m, int node)
{
    for (int i = 0; i < m->io_count; i++)
        if (m->io[i].node == node)
            return true;
    return false;
}

static void print_tree(struct sw_bytes *out, const struct sw_machine *m)
{
    int package = -1;

    for (int n = 0; n < m->node_count; n++) {
        if (n == 0 || m->nodes[n].package != package)
            sw_bytes_printf(out, "package %d\n", m->nodes[n].package);
        package = m->nodes[n].package;
        print_node(out, m, n);
    }

    if (any_io(m, -1)) {
        sw_bytes_add(out, "not near a single NUMA node\n");
        print_below(out, m, -1, -1, 2);
    }
}

/* ---- How GPUs reach each other ----------------------------------------------------------------
 */

enum { CELL = 7 };

/* The names of the paths in nvidia-smi. */
static const char *const short_names[] = {
    [SW_PATH_SELF] = "X",       [SW_PATH_SWITCH] = "PIX", [SW_PATH_HOST_BRIDGE] = "PHB",
    [SW_PATH_PACKAGE] = "NODE", [SW_PATH_ACROSS] = "SYS",
};

static void print_pair(struct sw_bytes *out, const struct sw_machine *m, int a, int b)
{
    char text[32];
    double nvlink = a == b ? 0 : sw_gpu_nvlink(m, a, b);

    if (nvlink > 0)
        snprintf(text, sizeof text, "NV%.0f", nvlink);
    else
        snprintf(text, sizeof text, "%s", short_names[sw_gpu_path(m, a, b)]);

    sw_bytes_printf(out, "%*s", CELL, text);
}

static void print_legend(struct sw_bytes *out, const struct sw_machine *m)
{
    bool seen[SW_PATH_ACROSS + 1] = {false}, nvlink = false;

    for (int a = 0; a < m->gpu_count; a++) {
        for (int b = 0; b < a; b++) {
            bool linked = sw_gpu_nvlink(m, a, b) > 0;
            nvlink |= linked;
            seen[sw_gpu_path(m, a, b)] |= !linked;
        }
    }

    if (nvlink)
        sw_bytes_add(out, "  NV150  NVLink, 150 GB/s one way\n");

    for (int path = SW_PATH_SWITCH; path <= SW_PATH_ACROSS; path++)
        if (seen[path])
            sw_bytes_printf(out, "  %-5s  %s\n", short_names[path],
                            sw_gpu_path_text((enum sw_gpu_path)path));

    if (!m->nvlinks)
        sw_bytes_add(out, "  NVLink: unknown\n");
}

static void print_gpus(struct sw_bytes *out, const struct sw_machine *m)
{
    if (m->hidden_gpus > 0)
        sw_bytes_printf(out, "CUDA_VISIBLE_DEVICES hides %d GPU%s\n", m->hidden_gpus,
                        plural(m->hidden_gpus));

    if (m->gpu_count == 0)
        sw_bytes_add(out, "no CUDA device\n");
    else if (m->here)
        sw_bytes_printf(out, "%d GPU%s, not usable: this program is built without CUDA\n",
                        m->gpu_count, plural(m->gpu_count));

    if (m->gpu_count < 2)
        return;

    sw_bytes_printf(out, "GPU links\n%*s", CELL, "");
    for (int b = 0; b < m->gpu_count; b++)
        sw_bytes_printf(out, "%*d", CELL, b);

    for (int a = 0; a < m->gpu_count; a++) {
        sw_bytes_printf(out, "\n%*d", CELL, a);
        for (int b = 0; b < m->gpu_count; b++)
            print_pair(out, m, a, b);
    }

    sw_bytes_add(out, "\n");
    print_legend(out, m);
}

void sw_print_machine(struct sw_bytes *out, const struct sw_machine *m)
{
    print_head(out, m);
    print_tree(out, m);
    print_gpus(out, m);
}
