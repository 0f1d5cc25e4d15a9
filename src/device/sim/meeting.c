/* Meetings of simulated GPUs. Those that still wait for members are in a list of the process, by
 * their id, which begins with a random number of the process. */
#include "device/sim/meeting.h"

#include "base/os.h"
#include <string.h>

enum { CHECK_MS = 10, NONCE_BYTES = 16 };

struct sw_sim_meeting {
    struct sw_collective_id id;
    int members;
    struct sw_sim_meeting_member *member; /* owned [members] */
    int hosts, came;             /* guarded by list_lock: that use it; members that have come */
    struct sw_sim_meeting *next; /* in the list; likewise */
    struct sw_mutex lock;        /* guards all below, and what members bring */
    struct sw_cond changed;
    struct sw_sim_meeting_host *first;
    int arrived, readers;
    uint64_t barriers;
    bool incomplete; /* a host is gone */
};

static struct sw_mutex list_lock = SW_MUTEX_INITIALIZER; /* guards all below */
static struct sw_sim_meeting *list;
static uint64_t ids;
static unsigned char nonce[NONCE_BYTES]; /* of this process; if ids > 0 */

/* ---- Ids ---- */

int sw_sim_meeting_make_id(struct sw_collective_id *out, struct sw_err *err)
{
    int rc = SW_OK;

    sw_mutex_lock(&list_lock);
    if (ids == 0 && sw_os()->random_bytes(nonce, sizeof nonce) != 0)
        rc = sw_err_set(err, SW_ERR_LIBRARY, "the system gives no random bytes");
    if (rc == SW_OK) {
        ids++;
        *out = (struct sw_collective_id){.bytes = {0}};
        memcpy(out->bytes, nonce, sizeof nonce);
        memcpy(out->bytes + sizeof nonce, &ids, sizeof ids);
    }
    sw_mutex_unlock(&list_lock);

    return rc;
}

int sw_sim_meeting_accepts(const struct sw_collective_id *id, struct sw_err *err)
{
    sw_mutex_lock(&list_lock);
    bool own = ids > 0 && memcmp(id->bytes, nonce, sizeof nonce) == 0;
    sw_mutex_unlock(&list_lock);

    return own ? SW_OK
               : sw_err_set(err, SW_ERR_UNSUPPORTED,
                            "simulated GPUs of different processes have no links");
}

/* ---- Members come and go ---- */

static struct sw_sim_meeting *new_meeting(const struct sw_collective_args *args, int members)
{
    struct sw_sim_meeting *m = sw_calloc(1, sizeof *m);
    if (!m)
        return NULL;

    m->members = members;
    m->member = sw_calloc((size_t)members, sizeof *m->member);
    if (!m->member) {
        sw_free(m);
        return NULL;
    }

    sw_mutex_init(&m->lock);
    sw_cond_init(&m->changed);
    if (args->id) {
        m->id = *args->id;
        m->next = list;
        list = m;
    }

    return m;
}

/* With list_lock. */
static void unlist(const struct sw_sim_meeting *m)
{
    for (struct sw_sim_meeting **at = &list; *at; at = &(*at)->next)
        if (*at == m) {
            *at = m->next;
            return;
        }
}

static struct sw_sim_meeting *find(const struct sw_collective_id *id)
{
    for (struct sw_sim_meeting *m = id ? list : NULL; m; m = m->next)
        if (memcmp(&m->id, id, sizeof *id) == 0)
            return m;
    return NULL;
}

static void free_meeting(struct sw_sim_meeting *m)
{
    sw_cond_fini(&m->changed);
    sw_mutex_fini(&m->lock);
    sw_free(m->member);
    sw_free(m);
}

/* Are the host's places free in the meeting? */
static int check_places(const struct sw_sim_meeting *m, const struct sw_sim_meeting_host *h,
                        int members, struct sw_err *err)
{
    bool fits = m->members == members && h->first >= 0 && h->first + h->ranks <= members;

    for (int i = 0; fits && i < h->ranks; i++)
        fits = !m->member[h->first + i].device;

    return fits ? SW_OK
                : sw_err_set(err, SW_ERR_INVALID,
                             "members %d to %d of %d do not fit those of the other hosts", h->first,
                             h->first + h->ranks - 1, members);
}

/* With list_lock. */
static int enter(struct sw_sim_meeting_host *h, const struct sw_collective_args *args,
                 struct sw_err *err)
{
    const int members = args->members ? args->members : args->ranks;
    struct sw_sim_meeting *m = find(args->id);

    if (!m)
        m = new_meeting(args, members);
    if (!m)
        return sw_err_nomem(err, "a collective", sizeof *m);

    /* A host that is refused has not been part of the meeting, whose members need not miss it. */
    int rc = check_places(m, h, members, err);
    if (rc != SW_OK) {
        if (m->hosts == 0) {
            unlist(m);
            free_meeting(m);
        }
        return rc;
    }

    m->hosts++;
    h->meeting = m;
    for (int i = 0; i < h->ranks; i++)
        m->member[h->first + i] =
            (struct sw_sim_meeting_member){.device = sw_sim_device_of(args->devices[i]), .host = h};
    m->came += h->ranks;
    h->next = m->first;
    m->first = h;
    if (m->came == m->members)
        unlist(m);

    return SW_OK;
}

/* How many members are still missing. */
static int missing(struct sw_sim_meeting *m)
{
    sw_mutex_lock(&list_lock);
    int n = m->members - m->came;
    sw_mutex_unlock(&list_lock);
    return n;
}

