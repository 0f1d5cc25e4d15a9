# The catalogue lists every type with the keys that recipes can use.
. "$(dirname "$0")/lib.sh"

expect 0 layers
for type in input convolution pooling lrn inner_product activation batch_norm dropout softmax_loss \
    euclidean_loss sigmoid_cross_entropy poisson_loss hinge_loss precision_recall reconstruction_error \
    accuracy sgd fixed step inverse idx cifar10 synthetic; do
    has out "^  $type +."
    "$SW" layers "$type" >"$T/type" 2>"$T/err" || fail "layers $type"
    grep -q "^$type" "$T/type" || fail "layers $type does not name it"
done

expect 0 layers convolution
for key in outputs kernel stride pad groups bias weight.init lr_mult src include; do
    has out "$key"
done
has out '^partition can be 0, 1, none; 1 depends on its keys$'
expect 0 layers batch_norm
has out '^partition can be 0, 1, none$'
expect 0 layers inner_product
has out '^partition can be 0, 1, 1in, none; 1 depends'
expect 0 layers input
has out '^partition can be 0; not 1: every worker reads its rows of the data$'
expect 0 layers job
hasnt out '^partition can be'
has out 'checkpoint_every'
expect 0 layers cluster
for key in framework workers_per_group servers_per_group bind_servers slice_size; do
    has out "^  $key +"
done

# Every key of a shipped recipe's convolution is in the list.
sed -n '/^type = convolution/,/^\[/p' "$SW_SOURCE_DIR/recipes/alexnet.ini" | grep -E '^[a-z_]+ =' |
    cut -d' ' -f1 | sort -u | while read -r key; do
    "$SW" layers convolution | grep -qE "^ +$key|\[|type" || exit 1
done || fail 'a key in use is not listed'

expect 2 layers convolutoin
has err "did you mean 'convolution'"
expect 2 layers no_such_type_at_all
expect 2 layers convolution pooling

if have_python; then
    expect 0 layers --json
    python3 - "$T/out" <<'END' || fail 'layers --json'
import json, sys
d = json.load(open(sys.argv[1]))
assert {"convolution", "lrn"} <= {t["name"] for t in d["layers"]}, d
ways = {t["name"]: t["partition"] for t in d["layers"]}
assert ways["softmax_loss"] == ["0", "none"] and ways["inner_product"] == ["0", "1", "1in", "none"], ways
assert "sgd" in {t["name"] for t in d["updaters"]}
assert "inverse" in {t["name"] for t in d["policies"]}
assert "idx" in {t["name"] for t in d["formats"]}
END
    expect 0 layers pooling --json
    python3 - "$T/out" <<'END' || fail 'layers pooling --json'
import json, sys
d = json.load(open(sys.argv[1]))
assert d["name"] == "pooling"
assert "method" in {k["key"] for k in d["keys"]}
END
fi
