# ctest-timeout: 90
# Fine-tuning: another number of classes is an error that names the way out, `reset` gives the layer
# initial values, and the start report says in one line what was loaded, reset and missing.
. "$(dirname "$0")/lib.sh"
expect 0 run "$tiny" --name base --steps 20 --quiet
sed 's/^outputs = 4/outputs = 10/; s/^classes = 4/classes = 10/' "$tiny" >"$T/ten.ini"

# A mismatch names both shapes and the layer to reset.
expect 2 run "$T/ten.ini" --init-from base --name wrong --steps 1
has err 'fc2\.weight is F32 4x32 in the file, but F32 10x32 in this net; use --reset fc2 \(or reset = fc2 in \[job\]\)'
expect 2 run "$T/ten.ini" --init-from base --steps 1 --set layer.fc1.outputs=16
has err 'use --reset fc1 --reset fc2 \(or reset = fc1, fc2 in \[job\]\)'
expect 3 run "$T/ten.ini" --init-from base:bset
has err "^singa-ws: no run 'base:bset', but there is 'base'; base:best and base:STEP are its checkpoints"
[ "$(sql 'SELECT count(*) FROM runs')" = 1 ] || fail 'a refused run was recorded'

# With the layer reset it trains; a run is named as everywhere.
for weights in base base:best base:20 "$(latest "$XDG_STATE_HOME/singa-ws/runs/1")"; do
    expect 0 run "$T/ten.ini" --init-from "$weights" --reset fc2 --name tuned --steps 3
    has out '^step=0 .*4 of 6 parameters start from .*checkpoint-20\.safetensors; unused tensors: fc2\.weight, fc2\.bias; reset: fc2"'
done
[ "$(sql "SELECT overrides FROM runs WHERE name = 'tuned' LIMIT 1")" = job.reset=fc2 ] ||
    fail 'the option is not stored'
expect 0 resume tuned --steps 5 --quiet
sed 's/^batch = 16/&\nreset = fc2.*, fc1.bias/' "$T/ten.ini" >"$T/key.ini"
expect 0 run "$T/key.ini" --init-from base --name key --steps 1
has out '3 of 6 parameters start from .*reset: fc1, fc2"'
sed '/^\[layer drop\]/,/^src/ s/^src = .*/src = more/
s/^\[layer drop\]/[layer more]\ntype = inner_product\nsrc = relu2\noutputs = 32\n&/' "$T/ten.ini" >"$T/more.ini"
expect 0 run "$T/more.ini" --init-from base --reset fc2 --name more --steps 1
has out '4 of 8 parameters start from .*reset: fc2; with the initial values of the recipe: more\.weight, more\.bias"'

# The values: loaded ones are those of the file, reset ones those of a fresh start.
if have_python; then
    expect 0 run "$T/ten.ini" --out "$T/fresh" --name fresh --steps 1 --quiet
    expect 0 run "$T/ten.ini" --init-from base --reset fc2 --out "$T/half" --name half --steps 1 --quiet
    python3 - "$T" "$XDG_STATE_HOME/singa-ws/runs/1/checkpoint-20.safetensors" <<'END' || fail 'values'
import json, struct, sys
def tensors(path):
    raw = open(path, "rb").read()
    n, = struct.unpack("<Q", raw[:8])
    return {name: raw[8 + n + t["data_offsets"][0]:8 + n + t["data_offsets"][1]]
            for name, t in json.loads(raw[8:8 + n]).items() if name != "__metadata__"}
half, fresh, base = (tensors(p) for p in (sys.argv[1] + "/half/checkpoint-0.safetensors",
                                          sys.argv[1] + "/fresh/checkpoint-0.safetensors", sys.argv[2]))
assert all(half[n] == base[n] for n in ("conv1.weight", "conv1.bias", "fc1.weight", "fc1.bias"))
assert all(half[n] == fresh[n] for n in ("fc2.weight", "fc2.bias"))
END
fi

# Mistakes.
expect 2 run "$T/ten.ini" --init-from base --reset fc3 --steps 1
has err '^--reset fc3: job: reset = fc3: no layer with parameters matches'
has err "did you mean 'fc1'|did you mean 'fc2'"
expect 3 run "$T/ten.ini" --init-from nobody --steps 1
has err 'nobody'
expect 0 run "$T/ten.ini" --reset fc2 --name none --steps 1
has out 'reset has no effect: all parameters start from initial values'

# The recipe that ships.
expect 0 run "$SW_SOURCE_DIR/recipes/cifar10-quick.ini" --name images --steps 1 --quiet
expect 0 run "$SW_SOURCE_DIR/recipes/fine-tune.ini" --init-from images --name shipped --steps 1
has out '8 of 10 parameters start from .*reset: ip2"'
exit 0
