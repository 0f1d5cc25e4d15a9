#!/bin/sh
# ctest-timeout: 120
# Two programs of a user, built from an installed copy with what pkg-config says, train the same
# logistic regression, one by tensors and one by layers: it learns, and both print the same numbers.
set -eu

if [ -n "$SINGA_SANITIZE" ]; then
    echo "skipped: an installed copy is not built with sanitizers"
    exit 77
fi
here=$SW_SOURCE_DIR/tests/api
temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT
cmake --install "$SW_BINARY_DIR" --prefix "$temporary/prefix" >"$temporary/log"
PKG_CONFIG_PATH=$(dirname "$(find "$temporary/prefix" -name singa.pc)")
export PKG_CONFIG_PATH
flags=$(pkg-config --cflags singa)
libs=$(pkg-config --libs singa)
LD_LIBRARY_PATH=$(pkg-config --variable=libdir singa)
export LD_LIBRARY_PATH
for way in tensors layers; do
    $CC -std=c17 -D_GNU_SOURCE -O1 -Wall -Wextra -Werror $flags "$here/logistic_$way.c" \
        -o "$temporary/$way" $libs
    "$temporary/$way" >"$temporary/$way.txt"
done
python3 - "$temporary/tensors.txt" "$temporary/layers.txt" <<'PY'
import sys
tensors, layers = ([line.split() for line in open(name)] for name in sys.argv[1:])
assert [n for n, _ in tensors] == [n for n, _ in layers], "the programs print different things"
worst = max(abs(float(a) - float(b)) for (_, a), (_, b) in zip(tensors, layers))
losses = [float(v) for n, v in tensors if n.startswith("loss")]
print(f"loss {losses[0]:.4f} to {losses[-1]:.4f}, largest difference {worst:.2g}")
assert losses[-1] < 0.25 * losses[0], "it does not learn"
assert worst < 1e-4, "the two ways differ"
PY
