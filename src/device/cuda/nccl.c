/* Collectives of GPUs with NCCL: the module singa_nccl.so. There is one communicator per GPU of
 * this process, in non-blocking mode: an operation may still be in progress when its call returns,
 * and is polled until it is done, aborted or timed out. With blocking communicators a call that
 * hangs could not be ended: ncclCommAbort frees a communicator without waiting for the thread that
 * is inside it, and connecting returns no communicator to abort before it is done. Here it waits
 * for NCCL's own thread.
 *
 * Members of other processes are found by ncclUniqueId, which has the address of the process that
 * made it. NCCL chooses the network interfaces, or the environment does (NCCL_SOCKET_IFNAME). It
 * neither encrypts nor authenticates.
 *
 * Threads. A group belongs to one thread, and so do opening and closing; check and abort may come
 * from other threads meanwhile. ncclCommGetAsyncError also ends a group in NCCL, which two threads
 * must not do at a time: a group polls its communicators without `lock`, and check leaves them
 * alone meanwhile. An abort may take long, so a separate thread runs it once the current group has
 * noticed it and returned. It is done when ncclGroupEnd returns, whatever the mode of the
 * communicators, which do not exist any more then. Nobody waits for that without a limit. */
#include "base/os.h"
#include "device/cuda/cuda_private.h"
#include "device/cuda/nccl_module.h"
#include <cuda_runtime_api.h>
#include <nccl.h>
#include <stdio.h>
#include <string.h>

enum {
    SPIN_NS = 200000, /* how long to poll without a pause */
    NAP_NS = 50000,
    GROUP_MS = 60000, /* how long NCCL may take to start the operations of a group */
    CLOSE_MS = 5000,
};

struct nccl {
    struct sw_collective base;       /* first member */
    struct sw_cuda_device **devices; /* owned [ranks], borrowed each */
    ncclComm_t *comms;               /* owned [ranks]; NULL: not created or already destroyed */
    int aborting;                    /* atomic */
    bool (*cancelled)(void *user);   /* while it is opened; or NULL */
    void *user;
    struct sw_mutex lock; /* guards all below */
    struct sw_cond changed;
    bool alive;    /* the communicators exist */
    bool in_group; /* a thread is inside a group, and no other may use the communicators */
    struct sw_thread aborter;
    bool has_aborter;
};

static struct nccl *nccl_of(struct sw_collective *c)
{
    return (struct nccl *)(void *)c;
}

static void set_device(const struct sw_cuda_device *d)
{
    (void)cudaSetDevice(d->gpu); /* cannot fail: it succeeded when the device was opened */
}

static bool is_aborting(const struct nccl *c)
{
    return __atomic_load_n(&c->aborting, __ATOMIC_ACQUIRE) ||
           (c->cancelled && c->cancelled(c->user));
}

static int64_t deadline_of(int timeout_ms)
{
    return sw_os()->monotonic_ns() + (int64_t)timeout_ms * 1000000;
}

/* ---- Errors and states ---- */

static int nccl_error(const struct nccl *c, int rank, ncclResult_t status, const char *what,
                      struct sw_err *err)
{
    ncclComm_t comm = c->comms[rank];
    const char *more = comm ? ncclGetLastError(comm) : NULL;

    return sw_err_set(err, SW_ERR_LIBRARY, "%s: %s: NCCL: %s%s%s", c->devices[rank]->base.name,
                      what, ncclGetErrorString(status), more && *more ? ": " : "",
                      more && *more ? more : "");
}

static bool is_fine(ncclResult_t status)
{
    return status == ncclSuccess || status == ncclInProgress;
}

/* The state of a communicator: idle, busy or failed. */
static ncclResult_t state_of(ncclComm_t comm)
{
    ncclResult_t state = ncclSuccess;
    ncclResult_t status = ncclCommGetAsyncError(comm, &state);
    return status == ncclSuccess ? state : status;
}

