/* XXH3 with 256-bit vectors. CMake compiles only this file for processors with AVX2; the caller
 * checks the processor. The hash values are the same as those of the portable code. */
#include "base/hash_avx2.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

uint64_t sw_hash_bytes64_avx2(const void *data, size_t bytes)
{
    return XXH3_64bits(data, bytes);
}
