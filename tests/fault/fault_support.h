/* Failing on demand in a program with many threads: calls of the operating system's table, by kind
 * and by the thread that makes them, and the start of threads by name. Include once per program;
 * the hooks are installed before the first job and count what is allocated. */
#pragma once

#include "base/stop.h"
#include "tensor/npy.h"
#include "unit/run/thread_role.h"
#include "unit/run/train_support.h"
#include <dirent.h>
#include <errno.h>
#include <stdatomic.h>

enum {
    FAIL_ALLOC = 1,
    FAIL_PAGES = 2,
    FAIL_READ = 4,
    FAIL_OPEN = 8,
    FAIL_WRITE = 16,
    FAIL_SYNC = 32,
    FAIL_RENAME = 64,
};

/* What is to fail. Written while no other thread runs, or before `armed` is set. */
struct fault_plan {
    int kinds;          /* which calls count; 0: none */
    const char *thread; /* those that it makes: "worker0.0"; NULL: all threads */
    int at;             /* the first that fails, from 1 */
    int times;          /* how many fail; 0: all from there on */
    int error;          /* errno */
    const char *start;  /* the thread that cannot be started, or NULL */
    const char *hangs;  /* the thread whose reads and writes hang until disarmed, or NULL */
    int stops;          /* nothing fails: so often a stop is requested at that call */
};

static struct fault_plan fault_plan;
static atomic_bool fault_armed;
static atomic_int fault_calls;  /* counted by the plan */
static atomic_int fault_hits;   /* failed */
static atomic_long fault_live;  /* allocations that were not freed */
static atomic_bool fault_hangs; /* a thread hangs, or has hung */

static bool fault_hit(int kind)
{
    const struct fault_plan *p = &fault_plan;
    if (!atomic_load(&fault_armed) || !(p->kinds & kind) ||
        (p->thread && strcmp(p->thread, thread_role) != 0))
        return false;
    int call = atomic_fetch_add(&fault_calls, 1) + 1;
    for (int i = 0; i < p->stops && call == p->at; i++)
        sw_stop_request(0);
    if (p->stops || call < p->at || (p->times && call >= p->at + p->times))
        return false;
    atomic_fetch_add(&fault_hits, 1);
    errno = p->error;
    return true;
}

static void *fault_alloc(size_t bytes)
{
    void *p = fault_hit(FAIL_ALLOC) ? NULL : sw_os_posix.alloc(bytes);
    atomic_fetch_add(&fault_live, p != NULL);
    return p;
}

static void *fault_realloc(void *old, size_t bytes)
{
    void *p = fault_hit(FAIL_ALLOC) ? NULL : sw_os_posix.realloc(old, bytes);
    atomic_fetch_add(&fault_live, p && !old);
    return p;
}

static void fault_free(void *p)
{
    atomic_fetch_sub(&fault_live, p != NULL);
    sw_os_posix.free(p);
}

static void *fault_pages(size_t bytes)
{
    return fault_hit(FAIL_PAGES) ? NULL : sw_os_posix.map_pages(bytes);
}

static int fault_open(const char *path, int flags, mode_t mode)
{
    return fault_hit(FAIL_OPEN) ? -1 : sw_os_posix.open(path, flags, mode);
}

static void fault_hang(void)
{
    while (atomic_load(&fault_armed) && fault_plan.hangs &&
           strcmp(fault_plan.hangs, thread_role) == 0) {
        atomic_store(&fault_hangs, true);
        sleep_ms(10);
    }
}

static ssize_t fault_pread(int fd, void *buf, size_t bytes, off_t offset)
{
    fault_hang();
    return fault_hit(FAIL_READ) ? -1 : sw_os_posix.pread(fd, buf, bytes, offset);
}

/* A full disk takes half of what it is given. */
static ssize_t fault_write(int fd, const void *buf, size_t bytes)
{
    fault_hang();
    if (!fault_hit(FAIL_WRITE))
        return sw_os_posix.write(fd, buf, bytes);
    ssize_t part = sw_os_posix.write(fd, buf, bytes / 2);
    errno = fault_plan.error;
    return part < 0 ? part : -1;
}

/* Nothing here loses power, and a disk that takes its time would look like a role that hangs. */
static int fault_fsync(int fd)
{
    return fault_hit(FAIL_SYNC) ? -1 : 0;
}

static int fault_rename(const char *from, const char *to)
{
    return fault_hit(FAIL_RENAME) ? -1 : sw_os_posix.rename(from, to);
}

static inline void fault_arm(struct fault_plan plan)
{
    fault_plan = plan;
    if (!fault_plan.error)
        fault_plan.error = EIO;
    atomic_store(&fault_calls, 0);
    atomic_store(&fault_hits, 0);
    atomic_store(&fault_armed, true);
}

