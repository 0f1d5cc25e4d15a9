/* Samples CPU, memory and I/O of this machine and of the trainer's process from /proc and /sys.
 * Rates are differences to the previous sample, and NaN in the first one. The contract is in
 * ui/sampler.h. */
#include "ui/sampler.h"

#include "base/os.h"
#include "machine/machine.h"
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TEXT_BYTES = 1 << 16 };

struct sw_sampler {
    struct sw_machine *map; /* owned; NULL: unknown */
    bool mapped;            /* reading the map was tried */
    int64_t sampled_ns;
    int64_t pid;
    uint64_t busy[SW_UI_CPUS], all[SW_UI_CPUS]; /* ticks, by the system's number */
    uint64_t process_ticks, read_bytes, write_bytes;
    char text[TEXT_BYTES];
};

int sw_sampler_new(struct sw_sampler **out, struct sw_err *err)
{
    *out = sw_calloc(1, sizeof **out);
    return *out ? SW_OK : sw_err_nomem(err, "machine sampler", sizeof **out);
}

void sw_sampler_free(struct sw_sampler *s)
{
    if (!s)
        return;
    sw_machine_free(s->map);
    sw_free(s);
}

/* Reads a file of /proc or /sys, whose size is unknown; false if it cannot be read. */
static bool slurp(struct sw_sampler *s, const char *path)
{
    size_t n = 0;
    ssize_t got = 0;
    int fd = sw_os()->open(path, O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0)
        return false;

    while (n < sizeof s->text - 1 &&
           (got = sw_os()->read(fd, s->text + n, sizeof s->text - 1 - n)) > 0)
        n += (size_t)got;

    s->text[n] = 0;
    sw_os()->close(fd);
    return n > 0 && got >= 0;
}

/* The number after a name at the start of a line, or NaN. */
static double field(const char *text, const char *name)
{
    size_t n = strlen(name);

    for (const char *line = text; line; line = strchr(line, '\n'), line += line != NULL)
        if (strncmp(line, name, n) == 0)
            return strtod(line + n, NULL);

    return NAN;
}

/* ---- Processors -------------------------------------------------------------------------------
 */

/* Shares of busy time since the previous sample (NaN the first time), by the CPU number of the
 * system; returns the number of CPUs. */
static int sample_cpus(struct sw_sampler *s, float fraction[SW_UI_CPUS])
{
    int count = 0;

    if (!slurp(s, "/proc/stat"))
        return 0;

    for (const char *line = s->text; line; line = strchr(line, '\n'), line += line != NULL) {
        unsigned long long t[8] = {0};

        int cpu;
        if (sscanf(line, "cpu%d %llu %llu %llu %llu %llu %llu %llu %llu", &cpu, &t[0], &t[1], &t[2],
                   &t[3], &t[4], &t[5], &t[6], &t[7]) < 5 ||
            cpu < 0 || cpu >= SW_UI_CPUS)
            continue;

        uint64_t all = t[0] + t[1] + t[2] + t[3] + t[4] + t[5] + t[6] + t[7];
        uint64_t busy = all - t[3] - t[4];
        uint64_t more = all - s->all[cpu];
        fraction[cpu] = s->all[cpu] && more ? (float)(busy - s->busy[cpu]) / (float)more : NAN;
        s->all[cpu] = all;
        s->busy[cpu] = busy;
        count = cpu + 1 > count ? cpu + 1 : count;
    }

    return count;
}

static void take_cpu(struct sw_ui_machine *m, struct sw_ui_node *n, const float *fraction, long cpu,
                     int cpus)
{
    if (cpu >= cpus || m->cpu_count == SW_UI_CPUS)
        return;
    m->cpu[m->cpu_count++] = fraction[cpu];
    n->cpu_count++;
}

/* Adds the CPUs of a node from a list such as "0-3,8". */
static void take_cpus(struct sw_ui_machine *m, struct sw_ui_node *n, const float *fraction,
                      const char *list, int cpus)
{
    long from, to;

    n->first_cpu = m->cpu_count;

    while ((list = sw_ui_next_range(list, &from, &to)))
        for (long cpu = from; cpu <= to; cpu++)
            take_cpu(m, n, fraction, cpu, cpus);
}

static double meminfo_used(const char *text, const char *total, const char *available)
{
    return 1024 * (field(text, total) - field(text, available));
}

static void sample_nodes(struct sw_sampler *s, struct sw_ui_machine *m, const float *fraction,
                         int cpus)
{
    char path[96], name[48];

    m->cpu_count = m->node_count = 0;
    for (int i = 0; i < 64 && m->node_count < SW_UI_NODES; i++) {
        struct sw_ui_node *n = &m->node[m->node_count];

        snprintf(path, sizeof path, "/sys/devices/system/node/node%d/cpulist", i);
        if (!slurp(s, path))
            continue;

        *n = (struct sw_ui_node){.number = i, .mem_used = NAN, .mem_total = NAN};
        take_cpus(m, n, fraction, s->text, cpus);
        m->node_count++;
        snprintf(path, sizeof path, "/sys/devices/system/node/node%d/meminfo", i);
        if (!slurp(s, path))
            continue;

        snprintf(name, sizeof name, "Node %d MemTotal:", i);
        n->mem_total = 1024 * field(s->text, name);
        snprintf(name, sizeof name, "Node %d MemFree:", i);
        n->mem_used = n->mem_total - 1024 * field(s->text, name);
        snprintf(name, sizeof name, "Node %d FilePages:", i);

        double cached = 1024 * field(s->text, name);
        n->mem_used -= isnan(cached) ? 0 : cached; /* the page cache can be reclaimed */
    }

    if (m->node_count > 0)
        return;

    /* Without NUMA one node has everything. */
    m->node[m->node_count++] =
        (struct sw_ui_node){.mem_used = m->mem_used, .mem_total = m->mem_total};
    for (int cpu = 0; cpu < cpus; cpu++)
        take_cpu(m, &m->node[0], fraction, cpu, cpus);
}

