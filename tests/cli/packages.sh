# ctest-labels: long
# ctest-timeout: 600
# The Debian packages: what is in which, what they depend on, and, where debootstrap and the network
# allow it, that they install, run, serve a C program and leave again in a bare Debian 12.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/chroot.sh"
build=$(dirname "$SW")
[ -f "$build/cmake_install.cmake" ] || skip "$SW does not lie in a build folder"
[ -z "${SINGA_SANITIZE:-}" ] || skip 'packages are not built with sanitizers'
command -v dpkg-shlibdeps >/dev/null && command -v cpack >/dev/null ||
    skip 'no cpack and dpkg-dev for the packages'

(cd "$build" && cpack -B "$T/packages") >"$T/out" 2>"$T/err" || fail cpack
cd "$T/packages" || fail 'no folder of packages'
program=$(echo singa-ws_*.deb) library=$(echo libsinga[0-9]*.deb) headers=$(echo libsinga-dev_*.deb)

# info PACKAGE PATTERN, contents PACKAGE PATTERN
info() {
    dpkg-deb --info "$1" >"$T/out" && has out "$2"
}
info "$program" '^ Depends:.*libsinga[0-9.]+ \(= .*libc6'
info "$library" '^ Depends:.*libopenblas0-openmp.*libc6.*libhwloc15.*libsqlite3-0'
info "$headers" '^ Depends: libsinga[0-9.]+ \(= '
dpkg-deb --contents "$program" >"$T/out"
has out 'usr/bin/singa-ws$'
has out 'man1/singa-ws\.1\.gz$'
has out 'doc/singa-ws/copyright$'
hasnt out 'include/|libsinga'
dpkg-deb --contents "$library" >"$T/out"
has out 'usr/lib/libsinga\.so\.[0-9.]+$'
hasnt out 'singa_cuda|singa_mpi|include/|libsinga\.so -> '
dpkg-deb --contents "$headers" >"$T/out"
has out 'cmake/singa/singaConfig\.cmake$'
[ ! -f "$build/singa_cuda.so" ] || info "$(echo singa-ws-cuda_*.deb)" '^ Depends: libsinga[0-9.]+ \(= '
if [ -f "$build/singa_mpi_openmpi.so" ]; then
    info "$(echo singa-ws-mpi_*.deb)" '^ Depends: libsinga[0-9.]+ \(= [^,]*$'
    hasnt out '^ Depends:.*mpi'
fi
if command -v lintian >/dev/null 2>&1; then
    lintian --tag-display-limit 0 "$program" "$library" "$headers" >"$T/out" 2>"$T/err"
    hasnt out '^E:'
fi

# Those built on a Debian 12 run in a bare one.
grep -q '^VERSION_ID="12"' /etc/os-release && grep -q '^ID=debian' /etc/os-release ||
    skip 'these packages are not of Debian 12 (their contents passed)'
bare_debian bookworm "$T/debian"
cp "$program" "$library" "$headers" "$T/debian/root/"
cat >"$T/debian/root/user.c" <<'C'
#include <base/err.h>
#include <string.h>
int main(void)
{
    struct sw_err err = {0};
    return !(sw_err_set(&err, SW_ERR_INVALID, "%d rows", 3) == SW_ERR_INVALID && strstr(err.text, "3 rows"));
}
C
cat >"$T/debian/root/try" <<'TRY'
apt-get -q update
apt-get -q -y --no-install-recommends install /root/singa-ws_*.deb /root/libsinga[0-9]*.deb
useradd -m user
su user -c 'singa-ws run /usr/share/singa-ws/recipes/digits.ini --no-ui'
su user -c 'singa-ws doctor --quick'
apt-get -q -y --no-install-recommends install /root/libsinga-dev_*.deb gcc libc6-dev pkg-config
cd /root
gcc -std=c17 -D_GNU_SOURCE user.c -o user $(pkg-config --cflags --libs singa)
./user
apt-get -q -y remove singa-ws 'libsinga*'
[ ! -e /usr/bin/singa-ws ] && [ ! -e /usr/share/singa-ws ] && [ ! -e /usr/include/singa ]
echo 'all of it works'
TRY
in_debian "$T/debian" /root/try || fail 'the packages in a bare Debian 12'
has out '^done  .* run 1, digits: step 200 of 200'
has out 'this build has no CUDA device: .*singa-ws-cuda'
has out '^all of it works$'
