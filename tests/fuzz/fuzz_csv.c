/* The csv format. Input: a byte that chooses separator (its low bits), header (8), a target column
 * (16) and one skipped line (32), then the file. */
#include "format_support.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    const struct sw_format *csv = sw_format_find("csv");
    static const char *const names[] = {"0"}, *const targets[] = {"1"};
    const struct sw_strings paths = {names, 1}, target = {targets, 1};
    _Alignas(16) unsigned char conf[512] = {0};
    if (bytes < 1)
        return 0;
    const int separator = (data[0] & 7) % 5;
    const bool header = data[0] & 8;
    const int64_t skip = data[0] >> 5 & 1;
    const char *label = "last";
    fuzz_file[0].data = data + 1;
    fuzz_file[0].bytes = bytes - 1;
    fuzz_set(csv, conf, "paths", &paths, sizeof paths);
    fuzz_set(csv, conf, "separator", &separator, sizeof separator);
    fuzz_set(csv, conf, "header", &header, sizeof header);
    fuzz_set(csv, conf, "skip_lines", &skip, sizeof skip);
    fuzz_set(csv, conf, "label", &label, sizeof label);
    if (data[0] & 16)
        fuzz_set(csv, conf, "target", &target, sizeof target);
    fuzz_open(csv, conf);
    return 0;
}
