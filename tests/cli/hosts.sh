# ctest-timeout: 120
# Jobs on several hosts, all of them this machine: run --hosts starts the others with SINGA_SSH, passes
# their lines on, and names the host that cannot take part; where host 0 dies, join ends.
. "$(dirname "$0")/lib.sh"
unset RANK WORLD_SIZE SSH_CONNECTION SLURM_STEP_NUM_TASKS OMPI_COMM_WORLD_SIZE PMI_SIZE PMIX_RANK
linear hosts | sed 's/^batch = .*/&\nsteps = 3/' >"$T/r.ini"
cd "$T" || exit 1

# In place of ssh: notes the command, and runs it here. $1 is the host.
cat >"$T/ssh" <<'END'
#!/bin/sh
echo "$*" >>"$T/calls"
echo $$ >"$T/pid.$1"
echo "welcome to $1"
[ ! -e "$T/before" ] || . "$T/before"
shift
cd /
exec "$@"
END
chmod +x "$T/ssh"
export T SINGA_SSH="$T/ssh" SINGA_REMOTE="$SW"
two='--hosts localhost,127.0.0.1 --share-machine'
"$SW" run r.ini $two --steps 1 --quiet >"$T/out" 2>"$T/err" </dev/null
encrypted='TLS 1.3'
file_has err 'built without OpenSSL' && two="$two --set cluster.network=trusted" encrypted='not encrypted'
rm -f "$T/calls"

# join says what it is for, and refuses anything but a message.
expect 3 join
has err 'before its message was complete'
echo hello | "$SW" join >"$T/out" 2>"$T/err"
[ $? = 3 ] || fail 'join takes any text'
has err 'run --hosts'

# A run: nothing but the command is visible to other users; lines of a host begin with its name.
expect 0 run r.ini $two --steps 2 --out "$T/folder of host 0"
[ -s "$(latest "$T/folder of host 0")" ] || fail 'host 0 has written no checkpoint'
[ "$(cat "$T/calls")" = "127.0.0.1 $SW join" ] || fail "the command is: $(cat "$T/calls")"
has out '^hosts        2 hosts by --hosts and ssh, fabric tcp, '"$encrypted"'.*: this is host 0 \(localhost\)$'
has err '^127\.0\.0\.1: welcome to 127\.0\.0\.1$'
hasnt err 'join: ready'
hasnt err 'exit code'

# Every stage connects the hosts once more, and begins from the last values of the one before.
{ sed '/^steps = 3/d' "$T/r.ini"; printf '[stage one]\nsteps = 2\n[stage two]\nsteps = 3\n'; } >"$T/stages.ini"
expect 0 run stages.ini $two --out "$T/stages"
[ -e "$T/stages/checkpoint-5.safetensors" ] || fail 'the second stage has not ended'
echo "127.0.0.1 $SW join" >"$T/calls"

# Simulated GPUs of two processes have no library in common: their gradients go through host memory.
expect 0 run r.ini $two --steps 2 --device sim --set cluster.copy=none --set cluster.all_reduce=library
has out 'gradients are summed by servers, and sums over hosts in host memory: host 127\.0\.0\.1: simulated GPUs of different processes have no links'
echo "127.0.0.1 $SW join" >"$T/calls"

# A recipe that can be read only once, which all who need it see.
cat r.ini | "$SW" run /dev/stdin --steps 1 --quiet >"$T/out" 2>"$T/err" || fail 'a recipe through a pipe'
cat r.ini | "$SW" run /dev/stdin $two --steps 1 --quiet >"$T/out" 2>"$T/err" || fail 'and several hosts'

# The recipe can name the hosts; JSON has no other lines.
printf '[cluster]\nhosts = localhost, 127.0.0.1\nnetwork = trusted\n' | cat "$T/r.ini" - >"$T/both.ini"
expect 0 run both.ini --share-machine --steps 2 --json
hasnt out '^hosts'
[ "$(wc -l <"$T/calls")" = 3 ] || fail 'the hosts of the recipe were not started'
expect 2 run both.ini --steps 2 --hosts localhost,localhost
has err 'localhost twice'
WORLD_SIZE=3 RANK=0 MASTER_ADDR=localhost MASTER_PORT=1 expect 2 run both.ini
has err 'cluster.hosts names 2 hosts, but by RANK and WORLD_SIZE there are 3'
expect 2 run r.ini --set cluster.fabric=mpi
has err 'no MPI launcher'

