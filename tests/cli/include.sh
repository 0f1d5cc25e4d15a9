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
