/* Writes the live snapshot. Every word is stored twice, in the mapped file for other processes and
 * in plain pages that the job itself reads. A slot is written by its owner alone: begin makes the
 * sequence odd, the release stores follow, end makes it even. snapshot_layout.h has the layout and
 * the order of memory. */
#include "base/mapped.h"
#include "base/os.h"
#include "base/str.h"
#include "history/process.h"
#include "history/snapshot_layout.h"
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <sys/mman.h>
#include <unistd.h>

/* The state is stored twice in one mapping: in plain pages, which the job itself reads, and
 * COPY_BYTES after them in the mapped file, for other processes. A program that truncates the file
 * does not affect the job. Without a file the copy is plain pages that nobody reads. */
enum {
    COPY_BYTES = 17 << 16, /* whole pages, also of 64 KiB */
    COPY_WORDS = COPY_BYTES / 8,
};
_Static_assert(SW_LIVE_HEADER_BYTES + SW_SNAPSHOT_MAX_SLOTS * SW_SNAPSHOT_SLOT_BYTES <= COPY_BYTES,
               "the largest state fits in front of its copy");

struct sw_snapshot {
    sw_live_word *words;      /* 2 * COPY_BYTES */
    size_t bytes;             /* size of the file */
    char *path;               /* owned; NULL: in memory only */
    struct sw_mapped *mapped; /* the mapping of the file; NULL: no file */
    int slots;
};

/* Stores a word in both copies; the file first, so that the job never reads a newer state than
 * other processes. */
static void put(sw_live_word *w, uint64_t value)
{
    atomic_store_explicit(w + COPY_WORDS, value, memory_order_release);
    atomic_store_explicit(w, value, memory_order_release);
}

/* Stores a text in `bytes / 8` words, truncated and zero-terminated; words after the zero are
 * unchanged. */
static void put_text(sw_live_word *to, size_t bytes, const char *text)
{
    size_t length = text ? strnlen(text, bytes - 1) : 0;

    for (size_t at = 0; at <= length; at += 8) {
        uint64_t w = 0;
        if (length > at)
            memcpy(&w, text + at, length - at < 8 ? length - at : 8);
        put(&to[at / 8], w);
    }
}

static struct sw_slot *slot_at(const struct sw_snapshot *s, int index)
{
    return (struct sw_slot *)(s->words + SW_LIVE_HEADER_BYTES / 8) + index;
}

/* Creates a file of that size with allocated blocks (a store into a hole on a full file system
 * would be lost) and maps it at `copy`. */
