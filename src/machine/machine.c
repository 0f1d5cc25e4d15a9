/* Makes the machine map from hwloc: loads this machine, an XML file or a synthetic description,
 * removes what this process may not use, then collects nodes, cores and caches; io.c adds the PCIe
 * tree and quota.c the CPU quota. Logical numbers stay those that lstopo shows. */
#include "machine/machine.h"
#include "base/os.h"
#include "base/str.h"
#include "machine/quota.h"
#include <errno.h>
#include <hwloc.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_XML_BYTES = 64 << 20 };

static int library_error(const char *what, struct sw_err *err)
{
    int reason = errno;
    return sw_err_set(err, SW_ERR_LIBRARY, "hwloc cannot %s: %s", what, strerror(reason));
}

/* ---- loading ----------------------------------------------------------------------------------
 */

/* Keeps important PCI devices and the bridges above them. */
static int enable_io(struct sw_machine *m)
{
    return hwloc_topology_set_io_types_filter(m->topology, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
}

/* Disables hwloc plugins that start a GPU driver or ask an X server only to name devices, which is
 * slow and allocates GPU memory. PCI devices are found in /sys without the plugin pci, whose
 * library leaks. The call fails for a plugin that is not installed, which is fine. */
static void disable_plugins(struct sw_machine *m)
{
    static const char *const plugins[] = {"cuda", "opencl", "levelzero", "rsmi", "gl", "pci"};
    for (size_t i = 0; i < sizeof plugins / sizeof *plugins; i++)
        (void)hwloc_topology_set_components(m->topology, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST,
                                            plugins[i]);
}

static int load_here(struct sw_machine *m, struct sw_err *err)
{
    if (hwloc_topology_init(&m->topology) != 0)
        return library_error("start", err);

    disable_plugins(m);
    if (enable_io(m) != 0 || hwloc_topology_load(m->topology) != 0)
        return library_error("map this machine", err);

    m->here = hwloc_topology_is_thissystem(m->topology);
    return SW_OK;
}

/* Finds out why hwloc refuses a file, since hwloc reports it only if HWLOC_XML_VERBOSE is set. */
static int refuse_file(const char *source, struct sw_err *err)
{
    static const char root[] = "<topology", version[] = " version=\"";
    char *text = NULL;
    size_t length;

    int rc = sw_os_read_file(source, MAX_XML_BYTES, &text, &length, err);
    if (rc != SW_OK)
        return rc;

    const char *at = strstr(text, root), *end = at ? strchr(at, '>') : NULL;
    const char *number = end ? strstr(at, version) : NULL;
    long written_by = number && number < end ? strtol(number + strlen(version), NULL, 10) : 1;
    long ours = (long)(hwloc_get_api_version() >> 16);
    if (!end)
        rc = sw_err_set(err, SW_ERR_FORMAT,
                        "%s is not an hwloc XML file: it has no <topology> element; "
                        "`lstopo machine.xml` writes one",
                        source);
    else if (written_by > ours)
        rc = sw_err_set(err, SW_ERR_FORMAT,
                        "%s was written by hwloc %ld, but this program reads such files with "
                        "hwloc %ld, which knows only older ones; convert it with hwloc %ld: "
                        "`lstopo --input FILE --export-xml-flags v%ld NEW_FILE.xml`",
                        source, written_by, ours, written_by, ours);
    else if (!strstr(end, "</topology>"))
        rc = sw_err_set(err, SW_ERR_FORMAT,
                        "the machine map %s is cut off after %zu bytes: it has no </topology>; "
                        "copy the file again",
                        source, length);
    else
        rc = sw_err_set(err, SW_ERR_FORMAT,
                        "hwloc %ld cannot read the machine map %s (of version %ld); set "
                        "HWLOC_XML_VERBOSE=1 to see its reason",
                        ours, source, written_by);

    sw_free(text);
    return rc;
}

static int load_other(struct sw_machine *m, const char *source, struct sw_err *err)
{
    struct stat st;
    bool file = sw_os()->stat(source, &st) == 0;

    if (!file && (strchr(source, '/') || sw_str_ends(source, ".xml")))
        return sw_err_errno(err, errno, "cannot open the machine map %s", source);
    if (file && sw_os_need_regular(source, &st, err) != SW_OK)
        return SW_ERR_FORMAT;
    if (hwloc_topology_init(&m->topology) != 0 || enable_io(m) != 0)
        return library_error("start", err);

    if (!file && hwloc_topology_set_synthetic(m->topology, source) != 0)
        return sw_err_set(err, SW_ERR_FORMAT,
                          "'%s' is neither a file nor a synthetic machine such as "
                          "\"numa:4 core:6 pu:2\"",
                          source);

    if (file && hwloc_topology_set_xml(m->topology, source) != 0)
        return refuse_file(source, err);
    if (hwloc_topology_load(m->topology) != 0)
        return file ? refuse_file(source, err) : library_error("map this machine", err);

    return SW_OK;
}

/* Removes what taskset forbids; hwloc has already removed what cgroups forbid. Logical numbers stay
 * those that lstopo shows. */
static int find_allowed(struct sw_machine *m, struct sw_err *err)
{
    hwloc_bitmap_t bound = NULL;
    int rc = SW_OK;

    m->allowed = hwloc_bitmap_dup(hwloc_topology_get_topology_cpuset(m->topology));
    if (!m->allowed)
        return sw_err_nomem(err, "the machine map", 0);

    if (m->here) {
        bound = hwloc_bitmap_alloc();
        if (!bound)
            rc = sw_err_nomem(err, "the machine map", 0);
        else if (hwloc_get_cpubind(m->topology, bound, HWLOC_CPUBIND_PROCESS) == 0)
            rc = hwloc_bitmap_and(m->allowed, m->allowed, bound) == 0
                     ? SW_OK
                     : sw_err_nomem(err, "the machine map", 0);

        hwloc_bitmap_free(bound);
    }

    m->pu_count = hwloc_bitmap_weight(m->allowed);
    m->hidden_pus =
        hwloc_bitmap_weight(hwloc_topology_get_complete_cpuset(m->topology)) - m->pu_count;

    return rc;
}

/* ---- cores and nodes --------------------------------------------------------------------------
 */

/* The first node whose processors include the core; nodes of special memory come after it. */
static hwloc_obj_t node_of(const struct sw_machine *m, hwloc_obj_t core)
{
    hwloc_obj_t node = NULL;

    while ((node = hwloc_get_next_obj_by_type(m->topology, HWLOC_OBJ_NUMANODE, node))) {
        if (hwloc_bitmap_isincluded(core->cpuset, node->cpuset))
            return node;
    }

    return NULL;
}

/* The index of a core's node, which is added if it is new; -1 if the table is full. */
static int node_index(struct sw_machine *m, hwloc_obj_t node_obj, int package)
{
    int number = node_obj ? (int)node_obj->logical_index : -1;

    for (int i = 0; i < m->node_count; i++) {
        if (m->nodes[i].number == number && (node_obj || m->nodes[i].package == package))
            return i;
    }

    if (m->node_count == SW_MAX_NODES)
        return -1;

    struct sw_numa_node *node = &m->nodes[m->node_count];
    node->number = number;
    node->os_number = node_obj ? (int)node_obj->os_index : -1;
    node->package = package;
    node->memory_bytes = node_obj ? (int64_t)node_obj->attr->numanode.local_memory : 0;

    return m->node_count++;
}

static int add_core(struct sw_machine *m, hwloc_obj_t obj, int pus, struct sw_err *err)
{
    hwloc_obj_t package = hwloc_get_ancestor_obj_by_type(m->topology, HWLOC_OBJ_PACKAGE, obj);
    struct sw_core core = {
        .number = (int)obj->logical_index,
        .package = package ? (int)package->logical_index : 0,
        .pus = pus,
    };

    core.node = node_index(m, node_of(m, obj), core.package);
    if (core.number >= SW_MAX_CORES || core.node < 0)
        return sw_err_set(err, SW_ERR_UNSUPPORTED,
                          "the machine has more than %d cores or %d NUMA nodes; use taskset to "
                          "run on a part of it",
                          SW_MAX_CORES, SW_MAX_NODES);

    m->cores[m->core_count++] = core;
    sw_core_set_add(&m->nodes[core.node].cores, core.number);
    return SW_OK;
}

static int find_cores(struct sw_machine *m, struct sw_err *err)
{
    m->core_depth = hwloc_get_type_or_below_depth(m->topology, HWLOC_OBJ_CORE);

    int count = (int)hwloc_get_nbobjs_by_depth(m->topology, m->core_depth), rc = SW_OK;
    hwloc_obj_t core = NULL;
    hwloc_bitmap_t usable = hwloc_bitmap_alloc();

    m->cores = sw_calloc((size_t)(count > 0 ? count : 1), sizeof *m->cores);
    m->nodes = sw_calloc(SW_MAX_NODES, sizeof *m->nodes);
    if (!m->cores || !m->nodes || !usable)
        rc = sw_err_nomem(err, "the machine map", (size_t)count * sizeof *m->cores);

    while (rc == SW_OK && (core = hwloc_get_next_obj_by_depth(m->topology, m->core_depth, core))) {
        if (hwloc_bitmap_and(usable, core->cpuset, m->allowed) != 0)
            rc = sw_err_nomem(err, "the machine map", 0);
        else if (!hwloc_bitmap_iszero(usable))
            rc = add_core(m, core, hwloc_bitmap_weight(usable), err);
    }

    hwloc_bitmap_free(usable);
    if (rc == SW_OK && m->core_count == 0)
        rc = sw_err_set(err, SW_ERR_UNSUPPORTED, "the machine map has no usable core");

    return rc;
}

/* Sorts nodes, which were found in the order of cores, by number; the one without memory is last.
 */
static void sort_nodes(struct sw_machine *m)
{
    for (int i = 1; i < m->node_count; i++) {
        struct sw_numa_node node = m->nodes[i];
        int at = i;
        for (; at > 0 && (unsigned)m->nodes[at - 1].number > (unsigned)node.number; at--)
            m->nodes[at] = m->nodes[at - 1];
        m->nodes[at] = node;
    }

    for (int i = 0; i < m->core_count; i++) {
        for (int n = 0; n < m->node_count; n++) {
            if (sw_core_set_has(&m->nodes[n].cores, m->cores[i].number))
                m->cores[i].node = n;
        }
    }
}

/* ---- the rest ---------------------------------------------------------------------------------
 */

static int count_caches(const struct sw_machine *m, hwloc_obj_type_t type)
{
    int depth = hwloc_get_type_depth(m->topology, type);
    return depth < 0 ? 0 : (int)hwloc_get_nbobjs_by_depth(m->topology, depth);
}

static int find_caches(struct sw_machine *m, struct sw_err *err)
{
    static const hwloc_obj_type_t types[] = {HWLOC_OBJ_L3CACHE, HWLOC_OBJ_L2CACHE};
    int count = count_caches(m, types[0]) + count_caches(m, types[1]);

    m->caches = sw_calloc((size_t)count + 1, sizeof *m->caches);
    if (!m->caches)
        return sw_err_nomem(err, "the machine map", (size_t)count * sizeof *m->caches);

    for (int level = 3; level >= 2; level--) {
        hwloc_obj_t cache = NULL;

        while ((cache = hwloc_get_next_obj_by_type(m->topology, types[3 - level], cache))) {
            struct sw_cache c = {.level = level, .bytes = (int64_t)cache->attr->cache.size};

            for (int i = 0; i < m->core_count; i++) {
                unsigned number = (unsigned)m->cores[i].number;
                hwloc_obj_t core = hwloc_get_obj_by_depth(m->topology, m->core_depth, number);
                if (hwloc_bitmap_isincluded(core->cpuset, cache->cpuset))
                    sw_core_set_add(&c.cores, m->cores[i].number);
            }

            if (sw_core_set_count(&c.cores) > 0)
                m->caches[m->cache_count++] = c;
        }
    }

    return SW_OK;
}

static int count_packages(const struct sw_machine *m)
{
    int count = 0;

    for (int i = 0; i < m->core_count; i++) {
        bool seen = false;
        for (int j = 0; j < i && !seen; j++)
            seen = m->cores[j].package == m->cores[i].package;
        count += !seen;
    }

    return count;
}

static void describe(struct sw_machine *m)
{
    hwloc_obj_t root = hwloc_get_root_obj(m->topology);
    hwloc_obj_t package = hwloc_get_obj_by_type(m->topology, HWLOC_OBJ_PACKAGE, 0);
    const char *model = package ? hwloc_obj_get_info_by_name(package, "CPUModel") : NULL;
    const char *host = hwloc_obj_get_info_by_name(root, "HostName");

    snprintf(m->cpu_model, sizeof m->cpu_model, "%s", model ? model : "");
    snprintf(m->host, sizeof m->host, "%s", host ? host : "");
    if (m->here && gethostname(m->host, sizeof m->host - 1) != 0)
        m->host[0] = '\0';
    m->memory_bytes = (int64_t)root->total_memory;
    m->package_count = count_packages(m);
    if (m->here) {
        m->cpu_quota = sw_cpu_quota("/proc", "/sys");
        m->memory_quota = sw_memory_quota("/proc", "/sys");
    }
}

static int machine_new(const char *source, struct sw_machine **out, struct sw_err *err)
{
    struct sw_machine *m = sw_calloc(1, sizeof *m);
    if (!m)
        return sw_err_nomem(err, "the machine map", sizeof *m);

    m->owners = 1;

    int rc = source ? load_other(m, source, err) : load_here(m, err);
    if (rc != SW_OK)
        goto fail;
    rc = find_allowed(m, err);
    if (rc != SW_OK)
        goto fail;
    rc = find_cores(m, err);
    if (rc != SW_OK)
        goto fail;

    sort_nodes(m);
    describe(m);

    rc = find_caches(m, err);
    if (rc != SW_OK)
        goto fail;
    rc = sw_io_find(m, err);
    if (rc != SW_OK)
        goto fail;

    *out = m;
    return SW_OK;

fail:
    sw_machine_free(m);
    return rc;
}

int sw_machine_here(struct sw_machine **out, struct sw_err *err)
{
    return machine_new(NULL, out, err);
}

int sw_machine_from(const char *source, struct sw_machine **out, struct sw_err *err)
{
    return machine_new(source, out, err);
}

struct sw_machine *sw_machine_share(struct sw_machine *m)
{
    __atomic_fetch_add(&m->owners, 1, __ATOMIC_RELAXED);
    return m;
}

void sw_machine_free(struct sw_machine *m)
{
    /* Acquire and release: all reads by other owners happen before the map is freed. */
    if (!m || __atomic_sub_fetch(&m->owners, 1, __ATOMIC_ACQ_REL) > 0)
        return;

    hwloc_bitmap_free(m->allowed);
    if (m->topology)
        hwloc_topology_destroy(m->topology);
    sw_free(m->nodes);
    sw_free(m->cores);
    sw_free(m->caches);
    sw_free(m->io);
    sw_free(m->gpus);
    sw_free(m->nvlinks);
    sw_free(m);
}

/* ---- questions --------------------------------------------------------------------------------
 */

struct sw_core_set sw_machine_cores(const struct sw_machine *m)
{
    return sw_machine_node_cores(m, ~UINT64_C(0));
}

struct sw_core_set sw_machine_node_cores(const struct sw_machine *m, uint64_t node_mask)
{
    struct sw_core_set cores = {0};

    for (int n = 0; n < m->node_count; n++) {
        if (node_mask >> n & 1)
            sw_core_set_add_all(&cores, &m->nodes[n].cores);
    }

    return cores;
}

const struct sw_core *sw_machine_core(const struct sw_machine *m, int number)
{
    for (int i = 0; i < m->core_count; i++) {
        if (m->cores[i].number == number)
            return &m->cores[i];
    }

    return NULL;
}

int sw_machine_threads(const struct sw_machine *m)
{
    int threads = m->core_count;
    if (m->cpu_quota > 0 && m->cpu_quota < threads)
        threads = (int)m->cpu_quota;
    return threads > 0 ? threads : 1;
}

const char *sw_machine_library(char *out, size_t bytes)
{
    unsigned v = hwloc_get_api_version();
    snprintf(out, bytes, "hwloc %u.%u.%u", v >> 16, v >> 8 & 255, v & 255);
    return out;
}
