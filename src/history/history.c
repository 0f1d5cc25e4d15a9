/* Opens and closes a writer's history, and its set-up calls: producers, and handles of series and
 * links, which are looked up or made under the lock. The hot path is producer.c, runs are begun in
 * begin.c. */
#include "history/history.h"
#include "base/os.h"
#include "history/writer.h"
#include <sys/eventfd.h>

int sw_history_open(struct sw_history **out, const char *path, struct sw_log *log,
                    struct sw_err *err)
{
    struct sw_history *h = sw_calloc(1, sizeof *h);
    if (!h)
        return sw_err_nomem(err, "history", sizeof *h);

    h->log = log;
    h->timeouts.setup_ms = SW_HISTORY_SETUP_MS;
    h->timeouts.busy_ms = SW_HISTORY_BUSY_MS;
    h->timeouts.ring_ms = SW_HISTORY_RING_MS;
    h->wake_fd = -1;
    sw_mutex_init(&h->lock);
    sw_cond_init(&h->flushed);

    int code = sw_store_init(&h->store, path, err);
    h->path = sw_strdup(path);
    if (!code && !h->path)
        code = sw_err_nomem(err, "path of the history", 0);

    h->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (!code && h->wake_fd < 0)
        code =
            sw_err_set(err, SW_ERR_NOMEM, "history: cannot create an eventfd: too many open files");

    if (code) {
        sw_history_close(h);
        return code;
    }

    sw_process_self(&h->self);
    *out = h;
    return SW_OK;
}

static void free_handle(char *text[3])
{
    for (int i = 0; i < 3; i++) {
        sw_free(text[i]);
        text[i] = NULL;
    }
}

static void free_lists(struct sw_history *h)
{
    while (h->producers) {
        struct sw_history_producer *next = h->producers->next;
        sw_free(h->producers);
        h->producers = next;
    }

    struct sw_row *lists[] = {h->cold.first, h->backlog.rows.first};
    for (int i = 0; i < 2; i++)
        for (struct sw_row *r = lists[i], *next; r; r = next) {
            next = r->next;
            sw_row_free(r);
        }

    for (int i = 0; i < h->series.count; i++)
        free_handle(h->series.text[i]);
    for (int i = 0; i < h->links.count; i++)
        free_handle(h->links.text[i]);
}

void sw_history_close(struct sw_history *h)
{
    if (!h)
        return;

    if (h->thread.running)
        sw_history_stop_writer(h);
    sw_store_fini(&h->store);
    sw_spool_fini(&h->spool);
    sw_spool_list_fini(&h->other_spools.list);
    free_lists(h);
    sw_history_part_free(h);
    if (h->wake_fd >= 0)
        sw_os()->close(h->wake_fd);
    sw_row_free(h->run);
    sw_row_free(h->segment);
    sw_free(h->backlog.records);
    sw_claim_release(&h->claim);
    sw_free(h->out_dir);
    sw_free(h->path);
    sw_cond_fini(&h->flushed);
    sw_mutex_fini(&h->lock);
    sw_free(h);
}

int64_t sw_history_run_id(const struct sw_history *h)
{
    return atomic_load(&h->run_id);
}

const char *sw_history_run_uid(const struct sw_history *h)
{
    return h->uid;
}

const char *sw_history_out_dir(const struct sw_history *h)
{
    return h->out_dir;
}

const char *sw_history_path(const struct sw_history *h)
{
    return h->path;
}

void sw_history_move_claim(struct sw_history *h, struct sw_claim *claim)
{
    *claim = h->claim;
    h->claim = (struct sw_claim){0};
}

size_t sw_history_producer_bytes(void)
{
    return sizeof(struct sw_history_producer);
}

int sw_history_producer_new(struct sw_history *h, struct sw_history_producer **out,
                            struct sw_err *err)
{
    struct sw_history_producer *p = sw_calloc(1, sizeof *p);
    if (!p)
        return sw_err_nomem(err, "history ring", sizeof *p);

    p->history = h;
    p->gave_up_at = SIZE_MAX;
    sw_mutex_lock(&h->lock);
    p->next = h->producers;
    h->producers = p;
    sw_mutex_unlock(&h->lock);
    *out = p;

    return SW_OK;
}

/* Finds or adds the handle of these texts, of which the third may be NULL. */
static int find_handle(struct sw_history *h, struct sw_history_handles *all,
                       const char *const wanted[3], const char *what, int *handle,
                       struct sw_err *err)
{
    int code = SW_OK;

    sw_mutex_lock(&h->lock);

    int i = 0;
    while (i < all->count &&
           !(sw_str_eq(all->text[i][0], wanted[0]) && sw_str_eq(all->text[i][1], wanted[1]) &&
             sw_str_eq(all->text[i][2], wanted[2])))
        i++;

    if (i == SW_HISTORY_HANDLES)
        code = sw_err_set(err, SW_ERR_NOMEM, "history: more than %d %s", SW_HISTORY_HANDLES, what);

    for (int k = 0; i == all->count && !code && k < 3; k++)
        if (wanted[k] && !(all->text[i][k] = sw_strdup(wanted[k])))
            code = sw_err_nomem(err, what, 0);

    if (i == all->count && code)
        free_handle(all->text[i]);
    else if (i == all->count)
        all->count++;
    *handle = code ? -1 : i;

    sw_mutex_unlock(&h->lock);
    return code;
}

int sw_history_series(struct sw_history *h, const char *split, const char *name, int *series,
                      struct sw_err *err)
{
    return find_handle(h, &h->series, (const char *const[]){split, name, NULL}, "series", series,
                       err);
}

int sw_history_link(struct sw_history *h, const char *from_unit, const char *to_unit,
                    const char *kind, int *link, struct sw_err *err)
{
    return find_handle(h, &h->links, (const char *const[]){from_unit, to_unit, kind}, "links", link,
                       err);
}

bool sw_history_flush(struct sw_history *h, int timeout_ms)
{
    int64_t until = sw_os()->monotonic_ns() + timeout_ms * 1000000ll;

    sw_mutex_lock(&h->lock);

    uint64_t wanted = ++h->flush_wanted;
    sw_history_wake(h);

    while (h->flush_done < wanted && atomic_load(&h->alive)) {
        int64_t left_ms = (until - sw_os()->monotonic_ns()) / 1000000;
        if (left_ms <= 0)
            break;
        sw_cond_wait_ms(&h->flushed, &h->lock, (int)left_ms);
    }

    bool done = h->flush_done >= wanted;
    sw_mutex_unlock(&h->lock);
    return done;
}

void sw_history_stats(struct sw_history *h, struct sw_history_stats *out)
{
    out->rows = atomic_load_explicit(&h->counts.rows, memory_order_relaxed);
    out->spooled = atomic_load_explicit(&h->counts.spooled, memory_order_relaxed);
    out->merged = atomic_load_explicit(&h->counts.merged, memory_order_relaxed);
    out->lost = atomic_load_explicit(&h->counts.lost, memory_order_relaxed);
    out->ring_waits = atomic_load_explicit(&h->counts.ring_waits, memory_order_relaxed);
}
