/* Reads the configuration of this machine from small files of sysfs and proc, one section per
 * subject. A file that cannot be read leaves its values unknown and is no error. The formats are
 * those of proc(5), of the kernel's sysfs documentation and of the PCI Express Base Specification.
 */
#include "machine/survey.h"

#include "base/os.h"
#include "base/str.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

enum { FILE_BYTES = 1 << 16, PCI_CONFIG_BYTES = 4096 };

/* ---- Small files ------------------------------------------------------------------------------
 */

/* Reads the first bytes of a file and terminates them by a zero byte. Returns their number, or -1.
 */
static int64_t read_start(const char *path, char *out, size_t room)
{
    int fd = sw_os()->open(path, O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0)
        return -1;

    size_t done = 0;
    ssize_t n = 1;
    while (done < room - 1 && (n = sw_os()->read(fd, out + done, room - 1 - done)) > 0)
        done += (size_t)n;
    sw_os()->close(fd);
    out[done] = 0;

    return n < 0 ? -1 : (int64_t)done;
}

/* Reads the first line of a small file below a root, without its newline; "" if the file is
 * missing. */
static const char *read_line(const char *root, const char *path, char *out, size_t room)
{
    char *name = sw_format("%s/%s", root, path);

    if (!name || read_start(name, out, room) < 0)
        out[0] = 0;
    out[strcspn(out, "\n")] = 0;
    sw_free(name);

    return out;
}

static int64_t read_number(const char *root, const char *path, int64_t unknown)
{
    char text[64];
    int64_t value;
    return sw_parse_int(read_line(root, path, text, sizeof text), &value) ? value : unknown;
}

/* Reads the word in [brackets] of "always [madvise] never", else the first word of the line. */
static void read_choice(const char *root, const char *path, char *out, size_t room)
{
    char line[128];
    const char *word = read_line(root, path, line, sizeof line), *open = strchr(word, '[');

    if (open)
        word = open + 1;
    snprintf(out, room, "%.*s", (int)strcspn(word, open ? "]" : " "), word);
}

/* Calls each(name) for the entries of a folder; does nothing if the folder is missing. */
static int each_entry(const char *root, const char *path, int (*each)(void *user, const char *name),
                      void *user)
{
    char *folder = sw_format("%s/%s", root, path);
    DIR *dir = folder ? opendir(folder) : NULL;
    int code = SW_OK;

    for (struct dirent *e; dir && !code && (e = readdir(dir));)
        if (e->d_name[0] != '.')
            code = each(user, e->d_name);

    if (dir)
        closedir(dir);
    sw_free(folder);

    return code;
}

/* ---- Processor and memory ---------------------------------------------------------------------
 */

struct governors {
    struct sw_survey *s;
    const char *sys_root;
};

static int add_governor(void *user, const char *name)
{
    struct governors *g = user;
    char path[128], text[32];

    if (strncmp(name, "cpu", 3) != 0 || name[3] < '0' || name[3] > '9')
        return SW_OK;

    snprintf(path, sizeof path, "devices/system/cpu/%.32s/cpufreq/scaling_governor", name);
    read_line(g->sys_root, path, text, sizeof text);

    if (*text && !*g->s->governor) {
        strcpy(g->s->governor, text);
        g->s->governors = 1;
    } else if (*text && strcmp(g->s->governor, text) != 0) {
        g->s->governors = 2;
    }

    return SW_OK;
}

/* "MemFree:   123 kB" in the text of meminfo, in bytes; -1 if it is missing. */
static int64_t meminfo(const char *text, const char *key)
{
    const char *at = strstr(text, key);
    if (!at || (at != text && at[-1] != '\n'))
        return -1;

    char *end;
    long long kib = strtoll(at + strlen(key), &end, 10);
    return strncmp(end, " kB", 3) == 0 ? kib * 1024 : kib;
}

