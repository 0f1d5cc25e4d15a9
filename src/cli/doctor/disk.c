/* The disks of checkpoints, history and data: free space, kind of file system, and read
 * throughput. */
#include "base/os.h"
#include "cli/doctor/doctor.h"
#include "history/history.h"
#include <errno.h>
#include <fcntl.h>

enum {
    FILE_BYTES = 64 << 20,
    PIECE_BYTES = 4 << 20,
    PIECE_NUMBERS = PIECE_BYTES / 8,
    ALIGN = 4096,
};

/* A probe that writes a file and reads it back with the page cache bypassed; the file is removed
 * afterwards. */
struct trial {
    char *path;      /* owned */
    uint64_t *piece; /* owned [PIECE_BYTES], aligned: what is written, or read */
    void *block;     /* owned: where the piece lies */
    double write_gb_per_s, read_gb_per_s;
    bool cached; /* the file system cannot bypass its cache */
    bool wrong;  /* what was read is not what was written */
};

static double gb_per_s(int64_t ns)
{
    return (double)FILE_BYTES / (double)(ns > 0 ? ns : 1);
}

/* Pseudo-random numbers (Knuth's MMIX), which neither file system nor disk can compress. */
static uint64_t next(uint64_t *number)
{
    return *number = *number * 6364136223846793005u + 1442695040888963407u;
}

