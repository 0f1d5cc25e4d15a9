/* Identifies a process by its start time from /proc/PID/stat and the boot id from /proc. Linux. */
#include "history/process.h"
#include "base/os.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Reads the first line of a small file of /proc into out; false if it cannot be read. */
static bool read_small(const char *path, char *out, size_t bytes)
{
    int fd = sw_os()->open(path, O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0)
        return false;

    ssize_t n = sw_os()->read(fd, out, bytes - 1);
    sw_os()->close(fd);
    out[n > 0 ? n : 0] = 0;
    out[strcspn(out, "\n")] = 0;

    return n > 0;
}

/* State letter and start time of a process: fields 3 and 22 of /proc/PID/stat, counted behind the
 * last ")" because the name in field 2 may hold blanks and brackets. */
static bool read_stat(int64_t pid, char *state, int64_t *start_ticks)
{
    char path[64], text[1024];

    snprintf(path, sizeof path, "/proc/%lld/stat", (long long)pid);
    if (!read_small(path, text, sizeof text))
        return false;

    char *p = strrchr(text, ')');
    if (!p || p[1] != ' ')
        return false;

    *state = p[2];

    p += 2;
    for (int field = 3; field < 22; field++) {
        p = strchr(p, ' ');
        if (!p)
            return false;
        p++;
    }

    *start_ticks = strtoll(p, NULL, 10);
    return true;
}

static void read_boot_id(char out[SW_BOOT_ID_TEXT])
{
    if (!read_small("/proc/sys/kernel/random/boot_id", out, SW_BOOT_ID_TEXT))
        out[0] = 0;
}

void sw_process_self(struct sw_process *p)
{
    memset(p, 0, sizeof *p);
    p->pid = getpid();

    char state;
    if (!read_stat(p->pid, &state, &p->start_ticks))
        p->start_ticks = 0;
    read_boot_id(p->boot_id);
    if (gethostname(p->host, sizeof p->host - 1) != 0)
        p->host[0] = 0;
}

bool sw_process_alive(int64_t pid, int64_t start_ticks, const char *boot_id)
{
    char boot[SW_BOOT_ID_TEXT], state;
    int64_t start;

    read_boot_id(boot);
    if (boot_id && *boot_id && *boot && strcmp(boot, boot_id) != 0)
        return false;
    if (pid <= 0)
        return false;
    if (read_stat(pid, &state, &start))
        return state != 'Z' && state != 'X' && (!start_ticks || start == start_ticks);

    /* No /proc entry: the process has ended, or /proc hides the processes of other users. */
    return kill((pid_t)pid, 0) == 0 || errno == EPERM;
}
