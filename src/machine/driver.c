/* Matches the machine map with the GPUs that the driver lists, by PCI address: those that the
 * driver lacks are hidden, those that the map lacks are added without a NUMA node. */
#include "machine/driver.h"
#include "base/os.h"
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* Addresses are compared without leading zeros of the domain, which may have four digits or eight.
 */
static bool same_bus(const char *a, const char *b)
{
    while (*a == '0')
        a++;
    while (*b == '0')
        b++;

    return strcasecmp(a, b) == 0;
}

static bool is_listed(const struct sw_device_info *list, int count, const char *bus)
{
    for (int i = 0; i < count; i++)
        if (same_bus(list[i].bus, bus))
            return true;
    return false;
}

static bool is_mapped(const struct sw_machine *m, const char *bus)
{
    for (int i = 0; i < m->gpu_count; i++)
        if (same_bus(sw_machine_gpu(m, i)->bus, bus))
            return true;
    return false;
}

/* A hidden GPU stays in the map as a bridge, since paths between other devices may lead through it.
 */
static void hide_others(struct sw_machine *m, const struct sw_device_info *list, int count)
{
    int kept = 0;

    for (int i = 0; i < m->gpu_count; i++) {
        struct sw_io *io = &m->io[m->gpus[i]];
        bool stays = is_listed(list, count, io->bus);

        io->gpu = stays ? kept : -1;
        io->kind = stays ? SW_IO_GPU : SW_IO_BRIDGE;
        if (stays)
            m->gpus[kept++] = m->gpus[i];
    }

    m->hidden_gpus += m->gpu_count - kept;
    m->gpu_count = kept;
}

static void add(struct sw_machine *m, const struct sw_device_info *gpu)
{
    struct sw_io io = {
        .kind = SW_IO_GPU, .parent = -1, .node = -1, .package = -1, .gpu = m->gpu_count};

    snprintf(io.bus, sizeof io.bus, "%s", gpu->bus);
    snprintf(io.name, sizeof io.name, "%s", gpu->name);
    m->gpus[m->gpu_count++] = m->io_count;
    m->io[m->io_count++] = io;
}

static int reserve(struct sw_machine *m, int more, struct sw_err *err)
{
    size_t ios = (size_t)(m->io_count + more), gpus = (size_t)(m->gpu_count + more);
    struct sw_io *io = sw_realloc_array(m->io, ios, sizeof *io);

    if (io)
        m->io = io;

    int *numbers = sw_realloc_array(m->gpus, gpus, sizeof *numbers);
    if (numbers)
        m->gpus = numbers;

    return io && numbers ? SW_OK : sw_err_nomem(err, "the machine map", ios * sizeof *io);
}

int sw_machine_match_gpus(struct sw_machine *m, const struct sw_device_info *list, int count,
                          struct sw_err *err)
{
    int before = m->gpu_count, rc = reserve(m, count, err);
    if (rc != SW_OK)
        return rc;

    hide_others(m, list, count);

    bool changed = m->gpu_count != before;
    for (int i = 0; i < count; i++) {
        if (is_mapped(m, list[i].bus))
            continue;
        add(m, &list[i]);
        changed = true;
    }

    if (changed) { /* its rows have the old GPU numbers */
        sw_free(m->nvlinks);
        m->nvlinks = NULL;
    }

    return SW_OK;
}

int sw_machine_ask_driver(struct sw_machine *m, const struct sw_driver *driver, struct sw_err *err)
{
    struct sw_device_info *list = NULL;

    int count = 0, rc = driver->enumerate(&list, &count, err);
    if (rc != SW_OK)
        goto out;

    rc = sw_machine_match_gpus(m, list, count, err);

out:
    sw_free(list);
    return rc;
}
