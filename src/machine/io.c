/* The PCIe tree of the machine map: finds GPUs and network cards among hwloc's objects, numbers the
 * GPUs as CUDA does, keeps the bridges where paths branch, adds NVLink from hwloc's distances, and
 * finds the closest common ancestor of two GPUs. */
#include "machine/io.h"
#include "base/os.h"
#include "base/str.h"
#include "machine/machine.h"
#include <hwloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NVIDIA = 0x10de, DISPLAY_CLASS = 0x03, NETWORK_CLASS = 0x02, INFINIBAND_CLASS = 0x0c06 };

/* State of the search. */
struct search {
    struct sw_machine *m;
    hwloc_obj_t *gpu; /* owned: all GPUs by bus id; later the visible ones by number */
    char (*uuid)[64]; /* owned: of all GPUs */
    int gpus;
    int64_t room; /* entries of m->io */
};

/* ---- GPUs -------------------------------------------------------------------------------------
 */

static bool is_gpu(hwloc_obj_t obj)
{
    return obj->type == HWLOC_OBJ_PCI_DEVICE && obj->attr->pcidev.vendor_id == NVIDIA &&
           obj->attr->pcidev.class_id >> 8 == DISPLAY_CLASS;
}

static bool is_nic(hwloc_obj_t obj)
{
    return obj->type == HWLOC_OBJ_PCI_DEVICE && (obj->attr->pcidev.class_id >> 8 == NETWORK_CLASS ||
                                                 obj->attr->pcidev.class_id == INFINIBAND_CLASS);
}

static uint64_t address_of(hwloc_obj_t obj)
{
    const struct hwloc_pcidev_attr_s *a = &obj->attr->pcidev;
    return (uint64_t)a->domain << 16 | (uint64_t)a->bus << 8 | (uint64_t)a->dev << 3 | a->func;
}

static void bus_text(hwloc_obj_t obj, char *out, size_t bytes)
{
    const struct hwloc_pcidev_attr_s *a = &obj->attr->pcidev;
    snprintf(out, bytes, "%04x:%02x:%02x.%01x", a->domain, a->bus, a->dev, a->func);
}

/* An info attribute of the device or of its OS devices (nvml0, eth0), or NULL. */
static const char *info_of(hwloc_obj_t device, const char *key)
{
    const char *value = hwloc_obj_get_info_by_name(device, key);
    for (hwloc_obj_t f = device->io_first_child; f && !value; f = f->next_sibling)
        value = hwloc_obj_get_info_by_name(f, key);
    return value;
}

/* Reads a line of the driver's /proc page about a GPU of this machine: "Model: \t\t NVIDIA H200".
 */
static void read_driver_page(const char *bus, const char *key, char *out, size_t bytes)
{
    char *text = NULL, *path = sw_format("/proc/driver/nvidia/gpus/%s/information", bus);
    size_t length;

    if (path && sw_os_read_file(path, 65536, &text, &length, NULL) == SW_OK) {
        const char *at = strstr(text, key);
        at = at ? at + strlen(key) : "";
        at += strspn(at, ": \t");
        snprintf(out, bytes, "%.*s", (int)strcspn(at, "\n"), at);
    }

    sw_free(text);
    sw_free(path);
}

static void find_text(const struct sw_machine *m, hwloc_obj_t gpu, const char *info,
                      const char *driver_key, char *out, size_t bytes)
{
    char bus[20];
    const char *text = info_of(gpu, info);

    out[0] = '\0';
    bus_text(gpu, bus, sizeof bus);

    if (text)
        snprintf(out, bytes, "%s", text);
    else if (m->here)
        read_driver_page(bus, driver_key, out, bytes);
}

static int collect_gpus(struct search *s, struct sw_err *err)
{
    int count = 0;
    hwloc_obj_t obj = NULL;

    while ((obj = hwloc_get_next_pcidev(s->m->topology, obj)))
        count += is_gpu(obj);
    s->gpu = sw_calloc((size_t)count + 1, sizeof(hwloc_obj_t));
    s->uuid = sw_calloc((size_t)count + 1, sizeof *s->uuid);
    if (!s->gpu || !s->uuid)
        return sw_err_nomem(err, "the machine map", (size_t)count * sizeof *s->uuid);

    while ((obj = hwloc_get_next_pcidev(s->m->topology, obj))) {
        int at = s->gpus;

        if (!is_gpu(obj))
            continue;

        for (; at > 0 && address_of(s->gpu[at - 1]) > address_of(obj); at--)
            s->gpu[at] = s->gpu[at - 1];
        s->gpu[at] = obj;
        s->gpus++;
    }

    for (int i = 0; i < count; i++)
        find_text(s->m, s->gpu[i], "NVIDIAUUID", "GPU UUID", s->uuid[i], sizeof s->uuid[i]);
    return SW_OK;
}