# Hosts that cannot take part are named, with the reason.
SINGA_REMOTE=singa-ws-missing expect 3 run r.ini $two
has err '^singa-ws: host 127\.0\.0\.1 has no singa-ws-missing: install it'
SINGA_SSH=false expect 3 run r.ini $two
has err 'host 127\.0\.0\.1 cannot take part: exit code 1'
SINGA_SSH="$T/missing" expect 3 run r.ini $two
has err 'cannot start .*/missing'
echo 'exit 255' >"$T/before"
expect 3 run r.ini $two
has err 'cannot be reached: `ssh 127\.0\.0\.1 true` must work without a password'
mkdir "$T/folder"
cp "$T/r.ini" "$T/folder/"
echo 'rm -r "$T/folder"' >"$T/before"
(cd "$T/folder" && "$SW" run r.ini $two >"$T/out" 2>"$T/err" </dev/null)
[ $? = 3 ] || fail 'a folder that one host lacks'
has err '^127\.0\.0\.1: singa-ws: host 127\.0\.0\.1: cannot enter .*/folder, the working directory of host localhost'
rm "$T/before"

# The pre-flight: what the hosts are, and the links between them. Nothing is written.
runs=$(sql 'SELECT count(*) FROM runs')
expect 0 check r.ini $two
has out '^hosts        2 hosts by --hosts'
has out '^localhost +127\.0\.0\.1 +[0-9.]+ .?B/s +[0-9.]+ [a-z]+$'
has out '^exchange     [0-9.]+ [a-z]+ per step for the gradients of 772 parameters'
hasnt out '^problem'
expect 0 check r.ini $two --json
has out '"links":\[\{"from":"localhost","to":"127.0.0.1","bytes_per_s":[0-9.]+.*"hosts_agree":true'
cat r.ini | "$SW" check /dev/stdin $two >"$T/out" 2>"$T/err" || fail 'a check of a recipe through a pipe'
has out '^exchange '
[ "$(sql 'SELECT count(*) FROM runs')" = "$runs" ] || fail 'the check has recorded a run'
expect 2 check r.ini --hosts localhost,127.0.0.2 ${two#*--share-machine}
has out '^problem      .* and 127\.0\.0\.2 are the same machine'
SINGA_SSH=false expect 3 check r.ini $two

# One that fails later ends the wait for it; exit codes of its own would be taken for those of the job.
echo 'echo "singa-ws join: ready"; echo "something is wrong"; exit 4' >"$T/before"
expect 3 run r.ini $two
has err '^127\.0\.0\.1: something is wrong$'
has err 'host 127\.0\.0\.1 (has failed|cannot take part).*exit code 4'
rm "$T/before"

# What a job asks of all hosts is asked before any of them begins.
expect 2 run r.ini --hosts 127.0.0.1,-oProxyCommand=false
has err "'-oProxyCommand=false' is not a name or address"

# gone HOST: the process that took part as this host has ended.
gone() {
    ! kill -0 "$(cat "$T/pid.$1")" 2>/dev/null
}
# Two processes that someone else has started, as torchrun does: both train, host 0 reports.
cat >"$T/ranks" <<'END'
#!/bin/sh
# ranks PORT: runs both hosts, whose output goes to out and err, and other.out and other.err.
export WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT="$1" TORCHELASTIC_RUN_ID=none
RANK=1 "$SW" run r.ini --share-machine --steps 2 >"$T/other.out" 2>"$T/other.err" </dev/null &
RANK=0 "$SW" run r.ini --share-machine --steps 2 >"$T/out" 2>"$T/err" </dev/null
first=$?
wait $! && exit "$first"
END
if have_python; then
    ranks() {
        free=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
        sh "$T/ranks" "$free"
    }
    export SW
    ranks || ranks || ranks || fail "two processes: $(cat "$T/err" "$T/other.err")" # the port may be taken
    has out "^hosts        2 hosts by torchrun's environment, fabric tcp, not encrypted \(on this machine only\): this is host 0$"
    has out '^done '
    [ ! -s "$T/other.out" ] || fail "host 1 reports, too: $(cat "$T/other.out")"
fi

# A request to stop reaches all hosts, which end in order.
rm -f "$T"/pid.*
start run r.ini $two --set job.steps=100000000 --set job.eval_every=0 --name stopped
until_true 20 file_has out '^step=2 '
kill -TERM "$pid"
ended 75
gone 127.0.0.1 || fail 'join has not ended'
hasnt err 'exit code|has not ended'

# Host 0 dies: its standard input ends, and so does join.
rm -f "$T"/pid.*
start run r.ini $two --set job.steps=100000000 --set job.eval_every=0
until_true 20 file_has out '^step=2 '
gone 127.0.0.1 && fail 'join has ended too early'
kill -9 "$pid"
wait "$pid" 2>/dev/null
until_true 5 gone 127.0.0.1

# The same while the message is awaited: a host that never answers does not outlive host 0.
echo 'exec cat >/dev/null' >"$T/before"
rm -f "$T"/pid.*
start run r.ini $two
until_true 20 test -s "$T/pid.127.0.0.1"
kill -TERM "$pid"
ended 143
until_true 5 gone 127.0.0.1
