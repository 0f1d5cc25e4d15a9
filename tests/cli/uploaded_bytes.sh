# Images of bytes that a device finishes itself: the losses of training with lr = 0 depend only on the
# rows that reach the net, and are those of the CPU, where the rows are finished by the host. Two
# workers multiply fewer rows at a time, for which the library may round differently; a wrong row
# changes the loss far more.
# ctest-timeout: 120
. "$(dirname "$0")/lib.sh"
command -v python3 >/dev/null || skip 'there is no python3'
mkdir -p "$T/data/cifar10"
export SINGA_DATA="$T/data"
python3 - "$T/data/cifar10" <<'END' || fail 'no records were written'
import random
import sys
random.seed(1)
for name, records in ("data_batch_1", 60), ("test_batch", 20):
    with open("%s/%s.bin" % (sys.argv[1], name), "wb") as file:
        for _ in range(records):
            file.write(bytes([random.randrange(10)]) + random.randbytes(3072))
END
sed '/^mean = /d; s/^lr = 0.001/lr = 0/; s/^weight.std = 0.0001/weight.std = 0.01/' \
    "$SW_SOURCE_DIR/recipes/cifar10-quick.ini" >"$T/quick.ini"
expect 0 data stats "$T/quick.ini" --out "$T/mean.npy"
expect 0 data import "$T/data/cifar10/data_batch_1.bin" --format cifar10 --out "$T/train.shard"

# trains NAME ARGUMENT...: writes the losses of six steps to $T/NAME.
trains() {
    name=$1
    shift
    expect 0 run "$T/quick.ini" --steps 6 --name "$name" --out "$T/out-$name" --no-ui --oversubscribe \
        --set job.batch=8 --set job.eval_every=0 --set job.display_every=1 "$@"
    python3 - "$SINGA_DB" "$name" >"$T/$name" <<'END' || fail "no losses of $name"
import sqlite3
import sys
losses = sqlite3.connect(sys.argv[1]).execute(
    "SELECT step, value FROM metrics WHERE split = 'train' AND name = 'loss'"
    " AND run_id = (SELECT id FROM runs WHERE name = ?) ORDER BY step", sys.argv[2:]).fetchall()
assert len(losses) == 6 and len(set(value for _, value in losses)) > 1, losses
print(*["%.17g" % value for _, value in losses])
END
}
# equal FILE FILE: are the losses equal, but for rounding?
equal() {
    python3 - "$@" <<'END'
import sys
a, b = ([float(value) for value in open(name).read().split()] for name in sys.argv[1:])
sys.exit(any(abs(x - y) > 1e-6 * abs(x) for x, y in zip(a, b)))
END
}
# same NAME ARGUMENT...: on the CPU, on one device and on two, which upload bytes.
same() {
    what=$1
    shift
    trains "$what-cpu" "$@" --set job.device=cpu
    hasnt out 'uploaded as bytes'
    for gpus in 1 2; do
        trains "$what-sim-$gpus" "$@" --set job.device=sim:gpus="$gpus" \
            --set cluster.workers_per_group="$gpus"
        has out '^data .*train: .*uploaded as bytes'
        equal "$T/$what-cpu" "$T/$what-sim-$gpus" || fail "$what differs: $(cat "$T/$what"-*)"
    done
}
same image --set data.train.mean_image="$T/mean.npy" --set data.train.mirror=yes \
    --set data.train.pad=2 --set data.train.crop=32
same channels --set data.train.mean=120,121.5,122 --set data.train.std=60,61,62 --set data.train.mirror=yes
same whole --set data.train.scale=0.00390625
same shard --set data.train.format=shard --set data.train.paths="$T/train.shard" \
    --set data.train.mean=120,121.5,122 --set data.train.mirror=yes

# What a device cannot do stays on the host, and a batch of floats has four times the bytes.
batch_bytes() {
    expect 0 check "$T/quick.ini" --json --set job.device=sim:gpus=1 --set job.batch=5000 \
        --set job.eval_batch=1 "$@"
    sed -n 's/.*"batch_bytes":\([0-9]*\).*/\1/p' "$T/out"
}
bytes=$(batch_bytes) floats=$(batch_bytes --set data.train.log1p=yes)
[ $((bytes * 10)) -lt $((floats * 3)) ] || fail "$bytes bytes for bytes, $floats for floats"
expect 0 check "$T/quick.ini" --set job.device=sim:gpus=1 --set data.train.log1p=yes
hasnt out 'uploaded as bytes'