static int keep_visible(struct search *s, struct sw_err *err)
{
    size_t count = (size_t)s->gpus;
    hwloc_obj_t *all = s->gpu, *seen = sw_calloc(count + 1, sizeof(hwloc_obj_t));
    const char **uuid = sw_calloc(count + 1, sizeof(char *));
    int *order = sw_calloc(count + 1, sizeof *order), rc = SW_OK;

    if (seen && uuid && order) {
        for (int i = 0; i < s->gpus; i++)
            uuid[i] = s->uuid[i];

        const char *text = s->m->here ? getenv("CUDA_VISIBLE_DEVICES") : NULL;
        int visible = sw_gpus_visible(text, s->gpus, uuid, order);
        for (int i = 0; i < visible; i++)
            seen[i] = all[order[i]];
        s->m->hidden_gpus = s->gpus - visible;
        s->gpus = visible;
        s->gpu = seen;
        seen = all;
    } else {
        rc = sw_err_nomem(err, "the machine map", count * sizeof *order);
    }

    sw_free(seen);
    sw_free(uuid);
    sw_free(order);

    return rc;
}

static int gpu_number(const struct search *s, hwloc_obj_t obj)
{
    for (int i = 0; i < s->gpus; i++)
        if (s->gpu[i] == obj)
            return i;
    return -1;
}

/* ---- the tree ---------------------------------------------------------------------------------
 */

/* Counts the GPUs and network cards in the subtree of an object. */
static int count_below(const struct search *s, hwloc_obj_t obj)
{
    int count = is_nic(obj) || gpu_number(s, obj) >= 0;
    for (hwloc_obj_t c = obj->io_first_child; c; c = c->next_sibling)
        count += count_below(s, c);
    return count;
}

/* Whether paths branch at this bridge. A bridge with one branch is left out of the map. */
static bool is_branch_point(const struct search *s, hwloc_obj_t bridge)
{
    int branches = 0;
    for (hwloc_obj_t c = bridge->io_first_child; c; c = c->next_sibling)
        branches += count_below(s, c) > 0;
    return branches > 1;
}

/* Finds the NUMA node and package of an I/O object from the processors it is attached to. */
static void find_locality(const struct sw_machine *m, hwloc_obj_t obj, struct sw_io *io)
{
    hwloc_obj_t on = hwloc_get_non_io_ancestor_obj(m->topology, obj);
    int nodes = 0;

    for (int n = 0; n < m->node_count; n++) {
        int first = sw_core_set_next(&m->nodes[n].cores, -1);
        hwloc_obj_t core = hwloc_get_obj_by_depth(m->topology, m->core_depth, (unsigned)first);

        if (on->cpuset && hwloc_bitmap_intersects(on->cpuset, core->cpuset)) {
            io->node = n;
            nodes++;
        }
    }

    io->node = nodes == 1 ? io->node : -1;
    while (on && on->type != HWLOC_OBJ_PACKAGE)
        on = on->parent;
    io->package = on ? (int)on->logical_index : m->package_count == 1 ? m->cores[0].package : -1;
}

static void name_nic(hwloc_obj_t obj, char *out, size_t bytes)
{
    size_t n = 0;
    const char *model = hwloc_obj_get_info_by_name(obj, "PCIDevice");

    for (hwloc_obj_t f = obj->io_first_child; f && n < bytes; f = f->next_sibling)
        if (f->name)
            n += (size_t)snprintf(out + n, bytes - n, "%s%s", n ? " " : "", f->name);

    if (model && n < bytes)
        snprintf(out + n, bytes - n, "%s%s", n ? ", " : "", model);
}

