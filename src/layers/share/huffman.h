/* A binary tree over words, in which the path to a frequent word is short (Huffman, "A Method for
 * the Construction of Minimum-Redundancy Codes", 1952), for a hierarchical softmax. The tree
 * depends on the counts only. Any thread. */
#pragma once

#include "base/err.h"
#include <stdint.h>

/* Zero-initialize; free with fini. */
struct sw_huffman {
    int32_t *path; /* owned: the inner nodes from the root to each word, node * 2 + branch */
    int64_t *end;  /* owned [words]: the end of each word's path in `path`; they are in order */
    int64_t longest;
};

/* Makes the tree of `words` words with these counts; words - 1 inner nodes, the root last. Of equal
 * counts the higher word is merged first. Errors: SW_ERR_NOMEM. */
int sw_huffman_make(struct sw_huffman *h, const int64_t *times, int64_t words,
                    struct sw_err *err) SW_MUST_CHECK;
void sw_huffman_fini(struct sw_huffman *h);
