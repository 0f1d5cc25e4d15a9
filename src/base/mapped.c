/* The SIGBUS handler that prevents a truncated memory-mapped file from ending the process, and the
 * fixed table of watched mappings that it searches. The handler may run in any thread at any time,
 * so the table consists of atomics and its size is fixed. The contract is in base/mapped.h. */
#include "base/mapped.h"
#include "base/os.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MAX_MAPPINGS = 1 << 14, MAP_LINE = 4096 + 128 };

/* An entry is free while end is 0, and matches no address while end is CLAIMED. */
enum { FREE = 0, CLAIMED = 1 };

struct sw_mapped {
    _Atomic uintptr_t begin, end;
    atomic_bool lost;
};

/* Process-wide, since a signal handler gets only an address. */
static struct sw_mapped mappings[MAX_MAPPINGS];
static struct sigaction before; /* what SIGBUS did before; written under `installing` */
static atomic_flag installing = ATOMIC_FLAG_INIT;
static atomic_uint turn; /* where the next search for a free entry starts, to keep it short */

/* ---- the handler: reads atomics and calls the kernel, nothing else ---- */

static struct sw_mapped *find(uintptr_t address)
{
    for (int i = 0; i < MAX_MAPPINGS; i++) {
        /* Acquire pairs with the release of watch: begin belongs to this end. */
        const uintptr_t end = atomic_load_explicit(&mappings[i].end, memory_order_acquire);
        if (address < end && address >= atomic_load(&mappings[i].begin))
            return &mappings[i];
    }

    return NULL;
}

/* Maps a private page of zeros where the file has none. It uses the system call directly, since
 * sanitizers wrap mmap in functions that must not run in a signal handler. */
static bool replace_page(uintptr_t address)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    return syscall(SYS_mmap, address / page * page, page, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0L) != -1;
}

/* Returning from the handler repeats the access, either on the new page or with the previous action
 * installed. */
static void on_bus_error(int number, siginfo_t *info, void *context)
{
    const int saved = errno;
    const uintptr_t address = (uintptr_t)info->si_addr;
    struct sw_mapped *m = info->si_code == BUS_ADRERR ? find(address) : NULL;

    if (m)
        atomic_store(&m->lost, true);
    if (!m || !replace_page(address))
        sigaction(number, &before, NULL);
    errno = saved;
}

/* Every watch checks again, since the program may have installed another handler. */
static void install(void)
{
    struct sigaction action = {.sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO}, now;

    sigemptyset(&action.sa_mask);
    while (atomic_flag_test_and_set(&installing))
        ; /* another thread holds it for three system calls */
    sigaction(SIGBUS, NULL, &now);

    if (!(now.sa_flags & SA_SIGINFO) || now.sa_sigaction != on_bus_error) {
        before = now;
        sigaction(SIGBUS, &action, NULL);
    }

    atomic_flag_clear(&installing);
}

/* ---- watching ---- */

int sw_mapped_watch(struct sw_mapped **out, const void *begin, size_t bytes, struct sw_err *err)
{
    install();

    const unsigned first = atomic_fetch_add(&turn, 1);
    for (unsigned i = 0; i < MAX_MAPPINGS; i++) {
        struct sw_mapped *m = &mappings[(first + i) % MAX_MAPPINGS];
        uintptr_t expected = FREE;
        if (!atomic_compare_exchange_strong(&m->end, &expected, CLAIMED))
            continue;

        atomic_store(&m->lost, false);
        atomic_store(&m->begin, (uintptr_t)begin);

        /* Release: a reader that sees this end also sees the matching begin. */
        atomic_store_explicit(&m->end, (uintptr_t)begin + bytes, memory_order_release);
        *out = m;
        return SW_OK;
    }

    return sw_err_set(err, SW_ERR_NOMEM, "too many memory-mapped files: the limit is %d",
                      MAX_MAPPINGS);
}

int sw_mapped_watch_around(struct sw_mapped **out, const void *address, struct sw_err *err)
{
    char line[MAP_LINE];
    uintptr_t begin = 0, end = 0;
    bool found = false;
    FILE *maps = fopen("/proc/self/maps", "re");
    if (!maps)
        return sw_err_errno(err, errno, "cannot open /proc/self/maps");

    while (!found && fgets(line, sizeof line, maps))
        found = sscanf(line, "%" SCNxPTR "-%" SCNxPTR, &begin, &end) == 2 &&
                (uintptr_t)address >= begin && (uintptr_t)address < end;

    fclose(maps);
    if (!found)
        return sw_err_set(err, SW_ERR_NOTFOUND, "/proc/self/maps: no mapping holds address %p",
                          address);

    return sw_mapped_watch(out, (const void *)begin, end - begin, err);
}

void sw_mapped_unwatch(struct sw_mapped *m)
{
    if (m)
        atomic_store_explicit(&m->end, FREE, memory_order_release);
}

bool sw_mapped_lost(const struct sw_mapped *m)
{
    return atomic_load(&m->lost);
}

int sw_mapped_check(const struct sw_mapped *m, int fd, uint64_t bytes, const char *path,
                    struct sw_err *err)
{
    typedef unsigned long long ull;

    struct stat st;
    if (sw_os()->fstat(fd, &st) != 0)
        return sw_err_errno(err, errno, "%s", path);
    if ((uint64_t)st.st_size < bytes)
        return sw_err_set(err, SW_ERR_FORMAT,
                          "%s: was truncated from %llu to %llu bytes while it was in use", path,
                          (ull)bytes, (ull)st.st_size);

    if (sw_mapped_lost(m))
        return sw_err_set(
            err, SW_ERR_FORMAT,
            "%s: a page could not be read: the file was truncated and written again while "
            "it was in use, or its disk failed",
            path);

    return SW_OK;
}
