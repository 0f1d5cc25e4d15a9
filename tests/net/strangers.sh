# ctest-timeout: 120
# Strangers who connect to host 0 while the hosts meet: noise, half-open and many connections, another
# key, and what a host said before. The job starts all the same, and tells of them. While it trains nobody
# listens; and without a key only processes of the same machine are listened to.
. "$(dirname "$0")/lib.sh"
have_python || skip 'no python3 to be the stranger'
net_up 3 # the last host is not one of the job
hosts=2
cd "$T" || exit 1

cat >"$T/stranger.py" <<'END'
"""Connects as a stranger in many ways."""
import os
import socket
import sys

address, many, held = ("10.0.0.1", int(sys.argv[1])), int(sys.argv[2]), []
hello = b"SWT1" + bytes([1, 0, 1, 0]) + (2 | 4711 << 16).to_bytes(8, "little")
record = bytes([22, 3, 1])  # of TLS: a handshake
words = [b"", os.urandom(4096), b"GET / HTTP/1.1\r\n\r\n", hello, hello * 3, record + b"\x40\x00" + b"x" * 16384,
         record + b"\xff\xff" + b"x" * 200000, record + b"\x00\x05\x01\x00\x00\x01\x00"]
print("ready", flush=True)
for i in range(many):
    try:
        s = socket.create_connection(address, 1)
        s.setblocking(False)
        s.send(words[i % len(words)])
        held.append(s)  # half open
        if len(held) > 200:
            held.pop(0).close()
    except OSError:
        pass
print("connections:", i + 1, flush=True)
END
# listening HOST: the addresses and ports at which a host listens.
listening() {
    (on "$1" ss -Htln) | awk '{ print $4 }'
}
listens() {
    [ -n "$(listening "$1")" ]
}

mkdir "$T/2"
long='--no-ui --set job.steps=100000000 --set job.eval_every=0'
# shellcheck disable=SC2086
host 0 "$tiny" $long
until_true 20 listens 0
(on 2 python3 "$T/stranger.py" "$net_port" 1000) >"$T/stranger" 2>&1 </dev/null &
stranger=$!
children="$children $stranger"
until_true 20 file_has stranger ready
sleep 0.3
# shellcheck disable=SC2086
host 1 "$tiny" $long
until_true 20 trains 0 5
wait "$stranger"
file_has stranger 'connections:' || fail "the stranger has failed: $(cat "$T/stranger")"
for i in 0 1; do
    ! listens "$i" || fail "host $i listens while it trains: $(listening "$i")"
done
kill -TERM "$pid_0"
finished 0 75
finished 1 75
SINGA_DB="$T/0/history.db" "$SW" history sql 'SELECT * FROM events' >"$T/events"
file_has events '[0-9]+ connections were refused while the hosts connected, the last from 10\.0\.0\.3' ||
    net_fail 'nobody was told of the strangers'

# Without a key.
(on 0 env RANK=0 WORLD_SIZE=2 MASTER_ADDR=10.0.0.1 "MASTER_PORT=$net_port" "$SW" run "$tiny" --no-ui --share-machine) \
    >"$T/out.0" 2>"$T/err.0" </dev/null &
pid_0=$!
children="$children $pid_0"
until listens 0 || ! kill -0 "$pid_0" 2>/dev/null; do
    sleep 0.05
done
for address in $(listening 0); do
    case $address in
    127.0.0.1:* | '[::1]:'*) ;;
    *) fail "without a key host 0 listens at $address" ;;
    esac
done
