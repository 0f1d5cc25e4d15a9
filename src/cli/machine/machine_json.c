/* Writes the machine map as JSON. Keys are part of the interface of `singa-ws topo --json`; values
 * that are not known are null. cli/machine/machine.h declares the function. */
#include "base/json.h"
#include "cli/machine/machine.h"
#include "machine/machine.h"
#include <math.h>

/* null where it is not known. */
static void real_if(struct sw_json_writer *w, const char *key, double value, bool known)
{
    sw_json_real(w, key, known ? value : (double)NAN);
}

static void core_list(struct sw_json_writer *w, const struct sw_core_set *cores)
{
    sw_json_open_array(w, "cores");
    for (int c = sw_core_set_next(cores, -1); c >= 0; c = sw_core_set_next(cores, c))
        sw_json_int(w, NULL, c);
    sw_json_close_array(w);
}

static void nodes(struct sw_json_writer *w, const struct sw_machine *m)
{
    sw_json_open_array(w, "nodes");

    for (int n = 0; n < m->node_count; n++) {
        const struct sw_numa_node *node = &m->nodes[n];

        sw_json_open_object(w, NULL);
        sw_json_int(w, "numa", node->number);
        sw_json_int(w, "os_number", node->os_number);
        sw_json_int(w, "package", node->package);
        sw_json_int(w, "memory_bytes", node->memory_bytes);
        core_list(w, &node->cores);
        sw_json_close_object(w);
    }

    sw_json_close_array(w);
}

static void cores(struct sw_json_writer *w, const struct sw_machine *m)
{
    sw_json_open_array(w, "cores");

    for (int i = 0; i < m->core_count; i++) {
        const struct sw_core *c = &m->cores[i];

        sw_json_open_object(w, NULL);
        sw_json_int(w, "core", c->number);
        sw_json_int(w, "package", c->package);
        sw_json_int(w, "numa", m->nodes[c->node].number);
        sw_json_int(w, "hardware_threads", c->pus);
        sw_json_close_object(w);
    }

    sw_json_close_array(w);
}

static void caches(struct sw_json_writer *w, const struct sw_machine *m)
{
    sw_json_open_array(w, "caches");

    for (int i = 0; i < m->cache_count; i++) {
        sw_json_open_object(w, NULL);
        sw_json_int(w, "level", m->caches[i].level);
        sw_json_int(w, "bytes", m->caches[i].bytes);
        core_list(w, &m->caches[i].cores);
        sw_json_close_object(w);
    }

    sw_json_close_array(w);
}

/* The PCIe tree as a flat array: `parent` is an index into it, null at the root. */
static void devices(struct sw_json_writer *w, const struct sw_machine *m)
{
    static const char *const kinds[] = {"host_bridge", "bridge", "gpu", "network"};

    sw_json_open_array(w, "pcie");

    for (int i = 0; i < m->io_count; i++) {
        const struct sw_io *io = &m->io[i];

        sw_json_open_object(w, NULL);
        sw_json_string(w, "kind", kinds[io->kind]);
        sw_json_string(w, "bus", io->bus);
        sw_json_string(w, "name", io->name[0] ? io->name : NULL);

        if (io->parent >= 0)
            sw_json_int(w, "parent", io->parent);
        else
            sw_json_string(w, "parent", NULL);

        sw_json_int(w, "numa", io->node >= 0 ? m->nodes[io->node].number : -1);
        sw_json_int(w, "package", io->package);
        real_if(w, "link_gb_per_s", io->link_gb_per_s, io->link_gb_per_s > 0);
        sw_json_close_object(w);
    }

    sw_json_close_array(w);
}

static void gpus(struct sw_json_writer *w, const struct sw_machine *m)
{
    sw_json_open_array(w, "gpus");

    for (int i = 0; i < m->gpu_count; i++) {
        const struct sw_io *io = sw_machine_gpu(m, i);

        sw_json_open_object(w, NULL);
        sw_json_int(w, "gpu", i);
        sw_json_string(w, "bus", io->bus);
        sw_json_string(w, "name", io->name);
        sw_json_int(w, "numa", io->node >= 0 ? m->nodes[io->node].number : -1);
        sw_json_close_object(w);
    }

    sw_json_close_array(w);
    sw_json_open_array(w, "gpu_links");

    for (int a = 0; a < m->gpu_count; a++) {
        for (int b = a + 1; b < m->gpu_count; b++) {
            double nvlink = sw_gpu_nvlink(m, a, b);

            sw_json_open_object(w, NULL);
            sw_json_int(w, "a", a);
            sw_json_int(w, "b", b);
            sw_json_string(w, "path", sw_gpu_path_name(sw_gpu_path(m, a, b)));
            real_if(w, "nvlink_gb_per_s", nvlink, nvlink >= 0);
            sw_json_close_object(w);
        }
    }

    sw_json_close_array(w);
}

void sw_json_machine(struct sw_json_writer *w, const struct sw_machine *m)
{
    sw_json_open_object(w, "machine");
    sw_json_string(w, "host", m->host[0] ? m->host : NULL);
    sw_json_string(w, "cpu_model", m->cpu_model[0] ? m->cpu_model : NULL);
    sw_json_bool(w, "here", m->here);
    sw_json_int(w, "packages", m->package_count);
    sw_json_int(w, "core_count", m->core_count);
    sw_json_int(w, "hardware_threads", m->pu_count);
    sw_json_int(w, "hidden_hardware_threads", m->hidden_pus);
    sw_json_int(w, "hidden_gpus", m->hidden_gpus);
    sw_json_int(w, "computing_threads", sw_machine_threads(m));
    real_if(w, "cpu_quota", m->cpu_quota, m->cpu_quota > 0);
    sw_json_int(w, "memory_bytes", m->memory_bytes);
    nodes(w, m);
    cores(w, m);
    caches(w, m);
    devices(w, m);
    gpus(w, m);
    sw_json_close_object(w);
}
