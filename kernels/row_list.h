/* A gradient of a large table of which a step uses few rows, such as word vectors: only these rows
 * are stored, one after the other at the beginning of the array, and a list says which they are. A
 * NULL list means that the array has all rows at their places. Host memory. Written by the thread
 * that writes the gradient, and read by others only when that gradient is complete. */
#pragma once

#include <stdint.h>

enum { SW_ROW_LIST_ALL = -1 };

struct sw_row_list {
    int64_t count;  /* of the listed rows; SW_ROW_LIST_ALL: no list was written, and the array has
                       all rows at their places */
    int32_t *row;   /* owned [rows]: the first `count` are listed, each once */
    int32_t *place; /* owned [rows]: 1 + the place of a row in `row`; 0: it is not listed */
    int64_t rows;
};

/* Empties the list; NULL is accepted, here and below. */
static inline void sw_row_list_begin(struct sw_row_list *l)
{
    for (int64_t i = 0; l && i < l->count; i++)
        l->place[l->row[i]] = 0;
    if (l)
        l->count = 0;
}

static inline void sw_row_list_add(struct sw_row_list *l, int32_t row)
{
    if (!l || l->place[row])
        return;

    l->row[l->count++] = row;
    l->place[row] = (int32_t)l->count;
}

/* Where in the array a row is that was added. */
static inline int64_t sw_row_list_find(const struct sw_row_list *l, int32_t row)
{
    return l ? l->place[row] - 1 : row;
}

/* The rows that the array has. */
static inline int64_t sw_row_list_count(const struct sw_row_list *l, int64_t rows)
{
    return l ? l->count : rows;
}
