/* Maps a live snapshot for reading, checks its header against the size of the file, and copies
 * slots: a copy counts only if the slot's sequence was even and the same before and after. */
#include "base/mapped.h"
#include "base/os.h"
#include "history/process.h"
#include "history/snapshot_layout.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>

enum { READ_TRIES = 1000 };

struct sw_snapshot_reader {
    const sw_live_word *words; /* mapped read-only */
    struct sw_mapped *mapped;
    char *path; /* owned; for messages */
    int fd;
    size_t bytes;
    int slots;
};

const char *sw_phase_name(enum sw_phase p)
{
    static const char *const names[SW_PHASES] = {"idle",   "read",    "forward",  "backward",
                                                 "update", "collect", "evaluate", "checkpoint",
                                                 "start",  "paused"};
    return (unsigned)p < SW_PHASES ? names[p] : "?";
}

static uint64_t get(const sw_live_word *w)
{
    return atomic_load_explicit(w, memory_order_acquire);
}

static void copy_slot(const struct sw_slot *slot, struct sw_slot_state *out)
{
    uint64_t phase_layer = get(&slot->word[SW_SLOT_W_PHASE_LAYER]);
    uint64_t wait = get(&slot->word[SW_SLOT_W_WAIT]);

    out->step = (int64_t)get(&slot->word[SW_SLOT_W_STEP]);
    out->phase = (enum sw_phase)(uint32_t)phase_layer;
    out->thread = (int)get(&slot->word[SW_SLOT_W_THREAD]);
    out->layer = (int)(int32_t)(uint32_t)(phase_layer >> 32);
    out->since_ns = (int64_t)get(&slot->word[SW_SLOT_W_SINCE]);
    out->heartbeat_ns = (int64_t)get(&slot->word[SW_SLOT_W_HEARTBEAT]);
    out->done_step = (int64_t)get(&slot->word[SW_SLOT_W_DONE_STEP]);
    out->loss = sw_live_real(get(&slot->word[SW_SLOT_W_LOSS]));
    out->samples_done = (int64_t)get(&slot->word[SW_SLOT_W_SAMPLES]);
    out->wait.kind = (enum sw_wait_kind)(uint32_t)wait;
    out->wait.index = (int)(int32_t)(uint32_t)(wait >> 32);
    out->wait.number = (int64_t)get(&slot->word[SW_SLOT_W_WAIT_NUMBER]);
    sw_live_get_text(&slot->word[SW_SLOT_W_NAME], sizeof out->name, out->name);
    sw_live_get_text(&slot->word[SW_SLOT_W_LAYER_NAME], sizeof out->layer_name, out->layer_name);
    sw_live_get_text(&slot->word[SW_SLOT_W_WAITING_FOR], sizeof out->waiting_for, out->waiting_for);
}

bool sw_live_read_slot(const struct sw_slot *slot, struct sw_slot_state *out)
{
    struct sw_slot_state state;

    for (int i = 0; i < READ_TRIES; i++) {
        uint64_t before = get(&slot->word[SW_SLOT_W_SEQUENCE]);
        if (before & 1)
            continue;

        copy_slot(slot, &state);
        if (atomic_load_explicit(&slot->word[SW_SLOT_W_SEQUENCE], memory_order_relaxed) != before)
            continue;

        *out = state;
        return true;
    }

    return false;
}

/* Checks that the sizes in the header are those of this version and match the file size. Nothing is
 * read beyond the sizes checked here. */
static int check_header(const sw_live_word *w, size_t bytes, const char *path, int *slots,
                        struct sw_err *err)
{
    if (bytes < SW_LIVE_HEADER_BYTES || get(&w[SW_LIVE_W_MAGIC]) != SW_LIVE_MAGIC)
        return sw_err_set(err, SW_ERR_FORMAT, "%s is not a live snapshot of singa-ws", path);

    uint64_t version = get(&w[SW_LIVE_W_VERSION]), n = get(&w[SW_LIVE_W_SLOTS]);
    if (version != SW_LIVE_VERSION)
        return sw_err_set(err, SW_ERR_UNSUPPORTED,
                          "%s has version %llu of the live snapshot format, this program reads %d",
                          path, (unsigned long long)version, SW_LIVE_VERSION);

    if (get(&w[SW_LIVE_W_HEADER_BYTES]) != SW_LIVE_HEADER_BYTES ||
        get(&w[SW_LIVE_W_SLOT_BYTES]) != SW_SNAPSHOT_SLOT_BYTES || n > SW_SNAPSHOT_MAX_SLOTS ||
        get(&w[SW_LIVE_W_FILE_BYTES]) != bytes ||
        bytes != SW_LIVE_HEADER_BYTES + n * SW_SNAPSHOT_SLOT_BYTES)
        return sw_err_set(
            err, SW_ERR_FORMAT,
            "%s: the file size of %zu bytes does not match its header with %llu slots", path, bytes,
            (unsigned long long)n);

