# check: shapes, parameters, memory, flops; writes nothing.
. "$(dirname "$0")/lib.sh"

for recipe in alexnet:60965224 alexnet-owt:61100840 lenet:431080 mnist-mlp:397510 \
    cifar10-quick:145578 cifar10-full:89578 cifar10-sandblaster:89578 \
    cifar10-downpour:89578 mnist-conv:431080 vgg16:138357544 vgg-nofc:9404992 \
    alexnet-fc128:8274856 sparse-ae:101200 denoising-ae:51024 tiny-imagenet:94762 \
    resnet50:25557032 googlenet:13378280 autoencoder:2837314 autoencoder-tied:1420814 \
    autoencoder-2:2823286 dbn:1646784 dbn-dnn:1665010 \
    char-rnn:995429 char-rnn-2:2570341 rnnlm:115545 rnnlm-class:116521 crbm:10244 msae:280072 \
    msae-val:280072 msae-24:283224 msae-32:286376 msae-alone:280072 msae-gauss:280072 msae-beta:298760; do
    expect 0 check "$SW_SOURCE_DIR/recipes/${recipe%:*}.ini"
    has out "^parameters +${recipe#*:} "
    expect 0 check --json "$SW_SOURCE_DIR/recipes/${recipe%:*}.ini"
    has out "\"parameters\":${recipe#*:}[,}]"
    [ "$(wc -l <"$T/out")" = 1 ] || fail 'check --json is not one object on one line'
done
[ -e "$SINGA_DB" ] && fail 'check created the history'
[ -e "$XDG_STATE_HOME" ] && fail 'check created the state directory'

expect 0 check "$tiny"
has out '^conv1 +convolution +16x8x8x8 +224 '
has out '^fc2 +inner_product +16x4 +132 '
has out '^memory +[0-9.]+ [kMG]?B at most'
has out '^resident '
hasnt out 'algorithm'
expect 0 check -v "$tiny"
has out 'algorithm'
has out '^loss .* fc2, ?label'
expect 0 check --quiet "$tiny"
[ -s "$T/out" ] && fail 'check --quiet prints'

# Independent layers run concurrently only on devices that queue work.
expect 0 check "$tiny"
hasnt out '^streams '
googlenet="$SW_SOURCE_DIR/recipes/googlenet.ini"
expect 0 check "$googlenet" --device sim --set job.batch=1 --set job.eval_batch=1
has out '^streams +4 on every device'
expect 0 check "$googlenet" --device sim --set job.batch=1 --set job.eval_batch=1 --set job.streams=1
hasnt out '^streams '

# Winograd's algorithm can be disabled on every device; whether it is used otherwise depends on the
# processor (tests/unit/device/test_winograd.c).
owt="$SW_SOURCE_DIR/recipes/alexnet-owt.ini"
for device in cpu sim; do
    expect 0 check -v "$owt" --device $device --set job.batch=32 --set job.winograd=no
    has out '^conv3 '
    hasnt out 'wino_'
done

# --set changes the checked recipe.
expect 0 check "$tiny" --set layer.fc1.outputs=10 --set job.batch=4
has out '^fc1 +inner_product +4x10 '

if have_python; then
    expect 0 check --json "$tiny"
    python3 - "$T/out" <<'END' || fail 'check --json'
import json, sys
d = json.load(open(sys.argv[1]))
assert d["parameters"] == sum(l["parameters"] for l in d["layers"]), d
assert 0 < d["memory_bytes"] < d["rss_bytes"]
by = {l["name"]: l for l in d["layers"]}
assert by["conv1"]["shape"] == [16, 8, 8, 8] and by["conv1"]["src"] == ["image"], by["conv1"]
assert by["accuracy"]["eval"] and not by["accuracy"]["train"]
# 8 filters of 3 x 3 x 3 taps at 8 x 8 places of 16 pictures, two flops each
assert by["conv1"]["flops_forward"] == 2 * 16 * 8 * 64 * 27
parts = [k + "_bytes" for k in ("param", "state", "arena", "batch", "exchange")]
assert sum(d[k] for k in parts) == d["memory_bytes"], [d[k] for k in parts]
END
fi
