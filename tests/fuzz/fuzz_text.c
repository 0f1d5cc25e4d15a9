/* The text format. Input: a byte (unit in its low bits; 4: a vocabulary file, 8: an unknown token,
 * 16: line ends, 32: at most 5 tokens), a byte for the length of the vocabulary, the vocabulary,
 * then the text. */
#include "format_support.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    const struct sw_format *text = sw_format_find("text");
    static const char *const names[] = {"1"};
    const struct sw_strings paths = {names, 1};
    const int64_t length = 3, five = 5;
    const char *list = "0", *unknown = "?", *line_end = "$";
    _Alignas(16) unsigned char conf[256] = {0};
    if (bytes < 2)
        return 0;
    const int unit = (data[0] & 3) % 3;
    const size_t first = data[1] < bytes - 2 ? data[1] : bytes - 2;
    fuzz_file[0].data = data + 2;
    fuzz_file[0].bytes = first;
    fuzz_file[1].data = data + 2 + first;
    fuzz_file[1].bytes = bytes - 2 - first;
    fuzz_set(text, conf, "paths", &paths, sizeof paths);
    fuzz_set(text, conf, "unit", &unit, sizeof unit);
    fuzz_set(text, conf, "length", &length, sizeof length);
    if (data[0] & 4)
        fuzz_set(text, conf, "vocabulary", &list, sizeof list);
    if (data[0] & 8)
        fuzz_set(text, conf, "unknown", &unknown, sizeof unknown);
    if (data[0] & 16)
        fuzz_set(text, conf, "line_end", &line_end, sizeof line_end);
    if (data[0] & 32)
        fuzz_set(text, conf, "max_tokens", &five, sizeof five);
    fuzz_open(text, conf);
    return 0;
}
