/* Engine `mpi`. A thread of its own initializes MPI when the first fabric is opened, makes all
 * calls of MPI (MPI_THREAD_FUNNELED), and finalizes it when the process ends; MPI knows one
 * process, so this state is the process's.
 *
 * MPI can neither take a send back nor end the connection to one host. So, of a host that is lost:
 * until close, MPI may still read the chunks that were under way to it, for which the host is told
 * that they do not count, and write to the place of the chunk that it was sending. After close MPI
 * touches no memory of the fabric: what is not complete by then will never be, and MPI is not
 * called again. MPI_Finalize waits for all processes; it is left out when one of them is lost, and
 * the launcher then ends those that remain. */
#include "exchange/hosts/mpi.h"
#include "exchange/hosts/mpi/link.h"

#include "base/os.h"
#include "thread/tasks.h"
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    SPINS = 64,     /* rounds in which nothing moves, before the thread pauses */
    BYE_MS = 30000, /* for the byes of hosts, which may have more to do than this one */
};

static struct sw_mpi_link process = {.busy = -1, .own = -1};

/* How long the end waits for a host that is lost, but may still be there. */
static int lost_ms(const struct sw_mpi_link *m)
{
    return m->silence_ms / 4;
}

/* ---- The thread ---- */

static int allocate(struct sw_mpi_link *m, struct sw_err *err)
{
    size_t size = (size_t)m->size, requests = size * REQUESTS;

    m->peers = sw_calloc(size, sizeof *m->peers);
    m->request = sw_calloc(requests, sizeof *m->request);
    m->status = sw_calloc(requests, sizeof *m->status);
    m->done = sw_calloc(requests, sizeof *m->done);
    m->scratch = sw_os()->map_pages(size * SW_FABRIC_CHUNK);
    if (!m->peers || !m->request || !m->status || !m->done || !m->scratch)
        return sw_err_nomem(err, "connections over MPI",
                            size * (sizeof *m->peers + SW_FABRIC_CHUNK));

    for (size_t i = 0; i < requests; i++)
        m->request[i] = MPI_REQUEST_NULL;
    for (size_t i = 0; i < size; i++)
        m->peers[i].scratch = m->scratch + i * SW_FABRIC_CHUNK;
    return SW_OK;
}

static void free_memory(struct sw_mpi_link *m)
{
    if (m->scratch)
        sw_os()->unmap_pages(m->scratch, (size_t)m->size * SW_FABRIC_CHUNK);
    sw_free(m->peers);
    sw_free(m->request);
    sw_free(m->status);
    sw_free(m->done);
}

static int initialize(struct sw_mpi_link *m, struct sw_err *err)
{
    int before = 0, level = MPI_THREAD_SINGLE;
    char name[80];

    MPI_Initialized(&before);
    if (before)
        return sw_err_set(err, SW_ERR_LIBRARY, "%s is already in use in this process",
                          sw_mpi_name(name, sizeof name));

    int rc = MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &level);
    if (rc != MPI_SUCCESS || level < MPI_THREAD_FUNNELED)
        return sw_err_set(err, SW_ERR_LIBRARY, "%s does not start in a process with threads",
                          sw_mpi_name(name, sizeof name));

    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_size(MPI_COMM_WORLD, &m->size);
    MPI_Comm_rank(MPI_COMM_WORLD, &m->own);
    return allocate(m, err);
}

static bool is_used(const struct sw_mpi_link *m)
{
    for (int i = 0; i < m->size; i++)
        if (m->peers[i].used)
            return true;
    return false;
}

/* Waits until there is a connection. False: the thread has nothing to do any more. */
static bool has_work(struct sw_mpi_link *m)
{
    sw_mutex_lock(&m->lock);

    while (!m->stop && !m->stuck && !is_used(m))
        sw_cond_wait(&m->changed, &m->lock);

    if (m->stop && is_used(m) && sw_os()->monotonic_ns() >= m->stop_ns)
        m->stuck = true;
    bool work = !m->stuck && is_used(m);

    sw_mutex_unlock(&m->lock);
    return work;
}

static void set_state(struct sw_mpi_link *m, enum sw_mpi_state state, const struct sw_err *why)
{
    sw_mutex_lock(&m->lock);
    m->state = state;
    if (why)
        m->why = *why;
    sw_cond_broadcast(&m->changed);
    sw_mutex_unlock(&m->lock);
}

static void mpi_main(void *process_link)
{
    struct sw_mpi_link *m = process_link;
    struct sw_err why;

    m->task = sw_task_self();
    int rc = initialize(m, &why);
    set_state(m, rc == SW_OK ? SW_MPI_RUNS : SW_MPI_ENDED, rc == SW_OK ? NULL : &why);
    if (rc != SW_OK)
        return;

    for (int idle = 0; has_work(m);) {
        idle = sw_mpi_round(m) ? 0 : idle < INT_MAX ? idle + 1 : idle;
        if (idle > SPINS)
            sw_mpi_pause(m, idle);
    }

    sw_err_set(&why, SW_ERR_LIBRARY, "MPI cannot be used any more, since a host was lost");
    set_state(m, SW_MPI_ENDED, &why);
    if (!m->stuck)
        MPI_Finalize();
}

