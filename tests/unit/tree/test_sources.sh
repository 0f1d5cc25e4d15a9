#!/bin/sh
# ctest-labels: source
# ctest-timeout: 60
# CMakeLists.txt names its sources; only the folders of registries, of kernels and of device drivers
# are read by CMake. A file that was forgotten there would not be built at all, so every .c of src and kernels,
# and every .cu, is in one or the other. The checker first has to find the faults of a planted tree.
set -eu

# look ROOT: prints every file below ROOT that is not built, and every one that is named twice;
# fails when there is one.
look() {
    (
        cd "$1"
        listed=$(sed 's/#.*//' CMakeLists.txt | tr -s ' ()' '\n' | grep -E '^(src|kernels|ui)/.*\.(c|cu)$' | sort)
        registries=" $(sed -n 's/^singa_registry([^ ]* \([^ ]*\) .*/\1/p' CMakeLists.txt | tr '\n' ' ')"
        registries="$registries$(sed -n 's/^file(GLOB .* \([^ ]*\)\/[*][.]c)$/ \1 /p' CMakeLists.txt)"
        grep -q '^singa_kernels()' CMakeLists.txt && registries="$registries""kernels kernels/cpu kernels/cuda "
        drivers=$(sed -n 's/^singa_drivers(\(.*\))/\1/p' CMakeLists.txt)
        for name in $drivers; do
            registries="$registries""src/device/$name "
        done
        faults=$(
            printf '%s\n' "$listed" | uniq -d | sed 's/$/: named twice/'
            find src kernels ui \( -name '*.c' -o -name '*.cu' \) | sort | while read -r file; do
                case $registries in *" ${file%/*} "*) continue ;; esac
                printf '%s\n' "$listed" | grep -qxF "$file" || echo "$file: not in CMakeLists.txt"
            done
        )
        [ -z "$faults" ] || { printf '%s\n' "$faults" && false; }
    )
}

planted=$(mktemp -d)
trap 'rm -rf "$planted"' EXIT
mkdir -p "$planted/src/base" "$planted/src/layers/deep" "$planted/kernels/cpu" "$planted/kernels/cuda" \
    "$planted/src/device/near" "$planted/src/device/lost" "$planted/ui"
for file in src/main.c src/base/a.c src/base/b.c src/base/ab.c src/layers/any.c \
    src/layers/deep/any.c src/device/near/driver.c src/device/lost/driver.c kernels/cpu/k.c \
    kernels/cpu/lost.c kernels/cuda/lost.cu ui/lost.c; do
    : >"$planted/$file"
done
cat >"$planted/CMakeLists.txt" <<'TEXT'
singa_registry(types src/layers layer type prefix layers/layer.h)
singa_drivers(near)
set(sources
    src/base/ab.c src/main.c # src/base/b.c
    kernels/cpu/k.c kernels/cpu/k.c)
TEXT
expected='kernels/cpu/k.c: named twice
kernels/cpu/lost.c: not in CMakeLists.txt
kernels/cuda/lost.cu: not in CMakeLists.txt
src/base/a.c: not in CMakeLists.txt
src/base/b.c: not in CMakeLists.txt
src/device/lost/driver.c: not in CMakeLists.txt
src/layers/deep/any.c: not in CMakeLists.txt
ui/lost.c: not in CMakeLists.txt'
if out=$(look "$planted"); then
    echo "the checker found nothing in a tree with faults" >&2
    exit 1
fi
if [ "$out" != "$expected" ]; then
    printf 'the checker should find\n%s\nin the planted tree and finds\n%s\n' "$expected" "$out" >&2
    exit 1
fi

look "$SW_SOURCE_DIR"
