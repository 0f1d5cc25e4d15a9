/* Binds the calling thread by hwloc, and reads back where pages of memory are (move_pages(2)). */
#include "machine/bind.h"
#include "base/os.h"
#include <errno.h>
#include <hwloc.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/syscall.h>
#include <unistd.h>

int sw_bind_check_environment(struct sw_err *err)
{
    static const char *const names[] = {"OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *value = getenv(names[i]);
        if (value && value[0] && strcasecmp(value, "false") != 0)
            return sw_err_set(err, SW_ERR_INVALID,
                              "%s=%s makes OpenMP bind its threads, which conflicts with the "
                              "placement of workers; unset it (env -u %s ...)",
                              names[i], value, names[i]);
    }

    return SW_OK;
}

static int require_local(const struct sw_machine *m, struct sw_err *err)
{
    return m->here ? SW_OK
                   : sw_err_set(err, SW_ERR_INVALID,
                                "the machine map describes another machine: threads and memory "
                                "cannot be bound");
}

/* ---- threads ----------------------------------------------------------------------------------
 */

/* Sets pus to the allowed hardware threads of the cores. */
static int collect_pus(const struct sw_machine *m, const struct sw_core_set *cores,
                       hwloc_bitmap_t pus, struct sw_err *err)
{
    for (int c = sw_core_set_next(cores, -1); c >= 0; c = sw_core_set_next(cores, c)) {
        hwloc_obj_t core = sw_machine_core(m, c)
                               ? hwloc_get_obj_by_depth(m->topology, m->core_depth, (unsigned)c)
                               : NULL;
        if (!core)
            return sw_err_set(err, SW_ERR_INVALID, "core %d is not available to this process", c);
        if (hwloc_bitmap_or(pus, pus, core->cpuset) != 0)
            return sw_err_nomem(err, "a set of hardware threads", 0);
    }

    if (hwloc_bitmap_and(pus, pus, m->allowed) != 0)
        return sw_err_nomem(err, "a set of hardware threads", 0);
    if (hwloc_bitmap_iszero(pus))
        return sw_err_set(err, SW_ERR_INVALID, "a thread cannot be bound to an empty set of cores");

    return SW_OK;
}

int sw_bind_thread(const struct sw_machine *m, const struct sw_core_set *cores, struct sw_err *err)
{
    char text[128];

    int rc = require_local(m, err);
    if (rc != SW_OK)
        return rc;

    hwloc_bitmap_t pus = hwloc_bitmap_alloc();
    if (!pus)
        return sw_err_nomem(err, "a set of hardware threads", 0);

    rc = collect_pus(m, cores, pus, err);
    if (rc == SW_OK && hwloc_set_cpubind(m->topology, pus, HWLOC_CPUBIND_THREAD) != 0) {
        int reason = errno;
        rc = sw_err_set(err, SW_ERR_UNSUPPORTED, "cannot bind the thread to cores %s: %s",
                        sw_core_set_text(cores, text, sizeof text), strerror(reason));
    }

    hwloc_bitmap_free(pus);
    return rc;
}

int sw_bind_save(const struct sw_machine *m, void **kept, struct sw_err *err)
{
    int rc = require_local(m, err);
    if (rc != SW_OK)
        return rc;

    hwloc_bitmap_t pus = hwloc_bitmap_alloc();
    if (!pus)
        return sw_err_nomem(err, "a set of hardware threads", 0);

    if (hwloc_get_cpubind(m->topology, pus, HWLOC_CPUBIND_THREAD) != 0) {
        rc = sw_err_set(err, SW_ERR_UNSUPPORTED, "cannot query the CPU affinity of the thread: %s",
                        strerror(errno));
        hwloc_bitmap_free(pus);
        return rc;
    }

    *kept = pus;
    return SW_OK;
}

void sw_bind_restore(const struct sw_machine *m, void *kept)
{
    if (!kept)
        return;

    int ignored = hwloc_set_cpubind(m->topology, kept, HWLOC_CPUBIND_THREAD);
    (void)ignored; /* on failure the thread stays bound */
    hwloc_bitmap_free(kept);
}

int sw_bound_cores(const struct sw_machine *m, struct sw_core_set *cores, struct sw_err *err)
{
    void *pus;

    int rc = sw_bind_save(m, &pus, err);
    if (rc != SW_OK)
        return rc;

    *cores = (struct sw_core_set){0};
    for (int i = 0; i < m->core_count; i++) {
        unsigned number = (unsigned)m->cores[i].number;
        hwloc_obj_t core = hwloc_get_obj_by_depth(m->topology, m->core_depth, number);
        if (hwloc_bitmap_intersects(core->cpuset, pus))
            sw_core_set_add(cores, m->cores[i].number);
    }

    hwloc_bitmap_free(pus);
    return SW_OK;
}

/* ---- memory -----------------------------------------------------------------------------------
 */

uint64_t sw_machine_os_nodes(const struct sw_machine *m, uint64_t node_mask)
{
    uint64_t os_nodes = 0;

    for (int n = 0; n < m->node_count; n++) {
        int number = m->nodes[n].os_number;
        if (node_mask >> n & 1 && number >= 0 && number < 64)
            os_nodes |= UINT64_C(1) << number;
    }

    return m->here && m->node_count > 1 ? os_nodes : 0;
}

static void count_page(const struct sw_machine *m, int os_node, int64_t page_bytes,
                       int64_t *node_bytes, int64_t *absent_bytes)
{
    for (int n = 0; n < m->node_count; n++) {
        if (os_node >= 0 && m->nodes[n].os_number == os_node) {
            node_bytes[n] += page_bytes;
            return;
        }
    }

    *absent_bytes += page_bytes;
}

/* move_pages(2) without target nodes only reports; hwloc has no call that counts pages. */
int sw_bind_where(const struct sw_machine *m, const void *memory, size_t bytes, int64_t *node_bytes,
                  int64_t *absent_bytes, struct sw_err *err)
{
    enum { BATCH = 512 };

    uintptr_t page_bytes = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t at = (uintptr_t)memory / page_bytes * page_bytes, end = (uintptr_t)memory + bytes;
    void *page[BATCH];
    int where[BATCH], rc = require_local(m, err);
    if (rc != SW_OK)
        return rc;

    memset(node_bytes, 0, (size_t)m->node_count * sizeof *node_bytes);
    *absent_bytes = 0;

    while (at < end) {
        unsigned long count = 0;

        for (; count < BATCH && at < end; at += page_bytes)
            page[count++] = (void *)at;
        if (syscall(SYS_move_pages, 0, count, page, NULL, where, 0) != 0)
            return sw_err_set(err, SW_ERR_UNSUPPORTED,
                              "cannot query the NUMA nodes of memory pages: %s", strerror(errno));

        for (unsigned long i = 0; i < count; i++)
            count_page(m, where[i], (int64_t)page_bytes, node_bytes, absent_bytes);
    }

    return SW_OK;
}