    *slots = (int)n;
    return SW_OK;
}

static int open_file(struct sw_snapshot_reader *r, struct sw_err *err)
{
    struct stat st;

    r->fd = sw_os()->open(r->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0);
    if (r->fd < 0 || sw_os()->fstat(r->fd, &st) != 0)
        return sw_err_errno(err, errno, "live snapshot %s", r->path);
    if (!S_ISREG(st.st_mode) || st.st_size < SW_LIVE_HEADER_BYTES ||
        st.st_size > SW_LIVE_HEADER_BYTES + SW_SNAPSHOT_MAX_SLOTS * SW_SNAPSHOT_SLOT_BYTES)
        return sw_err_set(err, SW_ERR_FORMAT, "%s is not a live snapshot of singa-ws", r->path);

    r->bytes = (size_t)st.st_size;
    return SW_OK;
}

static int map_file(struct sw_snapshot_reader *r, struct sw_err *err)
{
    void *map = mmap(NULL, r->bytes, PROT_READ, MAP_SHARED, r->fd, 0);
    if (map == MAP_FAILED)
        return sw_err_errno(err, errno, "live snapshot %s", r->path);

    r->words = map;
    return sw_mapped_watch(&r->mapped, map, r->bytes, err);
}

int sw_snapshot_reader_open(struct sw_snapshot_reader **out, const char *path, struct sw_err *err)
{
    struct sw_snapshot_reader *r = sw_calloc(1, sizeof *r);
    if (!r)
        return sw_err_nomem(err, "live snapshot reader", sizeof *r);

    r->fd = -1;
    r->path = sw_strdup(path);

    int code = r->path ? open_file(r, err) : sw_err_nomem(err, path, strlen(path) + 1);
    if (code)
        goto out;
    code = map_file(r, err);
    if (code)
        goto out;
    code = check_header(r->words, r->bytes, path, &r->slots, err);
    if (code)
        goto out;

    code = sw_snapshot_reader_check(r, err);

out:
    if (code)
        sw_snapshot_reader_close(r);
    else
        *out = r;

    return code;
}

int sw_snapshot_reader_check(const struct sw_snapshot_reader *r, struct sw_err *err)
{
    int code = sw_mapped_check(r->mapped, r->fd, r->bytes, r->path, err);
    return code ? sw_err_prefix(err, code, "live snapshot") : SW_OK;
}

void sw_snapshot_reader_close(struct sw_snapshot_reader *r)
{
    if (!r)
        return;

    sw_mapped_unwatch(r->mapped);
    if (r->words)
        munmap((void *)r->words, r->bytes);
    if (r->fd >= 0)
        sw_os()->close(r->fd);
    sw_free(r->path);
    sw_free(r);
}

bool sw_snapshot_reader_state(const struct sw_snapshot_reader *r, struct sw_snapshot_state *out)
{
    const sw_live_word *w = r->words;
    char uid[SW_LIVE_UID_TEXT];

    memset(out, 0, sizeof *out);
    out->pid = (int64_t)get(&w[SW_LIVE_W_PID]);
    out->pid_start = (int64_t)get(&w[SW_LIVE_W_PID_START]);
    out->run_id = (int64_t)get(&w[SW_LIVE_W_RUN_ID]);
    out->steps_total = (int64_t)get(&w[SW_LIVE_W_STEPS_TOTAL]);
    out->started_at = sw_live_real(get(&w[SW_LIVE_W_STARTED_AT]));
    sw_live_get_text(&w[SW_LIVE_W_RUN_NAME], sizeof out->run_name, out->run_name);
    sw_live_get_text(&w[SW_LIVE_W_RUN_UID], sizeof uid, uid);
    memcpy(out->run_uid, uid, sizeof out->run_uid - 1);
    sw_live_get_text(&w[SW_LIVE_W_BOOT_ID], sizeof out->boot_id, out->boot_id);
    out->status = (enum sw_run_status)get(&w[SW_LIVE_W_STATUS]);
    if (out->status == SW_RUN_RUNNING && !sw_process_alive(out->pid, out->pid_start, out->boot_id))
        out->status = SW_RUN_CRASHED;
    out->gone = get(&w[SW_LIVE_W_GONE]) != 0;
    out->slots = r->slots;

    return out->pid > 0;
}

bool sw_snapshot_reader_slot(const struct sw_snapshot_reader *r, int index,
                             struct sw_slot_state *out)
{
    const struct sw_slot *slots = (const struct sw_slot *)(r->words + SW_LIVE_HEADER_BYTES / 8);
    return index >= 0 && index < r->slots && sw_live_read_slot(&slots[index], out);
}
