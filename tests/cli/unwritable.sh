# An unwritable folder is reported before training starts.
. "$(dirname "$0")/lib.sh"

# as_other ARGUMENT...: the program as a user who is not root.
if [ "$(id -u)" = 0 ]; then
    command -v setpriv >/dev/null 2>&1 || skip 'setpriv (util-linux) is not here'
    chmod 755 "$T"
    setpriv --reuid=65534 --regid=65534 --clear-groups test -x "$SW" ||
        skip 'another user may not run the program from here'
    mkdir "$T/home"
    chown 65534:65534 "$T/home"
    as_other() {
        setpriv --reuid=65534 --regid=65534 --clear-groups env HOME="$T/home" \
            XDG_STATE_HOME="$T/home" XDG_RUNTIME_DIR= SINGA_DB="$T/home/history.db" \
            "$SW" "$@" >"$T/out" 2>"$T/err" </dev/null
    }
else
    as_other() {
        "$SW" "$@" >"$T/out" 2>"$T/err" </dev/null
    }
fi

mkdir "$T/locked"
chmod 555 "$T/locked"
as_other run "$tiny" --out "$T/locked/run" --steps 3
got=$?
[ "$got" = 1 ] || [ "$got" = 3 ] || fail "exit $got with an output folder that cannot be made"
has err "^singa-ws: .*$T/locked/run"
hasnt out '^step=1 '

# The same command works in a folder of that user.
chmod 755 "$T/locked"
[ "$(id -u)" = 0 ] && chown 65534:65534 "$T/locked"
as_other run "$tiny" --out "$T/locked/run" --steps 3 || fail "exit $? in a folder that can be written"