static int wait_for_members(struct sw_sim_meeting_host *h, const struct sw_collective_args *args,
                            struct sw_err *err)
{
    struct sw_sim_meeting *m = h->meeting;
    int64_t until_ns = sw_os()->monotonic_ns() + (int64_t)args->timeout_ms * 1000000;

    for (int n; (n = missing(m)) > 0; sw_thread_nap((int64_t)CHECK_MS * 1000000)) {
        if (args->cancelled && args->cancelled(args->user))
            return sw_err_set(err, SW_ERR_CANCELLED, "all_reduce: aborted");
        if (sw_os()->monotonic_ns() > until_ns)
            return sw_err_set(err, SW_ERR_LIBRARY,
                              "%s: %d of the %d members of a collective did not come within %d s",
                              args->devices[0]->name, n, m->members, args->timeout_ms / 1000);
    }

    return SW_OK;
}

int sw_sim_meeting_join(struct sw_sim_meeting_host *h, const struct sw_collective_args *args,
                        struct sw_err *err)
{
    struct sw_event *gate;

    h->first = args->first;
    h->ranks = args->ranks;

    int rc = args->id ? sw_sim_meeting_accepts(args->id, err) : SW_OK;
    if (rc != SW_OK)
        return rc;
    rc = sw_sim_event_new(args->devices[0], &gate, err);
    if (rc != SW_OK)
        return rc;

    h->gate = sw_sim_event_of(gate);

    sw_mutex_lock(&list_lock);
    rc = enter(h, args, err);
    sw_mutex_unlock(&list_lock);

    return rc == SW_OK ? wait_for_members(h, args, err) : rc;
}

static void remove_host(struct sw_sim_meeting *m, const struct sw_sim_meeting_host *h)
{
    for (struct sw_sim_meeting_host **at = &m->first; *at; at = &(*at)->next)
        if (*at == h) {
            *at = h->next;
            return;
        }
}

void sw_sim_meeting_leave(struct sw_sim_meeting_host *h)
{
    struct sw_sim_meeting *m = h->meeting;

    if (m) {
        sw_sim_meeting_quit(h);

        sw_mutex_lock(&list_lock);
        sw_mutex_lock(&m->lock);
        remove_host(m, h);
        sw_mutex_unlock(&m->lock);
        bool last = --m->hosts == 0;
        if (last)
            unlist(m);
        sw_mutex_unlock(&list_lock);

        if (last)
            free_meeting(m);
    }

    if (h->gate)
        sw_sim_event_free((struct sw_event *)(void *)h->gate);
}

int sw_sim_meeting_members(const struct sw_sim_meeting_host *h)
{
    return h->meeting->members;
}

const struct sw_sim_meeting_member *sw_sim_meeting_member(const struct sw_sim_meeting_host *h,
                                                          int i)
{
    return &h->meeting->member[i];
}

/* ---- On the members' threads ---- */

/* With the lock: opens the gates of all hosts. */
static void open_gates(struct sw_sim_meeting *m)
{
    for (struct sw_sim_meeting_host *h = m->first; h; h = h->next)
        sw_sim_event_happen(h->gate, m->barriers, NULL);
}

int sw_sim_meeting_barrier(struct sw_sim_meeting_host *h, struct sw_sim_stream *s,
                           struct sw_err *err)
{
    struct sw_sim_meeting *m = h->meeting;

    sw_mutex_lock(&m->lock);

    uint64_t number = m->barriers + 1;
    if (++m->arrived == m->members && !m->incomplete) {
        m->arrived = 0;
        m->barriers = number;
        open_gates(m);
    }

    sw_mutex_unlock(&m->lock);
    return sw_sim_event_block(s, h->gate, number, err);
}

int sw_sim_meeting_bring(struct sw_sim_meeting_host *h, int rank, struct sw_sim_stream *s, float *x,
                         int64_t n, struct sw_err *err)
{
    struct sw_sim_meeting *m = h->meeting;
    struct sw_sim_meeting_member *own = &m->member[h->first + rank];

    sw_mutex_lock(&m->lock);
    own->x = x;
    own->n = n;
    sw_mutex_unlock(&m->lock);

    int rc = sw_sim_meeting_barrier(h, s, err);
    if (rc != SW_OK)
        return rc;

    for (int i = 0; i < m->members; i++)
        if (m->member[i].n != n)
            return sw_err_set(err, SW_ERR_INVALID,
                              "all_reduce: member %d has %lld elements, but member %d has %lld",
                              h->first + rank, (long long)n, i, (long long)m->member[i].n);

    return SW_OK;
}

int sw_sim_meeting_begin_reading(struct sw_sim_meeting_host *h, struct sw_sim_stream *s,
                                 struct sw_err *err)
{
    struct sw_sim_meeting *m = h->meeting;

    sw_mutex_lock(&m->lock);
    bool may = !m->incomplete;
    m->readers += may;
    sw_mutex_unlock(&m->lock);

    return may ? SW_OK : sw_sim_event_block(s, h->gate, UINT64_MAX, err);
}

void sw_sim_meeting_end_reading(struct sw_sim_meeting_host *h)
{
    struct sw_sim_meeting *m = h->meeting;

    sw_mutex_lock(&m->lock);
    if (--m->readers == 0)
        sw_cond_broadcast(&m->changed);
    sw_mutex_unlock(&m->lock);
}

void sw_sim_meeting_quit(struct sw_sim_meeting_host *h)
{
    struct sw_sim_meeting *m = h->meeting;

    sw_mutex_lock(&m->lock);
    m->incomplete = true;
    while (m->readers > 0)
        sw_cond_wait(&m->changed, &m->lock);
    sw_mutex_unlock(&m->lock);
}
