/* What two hosts say about themselves, of untrusted bytes: comparing it must not read outside of
 * it, equal texts agree, and a difference is told in printable characters. Input: a byte, where the
 * rest is split in two (in 255ths); then both texts. */
#include "exchange/hosts/hello.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void demand(bool holds)
{
    if (!holds)
        __builtin_trap();
}

/* Exactly as large as the text, so that the address sanitizer sees a read past its end. */
static struct sw_hello copy_of(const char *host, const uint8_t *data, size_t bytes)
{
    char *text = malloc(bytes + (bytes == 0));
    demand(text != NULL);
    memcpy(text, data, bytes);
    return (struct sw_hello){host, text, bytes};
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct sw_err err = {0};
    if (bytes < 1 || bytes > 4096)
        return 0;
    size_t rest = bytes - 1, first = rest * data[0] / 255;
    struct sw_hello a = copy_of("ada", data + 1, first),
                    b = copy_of("bob", data + 1 + first, rest - first);
    int rc = sw_hello_compare(&a, &b, &err);
    demand(sw_hello_compare(&a, &a, NULL) == SW_OK && sw_hello_compare(&b, &b, NULL) == SW_OK);
    demand((sw_hello_compare(&b, &a, NULL) == SW_OK) == (rc == SW_OK));
    if (rc != SW_OK) {
        demand(strstr(err.text, "ada") && strstr(err.text, "bob"));
        for (const char *c = err.text; *c; c++)
            demand(*c >= ' ' && *c <= '~');
    } else if (a.bytes > 0 && sw_hello_is_valid(a.text, a.bytes)) {
        demand(b.bytes > 0);
    }
    free((void *)a.text);
    free((void *)b.text);
    return 0;
}
