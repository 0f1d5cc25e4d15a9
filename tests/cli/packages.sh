# ctest-labels: long
# ctest-timeout: 600
# What a user installs: `cmake --install` and its uninstall, the Debian packages unpacked into a folder
# of their own and, where debootstrap and the network allow it, installed into a bare Debian 12.
. "$(dirname "$0")/lib.sh"
build=$(dirname "$SW")
[ -f "$build/cmake_install.cmake" ] || skip "$SW does not lie in a build folder"

# trains PROGRAM RECIPES: a short training with what lies in one installation.
trains() {
    env -u LD_LIBRARY_PATH "$1" run "$2/digits.ini" --steps 20 --no-ui --out "$T/trained" \
        >"$T/out" 2>"$T/err" || fail "$1 does not train"
    rm -rf "$T/trained"
}

# Install and uninstall.
cmake --install "$build" --prefix "$T/prefix" >"$T/out" 2>"$T/err" || fail 'cmake --install'
for file in bin/singa-ws share/man/man1/singa-ws.1 share/bash-completion/completions/singa-ws; do
    [ -s "$T/prefix/$file" ] || fail "cmake --install wrote no $file"
done
trains "$T/prefix/bin/singa-ws" "$T/prefix/share/singa-ws/recipes"
cmake --build "$build" --target uninstall >"$T/out" 2>"$T/err" || fail 'uninstall'
left=$(find "$T/prefix" ! -type d)
[ -z "$left" ] || fail "left after uninstall: $left"

# Packages.
command -v dpkg-shlibdeps >/dev/null && command -v cpack >/dev/null ||
    skip 'no cpack and dpkg-dev for the packages (install and uninstall passed)'
(cd "$build" && cpack -B "$T/packages") >"$T/out" 2>"$T/err" || fail cpack
program=$(echo "$T"/packages/singa-ws_*.deb)
headers=$(echo "$T"/packages/libsinga-dev_*.deb)
dpkg-deb --info "$program" >"$T/out"
has out '^ Depends:.*libc6.*libsqlite3-0'
dpkg-deb --contents "$program" >"$T/out"
hasnt out 'include/|\.so$.*libsinga'
dpkg-deb -x "$program" "$T/root" && dpkg-deb -x "$headers" "$T/root" || fail 'dpkg-deb -x'
trains "$T/root/usr/bin/singa-ws" "$T/root/usr/share/singa-ws/recipes"

# A Debian that has never seen the program.
[ "$(id -u)" = 0 ] && command -v debootstrap >/dev/null ||
    skip 'no root or no debootstrap for a bare Debian (all else passed)'
debootstrap --variant=minbase bookworm "$T/debian" "${SINGA_MIRROR:-http://deb.debian.org/debian}" \
    >"$T/out" 2>"$T/err" || skip 'debootstrap cannot reach a mirror (all else passed)'
cp "$program" "$T/debian/root/singa-ws.deb"
cp /etc/resolv.conf "$T/debian/etc/"
cat >"$T/debian/root/try" <<'TRY'
set -e
export DEBIAN_FRONTEND=noninteractive
apt-get -q update
apt-get -q -y --no-install-recommends install /root/singa-ws.deb
singa-ws run /usr/share/singa-ws/recipes/digits.ini --steps 20 --no-ui
apt-get -q -y remove singa-ws
[ ! -e /usr/bin/singa-ws ] && [ ! -e /usr/share/singa-ws ]
TRY
chroot "$T/debian" sh /root/try >"$T/out" 2>"$T/err" || fail 'a bare Debian 12'