static void read_memory(struct sw_survey *s, const char *proc_root)
{
    char *text = sw_calloc(1, FILE_BYTES), *path = sw_format("%s/meminfo", proc_root);

    if (!text || !path || read_start(path, text, FILE_BYTES) < 0) {
        s->memory_bytes = s->memory_free_bytes = s->swap_bytes = s->swap_free_bytes = -1;
        s->huge_pages = s->huge_page_bytes = -1;
    } else {
        s->memory_bytes = meminfo(text, "MemTotal:");
        s->memory_free_bytes = meminfo(text, "MemAvailable:");
        s->swap_bytes = meminfo(text, "SwapTotal:");
        s->swap_free_bytes = meminfo(text, "SwapFree:");
        s->huge_pages = meminfo(text, "HugePages_Total:");
        s->huge_page_bytes = meminfo(text, "Hugepagesize:");
    }

    sw_free(text);
    sw_free(path);
}

/* Reads the smallest memory.max from the process's group up to the root (cgroup version 2). */
static void read_cgroup(struct sw_survey *s, const char *proc_root, const char *sys_root)
{
    char line[512], path[640];

    s->cgroup_memory_bytes = s->oom_kills = -1;
    read_line(proc_root, "self/cgroup", line, sizeof line);
    if (strncmp(line, "0::/", 4) != 0)
        return;

    char *group = line + 3;
    for (bool first = true;; first = false) {
        char events[256];

        snprintf(path, sizeof path, "fs/cgroup%s/memory.max", group);

        int64_t most = read_number(sys_root, path, -1);
        if (most >= 0 && (s->cgroup_memory_bytes < 0 || most < s->cgroup_memory_bytes))
            s->cgroup_memory_bytes = most;

        char *full = first ? sw_format("%s/fs/cgroup%s/memory.events", sys_root, group) : NULL;
        const char *kills = full && read_start(full, events, sizeof events) > 0
                                ? strstr(events, "oom_kill ")
                                : NULL;
        if (kills)
            s->oom_kills = strtoll(kills + 9, NULL, 10);
        sw_free(full);

        char *slash = strrchr(group, '/');
        if (!slash || !group[1])
            return;

        slash[slash == group] = 0;
    }
}

static int64_t limit_of(int which)
{
    struct rlimit r;
    if (getrlimit(which, &r) != 0 || r.rlim_cur == RLIM_INFINITY || r.rlim_cur > INT64_MAX)
        return -1;
    return (int64_t)r.rlim_cur;
}

static void read_shm(struct sw_survey *s)
{
    struct statvfs v;

    s->shm_bytes = s->shm_free_bytes = -1;
    if (statvfs("/dev/shm", &v) != 0)
        return;

    s->shm_bytes = (int64_t)v.f_blocks * (int64_t)v.f_frsize;
    s->shm_free_bytes = (int64_t)v.f_bavail * (int64_t)v.f_frsize;
}

/* ---- PCIe -------------------------------------------------------------------------------------
 */

struct pci {
    struct sw_survey *s;
    const char *sys_root;
    struct sw_err *err;
};

/* "16.0 GT/s PCIe" */
static double read_speed(const char *sys_root, const char *path)
{
    char text[64], *end;
    double speed = strtod(read_line(sys_root, path, text, sizeof text), &end);
    return end != text && strstr(end, "GT/s") ? speed : (double)NAN;
}

