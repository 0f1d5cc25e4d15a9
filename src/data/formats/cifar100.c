/* CIFAR-100, binary version; see data/cifar.h. A record is the coarse label, 0 to 19, the fine
 * label, 0 to 99, and the image. */
#include "data/cifar.h"
#include "data/format_opts.h"

struct cifar100_conf {
    struct sw_strings paths, classes;
    int labels; /* index into kinds */
};

enum { COARSE, FINE };
static const char *const kinds[] = {[COARSE] = "coarse", [FINE] = "fine", NULL};

static int cifar100_open(struct sw_records *r, const struct sw_format_args *args,
                         struct sw_err *err)
{
    const struct cifar100_conf *conf = args->conf;
    const struct sw_cifar_layout layout = {.labels = 2,
                                           .wanted = conf->labels,
                                           .classes = {[COARSE] = 20, [FINE] = 100},
                                           .kind = {[COARSE] = "coarse ", [FINE] = "fine "}};

    sw_cifar_begin(r, &layout);
    return SW_OK;
}

static const char *cifar100_names_file(const void *conf)
{
    const struct cifar100_conf *c = conf;
    return c->labels == FINE ? "fine_label_names.txt" : "coarse_label_names.txt";
}

static const struct sw_opt cifar100_opts[] = {
    SW_FORMAT_PATHS(struct cifar100_conf, "data files, plain or .gz"),
    SW_FORMAT_CLASS_LIST(struct cifar100_conf),
    SW_OPT(ENUM, struct cifar100_conf, labels,
           "which label of a record to use: 100 fine classes or 20 coarse ones", .def = "fine",
           .choices = kinds),
    {0},
};

const struct sw_format sw_format_cifar100 = {
    .base = SW_TYPE("cifar100",
                    "CIFAR-100, binary version: 3x32x32 images in 100 classes, or 20 coarse ones",
                    struct cifar100_conf, cifar100_opts),
    .implied = {.records = 10000, .classes = 100, .channels = 3, .height = 32, .width = 32},
    .state_bytes = sizeof(struct sw_cifar_layout),
    .names_file = cifar100_names_file,
    SW_FORMAT_PARTS(struct sw_cifar_file, sw_cifar_open, sw_cifar_close),
    SW_FORMAT_CALLS(cifar100_open, NULL, sw_cifar_fetch),
};