/* ---- The life of the process ---- */

/* Is the bye of a lost host missing? */
static bool is_lost(const struct sw_mpi_link *m)
{
    for (int i = 0; m->peers && i < m->size; i++)
        if (m->peers[i].used && m->peers[i].lost)
            return true;
    return false;
}

/* A process without losses ends together with the others: if one of them ended before another is
 * done with its work, the launcher would end that one. */
static void end_process(void)
{
    struct sw_mpi_link *m = &process;

    sw_mutex_lock(&m->lock);
    bool starts = m->state == SW_MPI_STARTS, losses = m->losses;
    int wait_ms = !starts && is_lost(m) ? lost_ms(m) : BYE_MS;
    m->stop = true;
    m->stuck = m->stuck || m->up;
    m->stop_ns = sw_os()->monotonic_ns() + (int64_t)wait_ms * 1000000;
    sw_cond_broadcast(&m->changed);
    sw_mutex_unlock(&m->lock);

    if (!starts && !losses)
        sw_thread_join(&m->thread);
    else if (!sw_thread_join_timed(&m->thread, starts ? 0 : wait_ms + m->silence_ms))
        return; /* MPI still waits for others */

    if (!m->stuck)
        free_memory(m);
}

/* With one connection between two hosts Open MPI reaches half the rate of a slow wire. */
static void set_links(void)
{
    for (char **e = environ; *e; e++)
        if (strncmp(*e, "OMPI_MCA_btl", 12) == 0)
            return;

    setenv("OMPI_MCA_btl_tcp_links", "2", 0);
}

static int start_thread(struct sw_mpi_link *m, struct sw_err *err)
{
    if (m->state != SW_MPI_NEW)
        return SW_OK;

    set_links();
    sw_mutex_init(&m->lock);
    sw_cond_init(&m->changed);
    m->state = SW_MPI_STARTS;

    int rc = sw_thread_start(&m->thread, "mpi", mpi_main, m, err);
    if (rc == SW_OK)
        atexit(end_process);
    else
        m->state = SW_MPI_NEW;
    return rc;
}

/* ---- The engine ---- */

/* With the lock: can the hosts be connected now? SW_ERR_BUSY: not yet, because of err. */
static int is_ready(const struct sw_mpi_link *m, const struct sw_fabric_wire *up,
                    struct sw_err *err)
{
    const struct sw_hosts *h = up->hosts;

    if (m->state == SW_MPI_ENDED)
        return sw_err_set(err, m->why.code, "%s", m->why.text);
    if (m->state == SW_MPI_STARTS)
        return sw_err_set(err, SW_ERR_BUSY, "not all processes of the job have started MPI");
    if (m->up)
        return sw_err_set(err, SW_ERR_LIBRARY, "MPI connects the hosts of one job at a time");
    if (h->count > m->size || h->own != m->own)
        return sw_err_set(err, SW_ERR_LIBRARY,
                          "MPI has %d processes, and this is number %d of them, which cannot be "
                          "host %s, number %d of %d",
                          m->size, m->own, h->host[h->own].name, h->own, h->count);

    for (int i = 0; i < h->count; i++)
        if (m->peers[i].used)
            return sw_err_set(err, SW_ERR_BUSY,
                              "host %s still has the connection of an earlier job",
                              h->host[i].name);
    return SW_OK;
}

/* With the lock. */
static void attach(struct sw_mpi_link *m, const struct sw_fabric_wire *up)
{
    for (int i = 0; i < up->hosts->count; i++) {
        struct sw_mpi_peer *p = &m->peers[i];

        p->pushed = p->sent = p->begun = p->received = 0;
        p->whole = p->total = UINT64_MAX;
        p->openings++;
        p->used = i != m->own;
        p->dropped = p->lost = p->quiet = p->here = p->bye_came = false;
        p->bye_said = p->placed = p->told = false;
        p->why.code = SW_OK;
    }

    m->up = up;
    m->silence_ms = up->silence_ms;
    sw_cond_broadcast(&m->changed);
}

/* With the lock: how long close waits for what is under way; 0: nothing is. */
static int wait_of_close(const struct sw_mpi_link *m)
{
    int ms = 0;

    for (int i = 0; i < m->size; i++) {
        const struct sw_mpi_peer *p = &m->peers[i];
        int own_ms = !p->used || p->quiet ? 0 : p->lost ? lost_ms(m) : m->silence_ms;
        ms = own_ms > ms ? own_ms : ms;
    }

    return ms;
}