static void name_gpu(const struct sw_machine *m, hwloc_obj_t obj, char *out, size_t bytes)
{
    const char *model = hwloc_obj_get_info_by_name(obj, "PCIDevice");

    find_text(m, obj, "GPUModel", "Model", out, bytes);

    if (!out[0] && model)
        snprintf(out, bytes, "%s", model);
    else if (!out[0])
        snprintf(out, bytes, "NVIDIA %04x:%04x", obj->attr->pcidev.vendor_id,
                 obj->attr->pcidev.device_id);
}

static void describe(const struct search *s, hwloc_obj_t obj, struct sw_io *io)
{
    bool from_host =
        obj->type == HWLOC_OBJ_BRIDGE && obj->attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_HOST;

    find_locality(s->m, obj, io);
    io->gpu = gpu_number(s, obj);
    io->kind = from_host      ? SW_IO_HOST_BRIDGE
               : io->gpu >= 0 ? SW_IO_GPU
               : is_nic(obj)  ? SW_IO_NIC
                              : SW_IO_BRIDGE;

    if (from_host)
        snprintf(io->bus, sizeof io->bus, "%04x:%02x", obj->attr->bridge.downstream.pci.domain,
                 obj->attr->bridge.downstream.pci.secondary_bus);
    else
        bus_text(obj, io->bus, sizeof io->bus);

    if (io->kind == SW_IO_GPU)
        name_gpu(s->m, obj, io->name, sizeof io->name);
    else if (io->kind == SW_IO_NIC)
        name_nic(obj, io->name, sizeof io->name);

    if (!from_host)
        io->link_gb_per_s = (double)obj->attr->pcidev.linkspeed;
}

/* Adds an I/O object and its subtree. */
static int add_io(struct search *s, hwloc_obj_t obj, int parent, struct sw_err *err)
{
    bool bridge = obj->type == HWLOC_OBJ_BRIDGE;
    bool host = bridge && obj->attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_HOST;

    if (count_below(s, obj) == 0)
        return SW_OK;

    if (!bridge || host || is_branch_point(s, obj)) {
        int rc = sw_grow(&s->m->io, sizeof *s->m->io, s->m->io_count, &s->room, 32,
                         "the machine map", err);
        if (rc != SW_OK)
            return rc;

        struct sw_io io = {.parent = parent, .node = -1};
        describe(s, obj, &io);
        parent = s->m->io_count;
        s->m->io[s->m->io_count++] = io;
        if (io.gpu >= 0)
            s->m->gpus[io.gpu] = parent;
    }

    for (hwloc_obj_t c = obj->io_first_child; c; c = c->next_sibling) {
        int rc = add_io(s, c, parent, err);
        if (rc != SW_OK)
            return rc;
    }

    return SW_OK;
}

/* I/O devices may be attached at any level of the processor tree. */
static int add_below(struct search *s, hwloc_obj_t processors, struct sw_err *err)
{
    for (hwloc_obj_t c = processors->first_child; c; c = c->next_sibling) {
        int rc = add_below(s, c, err);
        if (rc != SW_OK)
            return rc;
    }

    for (hwloc_obj_t c = processors->io_first_child; c; c = c->next_sibling) {
        int rc = add_io(s, c, -1, err);
        if (rc != SW_OK)
            return rc;
    }

    return SW_OK;
}

/* ---- NVLink -----------------------------------------------------------------------------------
 */

/* The GPU to which an object of hwloc's matrix belongs, or -1. */
static int gpu_of(const struct search *s, hwloc_obj_t obj)
{
    while (obj && obj->type == HWLOC_OBJ_OS_DEVICE)
        obj = obj->parent;
    return obj ? gpu_number(s, obj) : -1;
}

/* Adds the bandwidths between GPUs of hwloc's matrix (in MB/s) to the map's, and zeroes them in the
 * matrix. */
static void add_nvlinks(const struct search *s, struct hwloc_distances_s *d)
{
    for (unsigned i = 0; i < d->nbobjs; i++) {
        for (unsigned j = 0; j < d->nbobjs; j++) {
            int a = gpu_of(s, d->objs[i]), b = gpu_of(s, d->objs[j]);
            if (a < 0 || b < 0 || a == b)
                continue;

            s->m->nvlinks[a * s->gpus + b] += (double)d->values[i * d->nbobjs + j] * 1e-3;
            d->values[i * d->nbobjs + j] = 0;
        }
    }
}

