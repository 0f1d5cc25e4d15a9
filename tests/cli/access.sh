# Permissions of the files that a run writes, and folders and files that are refused: checkpoints
# follow the umask, live files and the history are private, a folder of another user is not used, and
# a pipe in place of a file does not block the program.
. "$(dirname "$0")/lib.sh"

mode() {
    stat -c %a "$1"
}
# modes_with UMASK FILE-MODE FOLDER-MODE
modes_with() {
    (umask "$1" && expect 0 run "$tiny" --out "$T/u$1/run" --steps 2 --quiet) || exit 1
    [ "$(mode "$T/u$1/run/checkpoint-2.safetensors")" = "$2" ] || fail "umask $1: a checkpoint has mode \
$(mode "$T/u$1/run/checkpoint-2.safetensors"), not $2"
    [ "$(mode "$T/u$1/run")" = "$3" ] || fail "umask $1: the folder has mode $(mode "$T/u$1/run")"
    (umask "$1" && expect 0 weights "$T/u$1/run/checkpoint-2.safetensors" export \
        --output "$T/u$1/export.safetensors") || exit 1
    [ "$(mode "$T/u$1/export.safetensors")" = "$2" ] || fail "umask $1: an export has other rights"
}
modes_with 077 600 700
modes_with 002 664 775
modes_with 027 640 750
[ "$(mode "$SINGA_DB")" = 600 ] || fail "the history has mode $(mode "$SINGA_DB")"
(umask 0 && SINGA_DB="$T/open.db" expect 0 run "$tiny" --steps 1 --quiet) || exit 1
[ "$(mode "$T/open.db")" = 600 ] || fail "with umask 0 the history has mode $(mode "$T/open.db")"
[ "$(mode "$T/state/singa-ws/runs/1")" = 777 ] || fail 'a folder of the state directory ignores the umask'
[ "$(mode "$T/state/singa-ws")" = 700 ] || fail "the state directory has mode $(mode "$T/state/singa-ws")"

# Live files. A runtime directory that other users can enter is skipped, with a reason.
mkdir -m 755 "$T/wide"
XDG_RUNTIME_DIR="$T/wide" start run "$tiny" --out "$T/live" --set job.steps=100000000
until_true 20 file_has out '^step=5 '
for file in "$T"/state/singa-ws/live/*.live "$T"/state/singa-ws/live/*.sock; do
    [ "$(mode "$file")" = 600 ] || fail "$file has mode $(mode "$file")"
done
[ -e "$T/wide/singa-ws" ] && fail 'a runtime directory that others can enter was used'
has err "directory $T/wide is open to other users \(mode 0755\); run .chmod 700 $T/wide"
kill -9 "$pid"
wait "$pid" 2>/dev/null

# A state directory that others can write or own is refused, also behind a symbolic link.
mkdir -p "$T/bad/singa-ws"
chmod 777 "$T/bad/singa-ws"
XDG_STATE_HOME="$T/bad" SINGA_DB= expect 1 run "$tiny" --steps 1
has err "$T/bad/singa-ws is open to other users \(mode 0777\); run .chmod go-w"
[ -z "$(ls "$T/bad/singa-ws")" ] || fail 'a state directory that others can write was used'
if [ "$(id -u)" = 0 ]; then
    mkdir -m 755 "$T/theirs" "$T/link"
    chown 65534 "$T/theirs"
    ln -s "$T/theirs" "$T/link/singa-ws"
    for verb in "run $tiny --steps 1" 'history list'; do
        # shellcheck disable=SC2086
        XDG_STATE_HOME="$T/link" SINGA_DB= expect 1 $verb
        has err "$T/link/singa-ws belongs to .*uid 65534.*; set XDG_STATE_HOME to a directory of your own"
    done
    [ -z "$(ls "$T/theirs")" ] || fail "another user's folder was used"
    mkdir -m 700 "$T/session"
    ln -s "$T/theirs" "$T/session/singa-ws"
    XDG_RUNTIME_DIR="$T/session" expect 0 run "$tiny" --steps 1 --no-ui
    has err "$T/session/singa-ws belongs to .*uid 65534.*; set XDG_RUNTIME_DIR"
fi

# Pipes without a writer do not block the program.
mkfifo "$T/pipe"
# refused ARGUMENT...: a pipe among them is named.
refused() {
    timeout 60 "$SW" "$@" >"$T/out" 2>"$T/err" </dev/null
    got=$?
    [ $got = 2 ] || [ $got = 3 ] || fail "$*: exit $got"
    has err "$T/pipe(: (there is )?no such file| is a pipe, not a regular file|: not a regular file)"
}
refused history list --db "$T/pipe"
refused history sql --db "$T/pipe" 'SELECT 1'
refused history rm --db "$T/pipe" 1 --yes
refused resume --db "$T/pipe" 1
refused top --db "$T/pipe" --once
refused run "$T/pipe"
refused check "$T/pipe"
refused run "$tiny" --init-from "$T/pipe"
refused eval "$tiny" --weights "$T/pipe"
refused weights "$T/pipe"
refused weights "$T/pipe" verify
refused topo --from "$T/pipe"
refused data inspect --format shard --paths "$T/pipe"
mkfifo "$T/u077/run/run.lock"
rm -f "$T"/u077/run/checkpoint-*
timeout 60 "$SW" run "$tiny" --out "$T/u077/run" --steps 1 >"$T/out" 2>"$T/err"
[ $? = 1 ] || fail 'a pipe in the place of the lock is accepted'
has err 'run.lock is not a regular file; remove it'

# A recipe may be read from a pipe with a writer.
"$SW" check /dev/stdin <"$tiny" >"$T/out" 2>"$T/err" || fail 'a recipe on standard input is refused'
sed 's/^steps = .*/steps = 7/' "$tiny" | "$SW" check /dev/stdin >"$T/out" 2>"$T/err" ||
    fail 'a recipe from a pipe is refused'
exit 0
