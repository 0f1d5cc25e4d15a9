/* Untrusted checkpoints, as read by resume, eval, a rollback and init_from, into the parameters,
 * updater state, running statistics and recurrent state of two small jobs: accepted values are
 * finite, anything else is an error. Input: a byte (bit 0: the job; bits 1 and 2: the reader; bit
 * 3: init_from has rules; bit 7: the rest is the unchanged file). Otherwise the rest is the JSON of
 * the header, a zero byte, and the values: the file is built from these with the length of the
 * header, the number of values that the offset of sw.checksum requires, and a correct checksum, so
 * that the code after those checks is reached. */
#include "base/hash.h"
#include "base/os.h"
#include "base/str.h"
#include "checkpoint/init_from.h"
#include "run/job_checkpoint.h"
#include "run/job_private.h"
#include "run/run.h"
#include "worker/worker.h"
#include "worker/worker_place.h"
#include <ftw.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

enum { JOBS = 2, FIRST_FD = 1000000, CHECKSUM = 16, MAX_VALUES = 1 << 14, MAX_BYTES = 1 << 16 };
enum { RESUME, EVAL, ROLL_BACK, INIT_FROM };

#define DATA                                                                                       \
    "batch = 4\nsteps = 9\n[data train]\nformat = synthetic\nrecords = 12\nheight = 2\n"           \
    "width = 3\nchannels = 1\nclasses = 3\n[layer image]\ntype = input\nfield = image\n"
static const char *const recipes[JOBS] = {
    "[job]\n" DATA "[updater]\nlr = 0.1\ntype = adam\n"
    "[layer label]\ntype = input\nfield = label\n"
    "[layer fc]\ntype = inner_product\nsrc = image\noutputs = 3\n"
    "[layer bn]\ntype = batch_norm\nsrc = fc\n"
    "[layer fc2]\ntype = inner_product\nsrc = bn\noutputs = 3\n"
    "[layer loss]\ntype = softmax_loss\nsrc = fc2, label\n",
    "[job]\nalgorithm = cd\n" DATA "[updater]\nlr = 0.1\ntype = sgd\nmomentum = 0.5\n"
    "[layer vis]\ntype = rbm_visible\nsrc = image\n"
    "[layer rbm]\ntype = rbm_hidden\nsrc = vis\nhidden = 2\npersistent = yes\n",
};

static struct sw_job *jobs[JOBS]; /* opened for the first input, and used for all */
static struct sw_log *job_log;
static char home[] = "/tmp/fuzz-checkpoint-XXXXXX";
static struct {
    const void *data;
    size_t bytes;
} files[2]; /* "0.ini" and "checkpoint" */

static void demand(bool holds)
{
    if (!holds)
        __builtin_trap();
}

/* ---- files in memory; what else the jobs and their histories open is on disk ---- */

static int memory_open(const char *path, int flags, mode_t mode)
{
    if (strcmp(path, "0.ini") == 0)
        return FIRST_FD;
    return strcmp(path, "checkpoint") == 0 ? FIRST_FD + 1 : sw_os_posix.open(path, flags, mode);
}

static int memory_close(int fd)
{
    return fd >= FIRST_FD ? 0 : sw_os_posix.close(fd);
}

static int memory_fstat(int fd, struct stat *st)
{
    if (fd < FIRST_FD)
        return sw_os_posix.fstat(fd, st);
    memset(st, 0, sizeof *st);
    st->st_mode = S_IFREG;
    st->st_size = (off_t)files[fd - FIRST_FD].bytes;
    return 0;
}

static ssize_t memory_pread(int fd, void *buf, size_t bytes, off_t offset)
{
    if (fd < FIRST_FD)
        return sw_os_posix.pread(fd, buf, bytes, offset);
    const size_t size = files[fd - FIRST_FD].bytes;
    size_t n = (size_t)offset < size ? size - (size_t)offset : 0;
    n = n < bytes ? n : bytes;
    if (n)
        memcpy(buf, (const char *)files[fd - FIRST_FD].data + offset, n);
    return (ssize_t)n;
}

