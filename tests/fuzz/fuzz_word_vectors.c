/* Vectors of words, as text and in binary. Input: the file. What is read has a finite value
 * everywhere. */
#include "data/word_vectors.h"
#include "format_support.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    const struct sw_os os = fuzz_os();
    struct sw_word_vectors v;
    struct sw_err err = {0};

    fuzz_file[0].data = data;
    fuzz_file[0].bytes = bytes;
    sw_os_set(&os);

    if (sw_word_vectors_read(&v, "0", &err) == SW_OK) {
        if (v.words.count < 1 || v.dims < 1)
            __builtin_trap();
        for (int64_t i = 0; i < (int64_t)v.words.count * v.dims; i++)
            if (!isfinite(v.values[i]))
                __builtin_trap();
        sw_word_vectors_fini(&v);
    } else if (!err.text[0]) {
        __builtin_trap();
    }

    sw_os_set(NULL);
    return 0;
}
