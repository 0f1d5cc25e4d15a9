/* What the layers from one on need at least, whatever they choose: lower bounds for the search. */
#include "planner/search_space.h"

#include "base/os.h"
#include <math.h>

static int64_t sum_of(const struct sw_search_rest *r, const int64_t *bytes)
{
    int64_t sum = 0;
    for (int m = 0; m < r->memories; m++)
        sum += bytes[m];
    return sum;
}

static void find_bytes(struct sw_search_rest *r, const struct sw_search_space *s)
{
    const int memories = r->memories;

    for (int i = s->cost.net->count - 1; i >= 0; i--) {
        const struct sw_search_layer *l = &s->layer[i];
        int64_t least_sum = INT64_MAX;

        for (int k = 0; k < sw_search_options(l, r->what); k++) {
            const int64_t sum = sum_of(r, l->option[k].bytes);
            least_sum = sum < least_sum ? sum : least_sum;
        }
        r->least_sum[i] = r->least_sum[i + 1] + least_sum;

        for (int m = 0; m < memories; m++) {
            int64_t least = INT64_MAX, most = 0;

            for (int k = 0; k < sw_search_options(l, r->what); k++) {
                const int64_t bytes = l->option[k].bytes[m];
                least = bytes < least ? bytes : least;
                most = bytes > most ? bytes : most;
            }
            r->least[i * memories + m] = r->least[(i + 1) * memories + m] + least;
            r->most[i * memories + m] = r->most[(i + 1) * memories + m] + most;
        }
    }
}

/* Least time of all layers if a byte costs so much; fills seconds. */
static double find_seconds(struct sw_search_rest *r, const struct sw_search_space *s, double byte_s)
{

    for (int i = s->cost.net->count - 1; i >= 0; i--) {
        const struct sw_search_layer *l = &s->layer[i];
        double least_s = (double)INFINITY;

        for (int k = 0; k < sw_search_options(l, r->what); k++)
            least_s = fmin(least_s,
                           l->option[k].seconds + byte_s * (double)sum_of(r, l->option[k].bytes));
        r->seconds[i] = r->seconds[i + 1] + least_s;
    }

    return r->seconds[0];
}

/* Chooses the price of a byte that gives the greatest lower bound of the whole net. */
static void find_price(struct sw_search_rest *r, const struct sw_search_space *s)
{
    int64_t room = r->capacity;

    for (int m = 0; m < r->memories; m++)
        room -= s->memory[m].workers * s->cost.net->fixed_bytes;

    double greatest_s = find_seconds(r, s, 0);

    for (double byte_s = 1e-16; byte_s < 1e-6 && r->memories > 0; byte_s *= 1.5) {
        const double bound_s = find_seconds(r, s, byte_s) - byte_s * (double)room;
        if (bound_s > greatest_s) {
            greatest_s = bound_s;
            r->byte_s = byte_s;
        }
    }

    (void)find_seconds(r, s, r->byte_s);
}

int sw_search_rest_init(struct sw_search_rest *r, const struct sw_search_space *s,
                        enum sw_search_what what, struct sw_err *err)
{
    const size_t layers = (size_t)s->cost.net->count + 1;
    const int memories = sw_search_memories(s, what);
    const size_t sums = layers * (size_t)memories + 1;

    *r = (struct sw_search_rest){.what = what,
                                 .memories = memories,
                                 .seconds = sw_calloc(layers, sizeof *r->seconds),
                                 .least = sw_calloc(sums, sizeof *r->least),
                                 .most = sw_calloc(sums, sizeof *r->most),
                                 .least_sum = sw_calloc(layers, sizeof *r->least_sum)};
    if (!r->seconds || !r->least || !r->most || !r->least_sum) {
        sw_search_rest_fini(r);
        return sw_err_nomem(err, "the search of a plan", 2 * sums * sizeof *r->least);
    }

    for (int m = 0; m < r->memories; m++)
        r->capacity += s->memory[m].capacity;
    find_bytes(r, s);
    find_price(r, s);
    return SW_OK;
}

void sw_search_rest_fini(struct sw_search_rest *r)
{
    sw_free(r->seconds);
    sw_free(r->least);
    sw_free(r->most);
    sw_free(r->least_sum);
    *r = (struct sw_search_rest){.seconds = NULL};
}
