/* The series format. Input: a byte that chooses the separator (its low bits), one skipped line (8)
 * and the order (its upper bits, from 1), then the file, an array or a table. */
#include "format_support.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    const struct sw_format *series = sw_format_find("series");
    static const char *const names[] = {"0"};
    const struct sw_strings paths = {names, 1};
    _Alignas(16) unsigned char conf[512] = {0};
    if (bytes < 1)
        return 0;
    const int separator = (data[0] & 7) % 5;
    const int64_t skip = data[0] >> 3 & 1, order = 1 + (data[0] >> 4);
    fuzz_file[0].data = data + 1;
    fuzz_file[0].bytes = bytes - 1;
    fuzz_set(series, conf, "paths", &paths, sizeof paths);
    fuzz_set(series, conf, "separator", &separator, sizeof separator);
    fuzz_set(series, conf, "skip_lines", &skip, sizeof skip);
    fuzz_set(series, conf, "order", &order, sizeof order);
    fuzz_open(series, conf);
    return 0;
}