/* With the lock: ends the connections to all hosts. */
static void detach(struct sw_mpi_link *m)
{
    for (int i = 0; i < m->size; i++)
        m->peers[i].dropped = true;
    while (m->busy >= 0)
        sw_cond_wait(&m->changed, &m->lock);
    m->up = NULL;

    int64_t begin_ns = sw_os()->monotonic_ns();
    while (m->state == SW_MPI_RUNS &&
           sw_os()->monotonic_ns() - begin_ns < (int64_t)wait_of_close(m) * 1000000)
        sw_cond_wait_ms(&m->changed, &m->lock, 20);

    m->stuck = m->stuck || wait_of_close(m) > 0;
    while (m->stuck && m->state == SW_MPI_RUNS)
        sw_cond_wait(&m->changed, &m->lock);
}

/* With the lock: a host that has not come; -1: all are here. */
static int absent(const struct sw_mpi_link *m, const struct sw_hosts *h)
{
    for (int i = 0; i < h->count; i++)
        if (i != h->own && !m->peers[i].here)
            return i;
    return -1;
}

/* With the lock. */
static int meet(struct sw_mpi_link *m, const struct sw_fabric_wire *up, int64_t deadline_ns,
                struct sw_err *err)
{
    int late;

    while ((late = absent(m, up->hosts)) >= 0 && sw_os()->monotonic_ns() < deadline_ns)
        sw_cond_wait_ms(&m->changed, &m->lock, 20);

    if (late < 0)
        return SW_OK;
    return sw_err_set(err, SW_ERR_NOTFOUND, "host %s did not come within %g s",
                      up->hosts->host[late].name, up->connect_ms / 1e3);
}

static int mpi_open(const struct sw_fabric_wire *up, void **link, struct sw_err *err)
{
    struct sw_mpi_link *m = &process;
    int64_t deadline_ns = sw_os()->monotonic_ns() + (int64_t)up->connect_ms * 1000000;

    int rc = start_thread(m, err);
    if (rc != SW_OK)
        return rc;

    sw_mutex_lock(&m->lock);

    while ((rc = is_ready(m, up, err)) == SW_ERR_BUSY && sw_os()->monotonic_ns() < deadline_ns)
        sw_cond_wait_ms(&m->changed, &m->lock, 20);
    if (rc == SW_OK) {
        attach(m, up);
        rc = meet(m, up, deadline_ns, err);
        if (rc != SW_OK)
            detach(m);
    }

    sw_mutex_unlock(&m->lock);

    if (rc == SW_ERR_BUSY) {
        rc = SW_ERR_NOTFOUND;
        sw_err_prefix(err, rc, "after %g s", up->connect_ms / 1e3);
    }
    if (rc == SW_OK)
        *link = m;
    return rc;
}

static int mpi_push(void *link, int to, const struct sw_fabric_frame *head, const void *data)
{
    struct sw_mpi_link *m = link;
    struct sw_mpi_peer *p = &m->peers[to];
    int rc = SW_OK;

    sw_mutex_lock(&m->lock);

    if (p->dropped) {
        rc = SW_ERR_LOST;
    } else if (p->pushed - p->sent == WINDOW) {
        rc = SW_ERR_BUSY;
    } else {
        struct sw_mpi_slot *s = &p->slot[p->pushed++ % WINDOW];
        bool is_short = head->bytes <= INLINE;

        sw_frame_write(head, s->head);
        if (is_short && head->bytes > 0)
            memcpy(s->head + SW_FRAME_HEAD, data, head->bytes);
        s->head_bytes = SW_FRAME_HEAD + (is_short ? (int)head->bytes : 0);
        s->body_bytes = is_short ? 0 : (int)head->bytes;
        s->body = data;
    }

    sw_mutex_unlock(&m->lock);
    return rc;
}

static void mpi_drop(void *link, int host)
{
    struct sw_mpi_link *m = link;
    struct sw_mpi_peer *p = &m->peers[host];

    sw_mutex_lock(&m->lock);

    p->dropped = true;
    p->lost = p->lost || !p->bye_came;
    m->losses = m->losses || p->lost;
    while (m->busy == host && sw_task_self() != m->task)
        sw_cond_wait(&m->changed, &m->lock);

    sw_mutex_unlock(&m->lock);
}

static void mpi_close(void *link)
{
    struct sw_mpi_link *m = link;

    sw_mutex_lock(&m->lock);
    detach(m);
    sw_mutex_unlock(&m->lock);
}

__attribute__((visibility("default"))) const struct sw_mpi_module sw_mpi_module = {
    .head = {.abi = SW_FABRIC_ABI, .table_bytes = sizeof(struct sw_mpi_module)},
    .engine = {.abi = SW_FABRIC_ABI,
               .ends_all = true,
               .name = sw_mpi_name,
               .open = mpi_open,
               .push = mpi_push,
               .drop = mpi_drop,
               .close = mpi_close}};
