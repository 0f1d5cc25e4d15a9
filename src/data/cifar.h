/* What the binary versions of CIFAR-10 and CIFAR-100 share (Alex Krizhevsky, "Learning Multiple
 * Layers of Features from Tiny Images", 2009; https://www.cs.toronto.edu/~kriz/cifar.html): records
 * of a few label bytes and 3072 bytes of a 32x32 picture, red plane first; no header. Any number of
 * files, plain or .gz. All labels are checked once, at opening, so that a damaged file does not
 * stop a run in its middle. The functions are callbacks of formats (data/format.h) whose state is a
 * struct sw_cifar. */
#pragma once

#include "data/format.h"

enum { SW_CIFAR_MAX_LABELS = 2 };

struct sw_cifar_layout {
    int labels;                            /* bytes before the picture */
    int wanted;                            /* which of them is the label */
    int classes[SW_CIFAR_MAX_LABELS];      /* of each */
    const char *kind[SW_CIFAR_MAX_LABELS]; /* "" or a word and a blank, for messages */
};

struct sw_cifar {
    struct sw_cifar_file *file; /* owned; private */
    int count;
    struct sw_cifar_layout layout;
};

/* The callbacks of both formats (data/format.h): opens the files, which must have records of that
 * layout; closes them; answers field f of a record: the picture, or its class. Errors:
 * SW_ERR_FORMAT naming file and size, SW_ERR_NOMEM. */
int sw_cifar_open(struct sw_records *r, const struct sw_files *files,
                  const struct sw_cifar_layout *layout, struct sw_err *err) SW_MUST_CHECK;
void sw_cifar_close(struct sw_records *r);
int sw_cifar_fetch(const struct sw_records *r, int64_t record, int f, void *scratch,
                   const void **out, struct sw_err *err) SW_MUST_CHECK;