static int map_new_file(const char *path, size_t bytes, void *copy, struct sw_err *err)
{
    sw_os()->unlink(path); /* left by a dead process that had our pid */

    int fd = sw_os()->open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return sw_err_errno(err, errno, "live snapshot %s", path);

    int reason = posix_fallocate(fd, 0, (off_t)bytes);
    if (!reason &&
        mmap(copy, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED)
        reason = errno;

    sw_os()->close(fd);
    if (!reason)
        return SW_OK;

    sw_os()->unlink(path);
    return sw_err_errno(err, reason, "live snapshot %s (%zu bytes)", path, bytes);
}

static void fill_header(struct sw_snapshot *s, const struct sw_snapshot_run *run)
{
    struct sw_process self;

    sw_process_self(&self);

    sw_live_word *w = s->words;
    put(&w[SW_LIVE_W_MAGIC], SW_LIVE_MAGIC);
    put(&w[SW_LIVE_W_VERSION], SW_LIVE_VERSION);
    put(&w[SW_LIVE_W_HEADER_BYTES], SW_LIVE_HEADER_BYTES);
    put(&w[SW_LIVE_W_SLOT_BYTES], SW_SNAPSHOT_SLOT_BYTES);
    put(&w[SW_LIVE_W_SLOTS], (uint64_t)s->slots);
    put(&w[SW_LIVE_W_FILE_BYTES], s->bytes);
    put(&w[SW_LIVE_W_PID], (uint64_t)self.pid);
    put(&w[SW_LIVE_W_PID_START], (uint64_t)self.start_ticks);
    put(&w[SW_LIVE_W_STARTED_AT], sw_live_bits(sw_os()->unix_time()));
    put(&w[SW_LIVE_W_RUN_ID], (uint64_t)run->id);
    put(&w[SW_LIVE_W_STEPS_TOTAL], (uint64_t)run->steps_total);
    put(&w[SW_LIVE_W_STATUS], SW_RUN_RUNNING);
    put_text(&w[SW_LIVE_W_RUN_NAME], SW_SNAPSHOT_TEXT, run->name);
    put_text(&w[SW_LIVE_W_RUN_UID], SW_LIVE_UID_TEXT, run->uid);
    put_text(&w[SW_LIVE_W_BOOT_ID], SW_BOOT_ID_TEXT, self.boot_id);
}

static void clear_slot(struct sw_slot *slot)
{
    put(&slot->word[SW_SLOT_W_STEP], (uint64_t)-1);
    put(&slot->word[SW_SLOT_W_PHASE_LAYER], (uint64_t)UINT32_MAX << 32 | SW_PHASE_IDLE);
    put(&slot->word[SW_SLOT_W_DONE_STEP], (uint64_t)-1);
    put(&slot->word[SW_SLOT_W_LOSS], sw_live_bits(NAN));
}

/* Creates and maps the file under a temporary name. Nobody reads it before name_file. */
static int make_file(struct sw_snapshot *s, const char *temporary, struct sw_err *err)
{
    void *copy = s->words + COPY_WORDS;
    int code = map_new_file(temporary, s->bytes, copy, err);
    if (code)
        return code;

    code = sw_mapped_watch(&s->mapped, copy, s->bytes, err);
    if (code)
        sw_os()->unlink(temporary);

    return code;
}

/* Renames the file to its path when the header is complete, so that no reader sees an incomplete
 * header. */
static int name_file(const struct sw_snapshot *s, const char *temporary, struct sw_err *err)
{
    if (sw_os()->rename(temporary, s->path) == 0)
        return SW_OK;

    const int reason = errno;
    sw_os()->unlink(temporary);
    return sw_err_errno(err, reason, "live snapshot %s", s->path);
}

static void release(struct sw_snapshot *s)
{
    sw_mapped_unwatch(s->mapped);
    if (s->words)
        sw_os()->unmap_pages(s->words, 2 * COPY_BYTES);
    sw_free(s->path);
    sw_free(s);
}

int sw_snapshot_new(struct sw_snapshot **out, const char *path, const struct sw_snapshot_run *run,
                    struct sw_err *err)
{
    const int slots = run->slots;
    char *temporary = NULL;
    int code = SW_OK;

    if (slots < 0 || slots > SW_SNAPSHOT_MAX_SLOTS)
        return sw_err_set(err, SW_ERR_INVALID, "live snapshot: %d slots, the limit is %d", slots,
                          SW_SNAPSHOT_MAX_SLOTS);

    struct sw_snapshot *s = sw_calloc(1, sizeof *s);
    if (!s)
        return sw_err_nomem(err, "live snapshot", sizeof *s);

    s->slots = slots;
    s->bytes = SW_LIVE_HEADER_BYTES + (size_t)slots * SW_SNAPSHOT_SLOT_BYTES;
    s->words = sw_os()->map_pages(2 * COPY_BYTES);
    if (!s->words)
        code = sw_err_nomem(err, "live state", 2 * COPY_BYTES);

    if (!code && path) {
        s->path = sw_strdup(path);
        temporary = sw_format("%s.%lld.tmp", path, (long long)getpid());
        code = s->path && temporary ? make_file(s, temporary, err)
                                    : sw_err_nomem(err, "live snapshot's path", 0);
    }

    for (int i = 0; i < slots && !code; i++)
        clear_slot(slot_at(s, i));
    if (!code)
        fill_header(s, run);
    if (!code && path)
        code = name_file(s, temporary, err);
    sw_free(temporary);

    if (code)
        release(s);
    else
        *out = s;

    return code;
}

const char *sw_snapshot_file(const struct sw_snapshot *s)
{
    return s->path;
}

void sw_snapshot_free(struct sw_snapshot *s)
{
    if (!s)
        return;

    if (s->path) {
        sw_os()->unlink(s->path);
        put(&s->words[SW_LIVE_W_GONE], 1);
    }

    release(s);
}

int sw_snapshot_check(const struct sw_snapshot *s, struct sw_err *err)
{
    struct stat st;

    if (!s->path)
        return SW_OK;

    if (sw_mapped_lost(s->mapped) ||
        (sw_os()->stat(s->path, &st) == 0 && (uint64_t)st.st_size < s->bytes))
        return sw_err_set(
            err, SW_ERR_FORMAT,
            "live snapshot %s: another program truncated it; `singa-ws top` can no longer show the "
            "threads of this run, training continues",
            s->path);

    return SW_OK;
}

void sw_snapshot_set_status(struct sw_snapshot *s, enum sw_run_status status)
{
    put(&s->words[SW_LIVE_W_STATUS], status);
}

struct sw_slot *sw_snapshot_slot(struct sw_snapshot *s, int index)
{
    return slot_at(s, index);
}

bool sw_snapshot_read_slot(const struct sw_snapshot *s, int index, struct sw_slot_state *out)
{
    return index >= 0 && index < s->slots && sw_live_read_slot(slot_at(s, index), out);
}

/* Begins a write: makes the sequence odd and returns the even value for end. Only the owner of the
 * slot calls, so a relaxed load suffices; a reader that sees one of the following release stores
 * also sees the odd sequence. */
static uint64_t begin(struct sw_slot *slot)
{
    uint64_t q = atomic_load_explicit(&slot->word[SW_SLOT_W_SEQUENCE], memory_order_relaxed);
    put(&slot->word[SW_SLOT_W_SEQUENCE], q + 1);
    return q + 2;
}

static void end(struct sw_slot *slot, uint64_t sequence)
{
    put(&slot->word[SW_SLOT_W_SEQUENCE], sequence);
}

void sw_slot_set_name(struct sw_slot *slot, const char *name)
{
    uint64_t q = begin(slot);
    put_text(&slot->word[SW_SLOT_W_NAME], SW_SNAPSHOT_NAME, name);
    end(slot, q);
}

void sw_slot_phase(struct sw_slot *slot, enum sw_phase phase, int64_t step, int layer,
                   const char *layer_name, int64_t now_ns)
{
    uint64_t q = begin(slot);

    put(&slot->word[SW_SLOT_W_STEP], (uint64_t)step);
    put(&slot->word[SW_SLOT_W_PHASE_LAYER], (uint64_t)(uint32_t)layer << 32 | (uint32_t)phase);
    put(&slot->word[SW_SLOT_W_SINCE], (uint64_t)now_ns);
    put_text(&slot->word[SW_SLOT_W_LAYER_NAME], SW_SNAPSHOT_TEXT, layer_name);
    put(&slot->word[SW_SLOT_W_WAITING_FOR], 0);
    put(&slot->word[SW_SLOT_W_WAIT], SW_WAIT_NONE);
    end(slot, q);
    sw_slot_heartbeat(slot, now_ns);
}

void sw_slot_wait(struct sw_slot *slot, const char *waiting_for, int64_t now_ns)
{
    struct sw_wait wait = {.kind = waiting_for ? SW_WAIT_OTHER : SW_WAIT_NONE};
    sw_slot_wait_on(slot, wait, waiting_for, now_ns);
}

void sw_slot_wait_on(struct sw_slot *slot, struct sw_wait wait, const char *waiting_for,
                     int64_t now_ns)
{
    uint64_t q = begin(slot);

    put_text(&slot->word[SW_SLOT_W_WAITING_FOR], SW_SNAPSHOT_TEXT, waiting_for);
    put(&slot->word[SW_SLOT_W_WAIT], (uint64_t)(uint32_t)wait.index << 32 | (uint32_t)wait.kind);
    put(&slot->word[SW_SLOT_W_WAIT_NUMBER], (uint64_t)wait.number);
    put(&slot->word[SW_SLOT_W_SINCE], (uint64_t)now_ns);
    end(slot, q);
    sw_slot_heartbeat(slot, now_ns);
}

void sw_slot_result(struct sw_slot *slot, int64_t step, double loss, int64_t samples_done,
                    int64_t now_ns)
{
    uint64_t q = begin(slot);

    put(&slot->word[SW_SLOT_W_DONE_STEP], (uint64_t)step);
    put(&slot->word[SW_SLOT_W_LOSS], sw_live_bits(loss));
    put(&slot->word[SW_SLOT_W_SAMPLES], (uint64_t)samples_done);
    end(slot, q);
    sw_slot_heartbeat(slot, now_ns);
}

void sw_slot_mirror(struct sw_slot *slot, const struct sw_slot_state *s)
{
    uint64_t q = begin(slot);

    put(&slot->word[SW_SLOT_W_STEP], (uint64_t)s->step);
    put(&slot->word[SW_SLOT_W_PHASE_LAYER],
        (uint64_t)(uint32_t)s->layer << 32 | (uint32_t)s->phase);
    put(&slot->word[SW_SLOT_W_SINCE], (uint64_t)s->since_ns);
    put(&slot->word[SW_SLOT_W_DONE_STEP], (uint64_t)s->done_step);
    put(&slot->word[SW_SLOT_W_LOSS], sw_live_bits(s->loss));
    put(&slot->word[SW_SLOT_W_SAMPLES], (uint64_t)s->samples_done);
    put_text(&slot->word[SW_SLOT_W_LAYER_NAME], SW_SNAPSHOT_TEXT, s->layer_name);
    put_text(&slot->word[SW_SLOT_W_WAITING_FOR], SW_SNAPSHOT_TEXT, s->waiting_for);
    put(&slot->word[SW_SLOT_W_WAIT],
        (uint64_t)(uint32_t)s->wait.index << 32 | (uint32_t)s->wait.kind);
    put(&slot->word[SW_SLOT_W_WAIT_NUMBER], (uint64_t)s->wait.number);
    end(slot, q);
    sw_slot_heartbeat(slot, s->heartbeat_ns);
}

void sw_slot_heartbeat(struct sw_slot *slot, int64_t now_ns)
{
    put(&slot->word[SW_SLOT_W_HEARTBEAT], (uint64_t)now_ns);
}

void sw_slot_set_thread(struct sw_slot *slot, int id)
{
    put(&slot->word[SW_SLOT_W_THREAD], (uint64_t)id);
}
