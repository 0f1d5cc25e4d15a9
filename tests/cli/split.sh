# Partitioned nets: a run moves the bytes that check predicts for each worker; wrong keys exit with 2.
. "$(dirname "$0")/lib.sh"

two='--oversubscribe --set cluster.framework=allreduce --set cluster.workers_per_group=2'
paths='--set layer.conv1.location=1 --set layer.fc1.partition=1in --set layer.fc2.partition=1'

# shellcheck disable=SC2086
expect 0 check "$tiny" $two $paths
has out '^Per step, for each worker of a group:'
has out '^image:one1 +gather +[0-9]+ +-- +0 +[0-9]+$'
has out 'reduce-scatter +[0-9]+ +all-gather +[0-9]+ +[0-9]+$'
expect 0 check "$tiny"
hasnt out 'each worker of a group'
# shellcheck disable=SC2086
expect 0 check "$tiny" $two
hasnt out 'each worker of a group'
# shellcheck disable=SC2086
expect 0 check --dot "$tiny" $two $paths
has out '^digraph net \{'
has out '^  n[0-9]+ \[shape=box label="conv1\\nconvolution, one\\n0: --\\n1: [0-9x]+, 224 parameters"\]'
has out '^  n[0-9]+ -> n[0-9]+;'

# One worker evaluates what several workers trained, for any partition, also on a device that is too
# small for the training.
# shellcheck disable=SC2086
expect 0 run "$tiny" --no-ui --name moved --out "$T/moved" --steps 2 --device sim:gpus=2,mem=64MiB \
    $two $paths
