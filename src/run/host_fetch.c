/* A checkpoint goes to host 0 as one message: the writer tells its length, host 0 makes room and
 * tells so, and the bytes follow. The contract is in run/host_fetch.h. */
#include "run/host_fetch.h"

#include "base/os.h"
#include "run/job_private.h"
#include "tensor/safetensors.h"

enum { ANSWER_MS = 15000, FILE_MS = 600000 };

static char *checkpoint_path(const struct sw_job *job, int64_t step)
{
    return sw_format("%s/checkpoint-%lld.safetensors", sw_history_out_dir(job->events.history),
                     (long long)step);
}

/* Is host 0 connected, and behind? Both know what it has told. */
static bool host_0_is_behind(struct sw_job *job, int64_t step)
{
    struct sw_host_notices *n = &job->hosts.notices;
    const bool told =
        job->topology->host == 0 || sw_host_notices_await(n, job->hosts.fabric, SW_HOST_STEP, 1, 0);

    return told && n->room[SW_HOST_STEP][0] < step;
}

/* ---- The writer ---- */

void sw_host_fetch_give(struct sw_job *job, int64_t step)
{
    struct sw_host_notices *n = &job->hosts.notices;
    const struct sw_hosts *hosts = job->options.hosts->list;
    struct sw_err ignored; /* host 0 is told that there are no bytes */
    char *path, *data = NULL;
    size_t bytes = 0;

    if (job->topology->host == 0 || !host_0_is_behind(job, step))
        return;

    path = checkpoint_path(job, step);
    if (!path || sw_os_read_file(path, SIZE_MAX / 2, &data, &bytes, &ignored) != SW_OK)
        bytes = 0;

    sw_host_notices_tell(n, job->hosts.fabric, hosts, SW_HOST_BYTES, (int64_t)bytes);
    if (bytes > 0 && sw_host_notices_await(n, job->hosts.fabric, SW_HOST_ROOM, 1, ANSWER_MS) &&
        n->room[SW_HOST_ROOM][0] == (int64_t)bytes)
        sw_host_notices_send(n, job->hosts.fabric, data, bytes, FILE_MS);

    n->keeps = data; /* until the fabric is closed */
    sw_free(path);
}

/* ---- Host 0 ---- */

static int store(struct sw_job *job, int64_t step, const struct sw_host_inbox *file,
                 struct sw_err *err)
{
    char checksum[33];
    char *path = checkpoint_path(job, step);
    if (!path)
        return sw_err_nomem(err, "the path of a checkpoint", 0);

    int rc = sw_os_replace_file(path, file->data, file->bytes, 0666, err);
    if (rc == SW_OK)
        rc = sw_st_peek_checksum(path, checksum, err);
    if (rc == SW_OK)
        sw_retention_record(&job->retention, step, true, path, file->bytes, checksum);

    sw_free(path);
    return rc;
}

static int receive(struct sw_job *job, int writer, int64_t step, struct sw_err *err)
{
    struct sw_host_notices *n = &job->hosts.notices;
    const struct sw_hosts *hosts = job->options.hosts->list;
    struct sw_host_inbox room = {.from = writer};
    const uint64_t bit = (uint64_t)1 << writer;

    if (sw_host_notices_await(n, job->hosts.fabric, SW_HOST_BYTES, bit, ANSWER_MS))
        room.bytes = (size_t)n->room[SW_HOST_BYTES][writer];
    if (room.bytes == 0 || room.bytes > SIZE_MAX / 2)
        return sw_err_set(err, SW_ERR_IO, "it could not read the file");

    room.data = sw_calloc(room.bytes, 1);
    if (!room.data) {
        sw_host_notices_tell(n, job->hosts.fabric, hosts, SW_HOST_ROOM, 0);
        return sw_err_nomem(err, "its checkpoint", room.bytes);
    }

    n->keeps = room.data; /* until the fabric is closed */
    if (!sw_host_notices_receive(n, job->hosts.fabric, hosts, &room, FILE_MS))
        return sw_err_set(err, SW_ERR_LOST, "it was lost before all of the file had arrived");
    return store(job, step, &room, err);
}

void sw_host_fetch_take(struct sw_job *job, int writer, int64_t step)
{
    struct sw_err err;

    if (job->topology->host != 0 || !host_0_is_behind(job, step))
        return;

    if (receive(job, writer, step, &err) != SW_OK)
        sw_events_report(&job->events, SW_LOG_WARN, "hosts",
                         "the checkpoint of step %lld stays on host %s: %s", (long long)step,
                         job->options.hosts->list->host[writer].name, err.text);
}
