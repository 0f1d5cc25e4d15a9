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
fail() {
    echo "$*" >&2
    exit 1
}

# Installed below DESTDIR, where another user can run it, and uninstalled, which leaves what was there.
chmod 755 "$temporary"
mkdir -p "$temporary/stage/opt/a b/bin"
echo mine >"$temporary/stage/opt/a b/bin/mine"
DESTDIR=$temporary/stage cmake --install "$SW_BINARY_DIR" --prefix '/opt/a b' >"$temporary/log"
nobody=
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
    nobody='setpriv --reuid=65534 --regid=65534 --clear-groups'
fi
env -u LD_LIBRARY_PATH $nobody "$temporary/stage/opt/a b/bin/singa-ws" --version >/dev/null
DESTDIR=$temporary/stage cmake -D BINARY_DIR="$SW_BINARY_DIR" -P "$SW_SOURCE_DIR/.cmake/uninstall.cmake" \
    >"$temporary/log" 2>&1
left=$(find "$temporary/stage" ! -type d)
[ "$left" = "$temporary/stage/opt/a b/bin/mine" ] || fail "left after uninstall: $left"
left=$(find "$temporary/stage" -name '*singa*')
[ -z "$left" ] || fail "left after uninstall: $left"

cmake --install "$SW_BINARY_DIR" --prefix "$temporary/first" >"$temporary/log"
mv "$temporary/first" "$temporary/moved there"
moved="$temporary/moved there"
pc=$(find "$moved" -name singa.pc)
PKG_CONFIG_PATH=$(dirname "$pc")
export PKG_CONFIG_PATH
# The shell reads them again: a blank within a folder's name is quoted.
flags=$(pkg-config --cflags singa)
libs=$(pkg-config --libs singa)

headers=$(cd "$moved/include/singa" && find . -name '*.h' | sed 's,^\./,,' | sort)
[ -n "$headers" ]
cd "$temporary"
for header in $headers; do
    printf '#include <%s>\n' "$header" |
        eval "$CC -std=c17 -D_GNU_SOURCE -Werror $flags -fsyntax-only -x c -" ||
        fail "the installed $header needs what is not installed"
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
eval "$CC -std=c17 -D_GNU_SOURCE $flags user.c -o user $libs"
LD_LIBRARY_PATH=$(dirname "$PKG_CONFIG_PATH") ./user

# The same with CMake, which needs no path to run it.
mkdir project
cat >project/CMakeLists.txt <<'CMAKE'
cmake_minimum_required(VERSION 3.22)
project(user LANGUAGES C)
find_package(singa 0.1 REQUIRED)
add_executable(user ../user.c)
target_compile_definitions(user PRIVATE _GNU_SOURCE)
target_link_libraries(user PRIVATE singa::singa)
CMAKE
cmake -S project -B project/build -DCMAKE_C_COMPILER="$CC" -DCMAKE_PREFIX_PATH="$moved" >log 2>&1 &&
    cmake --build project/build >log 2>&1 || fail "find_package(singa): $(tail -n 20 log)"
project/build/user

version=$(pkg-config --modversion singa)
"$moved/bin/singa-ws" --version | grep -qF "$version"

# It finds its modules, too.
"$moved/bin/singa-ws" doctor --quick | grep -qF OpenBLAS

# The pages that README.md links to are beside it.
pages=$(dirname "$(find "$moved" -path '*doc*' -name history.md)")/..
for page in $(grep -o '](\(recipes\|ui\)/[A-Za-z/.-]*' "$pages/README.md" | sed 's/^](//'); do
    [ -f "$pages/$page" ] || fail "$page is not installed"
done
for page in $(grep -o '](tasks/[a-z-]*\.md' "$pages/recipes/README.md" | sed 's/^](//'); do
    [ -f "$pages/recipes/$page" ] || fail "$page is not installed"
done
[ -f "$(dirname "$(find "$moved" -name digits.ini)")/share/shapes.py" ] || fail 'shapes.py is not installed'
empty=$(find "$moved" -type d -empty)
[ -z "$empty" ] || fail "empty folders are installed: $empty"

# The manual's pages are those of this very program.
"$moved/bin/singa-ws" layers commands --man | cmp - "$(find "$moved" -name singa-ws.1)"
"$moved/bin/singa-ws" layers --man | cmp - "$(find "$moved" -name singa-ws-recipe.5)"

# `bootstrap build` makes the target product, which has to be all that is installed.
if command -v ninja >/dev/null 2>&1 && [ -f "$SW_BINARY_DIR/build.ninja" ]; then
    ninja -C "$SW_BINARY_DIR" -t commands product >commands
    sed -n 's,.*FILES "'"$SW_BINARY_DIR"'/\([^"]*\)".*,\1,p' "$SW_BINARY_DIR/cmake_install.cmake" |
        grep -v '\.pc$\|\.cmake$\|/$' >built
    [ -s built ]
    while read -r file; do
        grep -qF -- "$file" commands || fail "product does not build $file, which is installed"
    done <built
fi