/* Reads NVLink bandwidths if hwloc knows them (as in an export of a machine with NVML): direct
 * links between GPUs, and bandwidth through NVSwitches, which the transitive closure gives. The
 * closure is requested on a matrix without the direct links, since hwloc before 2.12 replaces them
 * by it, which is 0 without a switch. */
static int find_nvlinks(struct search *s, struct sw_err *err)
{
    hwloc_topology_t topology = s->m->topology;
    struct hwloc_distances_s *d = NULL;
    unsigned count = 1;
    if (s->gpus == 0 ||
        hwloc_distances_get_by_name(topology, "NVLinkBandwidth", &count, &d, 0) != 0 || count == 0)
        return SW_OK;

    s->m->nvlinks = sw_calloc((size_t)s->gpus * (size_t)s->gpus, sizeof *s->m->nvlinks);
    if (s->m->nvlinks) {
        add_nvlinks(s, d);
        if (hwloc_distances_transform(topology, d, HWLOC_DISTANCES_TRANSFORM_TRANSITIVE_CLOSURE,
                                      NULL, 0) == 0)
            add_nvlinks(s, d);
    }

    hwloc_distances_release(topology, d);
    return s->m->nvlinks ? SW_OK : sw_err_nomem(err, "the machine map", 0);
}

/* ---- the whole --------------------------------------------------------------------------------
 */

int sw_io_find(struct sw_machine *m, struct sw_err *err)
{
    struct search s = {.m = m};

    int rc = collect_gpus(&s, err);
    if (rc != SW_OK)
        goto out;
    rc = keep_visible(&s, err);
    if (rc != SW_OK)
        goto out;

    m->gpus = sw_calloc((size_t)s.gpus + 1, sizeof *m->gpus);
    m->gpu_count = s.gpus;

    rc = m->gpus ? add_below(&s, hwloc_get_root_obj(m->topology), err)
                 : sw_err_nomem(err, "the machine map", 0);
    if (rc != SW_OK)
        goto out;

    rc = find_nvlinks(&s, err);

out:
    sw_free(s.gpu);
    sw_free(s.uuid);

    return rc;
}

const struct sw_io *sw_machine_gpu(const struct sw_machine *m, int gpu)
{
    return &m->io[m->gpus[gpu]];
}

/* The closest common ancestor of two entries, or -1; parents have lower indices. */
static int common_ancestor(const struct sw_machine *m, int a, int b)
{
    while (a != b && a >= 0 && b >= 0) {
        if (a > b)
            a = m->io[a].parent;
        else
            b = m->io[b].parent;
    }

    return a == b ? a : -1;
}

enum sw_gpu_path sw_gpu_path(const struct sw_machine *m, int a, int b)
{
    if (a == b)
        return SW_PATH_SELF;

    int at = common_ancestor(m, m->gpus[a], m->gpus[b]);
    if (at >= 0)
        return m->io[at].kind == SW_IO_BRIDGE ? SW_PATH_SWITCH : SW_PATH_HOST_BRIDGE;

    int package = sw_machine_gpu(m, a)->package;
    return package >= 0 && package == sw_machine_gpu(m, b)->package ? SW_PATH_PACKAGE
                                                                    : SW_PATH_ACROSS;
}

const char *sw_gpu_path_name(enum sw_gpu_path path)
{
    static const char *const names[] = {
        [SW_PATH_SELF] = "self",
        [SW_PATH_SWITCH] = "switch",
        [SW_PATH_HOST_BRIDGE] = "host_bridge",
        [SW_PATH_PACKAGE] = "package",
        [SW_PATH_ACROSS] = "across",
    };
    return names[path];
}

const char *sw_gpu_path_text(enum sw_gpu_path path)
{
    static const char *const texts[] = {
        [SW_PATH_SELF] = "the same GPU",
        [SW_PATH_SWITCH] = "the same PCIe switch",
        [SW_PATH_HOST_BRIDGE] = "the same host bridge",
        [SW_PATH_PACKAGE] = "the same package, different host bridges",
        [SW_PATH_ACROSS] = "across packages",
    };
    return texts[path];
}

double sw_gpu_nvlink(const struct sw_machine *m, int a, int b)
{
    return m->nvlinks ? m->nvlinks[a * m->gpu_count + b] : -1;
}
