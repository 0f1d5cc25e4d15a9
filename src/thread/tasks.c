/* Reads the state of the threads of this process from /proc/self/task. It must work while another
 * thread is stopped anywhere, also inside malloc, so it takes no lock and uses only buffers on the
 * stack. The contract is in thread/tasks.h. */
#include "thread/tasks.h"
#include "base/os.h"
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The text of /proc/self/task/ID/FILE; false for a thread that has ended. */
static bool read_file(const char *id, const char *file, char *text, size_t bytes)
{
    char path[64];

    snprintf(path, sizeof path, "/proc/self/task/%.16s/%s", id, file);

    int fd = sw_os()->open(path, O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0)
        return false;

    ssize_t n = sw_os()->read(fd, text, bytes - 1);
    sw_os()->close(fd);
    text[n > 0 ? n : 0] = '\0';

    return n > 0;
}

bool sw_task_parse(const char *line, struct sw_task *out)
{
    const char *open = strchr(line, '('), *close = strrchr(line, ')');

    unsigned long long user, system;

    char state;
    if (!open || !close || close < open)
        return false;

    /* Fields 3, 14 and 15: the state, and the time in user mode and in the kernel. */
    if (sscanf(close + 1, " %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %llu %llu", &state, &user,
               &system) != 3)
        return false;

    *out =
        (struct sw_task){.id = atoi(line), .state = state, .cpu_ticks = (int64_t)(user + system)};

    size_t length = (size_t)(close - open - 1);
    memcpy(out->name, open + 1, length < SW_TASK_NAME ? length : SW_TASK_NAME - 1);
    return true;
}

int sw_tasks_read(struct sw_task *out, int room)
{
    _Alignas(struct dirent64) char list[4096];

    char line[512];
    int count = 0, fd = sw_os()->open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    ssize_t bytes;
    if (fd < 0)
        return 0;

    /* opendir would allocate. */
    while (count < room && (bytes = getdents64(fd, list, sizeof list)) > 0) {
        for (ssize_t at = 0; at < bytes && count < room;) {
            const struct dirent64 *e = (const void *)(list + at);

            at += e->d_reclen;

            if (e->d_name[0] != '.' && read_file(e->d_name, "stat", line, sizeof line) &&
                sw_task_parse(line, &out[count]))
                count++;
        }
    }

    sw_os()->close(fd);
    return count;
}

void sw_task_wait_channel(int id, char *out, size_t bytes)
{
    char name[16];

    snprintf(name, sizeof name, "%d", id);
    /* The file contains "0" for a thread that is not blocked, and for a reader without
     * permission. */
    if (!read_file(name, "wchan", out, bytes) || out[0] == '0')
        out[0] = '\0';
}

int sw_task_self(void)
{
    return (int)gettid();
}
