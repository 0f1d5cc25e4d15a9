/* The formats npz and npy. Input: a byte, whose lowest bit chooses the archive (0) or the single
 * array (1), the next bit whether the arrays are image and label or other named fields; then the
 * file. */
#include "format_support.h"

static void run(const char *name, bool named)
{
    const struct sw_format *format = sw_format_find(name);
    static const char *const names[] = {"0"};
    static const char *const members[] = {"image:x", "label:y"}, *const files[] = {"text:0"};
    const struct sw_strings paths = {names, 1}, fields = {members, 2}, more = {files, 1};
    _Alignas(16) unsigned char conf[256] = {0};
    const bool archive = !strcmp(name, "npz");
    fuzz_set(format, conf, "paths", &paths, sizeof paths);
    if (named)
        fuzz_set(format, conf, "fields", archive ? &fields : &more, sizeof fields);
    if (named && !archive)
        fuzz_set(format, conf, "labels", &paths, sizeof paths);
    fuzz_open(format, conf);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (bytes < 1)
        return 0;
    fuzz_file[0].data = data + 1;
    fuzz_file[0].bytes = bytes - 1;
    run(data[0] & 1 ? "npy" : "npz", data[0] & 2);
    return 0;
}
