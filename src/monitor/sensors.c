/* The sensor thread: every 2 s it records utilization, memory, power and temperature of the CPU and
 * the job's GPUs in the history.
 *
 * Messages in: none. Messages out: rows of `hardware`. A flag under its lock stops it. A hanging
 * GPU may block it forever; the join is timed, and its memory is then leaked. It does not touch
 * training, and values that cannot be read are omitted. */
#include "monitor/sensors.h"

#include "base/os.h"
#include "base/str.h"
#include "machine/nvml.h"
#include "thread/thread.h"
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { CHECK_MS = 2000, PATIENCE_MS = 500, GPUS = 64 };

struct gpu {
    char device[32], bus[20];
};

struct sw_sensors {
    struct sw_thread thread;
    struct sw_mutex lock;
    struct sw_cond changed;
    bool over;                  /* guarded by lock */
    struct sw_history *history; /* borrowed while not over */
    const char *host;           /* borrowed: the host device's name */
    int threads;                /* CPU threads that can run at the same time */
    int gpu_count;
    struct gpu gpus[GPUS];
    int64_t read_ns;
    double cpu_s; /* at that time */
};

static double cpu_seconds(void)
{
    struct rusage u;
    if (getrusage(RUSAGE_SELF, &u) != 0)
        return NAN;

    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           1e-6 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

/* Current, not peak, resident memory: the second number of /proc/self/statm, in pages. */
static double resident_bytes(void)
{
    char text[128];

    long long all, resident;

    int fd = sw_os()->open("/proc/self/statm", O_RDONLY | O_CLOEXEC, 0);
    ssize_t n = fd >= 0 ? sw_os()->read(fd, text, sizeof text - 1) : -1;
    if (fd >= 0)
        sw_os()->close(fd);
    text[n > 0 ? n : 0] = 0;
    if (sscanf(text, "%lld %lld", &all, &resident) != 2)
        return NAN;

    return (double)resident * (double)sysconf(_SC_PAGESIZE);
}

static struct sw_hardware read_cpu(struct sw_sensors *s)
{
    int64_t now_ns = sw_os()->monotonic_ns();
    double cpu_s = cpu_seconds(), elapsed_s = (double)(now_ns - s->read_ns) * 1e-9;
    struct sw_hardware row = {.device = s->host,
                              .util = elapsed_s > 0 && s->threads > 0
                                          ? (cpu_s - s->cpu_s) / elapsed_s / s->threads
                                          : (double)NAN,
                              .mem_used = resident_bytes(),
                              .power_w = NAN,
                              .temp_c = NAN,
                              .clock_mhz = NAN};

    s->read_ns = now_ns;
    s->cpu_s = cpu_s;
    return row;
}

/* The history must not be used after `over` is set. */
static void write_rows(struct sw_sensors *s, const struct sw_hardware *rows, int count)
{
    sw_mutex_lock(&s->lock);
    for (int i = 0; i < count && !s->over; i++)
        sw_history_hardware(s->history, &rows[i]);
    sw_mutex_unlock(&s->lock);
}

static bool rest(struct sw_sensors *s)
{
    int64_t until_ns = sw_os()->monotonic_ns() + (int64_t)CHECK_MS * 1000000;

    sw_mutex_lock(&s->lock);
    while (!s->over && sw_cond_wait_until(&s->changed, &s->lock, until_ns))
        ;

    bool over = s->over;
    sw_mutex_unlock(&s->lock);
    return !over;
}

static void sensors_main(void *arg)
{
    struct sw_sensors *s = arg;
    struct sw_nvml *nvml = NULL;
    struct sw_err ignored;

    if (s->gpu_count > 0 && sw_nvml_open(&nvml, NULL, &ignored) != SW_OK)
        nvml = NULL;

    while (rest(s)) {
        struct sw_hardware rows[GPUS + 1];
        int count = 0;

        rows[count++] = read_cpu(s);

        for (int g = 0; nvml && g < s->gpu_count; g++) {
            struct sw_gpu_reading r = sw_nvml_read(nvml, s->gpus[g].bus);
            rows[count++] = (struct sw_hardware){s->gpus[g].device, r.util,   r.mem_used,
                                                 r.power_w,         r.temp_c, r.clock_mhz};
        }

        write_rows(s, rows, count);
    }

    sw_nvml_close(nvml);
}

/* Lists the distinct GPUs of workers. */
static void list_gpus(struct sw_sensors *s, const struct sw_machine *m,
                      const struct sw_placement *p)
{
    for (int i = 0; i < p->worker_count && s->gpu_count < GPUS; i++) {
        const char *device = p->rows[i].device;
        int number = p->rows[i].gpu;
        bool known = number < 0 || number >= m->gpu_count;

        for (int g = 0; g < s->gpu_count && !known; g++)
            known = sw_str_eq(s->gpus[g].device, device);
        if (known)
            continue;

        struct gpu *to = &s->gpus[s->gpu_count++];
        snprintf(to->device, sizeof to->device, "%s", device);
        snprintf(to->bus, sizeof to->bus, "%s", sw_machine_gpu(m, number)->bus);
    }
}

int sw_sensors_start(struct sw_history *history, const struct sw_machine *m,
                     const struct sw_placement *p, struct sw_sensors **out, struct sw_err *err)
{
    struct sw_sensors *s = sw_calloc(1, sizeof *s);
    if (!s)
        return sw_err_nomem(err, "the sensors", sizeof *s);

    s->history = history;
    s->host = sw_driver_host()->name;
    s->threads = sw_machine_threads(m);
    s->read_ns = sw_os()->monotonic_ns();
    s->cpu_s = cpu_seconds();
    list_gpus(s, m, p);
    sw_mutex_init(&s->lock);
    sw_cond_init(&s->changed);
    *out = s;

    return sw_thread_start(&s->thread, "sense", sensors_main, s, err);
}

void sw_sensors_end(struct sw_sensors *s)
{
    if (!s)
        return;

    sw_mutex_lock(&s->lock);
    s->over = true;
    sw_cond_broadcast(&s->changed);
    sw_mutex_unlock(&s->lock);
    if (!sw_thread_join_timed(&s->thread, PATIENCE_MS))
        return; /* it hangs in the driver and may still use its memory */

    sw_cond_fini(&s->changed);
    sw_mutex_fini(&s->lock);
    sw_free(s);
}
