# The sources of values: every level of precedence, one value, and unknown names.
. "$(dirname "$0")/lib.sh"

mkdir "$T/parts"
cp "$tiny" "$T/parts/base.ini"
cat >"$T/mine.ini" <<'END'
include = parts/base.ini
[vars]
where = /no/such
[job]
steps = 12
[data train]
format = idx
paths = ${where}/images
labels = ${where}/labels
fallback = synthetic
[fallback]
job.seed = 7
END
mine=$T/mine.ini
expect 0 explain "$mine" --set layer.fc1.outputs=9 --device cpu --framework allreduce
has out '^\[vars\] +value +from$'
has out '^where +/no/such +.*mine\.ini:3$'
has out '^name +tiny +.*base\.ini:2 \(included\)$'
has out '^steps +12 +.*mine\.ini:5, instead of 40 of .*base\.ini:5 \(included\)$'
has out '^seed +7 +.*mine\.ini:12 \(\[fallback\]\)$'
has out '^format +synthetic +.*mine\.ini:10 \(\[fallback\]\), instead of idx of .*:7, of synthetic of '
has out '^device +cpu +--device cpu$'
has out '^framework +allreduce +--framework allreduce$'
has out '^outputs +9 +--set layer\.fc1\.outputs=9, instead of 32 of '
has out '^checkpoint_every +0 +default$'
has out '^epochs +- +default$'
has out '^bias\.lr_mult +1 +default$'
[ -e "$SINGA_DB" ] && fail 'the history was created'

# A default that depends on another value.
sed '/^eval_batch/d' "$tiny" >"$T/batch.ini"
expect 0 explain "$T/batch.ini" job.eval_batch
has out '^job\.eval_batch = 16$'
has out '^  from +default$'
has out '^  values +int '

expect 0 explain "$mine" layer.conv1
has out '^\[layer conv1\]'
hasnt out '^\[job\]'
expect 0 explain "$mine" job.steps
has out '^  instead of  40, '

expect 2 explain "$mine" job.step
has err "did you mean 'job\.steps'"
expect 2 explain "$mine" nothing.like.this.at.all
expect 2 explain "$mine" --set job.batch=0
has err '^--set job\.batch=0: job: batch = 0: '
expect 3 explain "$T/none.ini"
expect 2 explain

# Every value appears once.
if have_python; then
    expect 0 explain "$mine" --set job.steps=3 --json
    python3 - "$T/out" <<'END' || fail 'explain --json'
import json, sys
d = json.load(open(sys.argv[1]))
seen = {}
for v in d["values"]:
    name = v["section"] + "." + v["key"]
    assert name not in seen, name
    seen[name] = v
steps = seen["job.steps"]
assert steps["value"] == "3" and steps["origin"] == "set", steps
assert [b["origin"] for b in steps["instead_of"]] == ["recipe", "include"], steps
assert seen["job.seed"]["origin"] == "fallback"
assert seen["job.batch"]["where"].endswith("base.ini:3")
assert seen["layer.conv1.weight.init"]["origin"] == "default"
assert seen["job.db"]["value"] is None
assert len(d["hash"]) == 32
END
    expect 0 explain "$mine" job.batch --json
    python3 -c 'import json,sys; assert json.load(open(sys.argv[1]))["value"] == "16"' "$T/out" ||
        fail 'explain job.batch --json'
fi
