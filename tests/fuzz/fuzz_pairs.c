/* The pairs format. Input: a byte (1: sets of labels, 2: a separate tag file, 4: a separate label
 * file, 8: at most 2 tags, 16: a vocabulary), two bytes with the lengths of the first two files,
 * then three files: images, tags or vocabulary, labels. */
#include "format_support.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    const struct sw_format *pairs = sw_format_find("pairs");
    static const char *const names[] = {"0", "1", "2"};
    const struct sw_strings paths = {names, 1}, tags = {names + 1, 1}, labels = {names + 2, 1};
    const int64_t two = 2;
    const char *vocabulary = "1";
    _Alignas(16) unsigned char conf[256] = {0};
    if (bytes < 3)
        return 0;
    const bool sets = data[0] & 1;
    const uint8_t *at = data + 3, *end = data + bytes;
    for (int i = 0; i < 3; i++) {
        const size_t left = (size_t)(end - at), want = i < 2 ? data[1 + i] : left;
        fuzz_file[i].data = at;
        fuzz_file[i].bytes = want < left ? want : left;
        at += fuzz_file[i].bytes;
    }
    fuzz_set(pairs, conf, "paths", &paths, sizeof paths);
    fuzz_set(pairs, conf, "label_sets", &sets, sizeof sets);
    if (data[0] & 2)
        fuzz_set(pairs, conf, "tags", &tags, sizeof tags);
    if (data[0] & 4)
        fuzz_set(pairs, conf, "labels", &labels, sizeof labels);
    if (data[0] & 8) {
        fuzz_set(pairs, conf, "max_tags", &two, sizeof two);
        fuzz_set(pairs, conf, "max_tokens", &two, sizeof two);
    }
    if (data[0] & 16)
        fuzz_set(pairs, conf, "vocabulary", &vocabulary, sizeof vocabulary);
    fuzz_open(pairs, conf);
    return 0;
}
