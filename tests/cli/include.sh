# ctest-timeout: 60
# A recipe of several files: an error in an included file is reported with its position there, and a
# run resumes without any of the files.
. "$(dirname "$0")/lib.sh"

mkdir "$T/parts"
cp "$tiny" "$T/parts/base.ini"
cat >"$T/mine.ini" <<'END'
include = parts/base.ini
[job]
name = mine
steps = 12
checkpoint_every = 4
[layer fc1]
outputs = 16
END
expect 0 check "$T/mine.ini" --json
has out '"steps":12'
expect 0 run "$T/mine.ini" --out "$T/whole" --name whole --quiet
expect 0 run "$T/mine.ini" --out "$T/half" --name half --steps 5 --quiet
rm -r "$T/mine.ini" "$T/parts"
expect 0 resume half --steps 12 --quiet
have_python && same_tensors "$T/whole/checkpoint-12.safetensors" \
    "$T/half/checkpoint-12.safetensors"

# The stored text is a valid and equal recipe.
"$SW" history sql "SELECT recipe_text FROM runs WHERE name = 'half'" | sed 's/\\n/\n/g' >"$T/kept.ini"
expect 0 check "$T/kept.ini"
expect 0 eval "$T/kept.ini" --json
has out '"step":12'

mkdir "$T/parts"
sed 's/^kernel = 3/kernel = -3/' "$tiny" >"$T/parts/base.ini"
printf 'include = parts/base.ini\n' >"$T/mine.ini"
expect 2 check "$T/mine.ini"
has err "$T/parts/base\.ini:[0-9]+:10: layer conv1: kernel = -3: "
printf 'include = base.ini\n[job]\nsteps = 3\n' >"$T/mine.ini"
expect 2 run "$T/mine.ini"
has err 'mine\.ini:1:11: include = base\.ini: no such file'

# A section that is meant for one of the included recipe.
cp "$tiny" "$T/parts/base.ini"
printf 'include = parts/base.ini\n[layer fcc1]\noutputs = 3\n' >"$T/mine.ini"
expect 2 check "$T/mine.ini"
has err 'layer fcc1: type is missing'
has err 'hint: no included recipe has \[layer fcc1\]; did you mean \[layer fc1\]\? A new one needs a type$'

# Messages name options as they were given.
expect 2 check "$tiny" --device warp
has err '^--device warp: job: device = warp: unknown device'
hasnt err '--set'

# A path that is missing replaces the data only where the recipe with `fallback` gives it: elsewhere it
# was mistyped.
cat >"$T/base.ini" <<'END'
[data train]
format = csv
paths = nothing.csv
fallback = synthetic
[data test]
format = csv
paths = nothing.csv
fallback = synthetic
[fallback]
data.train.records = 64
data.test.records = 32
job.steps = 3
[job]
name = base
steps = 5
batch = 8
[updater]
type = sgd
lr = 0.01
[layer input]
type = input
field = image
[layer label]
type = input
field = label
[layer fc]
type = inner_product
src = input
outputs = 10
[layer loss]
type = softmax_loss
src = fc, label
END
printf 'include = base.ini\n[data train]\npaths = rows.csv\n' >"$T/mine.ini"
for verb in run check eval; do
    expect 3 $verb "$T/mine.ini"
    has err 'mine\.ini:3:9: data train: paths = rows\.csv: .*rows\.csv'
    has err 'hint: `fallback = synthetic` of .*/base\.ini:4 does not replace a path given elsewhere'
    hasnt err 'records|data test'
done
expect 3 run "$T/base.ini" --set data.test.paths=rows.csv
has err 'data test: paths = rows\.csv: .*rows\.csv'
printf 'fallback = synthetic\n' >>"$T/mine.ini"
expect 0 run "$T/mine.ini" --quiet
has err '^singa-ws: warning: data train: format synthetic instead of csv: no file .*rows\.csv$'
has err '^singa-ws: warning: data test: format synthetic'
expect 0 run "$T/mine.ini" --set job.eval_every=3
has out '^data +trained and evaluated on synthetic data: the files are missing$'
# Lines of [fallback] about a section that has its files do not apply.
seq 64 | awk '{ print $1 ",1,2," $1 % 10 }' >"$T/nothing.csv"
expect 0 explain "$T/mine.ini"
has out '^records +64 '
hasnt out '^records +32 '
