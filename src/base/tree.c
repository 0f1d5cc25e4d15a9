/* Sums many rows of doubles in the order of the reduction tree that base/tree.h defines. Partial
 * sums are on a stack, for a few columns at a time, so that the stack has a fixed size. */
#include "base/tree.h"

#include <string.h>

enum { PIECE = 64 };

/* Sums columns [0, n) of all rows; n is at most PIECE. */
static void sum_piece(const double *rows, int leaves, int room, int n, double *out)
{
    double stack[SW_TREE_DEPTH][PIECE];
    int depth = 0;

    for (int i = 0; i < leaves; i++) {
        memcpy(stack[depth++], rows + (int64_t)i * room, (size_t)n * sizeof *rows);

        for (int a = sw_tree_adds(leaves, i, i + 1); a > 0; a--) {
            depth--;
            for (int c = 0; c < n; c++)
                stack[depth - 1][c] += stack[depth][c];
        }
    }

    memcpy(out, stack[0], (size_t)n * sizeof *out);
}

void sw_tree_sum(const double *rows, int leaves, int room, int count, double *out)
{
    for (int from = 0; from < count; from += PIECE)
        sum_piece(rows + from, leaves, room, count - from < PIECE ? count - from : PIECE,
                  out + from);
}
