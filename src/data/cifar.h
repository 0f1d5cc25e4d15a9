/* The common part of the formats for the binary versions of CIFAR-10 and CIFAR-100 (Alex
 * Krizhevsky, "Learning Multiple Layers of Features from Tiny Images", 2009;
 * https://www.cs.toronto.edu/~kriz/cifar.html). A record has a few label bytes and the 3072 bytes
 * of a 32x32 image, red plane first; there is no header. Any number of files, plain or .gz. All
 * labels are checked at opening, so that a damaged file cannot stop a run later. The functions are
 * callbacks of formats (data/format.h). */
#pragma once

#include "data/blob.h"
#include "data/format.h"

enum { SW_CIFAR_MAX_LABELS = 2 };

struct sw_cifar_layout {
    int labels;                            /* bytes before the image */
    int wanted;                            /* index of the label byte to use */
    int classes[SW_CIFAR_MAX_LABELS];      /* of each */
    const char *kind[SW_CIFAR_MAX_LABELS]; /* for messages: "" or a word and a blank */
};

/* A file of either format; the state of the formats is a struct sw_cifar_layout. */
struct sw_cifar_file {
    struct sw_part part;
    struct sw_blob blob;
    unsigned char *label; /* owned */
};

/* Callbacks of both formats (data/format.h). sw_cifar_begin sets the layout that records must have;
 * sw_cifar_fetch fetches field f of a record: the image or the class. Errors:
 * SW_ERR_FORMAT naming file and size, SW_ERR_NOMEM. */
void sw_cifar_begin(struct sw_records *r, const struct sw_cifar_layout *layout);
int sw_cifar_open(struct sw_records *r, void *part, const char *path,
                  const struct sw_format_args *args, struct sw_err *err) SW_MUST_CHECK;
void sw_cifar_close(void *part);
int sw_cifar_fetch(const struct sw_records *r, int64_t record, int f, void *scratch,
                   const void **out, struct sw_err *err) SW_MUST_CHECK;
