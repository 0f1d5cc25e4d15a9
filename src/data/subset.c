/* Maps positions of a section to records of a format: checks `part`, `part_seed` and `streams`; the
 * mapping is arithmetic and one keyed permutation. Pure; any thread. */
#include "data/subset.h"
#include "base/hash.h"
#include <math.h>

/* Converts a bound to a record number; false if it is neither a fraction nor a valid integer. */
static bool read_bound(double value, bool is_fraction, int64_t records, int64_t *out)
{
    const double place = is_fraction ? floor(value * (double)records + 0.5) : value;
    if (!(place >= 0 && place <= (double)records) || floor(place) != place)
        return false;

    *out = (int64_t)place;
    return true;
}

static int read_part(struct sw_subset *s, const struct sw_reals *part, int64_t records,
                     struct sw_err *err)
{
    int64_t end = records;

    if (part->count == 0)
        return SW_OK;
    if (part->count != 2)
        return sw_err_set(err, SW_ERR_INVALID,
                          "part: %d values, expected two: first and end, such as 0, 0.8",
                          part->count);

    const double from = part->items[0], to = part->items[1];
    const bool is_fraction = to <= 1;
    if (!read_bound(from, is_fraction, records, &s->first) ||
        !read_bound(to, is_fraction, records, &end))
        return sw_err_set(
            err, SW_ERR_INVALID,
            "part = %g, %g: expected two fractions from 0 to 1, or two integers up to "
            "%lld, the number of records",
            from, to, (long long)records);
    s->count = end - s->first;
    if (s->count < 1)
        return sw_err_set(err, SW_ERR_INVALID, "part = %g, %g: contains none of the %lld records",
                          from, to, (long long)records);

    return SW_OK;
}

int sw_subset_init(struct sw_subset *s, const struct sw_reals *part, int64_t seed, int64_t streams,
                   int64_t records, struct sw_err *err)
{
    *s = (struct sw_subset){.count = records, .streams = streams, .mixed = seed != 0};

    int rc = read_part(s, part, records, err);
    if (rc)
        return rc;
    if (streams > s->count)
        return sw_err_set(err, SW_ERR_INVALID, "streams = %lld exceeds the %lld records",
                          (long long)streams, (long long)s->count);

    if (streams && s->mixed)
        return sw_err_set(
            err, SW_ERR_INVALID,
            "streams = %lld requires part_seed = 0, because it reads the records in order",
            (long long)streams);

    if (streams)
        s->count -= s->count % streams;

    if (s->mixed)
        sw_permutation_init(
            &s->mix, sw_philox_stream((uint64_t)seed, SW_PURPOSE_SHUFFLE, sw_hash_name("part")), 0,
            records);

    return SW_OK;
}

int64_t sw_subset_record(const struct sw_subset *s, int64_t place)
{
    if (s->streams)
        place = place % s->streams * (s->count / s->streams) + place / s->streams;
    place += s->first;
    return s->mixed ? sw_permutation_at(&s->mix, place) : place;
}
