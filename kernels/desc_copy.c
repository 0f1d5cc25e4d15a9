/* Conversion between storage and plain order (sw_desc_to_plain, sw_desc_from_plain). Checkpoints
 * copy every weight with these functions, so the common cases must cost about as much as a memory
 * copy: contiguous dimensions are merged, the offsets along the last dimension (the row) are
 * computed once, and rows are divided into pieces so that the blocks they touch stay in the L1
 * cache. */
#include "kernels/axis.h"
#include <string.h>

enum { PIECE = 256 };

/* The dimensions of a descriptor after merging; the last one is the row. */
struct walk {
    int count;
    struct sw_axis axis[SW_MAX_DIMS];
    size_t item_bytes;
};

/* Appends an axis; merges it with the last one if both are contiguous. */
static void add_axis(struct walk *w, const struct sw_axis *a)
{
    struct sw_axis *last = w->count ? &w->axis[w->count - 1] : NULL;
    bool single = last && last->count == 1 && a->count == 1;

    if (single && last->factor[0].stride == a->factor[0].stride * a->dim) {
        last->dim *= a->dim;
        last->factor[0].stride = a->factor[0].stride;
    } else if (a->dim != 1) {
        w->axis[w->count++] = *a;
    }
}

static struct walk walk_of(const struct sw_desc *d)
{
    static const struct sw_axis one = {.dim = 1};
    struct walk w = {.item_bytes = sw_dtype_bytes(d->dtype)};

    for (int i = 0; i < d->ndim; i++) {
        struct sw_axis a = sw_axis_of(d, i);
        add_axis(&w, &a);
    }

    if (!w.count)
        w.axis[w.count++] = one;
    return w;
}

static void gather4(const uint32_t *stored, const int64_t *at, uint32_t *plain, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        plain[i] = stored[at[i]];
}

static void scatter4(uint32_t *stored, const int64_t *at, const uint32_t *plain, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        stored[at[i]] = plain[i];
}

static void gather2(const uint16_t *stored, const int64_t *at, uint16_t *plain, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        plain[i] = stored[at[i]];
}

static void scatter2(uint16_t *stored, const int64_t *at, const uint16_t *plain, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        stored[at[i]] = plain[i];
}

static void gather1(const uint8_t *stored, const int64_t *at, uint8_t *plain, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        plain[i] = stored[at[i]];
}

static void scatter1(uint8_t *stored, const int64_t *at, const uint8_t *plain, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        stored[at[i]] = plain[i];
}

/* Copies one piece of a row, whose element i is at stored + at[i]. */
static void copy_piece(const struct walk *w, bool dense, void *stored, const int64_t *at,
                       void *plain, int64_t n, bool to_plain)
{
    if (dense)
        memcpy(to_plain ? plain : stored, to_plain ? stored : plain, (size_t)n * w->item_bytes);
    else if (w->item_bytes == 4 && to_plain)
        gather4(stored, at, plain, n);
    else if (w->item_bytes == 4)
        scatter4(stored, at, plain, n);
    else if (w->item_bytes == 2 && to_plain)
        gather2(stored, at, plain, n);
    else if (w->item_bytes == 2)
        scatter2(stored, at, plain, n);
    else if (to_plain)
        gather1(stored, at, plain, n);
    else
        scatter1(stored, at, plain, n);
}

/* Copies the same piece of all rows. index counts through the dimensions before the row. */
static void copy_rows(const struct walk *w, int64_t first, int64_t n, unsigned char *stored,
                      unsigned char *plain, bool to_plain)
{
    const struct sw_axis *row = &w->axis[w->count - 1];
    int64_t at[PIECE], index[SW_MAX_DIMS] = {0};
    int64_t term[SW_MAX_DIMS] = {0}, base = sw_axis_offset(row, first);
    bool dense = n == 1 || (row->count == 1 && row->factor[0].stride == 1);

    for (int64_t i = 0; !dense && i < n; i++)
        at[i] = sw_axis_offset(row, first + i) - base;

    plain += (size_t)first * w->item_bytes;
    for (;;) {
        copy_piece(w, dense, stored + (size_t)base * w->item_bytes, at, plain, n, to_plain);
        plain += (size_t)row->dim * w->item_bytes;

        int d = w->count - 2;
        for (; d >= 0; d--) {
            index[d] = index[d] + 1 < w->axis[d].dim ? index[d] + 1 : 0;
            base -= term[d];
            term[d] = sw_axis_offset(&w->axis[d], index[d]);
            base += term[d];
            if (index[d])
                break;
        }

        if (d < 0)
            return;
    }
}

static void copy_all(const struct sw_desc *d, void *stored, void *plain, bool to_plain)
{
    struct walk w = walk_of(d);

    if (sw_desc_count(d) == 0)
        return;

    const struct sw_axis *row = &w.axis[w.count - 1];
    bool dense = row->count == 1 && row->factor[0].stride == 1;
    int64_t most = dense ? row->dim : PIECE;
    for (int64_t first = 0; first < row->dim; first += most)
        copy_rows(&w, first, row->dim - first < most ? row->dim - first : most, stored, plain,
                  to_plain);
}

void sw_desc_to_plain(const struct sw_desc *d, const void *stored, void *plain)
{
    /* copy_all serves both directions; this one only reads the storage. */
    copy_all(d, (void *)(uintptr_t)stored, plain, true);
}

void sw_desc_from_plain(const struct sw_desc *d, const void *plain, void *stored)
{
    if (sw_desc_storage(d) != sw_desc_count(d))
        memset(stored, 0, sw_desc_bytes(d));
    copy_all(d, stored, (void *)(uintptr_t)plain, false);
}
