/* CIFAR-10, binary version; see data/cifar.h. A record is one label byte, 0 to 9, and the image. */
#include "data/cifar.h"
#include "data/format_opts.h"

struct cifar10_conf {
    struct sw_strings paths, classes;
};

static int cifar10_open(struct sw_records *r, const struct sw_format_args *args, struct sw_err *err)
{
    static const struct sw_cifar_layout layout = {.labels = 1, .classes = {10}, .kind = {""}};
    sw_cifar_begin(r, &layout);
    return SW_OK;
}

static const char *cifar10_names_file(const void *conf)
{
    return "batches.meta.txt";
}

static const struct sw_opt cifar10_opts[] = {
    SW_FORMAT_PATHS(struct cifar10_conf, "data files, plain or .gz"),
    SW_FORMAT_CLASS_LIST(struct cifar10_conf),
    {0},
};

const struct sw_format sw_format_cifar10 = {
    .base = SW_TYPE("cifar10", "CIFAR-10, binary version: 3x32x32 images in 10 classes",
                    struct cifar10_conf, cifar10_opts),
    .implied = {.records = 10000, .classes = 10, .channels = 3, .height = 32, .width = 32},
    .state_bytes = sizeof(struct sw_cifar_layout),
    .names_file = cifar10_names_file,
    SW_FORMAT_PARTS(struct sw_cifar_file, sw_cifar_open, sw_cifar_close),
    SW_FORMAT_CALLS(cifar10_open, NULL, sw_cifar_fetch),
};
