/* The formats cifar10 and cifar100. Input: a byte that chooses (0 CIFAR-10, 1 and 2 the labels of
 * CIFAR-100), then the file. */
#include "format_support.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static const char *const names[] = {"0"};
    const struct sw_strings paths = {names, 1};
    _Alignas(16) unsigned char conf[256] = {0};
    if (bytes < 1)
        return 0;
    const int which = data[0] % 3, labels = which == 2;
    const struct sw_format *format = sw_format_find(which ? "cifar100" : "cifar10");
    fuzz_file[0].data = data + 1;
    fuzz_file[0].bytes = bytes - 1;
    fuzz_set(format, conf, "paths", &paths, sizeof paths);
    if (which)
        fuzz_set(format, conf, "labels", &labels, sizeof labels);
    fuzz_open(format, conf);
    return 0;
}
