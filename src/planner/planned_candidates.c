/* The plans that were found, each simulated once. The contract is in planner/planned_private.h. */
#include "planner/planned_private.h"

#include "base/os.h"
#include "base/stop.h"

struct sw_simulation_args sw_planned_simulation(const struct sw_planned_args *args,
                                                const struct sw_machine_model *machine,
                                                const struct sw_parallel_plan *p)
{
    return (struct sw_simulation_args){.net = args->net,
                                       .machine = machine,
                                       .plan = p,
                                       .no_overlap = args->no_overlap,
                                       .bandwidth = args->bandwidth,
                                       .lost_host = -1};
}

int sw_planned_time(const struct sw_planned_args *args, const struct sw_machine_model *machine,
                    struct sw_parallel_plan *p, struct sw_err *err)
{
    struct sw_simulation s = {0};
    const struct sw_simulation_args sim = sw_planned_simulation(args, machine, p);

    int rc = sw_simulate(&sim, &s, err);
    if (rc == SW_OK)
        p->time = s.time;
    sw_simulation_fini(&s);
    return rc;
}

int sw_planned_first_host(const struct sw_machine_model *m)
{
    int n = 0;

    while (n < m->device_count && m->device[n].host == m->device[0].host)
        n++;
    return n;
}

/* A job has equally many workers on all of its hosts, and its workers on cores share all of them:
 * with fewer workers each would have more threads than in this model. */
static bool is_even(const struct sw_machine_model *m, const struct sw_parallel_plan *p)
{
    int own = 0, first = 0;

    if (m->device[0].host_memory && p->workers < sw_planned_first_host(m))
        return false;

    for (int w = 0; w < p->workers; w++) {
        own = w > 0 && m->device[w].host == m->device[w - 1].host ? own + 1 : 1;
        if (m->device[w].host == m->device[0].host)
            first = own;
        else if (own > first || (w + 1 == p->workers && own < first))
            return false;
    }

    return true;
}

/* Are the groups large enough for the locations that the user has decided? */
static bool has_locations(const struct sw_planned_args *args, const struct sw_parallel_plan *p)
{
    const int *location = args->limits->location;
    int last = 0;

    for (int i = 0; i < args->net->count && location; i++)
        last = location[i] > last ? location[i] : last;
    return last < p->shape.group_size;
}

int sw_planned_add(struct sw_planned_making *m, const struct sw_machine_model *machine,
                   const struct sw_parallel_plan *plan, const char *what, struct sw_err *err)
{
    for (int i = 0; i < m->count; i++)
        if (m->candidate[i].machine == machine &&
            sw_parallel_plan_equal(&m->candidate[i].plan, plan)) {
            if (!m->candidate[i].what)
                m->candidate[i].what = what;
            return SW_OK;
        }

    if (!is_even(machine, plan) || !has_locations(m->args, plan) ||
        sw_planned_hosts_of(machine, plan->workers) < m->args->hosts)
        return SW_OK;

    struct sw_planned_candidate *c = sw_array_add(&m->candidate, &m->count, sizeof *c);
    if (!c)
        return sw_err_nomem(err, "parallel plans", sizeof *c);
    *c = (struct sw_planned_candidate){.machine = machine, .what = what};

    int rc = sw_parallel_plan_copy(&c->plan, plan, err);
    if (rc == SW_OK)
        rc = sw_stop_check(err);
    if (rc == SW_OK)
        rc = sw_planned_time(m->args, machine, &c->plan, err);
    if (rc != SW_OK) { /* one without a time would be the fastest */
        sw_parallel_plan_fini(&c->plan);
        m->count--;
    }
    return rc;
}
