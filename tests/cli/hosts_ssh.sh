# ctest-timeout: 120
# run --hosts by a real ssh: a server of its own on a free port, with keys and settings in the test's
# folder. The job trains, a host whose key is not accepted is named, and where host 0 dies, join ends.
. "$(dirname "$0")/lib.sh"
sshd=$(PATH=$PATH:/usr/sbin command -v sshd) || skip 'there is no sshd'
command -v ssh-keygen >/dev/null 2>&1 || skip 'there is no ssh-keygen'
have_python || skip 'there is no python3'
unset RANK WORLD_SIZE SLURM_STEP_NUM_TASKS OMPI_COMM_WORLD_SIZE PMI_SIZE PMIX_RANK SINGA_JOB_KEY
linear hosts | sed 's/^batch = .*/&\nsteps = 3/' >"$T/r.ini"
cd "$T" || exit 1

for key in host user stranger; do
    ssh-keygen -q -t ed25519 -N '' -f "$T/key.$key" || fail 'ssh-keygen'
done
cp "$T/key.user.pub" "$T/authorized"
cat >"$T/sshd_config" <<END
ListenAddress 127.0.0.1
HostKey $T/key.host
AuthorizedKeysFile $T/authorized
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
END
# Root's sshd needs an empty folder that only a system service makes: it gets a /run of its own.
begin=exec
[ "$(id -u)" != 0 ] || [ -d /run/sshd ] ||
    begin='mount -t tmpfs none /run && mkdir -m 755 /run/sshd && exec'
alone=
[ "$begin" = exec ] || alone='unshare --mount'
# serve PORT: starts the server as $server; fails if it ends at once, for example because of the port.
serve() {
    : >"$T/sshd.log"
    $alone sh -c "$begin"' "$0" "$@"' "$sshd" -D -e -p "$1" -f "$T/sshd_config" 2>"$T/sshd.log" &
    server=$!
    children="$children $server"
    until grep -q 'Server listening' "$T/sshd.log"; do
        kill -0 "$server" 2>/dev/null || return 1
        sleep 0.05
    done
}
port=
for try in 1 2 3; do
    free=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
    serve "$free" && port=$free && break
done
[ -n "$port" ] || skip "sshd does not start here: $(tail -n 1 "$T/sshd.log")"

cat >"$T/ssh_config" <<END
Host *
    HostName 127.0.0.1
    Port $port
    IdentityFile $T/key.user
    IdentitiesOnly yes
    UserKnownHostsFile $T/known
    BatchMode yes
END
printf '[127.0.0.1]:%s %s\n' "$port" "$(cut -d' ' -f1,2 "$T/key.host.pub")" >"$T/known"
# The command on the other host, which has the environment of a login.
cat >"$T/remote" <<END
#!/bin/sh
echo \$\$ >"$T/pid"
XDG_STATE_HOME=$T/state SINGA_REGISTRY=$T/registry OMP_NUM_THREADS=1
export XDG_STATE_HOME SINGA_REGISTRY OMP_NUM_THREADS
exec "$SW" "\$@"
END
chmod +x "$T/remote"
export SINGA_SSH="ssh -F $T/ssh_config" SINGA_REMOTE="$T/remote"
two='--hosts localhost,127.0.0.1 --share-machine'
ssh -F "$T/ssh_config" 127.0.0.1 true 2>"$T/err" || skip "sshd lets nobody in here: $(tail -n 1 "$T/err")"

"$SW" run r.ini $two --steps 1 --quiet >"$T/out" 2>"$T/err" </dev/null
plain=
file_has err 'built without OpenSSL' && plain='--set cluster.network=trusted'
two="$two $plain"
expect 0 run r.ini $two --steps 2
has out '^hosts        2 hosts by --hosts and ssh'
hasnt err 'exit code'

# A name that only ssh knows.
expect 0 run r.ini --hosts localhost,officepc --share-machine --steps 2 $plain

# A user whom the server does not know.
sed "s/key.user/key.stranger/" "$T/ssh_config" >"$T/ssh_stranger"
SINGA_SSH="ssh -F $T/ssh_stranger" expect 3 run r.ini $two
has err '^127\.0\.0\.1: .*Permission denied'
has err 'must work without a password'

# A server with another key than the one that is known.
printf '[127.0.0.1]:%s %s\n' "$port" "$(cut -d' ' -f1,2 "$T/key.stranger.pub")" >"$T/known"
expect 3 run r.ini $two
has err 'Host key verification failed'
printf '[127.0.0.1]:%s %s\n' "$port" "$(cut -d' ' -f1,2 "$T/key.host.pub")" >"$T/known"

gone() {
    ! kill -0 "$(cat "$T/pid")" 2>/dev/null
}
rm -f "$T/pid"
start run r.ini $two --set job.steps=100000000 --set job.eval_every=0
until_true 20 file_has out '^step=2 '
gone && fail 'join has ended too early'
kill -9 "$pid"
wait "$pid" 2>/dev/null
until_true 5 gone