/* Waits until all communicators have started the operation. */
static int wait_until_started(const struct nccl *c, const char *what, int timeout_ms,
                              struct sw_err *err)
{
    int64_t began_ns = sw_os()->monotonic_ns(), end_ns = deadline_of(timeout_ms);

    for (int r = 0; r < c->base.ranks;) {
        ncclResult_t state = c->comms[r] ? state_of(c->comms[r]) : ncclSuccess;
        if (!is_fine(state))
            return nccl_error(c, r, state, what, err);
        if (state == ncclSuccess) {
            r++;
            continue;
        }

        int64_t now_ns = sw_os()->monotonic_ns();
        if (is_aborting(c))
            return sw_err_set(err, SW_ERR_CANCELLED, "%s: aborted", what);

        if (now_ns > end_ns)
            return sw_err_set(err, SW_ERR_LIBRARY,
                              "%s: %s: NCCL did not finish within %d s; set NCCL_DEBUG=INFO for "
                              "details, or all_reduce = copies to run without NCCL",
                              c->devices[r]->base.name, what, timeout_ms / 1000);

        if (now_ns - began_ns > SPIN_NS)
            sw_thread_nap(NAP_NS);
        else
            sw_thread_yield();
    }

    return SW_OK;
}

/* ---- Groups ---- */

static int enter_group(struct nccl *c, struct sw_err *err)
{
    sw_mutex_lock(&c->lock);

    bool may = c->alive && !is_aborting(c);
    c->in_group = may;
    sw_mutex_unlock(&c->lock);

    return may ? SW_OK : sw_err_set(err, SW_ERR_CANCELLED, "all_reduce: aborted");
}

static void leave_group(struct nccl *c)
{
    sw_mutex_lock(&c->lock);
    c->in_group = false;
    sw_cond_broadcast(&c->changed);
    sw_mutex_unlock(&c->lock);
}

static int group_begin(struct sw_collective *collective, struct sw_err *err)
{
    struct nccl *c = nccl_of(collective);

    int rc = enter_group(c, err);
    if (rc != SW_OK)
        return rc;

    ncclResult_t status = ncclGroupStart();
    if (is_fine(status))
        return SW_OK;

    leave_group(c);
    return nccl_error(c, 0, status, "beginning a group", err);
}

static int all_reduce(struct sw_collective *collective, int rank, struct sw_stream *s, float *x,
                      int64_t n, struct sw_err *err)
{
    struct nccl *c = nccl_of(collective);

    set_device(c->devices[rank]);

    ncclResult_t status = ncclAllReduce(x, x, (size_t)n, ncclFloat32, ncclSum, c->comms[rank],
                                        sw_cuda_stream_of(s)->stream);
    return is_fine(status) ? SW_OK : nccl_error(c, rank, status, "all_reduce", err);
}

/* Waits for NCCL, since nothing may be queued after the group before NCCL has queued the group
 * itself. */
static int group_end(struct sw_collective *collective, struct sw_err *err)
{
    struct nccl *c = nccl_of(collective);
    ncclResult_t status = ncclGroupEnd();
    int rc = is_fine(status) ? wait_until_started(c, "all_reduce", GROUP_MS, err)
                             : nccl_error(c, 0, status, "all_reduce", err);

    leave_group(c);
    return rc;
}

/* ---- Checking and aborting ---- */

/* Errors of a group in progress are those of group_end. */
static int check(struct sw_collective *collective, struct sw_err *err)
{
    struct nccl *c = nccl_of(collective);
    int rc = SW_OK;

    sw_mutex_lock(&c->lock);

    for (int r = 0; c->alive && !c->in_group && r < c->base.ranks && rc == SW_OK; r++) {
        ncclResult_t state = state_of(c->comms[r]);
        if (!is_fine(state))
            rc = nccl_error(c, r, state, "all_reduce", err);
    }

    sw_mutex_unlock(&c->lock);
    return rc;
}

