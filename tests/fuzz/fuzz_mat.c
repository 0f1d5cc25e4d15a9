/* A .mat file of untrusted bytes: listing its variables and reading every value must end in SW_OK
 * or an error, never in a crash, and never in more memory than its bytes can inflate to. */
#include "base/os.h"
#include "data/mat.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

enum { MAX_INPUT = 1 << 16, MAX_READ = 16 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct sw_mat m;
    struct sw_err err;
    if (bytes > MAX_INPUT || sw_mat_open(&m, "input", data, bytes, &err))
        return 0;
    for (int i = 0; i < m.count && i < MAX_READ; i++) {
        struct sw_mat_values x;
        double sum = 0;
        if (sw_mat_read(&m, &m.variable[i], &x, &err))
            continue;
        for (int64_t k = 0; k < x.count; k++)
            sum += sw_mat_value(&x, k);
        __asm__ volatile("" : : "x"(sum)); /* the values are actually read */
        sw_mat_values_fini(&x);
    }
    sw_mat_close(&m);
    return 0;
}
