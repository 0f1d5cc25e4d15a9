/* The symmetry of places: states that differ in an exchange of places of one class get the same
 * key, mostly; different keys are never wrong. */
#include "planner/search_space.h"

#include <string.h>

struct renumbering {
    int to[SW_SEARCH_PLACES];
    uint32_t seen, taken;
};

static void renumber(const struct sw_search_space *s, struct renumbering *r, int place)
{
    int to = 0;

    if (r->seen & 1u << place)
        return;
    while (s->class_of[to] != s->class_of[place] || r->taken & 1u << to)
        to++;
    r->to[place] = to;
    r->seen |= 1u << place;
    r->taken |= 1u << to;
}

/* Places get numbers in the order in which open layers have them, then those with most bytes. */
static struct renumbering renumber_places(const struct sw_search_space *s, const uint64_t *open,
                                          int opens, const int64_t *bytes, int memories)
{
    struct renumbering r = {.seen = 0};

    for (int i = 0; i < opens; i++) {
        if (sw_search_code(open[i]) >= SW_SEARCH_ONE &&
            sw_search_code(open[i]) < SW_SEARCH_ONE + s->places)
            renumber(s, &r, sw_search_code(open[i]) - SW_SEARCH_ONE);
        for (int p = 0; p < s->places; p++)
            if (open[i] & sw_search_bit(SW_SEARCH_ONE + p))
                renumber(s, &r, p);
    }

    for (int n = 0; n < s->places; n++) {
        int fullest = -1;

        for (int p = 0; p < s->places; p++)
            if (!(r.seen & 1u << p) &&
                (fullest < 0 ||
                 (memories > 0 && s->own_memory[p] >= 0 && s->own_memory[fullest] >= 0 &&
                  bytes[s->own_memory[p]] > bytes[s->own_memory[fullest]])))
                fullest = p;
        if (fullest >= 0)
            renumber(s, &r, fullest);
    }

    return r;
}

/* The open layer with renumbered places. */
static uint64_t renumber_open(const struct sw_search_space *s, const struct renumbering *r,
                              uint64_t open)
{
    const uint64_t places = ((sw_search_bit(s->places) - 1) << SW_SEARCH_ONE);
    const uint64_t all = sw_search_bit(SW_SEARCH_CODES) - 1;
    const int code = sw_search_code(open), place = code - SW_SEARCH_ONE;
    uint64_t to = open & all & ~places;

    for (int p = 0; p < s->places; p++)
        if (open & sw_search_bit(SW_SEARCH_ONE + p))
            to |= sw_search_bit(SW_SEARCH_ONE + r->to[p]);
    return to | (uint64_t)(place >= 0 && place < s->places ? SW_SEARCH_ONE + r->to[place] : code)
                    << SW_SEARCH_CODES;
}

void sw_search_renumber(const struct sw_search_space *s, const uint64_t *open, int opens,
                        const int64_t *bytes, const struct sw_search_key *key)
{
    const struct renumbering r = renumber_places(s, open, opens, bytes, key->memories);

    for (int i = 0; i < opens; i++)
        key->open[i] = renumber_open(s, &r, open[i]);

    memcpy(key->bytes, bytes, (size_t)key->memories * sizeof *bytes);
    for (int p = 0; p < s->places; p++)
        if (key->memories > 0 && s->own_memory[p] >= 0)
            key->bytes[s->own_memory[r.to[p]]] = bytes[s->own_memory[p]];
}