static void end_comms(struct nccl *c, ncclResult_t (*end)(ncclComm_t))
{
    (void)ncclGroupStart(); /* in a group, since each call waits for the others of this process */

    for (int r = 0; c->comms && r < c->base.ranks; r++)
        if (c->comms[r]) {
            set_device(c->devices[r]);
            (void)end(c->comms[r]);
        }

    (void)ncclGroupEnd();
}

static void abort_main(void *arg)
{
    struct nccl *c = arg;

    sw_mutex_lock(&c->lock);
    while (c->in_group)
        sw_cond_wait(&c->changed, &c->lock);

    bool owns_comms = c->alive;
    c->alive = false;
    sw_mutex_unlock(&c->lock);
    if (owns_comms)
        end_comms(c, ncclCommAbort);
}

static void abort_all(struct sw_collective *collective)
{
    struct nccl *c = nccl_of(collective);
    struct sw_err ignored; /* on error close_nccl aborts */

    if (__atomic_exchange_n(&c->aborting, 1, __ATOMIC_ACQ_REL))
        return;

    bool started = sw_thread_start(&c->aborter, "nccl-abort", abort_main, c, &ignored) == SW_OK;
    sw_mutex_lock(&c->lock);
    c->has_aborter = started;
    sw_mutex_unlock(&c->lock);
}

static bool has_aborter(struct nccl *c)
{
    sw_mutex_lock(&c->lock);
    bool has = c->has_aborter;
    sw_mutex_unlock(&c->lock);
    return has;
}

static bool abort_ends(struct sw_collective *collective, int timeout_ms)
{
    struct nccl *c = nccl_of(collective);

    bool ended = !has_aborter(c) || sw_thread_join_timed(&c->aborter, timeout_ms);
    c->base.hanging = ended ? NULL : c;
    return ended;
}

/* ---- Life ---- */

static void free_nccl(struct nccl *c)
{
    sw_cond_fini(&c->changed);
    sw_mutex_fini(&c->lock);
    sw_free(c->comms);
    sw_free(c->devices);
    sw_free(c);
}

/* Destroys the communicators unless they are aborted, or do not finish. */
static void destroy_comms(struct nccl *c)
{
    struct sw_err ignored;

    if (enter_group(c, &ignored) != SW_OK)
        return;

    end_comms(c, ncclCommFinalize);
    bool finished = wait_until_started(c, "closing", CLOSE_MS, &ignored) == SW_OK;
    if (finished)
        end_comms(c, ncclCommDestroy);

    sw_mutex_lock(&c->lock);
    c->alive = !finished;
    sw_mutex_unlock(&c->lock);
    leave_group(c);
}

/* What cannot be destroyed is aborted, by the other thread if that can be started. An abort that
 * hangs still uses the communicators, so they are leaked. */
static void close_nccl(struct sw_collective *collective)
{
    struct nccl *c = nccl_of(collective);

    if (!abort_ends(collective, CLOSE_MS))
        return;

    destroy_comms(c);

    if (c->alive) {
        abort_all(collective);
        if (!has_aborter(c))
            end_comms(c, ncclCommAbort);
    }

    if (abort_ends(collective, CLOSE_MS))
        free_nccl(c);
}

static int check_members(const struct sw_collective_args *args, struct sw_err *err)
{
    for (int r = 0; r < args->ranks; r++)
        for (int q = 0; q < r; q++)
            if (sw_cuda_device_of(args->devices[q])->gpu ==
                sw_cuda_device_of(args->devices[r])->gpu)
                return sw_err_set(err, SW_ERR_INVALID, "%s cannot join a collective twice",
                                  args->devices[r]->name);

    return SW_OK;
}

_Static_assert(sizeof(ncclUniqueId) <= SW_COLLECTIVE_ID_BYTES, "an id has room for NCCL's");

static int make_id(struct sw_collective_id *out, struct sw_err *err)
{
    ncclUniqueId id;
    ncclResult_t status = ncclGetUniqueId(&id);

    if (status != ncclSuccess)
        return sw_err_set(err, SW_ERR_LIBRARY, "NCCL makes no id for communicators: %s",
                          ncclGetErrorString(status));

    *out = (struct sw_collective_id){.bytes = {0}};
    memcpy(out->bytes, &id, sizeof id);
    return SW_OK;
}

