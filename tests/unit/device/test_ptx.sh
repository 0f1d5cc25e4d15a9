#!/bin/sh
# ctest-labels: source
# ctest-timeout: 120
# What nvcc makes of the CUDA kernels, without a GPU: per kernel at most so many 64-bit divisions of
# integers and registers, at least so many loads and stores of 16 bytes, and no spills. ptx.txt names every kernel;
# variants of a template count together, but those for boxes of fewer than 2^31 elements on their
# own. Skipped without nvcc.
set -eu

here=$SW_SOURCE_DIR/tests/unit/device
nvcc=$(sed -n 's/^CMAKE_CUDA_COMPILER:[A-Z]*=//p' "$SW_BINARY_DIR/CMakeCache.txt")
if [ ! -x "$nvcc" ]; then
    echo "skipped: this build has no nvcc"
    exit 77
fi

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# Prints FILE KERNEL DIVISIONS WIDE REGISTERS SPILLED_BYTES for every kernel of a file.
measure()
{
    stem=$(basename "$1" .cu)
    mkdir "$folder/$stem"
    "$nvcc" -std=c++17 -O2 -arch=sm_90 -I"$SW_SOURCE_DIR" -I"$SW_SOURCE_DIR/src" -cubin -Xptxas -v \
        --keep --keep-dir "$folder/$stem" -o "$folder/$stem.cubin" "$1" >"$folder/$stem.log" 2>&1 ||
        { cat "$folder/$stem.log"; return 1; }

    awk -v file="$stem" '
        /\.entry / { name = $0; sub(/.*\.entry /, "", name); sub(/\(.*/, "", name); seen[name] = 1 }
        /(div|rem)\.[su]64/ { divisions[name]++ }
        /(ld|st)\.global[a-z.]*\.(v4\.[fub]32|v2\.[fub]64)/ { wide[name]++ }
        /Compiling entry function/ { split($0, part, "\047"); name = part[2] }
        /bytes spill stores/ { spilled[name] += $5 + $9 }
        /Used [0-9]+ registers/ { for (i = 1; i < NF; i++) if ($i == "Used") used[name] = $(i + 1) }
        END { for (k in seen) print file, k, divisions[k] + 0, wide[k] + 0, used[k] + 0, spilled[k] + 0 }
    ' "$folder/$stem/$stem.ptx" "$folder/$stem.log" >"$folder/$stem.rows"
}

# Two compilers at a time.
for file in "$SW_SOURCE_DIR"/kernels/cuda/*.cu; do
    measure "$file" &
    if [ -n "${other-}" ]; then
        wait "$other"
    fi
    other=$!
done
wait "$other"

# The name of a kernel without its arguments and those of its template, and the worst variant.
cat "$folder"/*.rows | c++filt | sed 's/ void / /' | awk '
    { name = $2; sub(/[<(].*/, "", name)
      if (/[<( ]sw_small_box/) name = name ":small" }
    {
        k = $1 " " name
        if (!(k in registers) || $(NF - 3) > divisions[k]) divisions[k] = $(NF - 3)
        if ($(NF - 2) > wide[k]) wide[k] = $(NF - 2)
        if ($NF > spilled[k]) spilled[k] = $NF
        if ($(NF - 1) > registers[k]) registers[k] = $(NF - 1)
    }
    END { for (k in registers) print k, divisions[k] + 0, wide[k] + 0, registers[k], spilled[k] + 0 }
' | sort >"$folder/measured"
[ -z "${SW_PTX_SHOW-}" ] || cat "$folder/measured"

awk '
    /^#/ || !NF { next }
    FNR == NR { divisions[$1 " " $2] = $3; wide[$1 " " $2] = $4; registers[$1 " " $2] = $5; next }
    { k = $1 " " $2; met[k] = 1 }
    !(k in divisions) { print k ": not in ptx.txt (measured: " $0 ")"; bad = 1; next }
    $3 > divisions[k] { print k ": " $3 " divisions of 64 bits instead of " divisions[k]; bad = 1 }
    $4 < wide[k] { print k ": " $4 " loads and stores of 16 bytes instead of " wide[k]; bad = 1 }
    $5 > registers[k] { print k ": " $5 " registers instead of " registers[k]; bad = 1 }
    $6 > 0 { print k ": " $6 " bytes of spilled registers"; bad = 1 }
    END {
        for (k in divisions) if (!(k in met)) { print k ": no such kernel"; bad = 1 }
        exit bad
    }
' "$here/ptx.txt" "$folder/measured"
