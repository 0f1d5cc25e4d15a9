# ctest-timeout: 120
# Strangers who connect to host 0 while the hosts meet: noise, half-open and many connections, another
# key, and what a host said before. The job starts all the same, and tells of them. While it trains nobody
# listens, so that none of them connects or costs memory; and without a key only processes of the same
# machine are listened to.
. "$(dirname "$0")/lib.sh"
have_python || skip 'no python3 to be the stranger'
net_up 3 # the last host is not one of the job
hosts=2
cd "$T" || exit 1

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
(on 2 python3 "$SW_SOURCE_DIR/tests/net/stranger.py" 10.0.0.1 "$net_port" 1000) >"$T/stranger" 2>&1 </dev/null &
stranger=$!
children="$children $stranger"
until_true 20 file_has stranger ready
sleep 0.3
# shellcheck disable=SC2086
host 1 "$tiny" $long
until_true 20 trains 0 5
wait "$stranger"
file_has stranger 'connected: [1-9]' || fail "the stranger has failed: $(cat "$T/stranger")"
for i in 0 1; do
    ! listens "$i" || fail "host $i listens while it trains: $(listening "$i")"
done

# rss HOST: kB of memory of a host, which was given some time to settle.
rss() {
    sleep 2
    eval "awk '/^VmRSS:/ { print \$2 }' /proc/\$pid_$1/status"
}
# grew_by_strangers: kB that host 0 needs after a thousand strangers, beyond what it needs later anyway.
grew_by_strangers() {
    first=$(rss 0)
    second=$(rss 0)
    (on 2 python3 "$SW_SOURCE_DIR/tests/net/stranger.py" 10.0.0.1 "$net_port" 1000) >"$T/stranger" 2>&1 </dev/null
    file_has stranger '^connected: 0$' || fail "a stranger connected to a job that trains: $(cat "$T/stranger")"
    third=$(rss 0)
    echo $((third - second - (second - first)))
}
for try in 1 2 3; do
    more=$(grew_by_strangers) || exit 1
    [ "$more" -gt 1024 ] || break
done
[ "$more" -le 1024 ] || fail "a thousand strangers took $more kB of a job that trains"
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
