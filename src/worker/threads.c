/* Derives from consecutive lists of the process's threads what each thread does: whether it got CPU
 * time, or else the state that the system reports. This file has the owners' states between the
 * lists, and the rules by which one of several threads represents its role. */
#include "worker/threads.h"
#include "base/os.h"
#include "base/str.h"
#include <string.h>

/* CPU ticks between two lists that prove work; a thread that only polls or reads a clock gets
 * fewer. */
enum { WORK_TICKS = 2 };

struct sw_threads {
    int owners;
    struct sw_thread_state *state; /* owned [owners + 1] */
    int64_t *ticks; /* owned [owners + 1]: of all threads of each, in the last list */
    char other_name[SW_TASK_NAME];
};

int sw_threads_new(int owners, struct sw_threads **out, struct sw_err *err)
{
    size_t count = (size_t)owners + 1;
    struct sw_threads *t = sw_calloc(1, sizeof *t);

    if (!t)
        return sw_err_nomem(err, "the watchdog", sizeof *t);

    t->owners = owners;
    t->state = sw_calloc(count, sizeof *t->state);

    t->ticks = sw_calloc(count, sizeof *t->ticks);
    if (!t->state || !t->ticks) {
        sw_threads_free(t);
        return sw_err_nomem(err, "the watchdog", count * sizeof *t->state);
    }

    *out = t;
    return SW_OK;
}

void sw_threads_free(struct sw_threads *t)
{
    if (!t)
        return;

    sw_free(t->state);
    sw_free(t->ticks);
    sw_free(t);
}

static bool is_stopped(const struct sw_task *task)
{
    return task->state == 't' || task->state == 'T';
}

static bool is_own(const struct sw_thread_owner *o, const struct sw_task *task)
{
    return o->id > 0 &&
           (task->id == o->id || (o->name && strncmp(task->name, o->name, SW_TASK_NAME - 1) == 0));
}

static bool computes_for(const struct sw_thread_owner *o, const struct sw_task *task)
{
    return is_own(o, task) || (o->device[0] && sw_str_starts(task->name, o->device));
}

static struct sw_thread_state stopped_state(const struct sw_task *task)
{
    return (struct sw_thread_state){.activity = SW_THREAD_STOPPED,
                                    .id = task->id,
                                    .state = task->state,
                                    .cpu_ticks = task->cpu_ticks};
}

/* The state of a role according to one list. *ticks: CPU time of all its threads so far. */
static struct sw_thread_state judge(const struct sw_thread_owner *o, const struct sw_task *tasks,
                                    int count, int64_t *ticks)
{
    const struct sw_task *own = NULL, *stopped = NULL;
    bool runs = false;

    *ticks = 0;
    for (int i = 0; i < count; i++) {
        if (!computes_for(o, &tasks[i]))
            continue;

        *ticks += tasks[i].cpu_ticks;
        runs = runs || tasks[i].state == 'R';
        own = tasks[i].id == o->id ? &tasks[i] : own;
        if (is_own(o, &tasks[i]) && is_stopped(&tasks[i]) && (!stopped || own == &tasks[i]))
            stopped = &tasks[i];
    }

    if (o->id == 0 || count == 0)
        return (struct sw_thread_state){.activity = SW_THREAD_UNKNOWN};
    if (!own || own->state == 'Z' || own->state == 'X')
        return (struct sw_thread_state){.activity = SW_THREAD_ENDED, .id = o->id};
    if (stopped)
        return stopped_state(stopped);

    return (struct sw_thread_state){.activity = runs ? SW_THREAD_STARVED : SW_THREAD_ASLEEP,
                                    .id = own->id,
                                    .state = own->state};
}

/* Updates the state from the previous one: whether the role worked, and for how long it has been
 * stopped. */
static void follow(struct sw_threads *t, int i, struct sw_thread_state now, int64_t ticks, bool far,
                   int64_t passed_ns)
{
    struct sw_thread_state *s = &t->state[i];
    bool worked = s->id != 0 && ticks - t->ticks[i] >= WORK_TICKS;
    bool lasts = now.activity == SW_THREAD_STOPPED || now.activity == SW_THREAD_ENDED;

    if (worked && !lasts)
        now.activity = SW_THREAD_COMPUTES;
    if (far && !lasts)
        now.activity = SW_THREAD_UNKNOWN;

    /* Under strace a thread stops at every system call, and continues. */
    if (lasts && now.activity == s->activity && now.id == s->id && now.cpu_ticks == s->cpu_ticks)
        now.for_ns = s->for_ns + passed_ns;
    t->ticks[i] = ticks;
    *s = now;
}

/* Finds a stopped thread without an owner: the same one as long as it is stopped. */
static const struct sw_task *find_other(const struct sw_threads *t,
                                        const struct sw_thread_owner *owners,
                                        const struct sw_task *tasks, int count)
{
    const struct sw_task *found = NULL;

    for (int i = 0; i < count; i++) {
        bool owned = !is_stopped(&tasks[i]);
        for (int o = 0; o < t->owners && !owned; o++)
            owned = is_own(&owners[o], &tasks[i]);
        if (!owned && (!found || tasks[i].id == t->state[t->owners].id))
            found = &tasks[i];
    }

    return found;
}

void sw_threads_check(struct sw_threads *t, const struct sw_thread_owner *owners,
                      const struct sw_task *tasks, int count, int main_id, int64_t passed_ns)
{
    int64_t ticks;

    for (int i = 0; i < t->owners; i++) {
        struct sw_thread_state now = judge(&owners[i], tasks, count, &ticks);
        follow(t, i, now, ticks, owners[i].far, passed_ns);
    }

    const struct sw_task *other = find_other(t, owners, tasks, count);
    struct sw_thread_state now = {.activity = SW_THREAD_UNKNOWN};
    if (other) {
        now = stopped_state(other);
        memcpy(t->other_name, other->id == main_id ? "main" : other->name,
               other->id == main_id ? sizeof "main" : SW_TASK_NAME);
    }

    follow(t, t->owners, now, other ? other->cpu_ticks : 0, true, passed_ns);
}

const struct sw_thread_state *sw_threads_states(const struct sw_threads *t)
{
    return t->state;
}

const char *sw_threads_other_name(const struct sw_threads *t)
{
    return t->other_name;
}
