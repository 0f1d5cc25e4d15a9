/* The files of NUS-WIDE. Input: a byte (1: images instead of features, 2: only complete pairs, 4:
 * only single concepts), four bytes with the lengths of the first four files, then five files: the
 * list of images, tags, concepts, the labels of every concept, and features. */
#include "format_support.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static const char *const ends[MAX_FILES] = {"TrainImagelist.txt", "Train_Tags1k.dat",
                                                "Concepts81.txt", "_Train.txt",
                                                "Train_Normalized_CH.dat"};
    static const char *const root = "root", *const feature = "CH";
    const struct sw_format *nus = sw_format_find("nus_wide");
    const struct sw_strings paths = {&root, 1}, features = {&feature, 1};
    const bool vectors = true;
    _Alignas(16) unsigned char conf[256] = {0};
    if (bytes < MAX_FILES)
        return 0;
    const uint8_t *at = data + MAX_FILES, *end = data + bytes;
    for (int i = 0; i < MAX_FILES; i++) {
        const size_t left = (size_t)(end - at), want = i < MAX_FILES - 1 ? data[1 + i] : left;
        fuzz_end[i] = ends[i];
        fuzz_file[i].data = at;
        fuzz_file[i].bytes = want < left ? want : left;
        at += fuzz_file[i].bytes;
    }
    const int keep = data[0] & 2 ? 1 : data[0] & 4 ? 2 : 0;
    fuzz_set(nus, conf, "paths", &paths, sizeof paths);
    fuzz_set(nus, conf, "features", &features, sizeof features);
    fuzz_set(nus, conf, "keep", &keep, sizeof keep);
    fuzz_set(nus, conf, "vectors", &vectors, sizeof vectors);
    if (data[0] & 1)
        fuzz_set(nus, conf, "images", &root, sizeof root);
    fuzz_open(nus, conf);
    return 0;
}