static inline int fault_disarm(void **state)
{
    atomic_store(&fault_armed, false);
    return 0;
}

/* ---- threads ---- */

static bool fault_refuses(const char *name)
{
    bool hit = atomic_load(&fault_armed) && fault_plan.start && sw_str_eq(fault_plan.start, name);
    atomic_fetch_add(&fault_hits, hit);
    return hit;
}

static void fault_first(void *arg)
{
}

/* Before any thread exists; for the whole program. */
static int fault_begin(void **state)
{
    static struct sw_os table;
    table = sw_os_posix;
    table.alloc = fault_alloc;
    table.realloc = fault_realloc;
    table.free = fault_free;
    table.map_pages = fault_pages;
    table.open = fault_open;
    table.pread = fault_pread;
    table.write = fault_write;
    table.fsync = fault_fsync;
    table.rename = fault_rename;
    sw_os_set(&table);
    thread_refused = fault_refuses;
    /* The thread sanitizer has a thread of its own from the first one on. */
    struct sw_thread first;
    struct sw_err err;
    if (sw_thread_start(&first, "first", fault_first, NULL, &err) != SW_OK)
        return -1;
    sw_thread_join(&first);
    return home_begin(state);
}

static inline int count_threads(void)
{
    int count = 0;
    DIR *d = opendir("/proc/self/task");
    for (struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d))
        count += e->d_name[0] != '.';
    if (d)
        closedir(d);
    return count;
}

/* A joined thread is gone from the list a moment later. */
static inline bool threads_become(int expected)
{
    for (int ms = 0; ms < 1000 && count_threads() != expected; ms++)
        sleep_ms(1);
    return count_threads() == expected;
}

/* ---- data ---- */

enum { CIFAR_RECORD = 3073 };

/* Records of CIFAR-10 with labels 0..3, but for record `odd`, which has `odd_label`. */
static inline const char *write_cifar(const char *name, int records, int odd, int odd_label)
{
    char *path = in_home("%s", name);
    unsigned char *bytes = malloc((size_t)records * CIFAR_RECORD);
    uint64_t word = 1;
    assert_non_null(bytes);
    for (int r = 0; r < records; r++) {
        unsigned char *at = bytes + (size_t)r * CIFAR_RECORD;
        at[0] = (unsigned char)(r == odd ? odd_label : r % 4);
        for (int i = 1; i < CIFAR_RECORD; i++) {
            word = word * 6364136223846793005u + 1442695040888963407u;
            at[i] = (unsigned char)(word >> 56);
        }
    }
    write_file(path, bytes, (size_t)records * CIFAR_RECORD);
    free(bytes);
    return path;
}

/* ---- a run that fails ---- */

/* No hang: longer than any of the job's own patience, on a machine that has much else to do. */
enum { SECONDS = 240 };

/* Overwrites one piece of a text by another of the same length. */
static inline const char *patched(char *text, const char *from, const char *to)
{
    char *at = strstr(text, from);
    assert_non_null(at);
    memcpy(at, to, strlen(from));
    return text;
}

/* The tiny net on files, with as many outputs as the format has classes: 64 records to train on, 40
 * to evaluate on, both at step 4, 8, 12. */
static inline const char *file_recipe(void)
{
    static char text[4096];
    snprintf(text, sizeof text,
             "[job]\nsteps = 12\nbatch = 16\neval_batch = 5\neval_every = 4\n"
             "checkpoint_every = 4\n"
             "[data train]\nformat = cifar10\npaths = %s/train.bin\nmean = 127\nstd = 64\n"
             "crop = 14\nmirror = yes\nshuffle = yes\n"
             "[data test]\nformat = cifar10\npaths = %s/test.bin\nmean = 127\nstd = 64\n"
             "crop = 14\n" UPDATER_SECTIONS NET_SECTIONS,
             home_dir, home_dir);
    return patched(text, "outputs = 4\n", "outputs =10\n");
}

/* The same on arrays. Nobody counts the classes of a field that is not named label, so one beyond
 * the 4 outputs is found when it is used: record `odd` of the split (-1: none) has odd_label. */
