/* Memory of a simulated GPU: one reservation of address space in two halves. Addresses of the lower
 * half are returned to users and inaccessible; the data is `capacity` bytes higher, in pages that
 * the kernel provides when they are touched. Allocations are first fit in granules of 4 KiB. */
#include "device/sim/memory.h"
#include "base/os.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static size_t granules(size_t bytes)
{
    size_t g = SW_SIM_GRANULE;
    return bytes ? (bytes + g - 1) / g * g : g;
}

int sw_sim_memory_init(struct sw_sim_device *d, struct sw_err *err)
{
    d->capacity = (size_t)d->conf.memory_bytes / SW_SIM_GRANULE * SW_SIM_GRANULE;
    d->probe_fd = memfd_create("sw-sim-probe", MFD_CLOEXEC);
    if (d->probe_fd < 0)
        return sw_err_errno(err, errno, "%s: memfd_create", d->base.name);

    void *both =
        mmap(NULL, 2 * d->capacity, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (both == MAP_FAILED)
        return sw_err_nomem(err, "address space of a simulated GPU; use a smaller mem=...",
                            2 * d->capacity);
    d->user_base = both;
    if (mprotect(d->user_base + d->capacity, d->capacity, PROT_READ | PROT_WRITE) != 0)
        return sw_err_nomem(err, "memory of a simulated GPU; use a smaller mem=...", d->capacity);

    return SW_OK;
}

void sw_sim_memory_fini(struct sw_sim_device *d)
{
    if (d->user_base)
        (void)munmap(d->user_base, 2 * d->capacity);
    if (d->probe_fd >= 0)
        (void)sw_os()->close(d->probe_fd);
    sw_free(d->block);
}

/* ---- Allocation ---- */

/* d->lock is held. Finds a gap of `need` bytes and the index for its block; false: none. */
static bool find_gap(const struct sw_sim_device *d, size_t need, size_t *offset, int *index)
{
    size_t at = 0;

    for (int i = 0; i <= d->blocks; i++) {
        size_t end = i < d->blocks ? d->block[i].offset : d->capacity;
        if (end - at >= need) {
            *offset = at;
            *index = i;
            return true;
        }

        at = i < d->blocks ? end + granules(d->block[i].bytes) : end;
    }

    return false;
}

/* d->lock is held. */
static size_t largest_gap(const struct sw_sim_device *d)
{
    size_t at = 0, largest = 0;

    for (int i = 0; i <= d->blocks; i++) {
        size_t end = i < d->blocks ? d->block[i].offset : d->capacity;
        largest = end - at > largest ? end - at : largest;
        at = i < d->blocks ? end + granules(d->block[i].bytes) : end;
    }

    return largest;
}

/* d->lock is held. */
static int out_of_memory(const struct sw_sim_device *d, size_t bytes, const char *what,
                         struct sw_err *err)
{
    return sw_err_set(
        err, SW_ERR_NOMEM,
        "out of memory: %s (%zu bytes): %s has %zu of its %zu bytes free, at most %zu in one block",
        what, bytes, d->base.name, d->capacity - d->taken, d->capacity, largest_gap(d));
}

/* d->lock is held. */
static int insert_block(struct sw_sim_device *d, int index, struct sw_sim_block block,
                        struct sw_err *err)
{
    int rc = sw_grow(&d->block, sizeof *d->block, d->blocks, &d->block_room, 64,
                     "list of a simulated GPU's allocations", err);
    if (rc != SW_OK)
        return rc;

    memmove(&d->block[index + 1], &d->block[index], (size_t)(d->blocks - index) * sizeof *d->block);
    d->block[index] = block;
    d->blocks++;

    return SW_OK;
}

/* d->lock is held. */
static bool meets_fault(struct sw_sim_device *d)
{
    bool hit = d->fault == SW_SIM_NOMEM && d->allocations >= d->fault_at;

    d->allocations++;
    if (hit)
        d->fault = SW_SIM_NO_FAULT;

    return hit;
}

/* d->lock is held. */
static int allocate(struct sw_sim_device *d, size_t bytes, const char *what, void **out,
                    struct sw_err *err)
{
    struct sw_sim_block block = {.bytes = bytes};
    int index;
    if (meets_fault(d) || bytes > d->capacity ||
        !find_gap(d, granules(bytes), &block.offset, &index))
        return out_of_memory(d, bytes, what, err);

    snprintf(block.what, sizeof block.what, "%s", what);

    int rc = insert_block(d, index, block, err);
    if (rc != SW_OK)
        return rc;

    block.number = (uint64_t)d->allocations;
    d->block[index].number = block.number;
    sw_sim_name_add(&d->names, block.offset, bytes, what);
    d->taken += granules(bytes);
    d->in_use += bytes;
    d->peak = d->in_use > d->peak ? d->in_use : d->peak;
    *out = d->user_base + block.offset;

    return SW_OK;
}

/* Allocates ordinary host memory. */
int sw_sim_host_alloc(struct sw_device *dev, size_t bytes, const char *what, void **out,
                      struct sw_err *err)
{
    return sw_device_alloc(sw_sim_device_of(dev)->cpu, bytes, what, out, err);
}

void sw_sim_host_free(struct sw_device *dev, void *p, size_t bytes)
{
    sw_device_free(sw_sim_device_of(dev)->cpu, p, bytes);
}

int sw_sim_alloc(struct sw_device *dev, size_t bytes, uint64_t nodes, const char *what, void **out,
                 struct sw_err *err)
{
    struct sw_sim_device *d = sw_sim_device_of(dev);
    void *p = NULL;

    sw_mutex_lock(&d->lock);

    int rc = allocate(d, bytes, what, &p, err);
    sw_mutex_unlock(&d->lock);
    if (rc != SW_OK)
        return rc;

    /* Zeroes the pages, since a late operation may have written to them after they were freed. */
    (void)madvise((char *)p + d->capacity, granules(bytes), MADV_DONTNEED);
    *out = p;
    return SW_OK;
}

/* d->lock is held. Index of the last block that begins at or before the offset; -1: none. */
static int block_before(const struct sw_sim_device *d, size_t offset)
{
    int low = -1, high = d->blocks;

    while (high - low > 1) {
        int mid = low + (high - low) / 2;
        if (d->block[mid].offset <= offset)
            low = mid;
        else
            high = mid;
    }

    return low;
}

int sw_sim_free(struct sw_sim_device *d, const void *p, const struct sw_sim_lane **lane,
                struct sw_err *err)
{
    size_t offset = (size_t)((const char *)p - d->user_base);
    int i = block_before(d, offset);
    if (i < 0 || d->block[i].offset != offset)
        return SW_OK;

    struct sw_sim_block b = d->block[i];
    size_t end = b.offset + granules(b.bytes);
    (void)madvise(d->user_base + d->capacity + b.offset, granules(b.bytes), MADV_DONTNEED);

    int rc = sw_sim_race_free(&d->uses, b.offset, end, b.what, lane, err);
    sw_sim_name_free(&d->names, b.offset, end);

    d->taken -= granules(b.bytes);
    d->in_use -= b.bytes;
    d->blocks--;
    memmove(&d->block[i], &d->block[i + 1], (size_t)(d->blocks - i) * sizeof *d->block);

    return rc;
}

struct sw_device_bytes sw_sim_bytes(struct sw_device *dev)
{
    struct sw_sim_device *d = sw_sim_device_of(dev);

    sw_mutex_lock(&d->lock);

    struct sw_device_bytes b = {.in_use = d->in_use, .peak = d->peak, .capacity = d->capacity};
    sw_mutex_unlock(&d->lock);
    return b;
}

/* ---- Pointer checks ---- */

bool sw_sim_is_mine(const struct sw_sim_device *d, const void *p)
{
    uintptr_t at = (uintptr_t)p, start = (uintptr_t)d->user_base;
    return at >= start && at - start < d->capacity;
}

void sw_sim_memory_name(struct sw_device *dev, const void *p, size_t bytes, const char *what)
{
    struct sw_sim_device *d = sw_sim_device_of(dev);

    if (sw_sim_is_mine(d, p))
        sw_sim_name_add(&d->names, (uintptr_t)p - (uintptr_t)d->user_base, bytes, what);
    else
        sw_sim_name_add(&d->host->names, (uintptr_t)p, bytes, what);
}

/* d->lock is held. */
static int report_unallocated(struct sw_sim_device *d, const char *argument, const void *p,
                              size_t offset, size_t bytes, struct sw_err *err)
{
    char what[SW_SIM_WHAT];

    sw_sim_name_of_freed(&d->names, offset, bytes, what);
    if (what[0])
        return sw_err_set(err, SW_ERR_INVALID, "%s (%p) was %s of %s, which has been freed",
                          argument, p, what, d->base.name);

    return sw_err_set(err, SW_ERR_INVALID, "%s (%p) is in no allocation of %s", argument, p,
                      d->base.name);
}

/* d->lock is held. */
static int check_range(struct sw_sim_device *d, const char *argument, const void *p, size_t bytes,
                       uint64_t *block, struct sw_err *err)
{
    size_t offset = (uintptr_t)p - (uintptr_t)d->user_base;
    int i = block_before(d, offset);
    bool inside_any = i >= 0 && offset - d->block[i].offset < granules(d->block[i].bytes);
    if (!inside_any || (*block && *block != d->block[i].number))
        return report_unallocated(d, argument, p, offset, bytes, err);

    *block = d->block[i].number;

    size_t inside = offset - d->block[i].offset;
    if (inside > d->block[i].bytes || bytes > d->block[i].bytes - inside)
        return sw_err_set(err, SW_ERR_INVALID,
                          "%s: %zu bytes at byte %zu extend beyond %s (%zu bytes)", argument, bytes,
                          inside, d->block[i].what, d->block[i].bytes);

    return SW_OK;
}

int sw_sim_reach(struct sw_sim_device *d, const char *argument, void *p, size_t bytes,
                 uint64_t *block, void **out, struct sw_err *err)
{
    if (!p && !bytes) {
        *out = NULL;
        return SW_OK;
    }
    if (!sw_sim_is_mine(d, p))
        return sw_err_set(err, SW_ERR_INVALID, "%s (%p) is not memory of %s", argument, p,
                          d->base.name);

    int rc = SW_OK;
    if (bytes) {
        sw_mutex_lock(&d->lock);
        rc = check_range(d, argument, p, bytes, block, err);
        sw_mutex_unlock(&d->lock);
    }

    if (rc == SW_OK)
        *out = (char *)p + d->capacity;
    return rc;
}

int sw_sim_reach_host(struct sw_sim_device *d, const char *argument, void *p, size_t bytes,
                      struct sw_err *err)
{
    if (!bytes)
        return SW_OK;

    /* Asks the kernel whether the memory can be read; reading it directly would crash. */
    const char *first = p, *last = first + bytes - 1;
    if (pwrite(d->probe_fd, first, 1, 0) == 1 && pwrite(d->probe_fd, last, 1, 0) == 1)
        return SW_OK;

    return sw_err_set(err, SW_ERR_INVALID,
                      "%s (%p) is neither memory of %s nor of the host (that of another device "
                      "needs sw_copy_peer)",
                      argument, p, d->base.name);
}
