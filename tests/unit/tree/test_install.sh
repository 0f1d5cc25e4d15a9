#!/bin/sh
# ctest-timeout: 120
# An installed copy works wherever it is moved to: every header compiles with what pkg-config says
# and nothing of the source tree, a program links and runs, and singa-ws finds its library.
set -eu

if [ -n "$SINGA_SANITIZE" ]; then
    echo "skipped: an installed copy is not built with sanitizers"
    exit 77
fi
temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT
cmake --install "$SW_BINARY_DIR" --prefix "$temporary/first" >"$temporary/log"
mv "$temporary/first" "$temporary/moved"
pc=$(find "$temporary/moved" -name singa.pc)
PKG_CONFIG_PATH=$(dirname "$pc")
export PKG_CONFIG_PATH
flags=$(pkg-config --cflags singa)
libs=$(pkg-config --libs singa)

headers=$(cd "$temporary/moved/include/singa" && find . -name '*.h' | sed 's,^\./,,' | sort)
[ -n "$headers" ]
cd "$temporary"
for header in $headers; do
    printf '#include <%s>\n' "$header" | $CC -std=c17 -D_GNU_SOURCE -Werror $flags -fsyntax-only -x c - || {
        echo "the installed $header needs what is not installed" >&2
        exit 1
    }
done

cat >user.c <<'C'
#include <base/err.h>
#include <string.h>
int main(void)
{
    struct sw_err err = {0};
    return !(sw_err_set(&err, SW_ERR_INVALID, "%d rows", 3) == SW_ERR_INVALID && strstr(err.text, "3 rows"));
}
C
$CC -std=c17 -D_GNU_SOURCE $flags user.c -o user $libs
LD_LIBRARY_PATH=$(pkg-config --variable=libdir singa) ./user

version=$(pkg-config --modversion singa)
"$temporary/moved/bin/singa-ws" --version | grep -qF "$version"

# It finds its modules, too.
"$temporary/moved/bin/singa-ws" doctor --quick | grep -qF OpenBLAS

# The pages that README.md links to are beside it.
pages=$(dirname "$(find "$temporary/moved" -path '*doc*' -name history.md)")/..
for page in $(grep -o '](\(recipes\|ui\)/[A-Za-z/.-]*' "$pages/README.md" | sed 's/^](//'); do
    [ -f "$pages/$page" ] || {
        echo "$page is not installed" >&2
        exit 1
    }
done

# The manual's pages are those of this very program.
"$temporary/moved/bin/singa-ws" layers commands --man | cmp - "$(find "$temporary/moved" -name singa-ws.1)"
"$temporary/moved/bin/singa-ws" layers --man | cmp - "$(find "$temporary/moved" -name singa-ws-recipe.5)"
