# ctest-timeout: 180
# repeat_exact: other numbers of workers, servers and threads, other devices, and runs resumed with
# others, have the same bits and the same history. And rows assigned by measured speed, which the
# history records.
. "$(dirname "$0")/lib.sh"
have_python || skip 'python3 compares the files'

exact() {
    name=$1
    shift
    expect 0 run "$tiny" --out "$T/$name" --name "$name" --quiet --oversubscribe \
        --set job.repeat_exact=yes "$@"
}
numbers="SELECT group_concat(x, ' ') FROM (SELECT split || name || step || '=' || \
printf('%!.17g', value) AS x FROM metrics WHERE name <> 'samples_per_s' AND \
(split = 'train' OR step % 20 = 0) AND run_id = \
(SELECT max(id) FROM runs WHERE name = 'RUN') ORDER BY split, name, step)"
numbers_of() {
    "$SW" history sql "$(printf '%s' "$numbers" | sed "s/RUN/$1/")"
}
same_as_one() {
    same_tensors "$T/one/checkpoint-40.safetensors" "$T/$1/checkpoint-40.safetensors"
    numbers_of "$1" >"$T/numbers"
    cmp -s "$T/one.numbers" "$T/numbers" || fail "$1 recorded other numbers"
}

exact one --set cluster.workers_per_group=1
numbers_of one >"$T/one.numbers"
grep -q 'testaccuracy40=' "$T/one.numbers" || fail "few numbers: $(head -c 300 "$T/one.numbers")"
exact two --set cluster.workers_per_group=2
same_as_one two
exact three --framework sandblaster --set cluster.workers_per_group=3 \
    --set cluster.servers_per_group=2
same_as_one three
exact sim --device sim:gpus=4
same_as_one sim
[ "$(sql "SELECT count(DISTINCT worker) FROM step_time s JOIN runs r ON r.id = s.run_id
    WHERE r.name = 'sim'")" = 4 ] || fail 'four workers were not at work'

# Other microbatches give another sum.
exact parts --set cluster.workers_per_group=1 --set job.virtual_workers=3
python3 "$SW_SOURCE_DIR/tests/cli/same_tensors.py" "$T/one/checkpoint-40.safetensors" \
    "$T/parts/checkpoint-40.safetensors" >/dev/null && fail 'three parts have the bits of eight'

# Stopped with one configuration, resumed with others.
exact changing --set cluster.workers_per_group=4 --steps 13
expect 0 resume changing --steps 29 --set cluster.workers_per_group=1 --no-ui
hasnt out 'not to the same bits'
expect 0 resume changing --steps 40 --oversubscribe --framework sandblaster \
    --set cluster.workers_per_group=2 --quiet
same_as_one changing
expect 0 eval "$tiny" --weights "$T/changing/checkpoint-40.safetensors" --set job.repeat_exact=yes \
    --json
sed 's/.*"loss": *\([0-9.e-]*\).*/\1/' "$T/out" >"$T/alone"
expect 0 eval "$tiny" --weights "$T/one/checkpoint-40.safetensors" --set job.repeat_exact=yes --json
sed 's/.*"loss": *\([0-9.e-]*\).*/\1/' "$T/out" | cmp -s - "$T/alone" || fail 'another evaluation'

# Impossible combinations are refused with advice.
expect 2 run "$tiny" --set job.repeat_exact=yes --set layer.fc1.partition=1
has err 'partition = 1: with repeat_exact all layers are split by rows.*: set it to 0, or remove the key'
expect 2 run "$tiny" --set job.repeat_exact=yes --framework hogwild
has err 'use sandblaster or allreduce'
expect 2 run "$tiny" --set cluster.rebalance=yes --set cluster.workers_per_group=2 \
    --set job.eval_every=0 --oversubscribe
has err 'set job.eval_every'

# One of two devices is three times slower: it gets fewer rows, and a resume begins with them.
expect 0 run "$tiny" --out "$T/slow" --name slow --device sim:gpus=2,slow=3 --oversubscribe \
    --set cluster.rebalance=yes --set job.eval_every=10 --no-ui
has out 'rows of a batch by speed: worker0\.0 '
rows=$(sql "SELECT value FROM tags t JOIN runs r ON r.id = t.run_id
    WHERE r.name = 'slow' AND key = 'rows'")
[ "${rows% *}" -gt "${rows#* }" ] || fail "rows $rows"