static inline void write_arrays(const char *split, int64_t records, int64_t odd, int32_t odd_label)
{
    int64_t shape[] = {records, 3, 16, 16}, count = records * 3 * 16 * 16;
    unsigned char *pixels = malloc((size_t)count);
    int32_t *labels = malloc((size_t)records * sizeof *labels);
    struct sw_err err;

    assert_true(pixels && labels);
    for (int64_t i = 0; i < count; i++)
        pixels[i] = (unsigned char)(i * 37 >> 2);
    for (int64_t r = 0; r < records; r++)
        labels[r] = r == odd ? odd_label : (int32_t)(r % 4);
    assert_int_equal(sw_npy_write(in_home("%s-x.npy", split), SW_U8, 4, shape, pixels, &err),
                     SW_OK);
    assert_int_equal(sw_npy_write(in_home("%s-y.npy", split), SW_I32, 1, shape, labels, &err),
                     SW_OK);
    free(pixels);
    free(labels);
}

static inline const char *array_recipe(void)
{
    static char text[4096];
    const char *h = home_dir;
    snprintf(text, sizeof text,
             "[job]\nsteps = 12\nbatch = 16\neval_batch = 5\neval_every = 4\n"
             "checkpoint_every = 4\n"
             "[data train]\nformat = npy\npaths = %s/train-x.npy\nfields = class:%s/train-y.npy\n"
             "mean = 127\nstd = 64\ncrop = 14\n"
             "[data test]\nformat = npy\npaths = %s/test-x.npy\nfields = class:%s/test-y.npy\n"
             "mean = 127\nstd = 64\ncrop = 14\n" UPDATER_SECTIONS NET_SECTIONS,
             h, h, h, h);
    return patched(text, "field = label", "field = class");
}

/* Every case has a history of its own. */
static inline int with_files(void **state)
{
    static const char *const files[] = {"history.db", "history.db-wal", "history.db-shm"};
    for (int i = 0; i < 3; i++)
        unlink(in_home("%s", files[i]));
    write_cifar("train.bin", 64, -1, 0);
    write_cifar("test.bin", 40, -1, 0);
    write_arrays("train", 64, -1, 0);
    write_arrays("test", 40, -1, 0);
    return 0;
}

/* No finite check on the way may miss: every value of every checkpoint is finite. */
static inline void assert_finite(const char *path)
{
    struct sw_st_file *f = open_tensors(path);
    for (size_t i = 0; i < sw_st_count(f); i++) {
        const struct sw_st_entry *e = sw_st_entry_at(f, i);
        float *values = tensor_bytes(f, e);
        for (size_t k = 0; k < e->bytes / sizeof *values; k++)
            assert_true(isfinite(values[k]));
        free(values);
    }
    sw_st_close(f);
}

/* What holds after every run, however it ended. */
struct before {
    int threads;
    long live;
};

static inline struct before look(void)
{
    return (struct before){.threads = count_threads(), .live = atomic_load(&fault_live)};
}

static inline void assert_nothing_left(struct trial *t, const struct before *b)
{
    const char *run = t->name;
    assert_false(t->stuck);
    assert_true(t->took_s < SECONDS);
    assert_true(threads_become(b->threads));
    trial_close(t);
    assert_int_equal(atomic_load(&fault_live), b->live);
    assert_int_equal(count_files(run, ".tmp-"), 0);
    assert_int_equal(count_files("singa-ws", ".live"), 0);
    assert_int_equal(count_files("singa-ws", ".sock"), 0);
    for (int step = 0; step <= 12; step++)
        if (exists(checkpoint_path(run, step)))
            assert_finite(checkpoint_path(run, step));
}

/* Runs the trial under the plan. It fails with that code, and its message begins with the role and
 * holds the cause. */
static inline void must_fail(struct trial *t, struct fault_plan plan, int rc, const char *role,
                             const char *cause)
{
    struct before b = look();
    if (trial_open(t) != SW_OK)
        fail_msg("%s", t->err.text);
    fault_arm(plan);
    trial_run(t);
    fault_disarm(NULL);
    if (t->rc != rc || strncmp(t->err.text, role, strlen(role)) != 0 || !strstr(t->err.text, cause))
        fail_msg("%s: %d, not %d: \"%s\" has not %s and %s", t->name, t->rc, rc, t->err.text, role,
                 cause);
    assert_nothing_left(t, &b);
}

/* As must_fail, and the history has it, once. */
static inline void must_fail_on_record(struct trial *t, struct fault_plan plan, int rc,
                                       const char *role, const char *cause)
{
    must_fail(t, plan, rc, role, cause);
    int id = run_id(t->name);
    assert_string_equal(ask_text("SELECT status FROM runs WHERE id = %d", id), "failed");
    assert_true(ask("SELECT ended_at IS NOT NULL FROM runs WHERE id = %d", id));
    assert_int_equal(
        (int)ask("SELECT count(*) FROM events WHERE run_id = %d AND level = 'error'", id), 1);
    assert_non_null(strstr(
        ask_text("SELECT text FROM events WHERE run_id = %d AND level = 'error'", id), cause));
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, with_files, fault_disarm)
