/* What kernels of skip-gram on every device have in common (kernels/ops/skip_gram.h): the layout of
 * the arrays between forward and gradient, and what the random words of a token decide. */
#pragma once

#include "kernels/ops/skip_gram.h"

/* ---- The arrays between forward and gradient ---- */

/* A row of picks has the number of its centers, and then the centers in the order of the text. A
 * center: [position, reach, outputs, then each output's row * 2 + label]. */
enum { SW_PICK_POSITION, SW_PICK_REACH, SW_PICK_OUTPUTS, SW_PICK_FIRST_OUTPUT };

SW_BOTH int64_t sw_picks_per_center(const struct sw_skip_gram_shape *s)
{
    return SW_PICK_FIRST_OUTPUT + s->outputs;
}

SW_BOTH int64_t sw_picks_per_row(const struct sw_skip_gram_shape *s)
{
    return 1 + s->length * sw_picks_per_center(s);
}

/* Of a center the loss comes first, then the slopes [outputs][contexts]. */
SW_BOTH int64_t sw_slopes_per_center(const struct sw_skip_gram_shape *s)
{
    return 1 + 2 * s->window * s->outputs;
}

/* Returns center k of a row of picks. */
SW_BOTH const int32_t *sw_pick_center(const struct sw_skip_gram_shape *s, const int32_t *row,
                                      int64_t k)
{
    return row + 1 + k * sw_picks_per_center(s);
}

/* The contexts of center k are the other centers of [from, to). */
struct sw_pick_reach {
    int64_t from, to;
};
SW_BOTH struct sw_pick_reach sw_pick_reach_of(const int32_t *row, const int32_t *center, int64_t k)
{
    const int64_t reach = center[SW_PICK_REACH], from = k - reach, to = k + reach + 1;
    const struct sw_pick_reach of = {from < 0 ? 0 : from, to > row[0] ? row[0] : to};
    return of;
}

/* ---- Random words ---- */

/* The random words of a token: whether it is kept, its reach, then two for each negative. Returns
 * the number of the first one in the row's stream, which is even. */
SW_BOTH int64_t sw_skip_gram_first_word(const struct sw_skip_gram_words *k, int64_t position)
{
    return position * (2 + 2 * k->negatives);
}

/* Returns a whole number below n. */
SW_BOTH int64_t sw_skip_gram_below(uint32_t word, int64_t n)
{
    return (int64_t)(((uint64_t)word * (uint64_t)n) >> 32);
}

SW_BOTH bool sw_skip_gram_keeps(const struct sw_skip_gram_words *k, int32_t token, uint32_t word)
{
    return sw_philox_uniform(word) < k->keep[token];
}

SW_BOTH int32_t sw_skip_gram_reach(const struct sw_skip_gram_shape *s, uint32_t word)
{
    return 1 + (int32_t)sw_skip_gram_below(word, s->window);
}

/* Returns the word of the vocabulary that two random words draw. */
SW_BOTH int32_t sw_skip_gram_draw(const struct sw_skip_gram_words *k, uint32_t first,
                                  uint32_t second)
{
    const int64_t column = sw_skip_gram_below(first, k->drawn);
    return second < k->below[column] ? (int32_t)column : k->alias[column];
}

/* Returns where in `path` the path to a word begins. */
SW_BOTH int64_t sw_skip_gram_path_begin(const struct sw_skip_gram_words *k, int32_t token)
{
    return token > 0 ? k->path_end[token - 1] : 0;
}