static int init_comms(struct nccl *c, const struct sw_collective_args *args, struct sw_err *err)
{
    static const char what[] = "initializing communicators";
    const int members = args->members ? args->members : args->ranks;
    struct sw_collective_id own;
    ncclUniqueId id;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;

    config.blocking = 0;

    int rc = args->id ? SW_OK : make_id(&own, err);
    if (rc != SW_OK)
        return rc;
    memcpy(&id, args->id ? args->id->bytes : own.bytes, sizeof id);

    ncclResult_t status = ncclGroupStart();
    if (status != ncclSuccess)
        return nccl_error(c, 0, status, what, err);

    for (int r = 0; r < args->ranks && is_fine(status); r++) {
        set_device(c->devices[r]);
        status = ncclCommInitRankConfig(&c->comms[r], members, id, args->first + r, &config);
    }

    ncclResult_t ended = ncclGroupEnd();
    status = is_fine(status) ? ended : status;
    return is_fine(status) ? wait_until_started(c, what, args->timeout_ms, err)
                           : nccl_error(c, 0, status, what, err);
}

static int make(struct nccl *c, const struct sw_collective_args *args, struct sw_err *err)
{
    size_t ranks = (size_t)args->ranks;

    c->devices = sw_calloc(ranks, sizeof *c->devices);
    c->comms = sw_calloc(ranks, sizeof *c->comms);
    if (!c->devices || !c->comms)
        return sw_err_nomem(err, "a collective", ranks * sizeof *c->comms);

    for (int r = 0; r < args->ranks; r++)
        c->devices[r] = sw_cuda_device_of(args->devices[r]);
    c->alive = true;
    c->cancelled = args->cancelled;
    c->user = args->user;

    int rc = init_comms(c, args, err);
    c->cancelled = NULL;
    if (rc == SW_OK)
        return SW_OK;

    /* On a thread of its own, since it may take as long as the operation that hangs. */
    abort_all(&c->base);
    return rc;
}

static const struct sw_collective_ops nccl_ops;

static int open_nccl(const struct sw_collective_args *args, struct sw_collective **out,
                     struct sw_err *err)
{
    int rc = check_members(args, err);
    if (rc != SW_OK)
        return rc;

    struct nccl *c = sw_calloc(1, sizeof *c);
    if (!c)
        return sw_err_nomem(err, "a collective", sizeof *c);

    sw_mutex_init(&c->lock);
    sw_cond_init(&c->changed);
    c->base.ops = &nccl_ops;
    c->base.ranks = args->ranks;

    rc = make(c, args, err);
    if (rc != SW_OK) {
        close_nccl(&c->base);
        return rc;
    }

    *out = &c->base;
    return SW_OK;
}

static const char *name(char *out, size_t bytes)
{
    int v = 0;

    if (ncclGetVersion(&v) == ncclSuccess)
        snprintf(out, bytes, "NCCL %d.%d.%d", v / 10000, v / 100 % 100, v % 100);
    else
        snprintf(out, bytes, "NCCL");

    return out;
}

static const struct sw_collective_ops nccl_ops = {
    .name = name,
    .secure = false, /* ncclSetEncryption is not in the releases that are installed */
    .make_id = make_id,
    .open = open_nccl,
    .close = close_nccl,
    .group_begin = group_begin,
    .all_reduce = all_reduce,
    .group_end = group_end,
    .check = check,
    .abort = abort_all,
    .abort_ends = abort_ends,
};

__attribute__((visibility("default"))) extern const struct sw_nccl_module sw_nccl_module;
const struct sw_nccl_module sw_nccl_module = {
    .head = {.abi = SW_NCCL_ABI, .table_bytes = SW_NCCL_TABLE_BYTES},
    .private_bytes = SW_CUDA_INSIDE_BYTES,
    .collectives = &nccl_ops,
};
