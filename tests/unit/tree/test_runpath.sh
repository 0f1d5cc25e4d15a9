#!/bin/sh
# ctest-timeout: 120
# No program, library or module, in the build tree or installed, takes a library from the directory
# that it is started in: each folder in which it looks is absolute or begins with $ORIGIN.
set -eu

command -v readelf >/dev/null || {
    echo "skipped: readelf (binutils) is not here"
    exit 77
}
temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT

# What the loader reads of all ELF files below the folder $1, a line each: FILE RUNPATH|NEEDED VALUE.
loader_sees() {
    find "$1" -name CMakeFiles -prune -o -type f \( -perm -100 -o -name '*.so*' \) -print |
        while read -r file; do
            readelf -d "$file" 2>/dev/null |
                sed -nE "s,.*\((RUNPATH|RPATH|NEEDED)\).*\[(.*)\]$,$file \1 \2,p"
        done
}

loader_sees "$SW_BINARY_DIR" >"$temporary/seen"
if [ -z "$SINGA_SANITIZE" ]; then # an installed copy is not built with sanitizers
    cmake --install "$SW_BINARY_DIR" --prefix "$temporary/installed" >"$temporary/log"
    loader_sees "$temporary/installed" >"$temporary/seen-installed"
    grep -q '/bin/singa-ws NEEDED' "$temporary/seen-installed"
    cat "$temporary/seen-installed" >>"$temporary/seen"
fi
for product in singa-ws singa_probe singa_blas.so libsinga.so; do
    grep -q "^$SW_BINARY_DIR/$product.* NEEDED" "$temporary/seen" || {
        echo "$product is not among the files that were read" >&2
        exit 1
    }
done

# ld.so(8): an empty folder, and a library that is named by a relative path, start in the current
# directory, as a relative folder does.
awk '
    $2 == "NEEDED" && $3 ~ /^[^\/].*\// { print; bad++ }
    $2 != "NEEDED" {
        n = split($3, folder, ":")
        if (n == 0)
            folder[n = 1] = ""
        for (i = 1; i <= n; i++)
            if (folder[i] !~ /^(\/|\$ORIGIN(\/|$))/) {
                print
                bad++
                break
            }
        lists++
    }
    END {
        print lists + 0 " lists of folders read, " bad + 0 " lead to the current directory"
        exit bad || !lists
    }' "$temporary/seen"

# So what lies there under the name of any of those libraries does not run.
cat >"$temporary/planted.c" <<'C'
#include <fcntl.h>
#include <unistd.h>
__attribute__((constructor)) static void run(void)
{
    close(open("planted-code-ran", O_CREAT | O_WRONLY, 0600));
}
C
mkdir "$temporary/here"
cd "$temporary/here"
$CC -shared -fPIC "$temporary/planted.c" -o planted.so
env LD_PRELOAD="$PWD/planted.so" true
rm planted-code-ran # it can run
sed -n 's/.* NEEDED //p' "$temporary/seen" | sort -u | while read -r name; do
    cp planted.so "$name"
done
[ -f libsqlite3.so.0 ]
"$SW" --version >/dev/null
"$SW_BINARY_DIR/singa_probe" >/dev/null 2>&1 || true # it has no device to try
if [ -e planted-code-ran ]; then
    echo "a library in the current directory was loaded" >&2
    exit 1
fi