static int write_trial(struct trial *t, struct sw_err *err)
{
    int fd = sw_os()->open(t->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return sw_err_errno(err, errno, "%s", t->path);
    uint64_t number = 0;
    int64_t spent_ns = 0;
    int code = SW_OK;
    for (int i = 0; !code && i < FILE_BYTES / PIECE_BYTES; i++) {
        for (size_t k = 0; k < PIECE_NUMBERS; k++)
            t->piece[k] = next(&number);
        spent_ns -= sw_os()->monotonic_ns();
        code = sw_os_write_all(fd, t->piece, PIECE_BYTES, t->path, err);
        spent_ns += sw_os()->monotonic_ns();
    }
    spent_ns -= sw_os()->monotonic_ns();
    if (!code && sw_os()->fsync(fd) != 0)
        code = sw_err_errno(err, errno, "%s", t->path);
    t->write_gb_per_s = gb_per_s(spent_ns + sw_os()->monotonic_ns());
    sw_os()->close(fd);
    return code;
}

static int read_trial(struct trial *t, struct sw_err *err)
{
    int fd = sw_os()->open(t->path, O_RDONLY | O_DIRECT | O_CLOEXEC, 0);
    t->cached = fd < 0;
    if (fd < 0)
        fd = sw_os()->open(t->path, O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0)
        return sw_err_errno(err, errno, "%s", t->path);
    uint64_t number = 0;
    int64_t spent_ns = 0;
    int code = SW_OK;
    for (int i = 0; !code && i < FILE_BYTES / PIECE_BYTES; i++) {
        spent_ns -= sw_os()->monotonic_ns();
        code = sw_os_pread_all(fd, t->piece, PIECE_BYTES, (off_t)i * PIECE_BYTES, t->path, err);
        spent_ns += sw_os()->monotonic_ns();
        for (size_t k = 0; !code && k < PIECE_NUMBERS; k++)
            t->wrong |= t->piece[k] != next(&number);
    }
    t->read_gb_per_s = gb_per_s(spent_ns);
    sw_os()->close(fd);
    return code;
}

static int try_disk(struct trial *t, const char *folder, struct sw_err *err)
{
    uint64_t name = 0;
    if (sw_os()->random_bytes(&name, sizeof name) != 0)
        return sw_err_errno(err, errno, "a name for a file");
    t->path = sw_format("%s/.doctor-%016llx", folder, (unsigned long long)name);
    t->block = sw_calloc(1, PIECE_BYTES + ALIGN);
    if (!t->path || !t->block)
        return sw_err_nomem(err, "a file to measure with", PIECE_BYTES);
    t->piece = (uint64_t *)(((uintptr_t)t->block + ALIGN - 1) / ALIGN * ALIGN);
    int code = write_trial(t, err);
    if (!code)
        code = read_trial(t, err);
    sw_os()->unlink(t->path);
    return code;
}

static void judge_room(struct sw_doctor *d, const char *folder, const struct sw_disk *disk)
{
    char a[32], b[32];
    enum sw_finding_level level = disk->free_bytes < 100 << 20   ? SW_FINDING_BAD
                                  : disk->free_bytes < 5ll << 30 ? SW_FINDING_WARN
                                                                 : SW_FINDING_OK;
    sw_doctor_find(
        d, level, "disk",
        level ? "checkpoints and history need room; without it a run ends early or keeps "
                "only what it had"
              : NULL,
        level ? "remove files, 'singa-ws history rm --files RUN', or --out on another disk" : NULL,
        "%s: %s, %s of %s free", folder, disk->kind, sw_human_bytes(a, (double)disk->free_bytes),
        sw_human_bytes(b, (double)disk->bytes));
    if (disk->network)
        sw_doctor_find(d, SW_FINDING_WARN, "disk",
                       "the history needs shared memory and locks that such file systems lack or "
                       "fake; its rows then wait in each run's folder",
                       "--db FILE or SINGA_DB on a disk of this machine",
                       "%s is on another machine (%s)", folder, disk->kind);
    if (disk->memory)
        sw_doctor_find(d, SW_FINDING_WARN, "disk", "what is there is gone after a restart",
                       "set XDG_STATE_HOME to a folder on a disk", "%s is in memory", folder);
}

static int see_folder(struct sw_doctor *d, const char *folder, struct sw_err *err)
{
    struct sw_disk disk;
    struct trial t = {0};
    int code = sw_survey_disk(folder, &disk, err);
    if (code)
        return code;
    judge_room(d, folder, &disk);
    sw_json_open_object(&d->json, NULL);
    sw_json_string(&d->json, "folder", folder);
    sw_json_string(&d->json, "kind", disk.kind);
    sw_json_int(&d->json, "free_bytes", disk.free_bytes);
    if (!d->quick && disk.free_bytes > 4ll * FILE_BYTES) {
        code = try_disk(&t, folder, err);
        if (!code && t.wrong)
            sw_doctor_find(
                d, SW_FINDING_BAD, "disk", "checkpoints there cannot be trusted",
                "look for errors of the disk (dmesg, smartctl -a), and save what is on it",
                "%s: what was read is not what was written", folder);
        else if (!code)
            sw_doctor_ok(d, "disk", "%s: writes %.3g GB/s with fsync, reads %.3g GB/s%s", folder,
                         t.write_gb_per_s, t.read_gb_per_s, t.cached ? " (from its cache)" : "");
        sw_json_real(&d->json, "write_gb_per_s", t.write_gb_per_s);
        sw_json_real(&d->json, "read_gb_per_s", t.read_gb_per_s);
        sw_json_bool(&d->json, "read_from_cache", t.cached);
    }
    sw_json_close_object(&d->json);
    sw_free(t.path);
    sw_free(t.block);
    return code;
}

int sw_doctor_disk(struct sw_doctor *d, struct sw_err *err)
{
    char *state = NULL;
    int code = sw_history_state_dir(&state, err);
    if (!code)
        code = sw_os_mkdirs(state, 0700, err);
    sw_json_open_array(&d->json, "disks");
    if (!code)
        code = see_folder(d, state, err);
    sw_json_close_array(&d->json);
    if (code == SW_ERR_IO) {
        sw_doctor_find(d, SW_FINDING_BAD, "disk", "history and checkpoints go there",
                       "give yourself the right to write there, or set XDG_STATE_HOME", "%s",
                       err->text);
        code = SW_OK;
    }
    sw_free(state);
    return code;
}