/* ---- The trainer ------------------------------------------------------------------------------
 */

static double per_second(uint64_t *before, uint64_t now, double seconds, bool known)
{
    double rate = known && seconds > 0 ? (double)(now - *before) / seconds : (double)NAN;
    *before = now;
    return rate;
}

static void sample_process(struct sw_sampler *s, int64_t pid, double seconds,
                           struct sw_ui_machine *m)
{
    char path[64];
    bool known = pid == s->pid && seconds > 0;

    s->pid = pid;
    m->process_cpus = m->process_memory = m->read_per_s = m->write_per_s = NAN;
    snprintf(path, sizeof path, "/proc/%lld/stat", (long long)pid);
    unsigned long long user = 0, system = 0;
    if (pid <= 0 || !slurp(s, path))
        return;

    const char *end = strrchr(s->text, ')'); /* the name before it may contain any character */
    if (end && sscanf(end + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu", &user,
                      &system) == 2)
        m->process_cpus = per_second(&s->process_ticks, user + system, seconds, known) /
                          (double)sysconf(_SC_CLK_TCK);

    snprintf(path, sizeof path, "/proc/%lld/status", (long long)pid);
    if (slurp(s, path))
        m->process_memory = 1024 * field(s->text, "VmRSS:");
    snprintf(path, sizeof path, "/proc/%lld/io", (long long)pid);

    if (slurp(s, path)) {
        double read = field(s->text, "read_bytes:"), written = field(s->text, "write_bytes:");
        m->read_per_s =
            per_second(&s->read_bytes, (uint64_t)(isnan(read) ? 0 : read), seconds, known);
        m->write_per_s =
            per_second(&s->write_bytes, (uint64_t)(isnan(written) ? 0 : written), seconds, known);
    }
}

/* ---- A sample --------------------------------------------------------------------------------
 */

/* Lists the paths between GPUs: a line for each kind of path, with the pairs that have it. */
static void list_gpu_paths(const struct sw_machine *map, struct sw_ui_machine *m)
{
    m->path_count = 0;
    for (int kind = SW_PATH_SWITCH; kind <= SW_PATH_ACROSS; kind++) {
        char *text = m->paths[m->path_count];
        size_t n = 0, room = sizeof m->paths[0];

        for (int a = 0; a < map->gpu_count; a++)
            for (int b = a + 1; b < map->gpu_count && n < room; b++) {
                if (sw_gpu_path(map, a, b) != (enum sw_gpu_path)kind)
                    continue;

                if (n == 0)
                    n += (size_t)snprintf(text, room,
                                          "%s:", sw_gpu_path_text((enum sw_gpu_path)kind));

                n += n < room ? (size_t)snprintf(text + n, room - n, " %d-%d", a, b) : 0;
            }

        m->path_count += n > 0;
    }
}

static void read_machine_map(struct sw_sampler *s, struct sw_ui_machine *m)
{
    struct sw_err ignored;

    if (!s->mapped && sw_machine_here(&s->map, &ignored) != SW_OK)
        s->map = NULL;
    s->mapped = true;
    m->gpu_count = 0;
    if (!s->map)
        return;

    snprintf(m->cpu_model, sizeof m->cpu_model, "%s", s->map->cpu_model);

    for (int i = 0; i < s->map->gpu_count && i < 8; i++) {
        const struct sw_io *io = sw_machine_gpu(s->map, i);
        char rate[32];
        int n = snprintf(m->gpus[i], sizeof m->gpus[i], "%d: %.48s", i, io->name);

        if (io->link_gb_per_s > 0)
            snprintf(m->gpus[i] + n, sizeof m->gpus[i] - (size_t)n, ", PCIe %s",
                     sw_human_unit(rate, io->link_gb_per_s * 1e9, "B/s"));

        m->gpu_count++;
    }

    list_gpu_paths(s->map, m);
}

void sw_sampler_sample(struct sw_sampler *s, int64_t pid, struct sw_ui_machine *m)
{
    float fraction[SW_UI_CPUS] = {0};
    int64_t now_ns = sw_os()->monotonic_ns();
    double seconds = s->sampled_ns ? (double)(now_ns - s->sampled_ns) * 1e-9 : 0;

    s->sampled_ns = now_ns;
    m->known = true;
    m->load = slurp(s, "/proc/loadavg") ? strtod(s->text, NULL) : (double)NAN;
    m->mem_used = m->mem_total = NAN;

    if (slurp(s, "/proc/meminfo")) {
        m->mem_total = 1024 * field(s->text, "MemTotal:");
        m->mem_used = meminfo_used(s->text, "MemTotal:", "MemAvailable:");
    }

    int cpus = sample_cpus(s, fraction);
    sample_nodes(s, m, fraction, cpus);
    sample_process(s, pid, seconds, m);
    read_machine_map(s, m);
}