static ssize_t memory_read(int fd, void *buf, size_t bytes)
{
    static size_t at;
    if (fd < FIRST_FD)
        return sw_os_posix.read(fd, buf, bytes);
    ssize_t n = memory_pread(fd, buf, bytes, (off_t)at);
    at = n > 0 ? at + (size_t)n : 0; /* the next reader starts at the beginning */
    return n;
}

/* ---- the jobs ---- */

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *f)
{
    return remove(path);
}

static void close_jobs(void)
{
    for (int i = 0; i < JOBS; i++) {
        sw_run_close(jobs[i], SW_OK, NULL);
        sw_job_close(jobs[i]);
    }
    sw_log_free(job_log);
    nftw(home, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static void open_job(int i)
{
    struct sw_bytes messages = {0};
    struct sw_err err = {0};
    char db[100], out[100];
    snprintf(db, sizeof db, "%s/history.db", home);
    snprintf(out, sizeof out, "%s/run%d", home, i);
    files[0].data = recipes[i];
    files[0].bytes = strlen(recipes[i]);
    const struct sw_job_options o = {
        .recipe_path = "0.ini", .db = db, .out_dir = out, .oversubscribe = true};
    int rc = sw_job_open(&o, job_log, &jobs[i], &messages, &err);
    if (rc == SW_OK)
        rc = sw_run_open(jobs[i], &err);
    if (rc != SW_OK)
        fprintf(stderr, "%s\n%s\n", err.text, sw_bytes_text(&messages));
    demand(rc == SW_OK);
    sw_bytes_fini(&messages);
    demand(sw_worker_attach(&jobs[i]->workers[0], &err) == SW_OK);
    demand(sw_table_init_values(jobs[i]->params.table, &err) == SW_OK);
}

static void open_jobs(void)
{
    static struct sw_os os;
    demand(mkdtemp(home) != NULL);
    demand(setenv("XDG_STATE_HOME", home, 1) == 0 && setenv("XDG_RUNTIME_DIR", home, 1) == 0);
    os = sw_os_posix;
    os.open = memory_open;
    os.close = memory_close;
    os.fstat = memory_fstat;
    os.pread = memory_pread;
    os.read = memory_read;
    sw_os_set(&os);
    job_log = sw_log_new();
    demand(job_log != NULL);
    for (int i = 0; i < JOBS; i++)
        open_job(i);
    demand(atexit(close_jobs) == 0);
}

/* ---- the file ---- */

/* The number of bytes of values before the checksum; SIZE_MAX: no checksum. */
static size_t values_before_checksum(const char *header)
{
    const char *entry = strstr(header, "\"sw.checksum\"");
    const char *offsets = entry ? strstr(entry, "\"data_offsets\":[") : NULL;
    unsigned long n = offsets ? strtoul(offsets + strlen("\"data_offsets\":["), NULL, 10) : 0;
    return offsets ? (n < MAX_VALUES ? n : MAX_VALUES) : SIZE_MAX;
}

/* Builds the file in memory of exactly its size; the caller frees it. */
static unsigned char *make_file(const uint8_t *data, size_t bytes, size_t *size)
{
    const uint8_t *zero = memchr(data, '\0', bytes);
    const size_t header = zero ? (size_t)(zero - data) : bytes;
    const size_t given = zero ? bytes - header - 1 : 0;
    char *text = strndup((const char *)data, header);
    demand(text != NULL);
    size_t values = values_before_checksum(text);
    const bool sealed = values != SIZE_MAX;
    values = sealed ? values : given;
    *size = 8 + header + values + (sealed ? CHECKSUM : 0);
    unsigned char *out = calloc(1, *size), *at = out + 8 + header;
    demand(out != NULL);
    for (int i = 0; i < 8; i++)
        out[i] = (unsigned char)((uint64_t)header >> 8 * i);
    memcpy(out + 8, text, header);
    free(text);
    if (zero)
        memcpy(at, zero + 1, given < values ? given : values);
    const struct sw_hash hash = sw_hash_bytes(out, *size - CHECKSUM * (size_t)sealed);
    for (int i = 0; sealed && i < CHECKSUM; i++)
        at[values + (size_t)i] =
            (unsigned char)((i < 8 ? hash.high : hash.low) >> (56 - 8 * (i % 8)));
    return out;
}

/* ---- reading it ---- */

static bool is_finite(const float *v, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        if (!isfinite(v[i]))
            return false;
    return true;
}

static void demand_finite(const struct sw_buffers *s)
{
    for (int i = 0; i < s->count; i++)
        demand(is_finite(s->items[i].value, sw_desc_count(&s->items[i].layout)));
}

/* Values, and what updaters keep. */
static void demand_finite_table(struct sw_table *t)
{
    for (int p = 0; p < sw_table_count(t); p++)
        for (int s = -1; s < sw_table_param_slots(t, p); s++) {
            const struct sw_tensor v = sw_table_tensor(t, p, s);
            demand(is_finite(v.data, sw_desc_storage(&v.desc)));
        }
}

/* Resets the state that earlier inputs changed. */
static void clear(struct sw_job *job)
{
    for (int p = 0; p < sw_table_count(job->params.table); p++)
        for (int s = -1; s < sw_table_param_slots(job->params.table, p); s++) {
            const struct sw_tensor v = sw_table_tensor(job->params.table, p, s);
            memset(v.data, 0, sw_desc_bytes(&v.desc));
        }
    const struct sw_buffers *const states[] = {&job->state.buffers, &job->state.recurrent};
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < states[k]->count; i++)
            memset(states[k]->items[i].value, 0, sw_desc_bytes(&states[k]->items[i].layout));
}

/* Files and rules as a recipe names them. */
static int take(struct sw_job *job, bool by_rules, struct sw_err *err)
{
    static const char *const items[] = {"checkpoint", "fc*.weight -> fc2.weight",
                                        "fc.weight^T -> fc.weight", "*.bias -> *.bias",
                                        "*bn.mean -> *bn.mean"};
    struct sw_job_conf *conf = (struct sw_job_conf *)(uintptr_t)job->conf;
    const struct sw_strings none = conf->init_from;
    if (by_rules)
        conf->init_from = (struct sw_strings){items, (int)(sizeof items / sizeof *items)};
    sw_init_from_fini(&job->initial.takes); /* the result of the check when the job was opened */
    const struct sw_checkpoint_job c = sw_job_checkpoint(job);
    int rc = sw_init_from_check(&c, by_rules ? NULL : "checkpoint", NULL, err);
    if (rc == SW_OK)
        rc = sw_init_from_load(&c, err);
    sw_init_from_fini(&job->initial.takes);
    conf->init_from = none;
    return rc;
}

static int load(struct sw_job *job, int who, bool by_rules, struct sw_err *err)
{
    struct sw_checkpoint_job c = sw_job_checkpoint(job);
    int64_t step = 0;
    int rc = SW_OK;
    if (who == EVAL)
        return sw_checkpoint_load_weights(&c, "checkpoint", &step, err);
    if (who == INIT_FROM)
        return take(job, by_rules, err);
    rc = sw_checkpoint_check(&c, "checkpoint", &job->span.first_step, err);
    if (rc == SW_OK && who == ROLL_BACK)
        return sw_checkpoint_roll_back(&c, "checkpoint", err);
    c = sw_job_checkpoint(job);
    c.stage.index = 1; /* parameters of other stages are carried over */
    if (rc == SW_OK)
        rc = sw_checkpoint_load(&c, "checkpoint", err);
    sw_carried_over_fini(&job->initial.carried_over);
    return rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct sw_err err = {0};
    size_t size = 0;
    if (bytes < 1 || bytes > MAX_BYTES)
        return 0;
    if (!jobs[0])
        open_jobs();
    const bool raw = data[0] & 128;
    unsigned char *made = raw ? NULL : make_file(data + 1, bytes - 1, &size);
    files[1].data = raw ? data + 1 : made;
    files[1].bytes = raw ? bytes - 1 : size;
    struct sw_job *job = jobs[data[0] & 1];
    clear(job);
    int rc = load(job, data[0] >> 1 & 3, data[0] & 8, &err);
    demand(rc == SW_OK || err.text[0]);
    if (rc == SW_OK) {
        demand_finite(&job->state.buffers);
        demand_finite(&job->state.recurrent);
        demand_finite_table(job->params.table);
    }
    free(made);
    return 0;
}
