# ctest-labels: long
# ctest-timeout: 3600
# A stranger's Debian 13 (another compiler and libc, no oneDNN 2): README's commands build there, and the
# tests pass. Needs debootstrap and the network.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/chroot.sh"
[ -z "${SINGA_SANITIZE:-}" ] || skip 'another system is not built with sanitizers'

bare_debian trixie "$T/debian"
mkdir "$T/debian/src"
(cd "$SW_SOURCE_DIR" && tar -c --exclude=./build --exclude=./.git .) | tar -x -C "$T/debian/src"
cat >"$T/debian/root/try" <<'TRY'
cd /src
./bootstrap build
cmake --build build/release --target all --parallel "$(nproc)"
ctest --test-dir build/release --parallel "$(nproc)" --label-regex '^(unit|fuzz|cli|api|fault)$' \
    --label-exclude '^long$' --output-on-failure --no-label-summary --no-tests=error
TRY
in_debian "$T/debian" /root/try || fail 'build and tests in a bare Debian 13'
has out '^100% tests passed'
