#!/bin/sh
# ctest-labels: source
# ctest-timeout: 120
# Each header compiles alone as C17 with the warnings of the project; all of them together, as C17
# (no two may give one name to different things) and, where nvcc is found, those of the floors that
# a .cu file may include as CUDA C++.
set -eu

cd "$SW_SOURCE_DIR"
flags='-D_GNU_SOURCE -Isrc -I.'
temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT

# compile: C17 source on stdin.
compile() {
    $CC -std=c17 $flags -fopenmp -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Werror \
        -fsyntax-only -x c -
}

# alone HEADER: the include comes twice, so that a missing guard shows too.
alone() {
    printf '#include "%s"\n#include "%s"\n' "$1" "$1" | compile
}

mkdir "$temporary/planted"
printf 'static inline size_t sw_x(void) { return 0; }\n' >"$temporary/planted/alone.h"
if (cd "$temporary/planted" && alone alone.h) 2>/dev/null; then
    echo "a header that misses its includes was accepted" >&2
    exit 1
fi

# Some need the header of an optional library.
headers=$(find src kernels ui -name '*.h' | sort)
for library in dnnl cudnn mpi; do
    echo "#include <$library.h>" | compile 2>/dev/null && continue
    echo "$library.h is not here: what includes it was not compiled"
    headers=$(grep -L "#include <$library.h>" $headers)
done
headers=$(printf '%s\n' $headers | sed 's,^src/,,')
[ -n "$headers" ]

failed=0
for header in $headers; do
    alone "$header" || {
        echo "$header does not compile alone as C17"
        failed=1
    }
    printf '#include "%s"\n' "$header" >>"$temporary/all.cu"
done
compile <"$temporary/all.cu" || {
    echo "the headers do not compile together as C17"
    failed=1
}
if nvcc=$(command -v nvcc || command -v /usr/local/cuda/bin/nvcc); then
    grep -E '"(base|sync|device|kernels)/' "$temporary/all.cu" >"$temporary/cuda.cu"
    "$nvcc" -x cu $flags -c "$temporary/cuda.cu" -o "$temporary/cuda.o" || {
        echo "the headers do not compile under nvcc"
        failed=1
    }
else
    echo "nvcc is not here: the headers were not compiled as CUDA C++"
fi
exit $failed
