/* The struct of hosts_history.h, shared by hosts_history.c (setup and end), hosts_send.c (what goes
 * to host 0) and hosts_receive.c (what arrives). The struct lives as long as the history of the
 * run; the fabric and the snapshot are those of a stage. */
#pragma once

#include "history/part.h"
#include "history/slot_record.h"
#include "run/hosts_history.h"
#include "run/job_private.h"

enum {
    SW_HOSTS_URGENCY = UINT16_MAX, /* after all sums */
    SW_HOSTS_ITEM_LINES = 0, /* of LINES; without bytes, to another host: host 0 has taken them */
    SW_HOSTS_ITEM_LAST = 1,  /* without bytes, to host 0: no more will come */
    SW_HOSTS_LINES_SENT = 1, /* bits: the lines are not needed any more; host 0 has taken them */
    SW_HOSTS_LINES_TAKEN = 2,
    SW_HOSTS_MOST_SHOWN = SW_HISTORY_CHUNK / SW_SLOT_RECORD, /* slots of a host */
    SW_HOSTS_FLUSH_MS = 5000,
};

struct sw_hosts_peer {
    char name[SW_HISTORY_HOST_NAME];
    int workers, first_worker;
    int slots, first_slot;   /* shown in host 0's snapshot */
    uint64_t recorded_bytes; /* of what was sent to it */
    unsigned char *lines;    /* owned [SW_HISTORY_CHUNK], on host 0: what arrives */
    unsigned char *states;   /* owned [SW_HOSTS_MOST_SHOWN][SW_SLOT_RECORD], likewise */
};

struct sw_hosts_history {
    const struct sw_hosts *hosts; /* borrowed */
    struct sw_hosts_peer peer[SW_MOST_HOSTS];
    int64_t last_step;        /* of the run */
    int total_workers, shown; /* of all hosts; slots of others */

    struct sw_history *history;   /* borrowed; atomic; NULL: the run has not begun */
    bool begun;                   /* atomic: the history takes rows */
    struct sw_snapshot *snapshot; /* borrowed; atomic; NULL: none yet */
    struct sw_events *events;     /* borrowed; atomic; NULL: the queue does not exist */
    uint64_t lost;                /* atomic: bits of hosts */
    int lines;                    /* atomic: bits of the lines that are on the way to host 0 */

    /* Held while the history's writer sends, so that the fabric is not freed meanwhile. Never taken
     * by threads of the fabric, which may call back from within a send. */
    struct sw_mutex fabric_lock;
    struct sw_fabric *fabric; /* borrowed; atomic; NULL: not connected */
    bool over;                /* nothing is sent any more */

    struct sw_mutex lock; /* guards the fields up to the next blank line */
    struct sw_cond changed;
    bool stop;         /* the thread is to end */
    uint64_t finished; /* bits of hosts that send no more lines */

    struct sw_thread thread;   /* owns what follows, while it runs */
    unsigned char *own_states; /* owned [SW_HOSTS_MOST_SHOWN][SW_SLOT_RECORD] */
    bool sending;              /* atomic: the states are on the way */
    int64_t recorded_ns;
};

/* Pointers that threads of the fabric read, and the main thread sets. */
static inline void sw_hosts_set_pointer(void *pointer, void *value)
{
    __atomic_store_n((void **)pointer, value, __ATOMIC_RELEASE);
}

#define SW_ACQUIRE(field) __atomic_load_n(&(field), __ATOMIC_ACQUIRE)

static inline bool sw_hosts_is_own(const struct sw_hosts_history *h, int host)
{
    return host == h->hosts->own;
}

/* hosts_receive.c: for the router; and names the slot of another host's thread, "b/worker0.1". */
struct sw_fabric_sink sw_hosts_receive_sink(struct sw_hosts_history *h);
void sw_hosts_name_slot(struct sw_slot *slot, const struct sw_hosts_peer *p, const char *thread);

/* hosts_send.c: for struct sw_history_part. */
int sw_hosts_send_lines(void *user, const char *lines, size_t bytes, struct sw_err *err);
bool sw_hosts_clock_offset(void *user, int64_t *offset_ns);
/* Starts the thread. Errors: SW_ERR_NOMEM. */
int sw_hosts_start_thread(struct sw_hosts_history *h, struct sw_err *err) SW_MUST_CHECK;
void sw_hosts_end_thread(struct sw_hosts_history *h); /* if it runs */
/* Waits until host 0 has the rows of this host, and tells it that no more will come. */
void sw_hosts_finish_lines(struct sw_hosts_history *h, struct sw_history *history);
