/* XXH3 with 256-bit vectors: CMake compiles this file alone for processors that have them. The hash
 * is the same; where the file was compiled without, so is the way to it. */
#include "base/hash_avx2.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

uint64_t sw_hash_bytes64_avx2(const void *data, size_t bytes)
{
    return XXH3_64bits(data, bytes);
}
