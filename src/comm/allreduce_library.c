/* Sums by the library of the devices (device/collective.h): each bucket is one group, in place. The
 * order of a sum is the library's own. */
#include "comm/allreduce_private.h"

static int64_t stage(const int64_t *elements, int buckets, int ranks)
{
    (void)elements, (void)buckets, (void)ranks;
    return 0;
}

static int wait_for_all(struct sw_allreduce *a, int b, struct sw_err *err)
{
    int rc = SW_OK;
    for (int r = 0; r < a->ranks && rc == SW_OK; r++)
        rc = sw_event_wait(a->rank[r].stream, a->rank[r].at[b].made, err);
    return rc;
}

/* The group is ended whatever happens in it, else the library could not even be closed. */
static int sum(struct sw_allreduce *a, int b, struct sw_err *err)
{
    struct sw_err ending;
    int rc = sw_collective_begin(a->library, err);
    if (rc != SW_OK)
        return rc;
    for (int r = 0; r < a->ranks && rc == SW_OK; r++)
        rc = sw_collective_sum(a->library, r, a->rank[r].stream, sw_allreduce_bucket(a, r, b),
                               a->bucket[b].elements, err);
    int ended = sw_collective_end(a->library, &ending);
    if (rc == SW_OK && ended != SW_OK && err)
        *err = ending;
    return rc == SW_OK ? ended : rc;
}

static int queue(struct sw_allreduce *a, int b, struct sw_err *err)
{
    int rc = wait_for_all(a, b, err);
    if (rc == SW_OK)
        rc = sum(a, b, err);
    for (int r = 0; r < a->ranks && rc == SW_OK; r++)
        rc = sw_event_record(a->rank[r].stream, a->rank[r].at[b].done, err);
    return rc;
}

const struct sw_allreduce_way sw_allreduce_library = {.fewest = 1, .stage = stage, .queue = queue};
