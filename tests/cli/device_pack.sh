#!/bin/sh
# The packages of bench/pack/packages are complete: a library in /lib is found although its package owns
# the other name, what no package owns is an error, and NVIDIA's libraries are left out.
. "$(dirname "$0")/lib.sh"

[ -z "${SINGA_SANITIZE:-}" ] || skip "planted libraries are not built with sanitizers"
command -v dpkg-query >/dev/null 2>&1 || skip "this system has no dpkg"
packages=$SW_SOURCE_DIR/bench/pack/packages
mkdir "$T/pack"

# planted NAME ARGUMENT...: a library from C source on stdin.
planted() {
    name=$1
    shift
    $CC -shared -fPIC -x c - -o "$T/$name" -x none "$@" || fail "$name does not compile"
}
# listed PACKAGE...: exactly these are needed.
listed() {
    "$packages" "$T/pack" >"$T/out" 2>"$T/err" || fail "the packages are not found"
    [ "$(tr '\n' ' ' <"$T/out")" = "$*${1:+ }" ] || fail "not $*"
}

if [ -e /usr/include/zlib.h ] && dpkg -S '*/libz.so.1' >/dev/null 2>&1; then
    echo '#include <zlib.h>
const char *planted(void) { return zlibVersion(); }' | planted pack/libuser.so -lz
    listed zlib1g
fi

echo 'int nvidia;' | planted libcudnn.so.9 -Wl,-soname,libcudnn.so.9
echo 'extern int nvidia; int *f(void) { return &nvidia; }' |
    planted pack/libcuda_user.so "$T/libcudnn.so.9" "-Wl,-rpath,$T"
"$packages" "$T/pack" >/dev/null 2>"$T/err" || fail "NVIDIA's libraries need a package"

echo 'int stray;' | planted libstray.so -Wl,-soname,libstray.so
echo 'extern int stray; int *g(void) { return &stray; }' |
    planted pack/libstray_user.so "$T/libstray.so" "-Wl,-rpath,$T"
! "$packages" "$T/pack" >"$T/out" 2>"$T/err" || fail "a library without an owner is accepted"
has err "no package owns .*/libstray.so"
rm "$T/libstray.so"
! "$packages" "$T/pack" >"$T/out" 2>"$T/err" || fail "a library that is missing is accepted"
has err 'not found: libstray.so'
