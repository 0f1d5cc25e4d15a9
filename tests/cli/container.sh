# ctest-labels: long
# ctest-timeout: 900
# The container file: what it copies and names exists, and, where debootstrap and the network allow it,
# its RUN steps make images of a bare Debian 12 in which the program trains as its user.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/chroot.sh"
[ -z "${SINGA_SANITIZE:-}" ] || skip 'a container is not built with sanitizers'

# stage N: the N-th stage as a shell script; its variables and folder are those of ENV, ARG and WORKDIR.
stage() {
    awk -v wanted="$1" '
        /^FROM / { n++ }
        n != wanted { next }
        /^ARG [A-Z_]*=/ { print "export " $2 }
        /^ENV / { $1 = "export"; print }
        /^WORKDIR / { print "cd " $2 }
        /^RUN / { sub(/^RUN /, ""); print "(" $0 ")" }
        /^USER / { exit }' "$SW_SOURCE_DIR/recipes/share/Dockerfile"
}
[ "$(grep -c '^FROM ' "$SW_SOURCE_DIR/recipes/share/Dockerfile")" = 2 ] || fail 'not two stages'
stage 1 >"$T/first"
stage 2 >"$T/second"
grep -q 'bootstrap build' "$T/first" || fail 'the first stage builds nothing'
grep -q 'useradd' "$T/second" || fail 'the second stage has no user'

bare_debian bookworm "$T/build"
cp -a "$T/build" "$T/image"
mkdir "$T/build/src"
(cd "$SW_SOURCE_DIR" && tar -c --exclude=./build --exclude=./.git .) | tar -x -C "$T/build/src"
cp "$T/first" "$T/build/root/stage"
in_debian "$T/build" /root/stage || fail 'the first stage'
mkdir "$T/image/packages"
cp "$T"/build/packages/*.deb "$T/image/packages/"
cp "$T/second" "$T/image/root/stage"
in_debian "$T/image" /root/stage || fail 'the second stage'
cat >"$T/image/root/try" <<'TRY'
cd /usr/share/singa-ws
setpriv --reuid=1000 --clear-groups env SINGA_DATA=/data XDG_STATE_HOME=/state singa-ws run recipes/digits.ini --no-ui
[ -s /state/singa-ws/history.db ]
TRY
in_debian "$T/image" /root/try || fail 'training in the container'
has out '^done '