static int add_link(struct pci *p, const char *bus, const char *kind)
{
    struct sw_survey *s = p->s;
    char path[128];
    struct sw_link_state *links =
        sw_realloc_array(s->links, (size_t)s->link_count + 1, sizeof *links);
    if (!links)
        return sw_err_nomem(p->err, "PCIe links", 0);

    s->links = links;

    struct sw_link_state *l = &links[s->link_count++];
    *l = (struct sw_link_state){0};
    snprintf(l->bus, sizeof l->bus, "%.19s", bus);
    snprintf(l->kind, sizeof l->kind, "%s", kind);
    snprintf(path, sizeof path, "bus/pci/devices/%.19s/current_link_speed", bus);
    l->speed_gt_per_s = read_speed(p->sys_root, path);
    snprintf(path, sizeof path, "bus/pci/devices/%.19s/max_link_speed", bus);
    l->max_gt_per_s = read_speed(p->sys_root, path);
    snprintf(path, sizeof path, "bus/pci/devices/%.19s/current_link_width", bus);
    l->width = (int)read_number(p->sys_root, path, -1);
    snprintf(path, sizeof path, "bus/pci/devices/%.19s/max_link_width", bus);
    l->max_width = (int)read_number(p->sys_root, path, -1);

    return SW_OK;
}

static uint32_t word_at(const unsigned char *config, int at)
{
    return config[at] | (uint32_t)config[at + 1] << 8 | (uint32_t)config[at + 2] << 16 |
           (uint32_t)config[at + 3] << 24;
}

/* Counts the bridge if its Access Control Services capability (0x000d; PCI Express Base 6.12)
 * redirects requests or completions of its devices upstream. Without root the kernel shows only 64
 * bytes of the configuration space. */
static void check_bridge(struct pci *p, const char *bus)
{
    enum { ACS = 0x000d, REQUEST_REDIRECT = 4, COMPLETION_REDIRECT = 8 };

    char config[PCI_CONFIG_BYTES + 1];
    char *path = sw_format("%s/bus/pci/devices/%s/config", p->sys_root, bus);
    int64_t n = path ? read_start(path, config, sizeof config) : -1;
    sw_free(path);
    if (n <= 64) {
        p->s->acs_bridges = -1;
        return;
    }

    const unsigned char *bytes = (const unsigned char *)config;
    for (int at = 0x100, left = 64; p->s->acs_bridges >= 0 && at >= 0x100 && at + 8 <= n && left--;
         at = (int)(word_at(bytes, at) >> 20)) {
        uint32_t head = word_at(bytes, at);
        if ((head & 0xffff) == ACS &&
            (word_at(bytes, at + 4) >> 16 & (REQUEST_REDIRECT | COMPLETION_REDIRECT)))
            p->s->acs_bridges++;
    }
}

static int add_device(void *user, const char *bus)
{
    struct pci *p = user;
    char path[128], text[32];

    snprintf(path, sizeof path, "bus/pci/devices/%.19s/class", bus);

    unsigned long class = strtoul(read_line(p->sys_root, path, text, sizeof text), NULL, 16);
    snprintf(path, sizeof path, "bus/pci/devices/%.19s/vendor", bus);

    unsigned long vendor = strtoul(read_line(p->sys_root, path, text, sizeof text), NULL, 16);
    if ((class >> 8 == 0x0300 || class >> 8 == 0x0302) && vendor == 0x10de)
        return add_link(p, bus, "GPU");
    if (class >> 8 == 0x0108)
        return add_link(p, bus, "NVMe");

    if (class >> 8 == 0x0604)
        check_bridge(p, bus);
    return SW_OK;
}

static int set_iommu(void *user, const char *name)
{
    ((struct sw_survey *)user)->iommu = true;
    return SW_OK;
}

static int by_bus(const void *a, const void *b)
{
    return strcmp(((const struct sw_link_state *)a)->bus, ((const struct sw_link_state *)b)->bus);
}

/* "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  ..."; the open module says "for
 * x86_64" before its version. */
static void read_driver(struct sw_survey *s, const char *proc_root)
{
    char line[256], word[sizeof line];

    read_line(proc_root, "driver/nvidia/version", line, sizeof line);

    for (const char *at = line; *at; at += strcspn(at, " ")) {
        at += strspn(at, " ");
        snprintf(word, sizeof word, "%.*s", (int)strcspn(at, " "), at);
        if (word[strspn(word, "0123456789.")] == 0 && strchr(word, '.')) {
            snprintf(s->nvidia_driver, sizeof s->nvidia_driver, "%.31s", word);
            return;
        }
    }
}

