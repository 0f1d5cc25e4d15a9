/* Memory of the CPU device. Large blocks have their own pages, aligned to huge pages and marked as
 * such for the kernel: an arena that is accessed every step then costs few TLB misses and no page
 * faults. Small blocks come from the allocator; the address to free is stored in front of them. */
#include "base/os.h"
#include "device/cpu/cpu.h"
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    ALIGN_BYTES = 64,
    HUGE_PAGE_BYTES = 2 << 20,
};
_Static_assert(SW_DEVICE_PAGES_BYTES == HUGE_PAGE_BYTES, "what is mapped can be placed");

/* Totals over all CPU devices of the process, for `check` and the history; relaxed, since they do
 * not order other accesses. */
static _Atomic size_t bytes_in_use, bytes_peak, bytes_misplaced;

size_t sw_cpu_bytes_in_use(void)
{
    return atomic_load_explicit(&bytes_in_use, memory_order_relaxed);
}

size_t sw_cpu_bytes_peak(void)
{
    return atomic_load_explicit(&bytes_peak, memory_order_relaxed);
}

struct sw_device_bytes sw_cpu_bytes(struct sw_device *dev)
{
    return (struct sw_device_bytes){
        .in_use = sw_cpu_bytes_in_use(),
        .peak = sw_cpu_bytes_peak(),
        .misplaced = atomic_load_explicit(&bytes_misplaced, memory_order_relaxed)};
}

static void count_bytes(size_t bytes)
{
    size_t now = atomic_fetch_add_explicit(&bytes_in_use, bytes, memory_order_relaxed) + bytes;
    size_t peak = atomic_load_explicit(&bytes_peak, memory_order_relaxed);

    while (now > peak && !atomic_compare_exchange_weak_explicit(
                             &bytes_peak, &peak, now, memory_order_relaxed, memory_order_relaxed))
        continue;
}

static size_t whole_pages(size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return (bytes + page - 1) / page * page;
}

/* Maps one huge page more than needed and unmaps the unaligned ends. */
static void *alloc_pages(size_t bytes)
{
    size_t size = whole_pages(bytes), mapped = size + HUGE_PAGE_BYTES;
    if (size < bytes || mapped < size)
        return NULL;

    char *start = sw_os()->map_pages(mapped);
    if (!start)
        return NULL;

    size_t before = (HUGE_PAGE_BYTES - (uintptr_t)start % HUGE_PAGE_BYTES) % HUGE_PAGE_BYTES;
    size_t after = HUGE_PAGE_BYTES - before;
    char *block = start + before;

    /* If an end cannot be unmapped, it costs only address space; huge pages are optional. */
    if (before > 0)
        (void)sw_os()->unmap_pages(start, before);
    if (after > 0)
        (void)sw_os()->unmap_pages(block + size, after);
    (void)madvise(block, size, MADV_HUGEPAGE);

    return block;
}

static void *alloc_small(size_t bytes)
{
    char *raw = sw_os()->alloc(bytes + 2 * ALIGN_BYTES);
    if (!raw)
        return NULL;

    char *block = raw + ALIGN_BYTES;
    block += (ALIGN_BYTES - (uintptr_t)block % ALIGN_BYTES) % ALIGN_BYTES;
    memcpy(block - sizeof raw, &raw, sizeof raw);
    memset(block, 0, bytes);

    return block;
}

int sw_cpu_need_room(const char *what, size_t bytes, struct sw_err *err)
{
    void *p = sw_os()->map_pages(bytes);
    if (!p)
        return sw_err_nomem(err, what, bytes);

    (void)sw_os()->unmap_pages(p, bytes);
    return SW_OK;
}

void sw_cpu_place(struct sw_device *dev, void *p, size_t bytes, uint64_t nodes)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from = (uintptr_t)p;
    uintptr_t first = (from + page - 1) / page * page, end = (from + bytes) / page * page;
    if (nodes && end > first && sw_os()->bind_pages((void *)first, end - first, nodes) != 0)
        atomic_fetch_add_explicit(&bytes_misplaced, end - first, memory_order_relaxed);
}

int sw_cpu_alloc(struct sw_device *dev, size_t bytes, uint64_t nodes, const char *what, void **out,
                 struct sw_err *err)
{
    bool own_pages = bytes >= HUGE_PAGE_BYTES;
    void *p = own_pages ? alloc_pages(bytes) : alloc_small(bytes);
    if (!p)
        return sw_err_nomem(err, what, bytes);

    if (own_pages)
        sw_cpu_place(dev, p, whole_pages(bytes), nodes);
    count_bytes(bytes);
    *out = p;

    return SW_OK;
}

void sw_cpu_free(struct sw_device *dev, void *p, size_t bytes)
{
    if (bytes >= HUGE_PAGE_BYTES) {
        (void)sw_os()->unmap_pages(p, whole_pages(bytes));
    } else {
        void *raw;
        memcpy(&raw, (char *)p - sizeof raw, sizeof raw);
        sw_free(raw);
    }

    atomic_fetch_sub_explicit(&bytes_in_use, bytes, memory_order_relaxed);
}
