/* The CPU quota and the memory limit of cgroups, version 1 and 2: walks from the groups in
 * /proc/self/cgroup up to the root and keeps the smallest limit. In a container the path may be the
 * host's; then only the root is found. */
#include "machine/quota.h"
#include "base/os.h"
#include "base/str.h"
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_BYTES = 65536 };

/* The text of FOLDER GROUP/FILE, or NULL. */
static char *read_file(const char *folder, const char *group, const char *file)
{
    char *text = NULL, *path = sw_format("%s%s/%s", folder, group, file);
    size_t bytes;

    if (!path || sw_os_read_file(path, MAX_BYTES, &text, &bytes, NULL) != SW_OK)
        text = NULL;
    sw_free(path);

    return text;
}

/* cpu.max holds "QUOTA PERIOD" in microseconds, or "max PERIOD". */
static double quota_v2(const char *folder, const char *group)
{
    char *text = read_file(folder, group, "cpu.max"), *end;
    double quota = 0;

    if (text && !sw_str_starts(text, "max")) {
        double part = strtod(text, &end), whole = strtod(end, NULL);
        quota = whole > 0 ? part / whole : 0;
    }

    sw_free(text);
    return quota;
}

/* cpu.cfs_quota_us is -1 without a limit. */
static double quota_v1(const char *folder, const char *group)
{
    char *part = read_file(folder, group, "cpu.cfs_quota_us");
    char *whole = read_file(folder, group, "cpu.cfs_period_us");
    double quota = 0;

    if (part && whole && strtod(part, NULL) > 0 && strtod(whole, NULL) > 0)
        quota = strtod(part, NULL) / strtod(whole, NULL);
    sw_free(part);
    sw_free(whole);

    return quota;
}

/* memory.max holds bytes, or "max". */
static double memory_v2(const char *folder, const char *group)
{
    char *text = read_file(folder, group, "memory.max");
    double bytes = text ? strtod(text, NULL) : 0;

    sw_free(text);
    return bytes;
}

/* Without a limit, memory.limit_in_bytes is the largest number of whole pages. */
static double memory_v1(const char *folder, const char *group)
{
    char *text = read_file(folder, group, "memory.limit_in_bytes");
    double bytes = text ? strtod(text, NULL) : 0;

    sw_free(text);
    return bytes < 0x1p62 ? bytes : 0;
}

/* A limit that cgroups set: its controller, and how version 1 and 2 write it. */
struct limit {
    const char *controller;
    double (*v1)(const char *folder, const char *group);
    double (*v2)(const char *folder, const char *group);
};
static const struct limit cpu_limit = {"cpu", quota_v1, quota_v2};
static const struct limit memory_limit = {"memory", memory_v1, memory_v2};

static void keep_smallest(double *quota, double other)
{
    if (other > 0 && (*quota == 0 || other < *quota))
        *quota = other;
}

/* The smallest quota from the group up to the root, since limits of parents apply, too. In a
 * container the path may be that of the host, and then only the root exists here. Truncates group.
 */
static double walk_up(const struct limit *limit, const char *folder, char *group, bool v2)
{
    double quota = 0;

    for (;;) {
        keep_smallest(&quota, v2 ? limit->v2(folder, group) : limit->v1(folder, group));

        char *slash = strrchr(group, '/');
        if (!slash)
            return quota;

        *slash = '\0';
    }
}

/* Whether a list such as "cpu,cpuacct" contains the controller. */
static bool lists(const char *controllers, const char *controller)
{
    const size_t n = strlen(controller);

    for (const char *p = controllers; p; p = strchr(p, ',')) {
        p += *p == ',';
        if (strncmp(p, controller, n) == 0 && (p[n] == ',' || p[n] == '\0'))
            return true;
    }

    return false;
}

/* A line of /proc/self/cgroup: NUMBER:CONTROLLERS:PATH, without controllers for version 2. */
static double line_limit(const struct limit *limit, char *line, const char *sys_root)
{
    char *controllers = strchr(line, ':'), *group = controllers ? strchr(controllers + 1, ':') : 0;
    if (!group)
        return 0;

    *controllers++ = '\0';
    *group++ = '\0';

    bool v2 = controllers[0] == '\0';
    if (!v2 && !lists(controllers, limit->controller))
        return 0;

    char *folder = sw_format("%s/fs/cgroup%s%s", sys_root, v2 ? "" : "/", controllers);
    double quota = folder ? walk_up(limit, folder, group, v2) : 0;
    sw_free(folder);

    return quota;
}

static double find(const struct limit *limit, const char *proc_root, const char *sys_root)
{
    char *text = read_file(proc_root, "/self", "cgroup"), *rest = text, *line;
    double quota = 0;

    while (rest && (line = strsep(&rest, "\n")))
        keep_smallest(&quota, line_limit(limit, line, sys_root));
    sw_free(text);

    return quota;
}

double sw_cpu_quota(const char *proc_root, const char *sys_root)
{
    return find(&cpu_limit, proc_root, sys_root);
}

int64_t sw_memory_quota(const char *proc_root, const char *sys_root)
{
    return (int64_t)find(&memory_limit, proc_root, sys_root);
}
