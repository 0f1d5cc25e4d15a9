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
struct probe {
    char *path;      /* owned */
    uint64_t *piece; /* owned [PIECE_BYTES], aligned: what is written, or read */
    void *block;     /* owned: the allocation that holds the piece */
    double write_gb_per_s, read_gb_per_s;
    bool cached; /* the file system cannot bypass its cache */
    bool wrong;  /* the data read back differ from the data written */
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

static int write_probe(struct probe *t, struct sw_err *err)
{
    int fd = sw_os()->open(t->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return sw_err_errno(err, errno, "%s", t->path);

    uint64_t number = 0;
    int64_t spent_ns = 0;
    int code = SW_OK;
    for (int i = 0; i < FILE_BYTES / PIECE_BYTES; i++) {
        for (size_t k = 0; k < PIECE_NUMBERS; k++)
            t->piece[k] = next(&number);
        spent_ns -= sw_os()->monotonic_ns();
        code = sw_os_write_all(fd, t->piece, PIECE_BYTES, t->path, err);
        spent_ns += sw_os()->monotonic_ns();
        if (code)
            goto out;
    }

    spent_ns -= sw_os()->monotonic_ns();
    if (sw_os()->fsync(fd) != 0)
        code = sw_err_errno(err, errno, "%s", t->path);
    t->write_gb_per_s = gb_per_s(spent_ns + sw_os()->monotonic_ns());

out:
    sw_os()->close(fd);
    return code;
}

static int read_probe(struct probe *t, struct sw_err *err)
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
    for (int i = 0; i < FILE_BYTES / PIECE_BYTES; i++) {
        spent_ns -= sw_os()->monotonic_ns();
        code = sw_os_pread_all(fd, t->piece, PIECE_BYTES, (off_t)i * PIECE_BYTES, t->path, err);
        spent_ns += sw_os()->monotonic_ns();
        if (code)
            goto out;

        for (size_t k = 0; k < PIECE_NUMBERS; k++)
            t->wrong |= t->piece[k] != next(&number);
    }

    t->read_gb_per_s = gb_per_s(spent_ns);

out:
    sw_os()->close(fd);
    return code;
}

static int probe_disk(struct probe *t, const char *folder, struct sw_err *err)
{
    uint64_t name = 0;
    if (sw_os()->random_bytes(&name, sizeof name) != 0)
        return sw_err_errno(err, errno, "random file name");

    t->path = sw_format("%s/.doctor-%016llx", folder, (unsigned long long)name);
    t->block = sw_calloc(1, PIECE_BYTES + ALIGN);
    if (!t->path || !t->block)
        return sw_err_nomem(err, "a test file", PIECE_BYTES);

    t->piece = (uint64_t *)(((uintptr_t)t->block + ALIGN - 1) / ALIGN * ALIGN);

    int code = write_probe(t, err);
    if (!code)
        code = read_probe(t, err);
    sw_os()->unlink(t->path);

    return code;
}

static void report_space(struct sw_doctor *d, const char *folder, const struct sw_disk *disk)
{
    char a[32], b[32];
    enum sw_finding_level level = disk->free_bytes < 100 << 20   ? SW_FINDING_BAD
                                  : disk->free_bytes < 5ll << 30 ? SW_FINDING_WARN
                                                                 : SW_FINDING_OK;

    sw_doctor_find(
        d, level, "disk",
        level ? "checkpoints and history need disk space; without it a run ends early or loses "
                "its newest results"
              : NULL,
        level ? "remove files, use 'singa-ws history rm --files RUN', or set --out to another disk"
              : NULL,
        "%s: %s, %s of %s free", folder, disk->kind, sw_human_bytes(a, (double)disk->free_bytes),
        sw_human_bytes(b, (double)disk->bytes));

    if (disk->network)
        sw_doctor_find(d, SW_FINDING_WARN, "disk",
                       "the history needs shared memory and file locks, which network file systems "
                       "lack or emulate; its rows then stay in each run's folder",
                       "set --db FILE or SINGA_DB to a local disk",
                       "%s is on a network file system (%s)", folder, disk->kind);

    if (disk->memory)
        sw_doctor_find(d, SW_FINDING_WARN, "disk", "its files are lost at a restart",
                       "set XDG_STATE_HOME to a folder on a disk",
                       "%s is on a file system in memory", folder);
}

static int test_folder(struct sw_doctor *d, const char *folder, struct sw_err *err)
{
    char a[32], b[32];
    struct sw_disk disk;
    struct probe t = {0};
    int code = sw_survey_disk(folder, &disk, err);
    if (code)
        return code;

    report_space(d, folder, &disk);
    sw_json_open_object(&d->json, NULL);
    sw_json_string(&d->json, "folder", folder);
    sw_json_string(&d->json, "kind", disk.kind);
    sw_json_int(&d->json, "free_bytes", disk.free_bytes);

    if (!d->quick && disk.free_bytes > 4ll * FILE_BYTES) {
        code = probe_disk(&t, folder, err);
        if (!code && t.wrong)
            sw_doctor_find(d, SW_FINDING_BAD, "disk", "checkpoints there cannot be trusted",
                           "check for disk errors (dmesg, smartctl -a), and back up its files",
                           "%s: data read back differ from the data written", folder);
        else if (!code)
            sw_doctor_ok(d, "disk", "%s: writes %s with fsync, reads %s%s", folder,
                         sw_human_unit(a, t.write_gb_per_s * 1e9, "B/s"),
                         sw_human_unit(b, t.read_gb_per_s * 1e9, "B/s"),
                         t.cached ? " (from the page cache)" : "");

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
        code = test_folder(d, state, err);
    sw_json_close_array(&d->json);

    if (code == SW_ERR_IO) {
        sw_doctor_find(d, SW_FINDING_BAD, "disk", "history and checkpoints are written there",
                       "make it writable, or set XDG_STATE_HOME", "%s", err->text);
        code = SW_OK;
    }

    sw_free(state);
    return code;
}
