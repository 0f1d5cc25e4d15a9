/* Curves of precision and recall over the number of results. The contract is in search/scopes.h. */
#include "search/scopes.h"

#include <string.h>

/* The scopes of a decade, times ten. */
static const int64_t series[] = {10, 12, 15, 20, 25, 30, 40, 50, 60, 70, 80, 90};

void sw_scope_curve_begin(struct sw_scope_curve *c, int64_t rows)
{
    enum { EACH = sizeof series / sizeof *series };

    memset(c, 0, sizeof *c);

    for (int64_t scale = 1; scale <= rows; scale *= 10)
        for (int i = 0; i < EACH; i++) {
            const int64_t at = series[i] * scale / 10;
            const bool is_new = at * 10 == series[i] * scale;

            if (is_new && at < rows && c->count < SW_MOST_SCOPES - 1)
                c->at[c->count++] = at;
        }

    if (rows > 0)
        c->at[c->count++] = rows;
}

void sw_scope_hits(const struct sw_scope_curve *c, const bool *relevant, int64_t count,
                   int64_t *hits)
{
    int64_t found = 0, rank = 0;

    for (int i = 0; i < c->count; i++) {
        for (; rank < c->at[i] && rank < count; rank++)
            found += relevant[rank];
        hits[i] = found;
    }
}

void sw_scope_curve_add(struct sw_scope_curve *c, const int64_t *hits)
{
    for (int i = 0; i < c->count; i++) {
        c->precision[i] += (double)hits[i] / (double)c->at[i];
        c->recall[i] += (double)hits[i] / (double)hits[c->count - 1];
    }
}

void sw_scope_curve_end(struct sw_scope_curve *c, int64_t queries)
{
    for (int i = 0; i < c->count && queries > 0; i++) {
        c->precision[i] /= (double)queries;
        c->recall[i] /= (double)queries;
    }
}