for at in cpu sim:mem=1MiB; do
    # shellcheck disable=SC2086
    expect 0 eval "$tiny" --weights "$T/moved/checkpoint-2.safetensors" --device $at ${two#* } $paths \
        --set job.batch=4096 --set job.winograd=no
    has out '^loss +[0-9]'
done

if have_python; then
    moved=$(sql "SELECT sum(bytes) FROM link_traffic WHERE kind = 'feature' AND step = 1")
    # shellcheck disable=SC2086
    expect 0 check --json "$tiny" --device sim:gpus=2,mem=64MiB $two $paths
    python3 - "$T/out" "$moved" <<'END' || fail 'check --json of a split net'
import json, sys
d = json.load(open(sys.argv[1]))
by = {l["name"]: l for l in d["layers"]}
train = [l for l in d["layers"] if l["train"]]
sent = sum(w["sent_bytes"] for l in train for w in l["workers"])
values = sum(l["moves"][way]["values"] for l in train if "moves" in l for way in ("forward", "backward"))
assert sent == 4 * values == int(sys.argv[2]) > 0, (sent, values, sys.argv[2])
assert all(l["moves"][w]["values_as_papers_count"] >= l["moves"][w]["values"]
           for l in train if "moves" in l for w in ("forward", "backward"))
# Either end of a connection reads the layer or the other end.
for l in train:
    if l["type"].startswith("bridge_"):
        name = l["name"].replace(":", ">") if l["type"] == "bridge_dst" else l["name"].split(">")[0]
        assert l["src"] == [name], l
conv = by["conv1"]["workers"]
assert conv[0]["shape"] is None and conv[0]["flops"] == 0 == conv[0]["parameters"], conv
assert conv[1]["parameters"] == 224 and conv[1]["flops"] > 0, conv
whole = json.loads(json.dumps(d))["parameters"]
parts = sum(w["parameters"] for n in ("conv1", "fc1", "fc2") for w in by[n]["workers"])
assert parts == whole, (parts, whole)
END
fi

# Column partitions: normalization after its convolution moves nothing, and a concatenation moves only
# what belongs to another worker; check, --json and a run agree.
cat >"$T/columns.ini" <<'END'
[job]
steps = 2
batch = 7
partition = 1
[data train]
format = synthetic
classes = 3
records = 21
height = 6
width = 6
mean = 127
std = 64
[updater]
type = sgd
lr = 0.01
[layer image]
type = input
field = image
[layer label]
type = input
field = label
[layer conv]
type = convolution
src = image
outputs = 5
kernel = 3
[layer norm]
type = batch_norm
src = conv
[layer other]
type = convolution
src = image
outputs = 6
kernel = 3
[layer both]
type = concat
src = norm, other
[layer fc]
type = inner_product
src = both
outputs = 3
[layer loss]
type = softmax_loss
src = fc, label
END
# shellcheck disable=SC2086
expect 0 check "$T/columns.ini" $two
has out '^norm +batch_norm .* columns'
hasnt out '^conv[>:]'
# Two of norm's channels go to worker 0, two of the other's to worker 1, of 7 rows and 16 pixels.
has out '^norm:columns\+0/11 +all-to-all +224 +all-to-all +224 '
has out '^other:columns\+5/11 +all-to-all +224 +all-to-all +224 '
hasnt out 'norm is split by rows|both is split by rows'
if have_python; then
    # shellcheck disable=SC2086
    expect 0 run "$T/columns.ini" --no-ui --name columns --out "$T/columns" \
        --device sim:gpus=2,mem=64MiB $two
    moved=$(sql "SELECT sum(bytes) FROM link_traffic JOIN runs ON runs.id = run_id WHERE \
runs.name = 'columns' AND kind = 'feature' AND step = 1")
    # shellcheck disable=SC2086
    expect 0 check --json "$T/columns.ini" --device sim:gpus=2,mem=64MiB $two
    python3 - "$T/out" "$moved" <<'END' || fail 'check --json of a net by columns'
import json, sys
train = [l for l in json.load(open(sys.argv[1]))["layers"] if l["train"]]
by = {l["name"]: l for l in train}
sent = sum(w["sent_bytes"] for l in train for w in l["workers"])
assert sent == int(sys.argv[2]) > 0, (sent, sys.argv[2])
assert [w["parameters"] for w in by["norm"]["workers"]] == [6, 4], by["norm"]
assert by["norm"]["src"] == ["conv"], by["norm"]
END
fi

# Rows: both workers have gradients of all 10.2 MB of weights, and on some CPUs memory to reorder them.
# Columns: each worker has only its half.
resident() {
    # shellcheck disable=SC2086
    expect 0 run "$tiny" --no-ui --json --name "wide$1" --out "$T/wide$1" --steps 3 $two \
        --set layer.fc1.outputs=20000 --set "layer.fc1.partition=$1"
    grep '"summary"' "$T/out" | grep -o '"rss_bytes":[0-9]*' | cut -d: -f2
}
if [ -z "${SINGA_SANITIZE:-}" ]; then # sanitizers keep memory that was given back
    rows=$(resident 0) columns=$(resident 1)
    saved=$(((rows - columns) / 100000))
    [ "$saved" -ge 60 ] && [ "$saved" -le 260 ] ||
        fail "rows take $rows bytes, columns $columns: 6 to 26 MB less are expected"
fi

# refused SETTING MESSAGE
refused() {
    # shellcheck disable=SC2086
    expect 2 run "$tiny" --no-ui $two --set "$1"
    has err "$2"
}
refused layer.conv1.location=2 'use a location below 2, or cluster.workers_per_group = 3'
refused layer.image.location=1 'every worker reads its rows of the data; remove location'
refused layer.loss.partition=1 "softmax_loss does not support this partition: a row's loss needs all its scores"
refused layer.conv1.partition=1in 'convolution does not support this partition'
refused layer.fc1.partition=2 'partition'
# wrong LAYERS MESSAGE: appends layers to the recipe.
wrong() {
    printf '%s\n' "$1" | cat "$tiny" - >"$T/wrong.ini"
    # shellcheck disable=SC2086
    expect 2 run "$T/wrong.ini" --no-ui $two
    has err "$2"
}
wrong '[layer norm]
type = lrn
src = conv1
partition = 1' 'lrn does not support this partition: it normalizes across channels'
# Workers that would wait for one another; 0, 1, 0 along a path is no such thing.
wrong '[layer up]
type = split
src = both
location = 0
[layer down]
type = split
src = up
location = 1
[layer both]
type = eltwise
src = conv1, down
location = 0' 'cycle: .*both reads down on worker 1.*; change the src of one of these layers'
has err 'up reads both on worker 0'
has err 'down reads up on worker 0'
expect 2 run "$tiny" --no-ui --oversubscribe --set cluster.framework=allreduce \
    --set cluster.workers_per_group=6 --set layer.fc2.partition=1
has err 'inner_product does not support this partition: it has fewer outputs than there are workers; use 0 or none, or remove the key'