/* ---- All --------------------------------------------------------------------------------------
 */

int sw_survey_read(struct sw_survey *s, const char *proc_root, const char *sys_root,
                   struct sw_err *err)
{
    struct governors g = {s, sys_root};
    struct pci p = {s, sys_root, err};
    int code = each_entry(sys_root, "devices/system/cpu", add_governor, &g);

    read_choice(sys_root, "kernel/mm/transparent_hugepage/enabled", s->thp, sizeof s->thp);
    read_line(proc_root, "sys/kernel/numa_balancing", s->numa_balancing, sizeof s->numa_balancing);
    read_memory(s, proc_root);
    read_cgroup(s, proc_root, sys_root);
    s->locked_bytes = limit_of(RLIMIT_MEMLOCK);
    s->open_files = limit_of(RLIMIT_NOFILE);
    read_shm(s);
    read_driver(s, proc_root);
    if (!code)
        code = each_entry(sys_root, "class/iommu", set_iommu, s);
    if (!code)
        code = each_entry(sys_root, "bus/pci/devices", add_device, &p);
    if (!code && s->link_count)
        qsort(s->links, (size_t)s->link_count, sizeof *s->links, by_bus);

    return code;
}

void sw_survey_fini(struct sw_survey *s)
{
    sw_free(s->links);
    *s = (struct sw_survey){0};
}

/* "cpu  USER NICE SYSTEM IDLE IOWAIT IRQ SOFTIRQ STEAL ..." in clock ticks (proc(5)). */
double sw_survey_busy_s(const char *proc_root)
{
    char line[256];

    long long t[8] = {0};
    read_line(proc_root, "stat", line, sizeof line);
    if (sscanf(line, "cpu %lld %lld %lld %lld %lld %lld %lld %lld", &t[0], &t[1], &t[2], &t[3],
               &t[4], &t[5], &t[6], &t[7]) != 8)
        return (double)NAN;

    return (double)(t[0] + t[1] + t[2] + t[5] + t[6] + t[7]) / (double)sysconf(_SC_CLK_TCK);
}

/* Magic numbers of statfs(2). */
static const struct {
    unsigned long magic;
    const char *name;
    bool network, memory;
} file_systems[] = {
    {0xef53, "ext4", false, false},        {0x58465342, "xfs", false, false},
    {0x9123683e, "btrfs", false, false},   {0x2fc12fc1, "zfs", false, false},
    {0x794c7630, "overlay", false, false}, {0xf2f52010, "f2fs", false, false},
    {0x01021994, "tmpfs", false, true},    {0x6969, "nfs", true, false},
    {0xff534d42, "cifs", true, false},     {0xfe534d42, "smb2", true, false},
    {0x65735546, "fuse", true, false},     {0x01021997, "9p", true, false},
    {0x0bd00bd0, "lustre", true, false},   {0x47504653, "gpfs", true, false},
    {0x00c36400, "ceph", true, false},
};

int sw_survey_disk(const char *folder, struct sw_disk *disk, struct sw_err *err)
{
    struct statfs f;
    if (statfs(folder, &f) != 0)
        return sw_err_errno(err, errno, "%s", folder);

    *disk = (struct sw_disk){.bytes = (int64_t)f.f_blocks * f.f_bsize,
                             .free_bytes = (int64_t)f.f_bavail * f.f_bsize};
    snprintf(disk->kind, sizeof disk->kind, "0x%lx", (unsigned long)f.f_type & 0xffffffff);

    for (size_t i = 0; i < sizeof file_systems / sizeof *file_systems; i++)
        if (((unsigned long)f.f_type & 0xffffffff) == file_systems[i].magic) {
            strcpy(disk->kind, file_systems[i].name);
            disk->network = file_systems[i].network;
            disk->memory = file_systems[i].memory;
        }

    return SW_OK;
}
