# ctest-timeout: 120
# search with a recipe: vectors are those that predict writes, of the layers that the recipe brings
# together or of named ones; labels are those of the data; --train trains first. Recipes without two
# kinds of data or without labels are refused.
. "$(dirname "$0")/lib.sh"
have_python || skip 'there is no python3'

cd "$T" || exit 1
data() {
    printf '[data %s]\nformat = synthetic\nkind = pairs\nchannels = 1\nheight = 1\nwidth = 32\n' "$1"
    printf 'words = 40\nclasses = 4\nrecords = %s\nscale = 0.00392156863\n' "$2"
}
{
    data train 400
    data test 120
    cat <<'INI'
[job]
name = pairs
batch = 50
eval_batch = 50
seed = 3
[stage text]
steps = 20
[stage image]
steps = 60
init_from = previous
freeze = words
[updater]
type = adam
lr = 0.01

[layer text]
type = input
field = text
log1p = yes
[layer words]
type = inner_product
src = text
outputs = 8
[layer text_code]
type = activation
function = sigmoid
src = words
[layer back]
type = inner_product
src = text_code
outputs = 40
stages = text
[layer likely]
type = euclidean_loss
src = back, text
stages = text

[layer image]
type = input
field = image
stages = image
[layer pixels]
type = inner_product
src = image
outputs = 8
stages = image
[layer image_code]
type = activation
function = sigmoid
src = pixels
stages = image
; For predict alone.
[layer label]
type = input
field = label
stages = image
[layer distance]
type = euclidean_loss
src = text_code, image_code
stages = image
INI
} >pairs.ini

# Trained, all four searches are far above chance, which is 0.25; between the kinds of data only then.
expect 0 search map --recipe pairs.ini --train --out run --json
cp out map.json
cat >check.py <<'END'
import json
m = json.load(open("map.json"))
assert m["images"] == "image_code" and m["texts"] == "text_code", m # by field, not by order
assert m["weights"] == "run/checkpoint-80.safetensors", m
for task in ("i2i", "t2t", "i2t", "t2i"):
    assert .75 < m[task] <= 1, m
    assert m["details"][task]["queries"] == 120
    assert [c["class"] for c in m["details"][task]["classes"]] == [0, 1, 2, 3]
assert abs(m["mean"] - sum(m[t] for t in ("i2i", "t2t", "i2t", "t2i")) / 4) < 1e-12
END
python3 check.py || fail "MAP: $(cat map.json)"

# The same as by the way of files.
for side in image text; do
    expect 0 predict pairs.ini --weights run --layer ${side}_code --output $side.npy
done
expect 0 predict pairs.ini --weights run --layer label --output label.npy
expect 0 search map --images image.npy --texts text.npy --labels label.npy --json
python3 -c 'import json; a, b = json.load(open("map.json")), json.load(open("out"))
exit(any(a[t] != b[t] or a["details"][t] != b["details"][t] for t in b["details"]))' || fail 'by files'

expect 0 search map --recipe pairs.ini --weights run/checkpoint-20.safetensors --json
python3 -c 'import json; m = json.load(open("out")); exit(max(m["i2t"], m["t2i"]) > .5)' || fail 'untrained codes match'

# Named layers, other weights, another section, text.
expect 0 search map --recipe pairs.ini --weights run/checkpoint-20.safetensors --texts text_code
has out '^text to text +0\.[0-9]+ +120 +0$'
hasnt out '^image'
expect 0 search map --recipe run --split train --metric cosine
has out '^images +layer image_code$'
has out '^image to text +[01]\.[0-9]+ +400 +0$'
expect 0 search map --recipe pairs.ini --labels label.npy
has out '^weights +newest of this recipe, run 1 "pairs": run/checkpoint-80|^weights .*"pairs": .*/run/checkpoint-80'

# An index of texts, asked by images; of files, asked by files.
expect 0 search index --recipe run --layer text_code --out texts
has out '^rows +120$'
has out '^classes +4$'
expect 0 search query texts --recipe run --layer image_code -k 3 --ids by_net.npy --quiet
expect 0 search query texts --vectors image.npy -k 3 --ids by_file.npy --quiet
cmp -s by_net.npy by_file.npy || fail 'the queries differ'
expect 0 search index text.npy --out texts.file --quiet
expect 0 search query texts.file --vectors image.npy -k 3 --ids by_file.npy --quiet
cmp -s by_net.npy by_file.npy || fail 'the indexed rows differ'
expect 0 predict pairs.ini --weights run --layer image --output raw.npy
expect 0 predict run --layer image_code --input raw.npy --output by_predict.npy
expect 0 search query texts --recipe run --layer image_code -k 3 --ids by_net.npy --quiet raw.npy
expect 0 search query texts --vectors by_predict.npy -k 3 --ids by_file.npy --quiet
cmp -s by_net.npy by_file.npy || fail 'the queries of a file differ'
expect 0 search index --recipe run --layer image_code --out images.file raw.npy
hasnt out '^classes'

# Codes learned from what the net reads, in the section for training, and codes of its own layers.
expect 0 search train --method cmssh --bits 24 --recipe run --images image --texts text --out codes.model
has out '^rows +400$'
expect 0 search map --recipe run --images image --texts text --model codes.model --hamming --json
python3 -c 'import json; m = json.load(open("out")); exit(not (m["i2t"] > .4 and m["method"] == "cmssh"))' ||
    fail "codes of a section: $(cat out)"
expect 0 search train --method spectral --bits 8 --recipe run --images image_code --texts text_code --out both.model
has out '^rows +800$'
expect 0 search map --recipe run --model both.model --hamming --json
python3 -c 'import json; m = json.load(open("out")); exit(not min(m["i2t"], m["t2i"]) > .5)' || fail "spectral: $(cat out)"
expect 0 search map --recipe run --hamming --json
python3 -c 'import json; m = json.load(open("out")); exit(not min(m["i2t"], m["t2i"]) > .5)' || fail "medians: $(cat out)"
expect 0 search index --recipe run --layer text_code --kind codes --model both.model --out both.index
expect 0 search query both.index --recipe run --layer image_code --model both.model -k 3 --json
python3 -c 'import json; n = json.load(open("out"))["neighbors"]; exit(len(n) != 120)' || fail 'queries of a net by a model'

# Refused.
expect 2 search map --recipe pairs.ini --weights run/checkpoint-0.safetensors
has err 'no loss of the recipe compares layers of two data fields: name layers with --images=LAYER'
expect 2 search map --recipe pairs.ini --weights run --images nothing
has err "nothing"
expect 2 search map --recipe pairs.ini --weights run --split other
has err 'other'
expect 3 search map --recipe pairs.ini --weights nowhere
expect 2 search map --recipe pairs.ini --set layer.words.outputs=none
has err 'outputs'
for wrong in '--train --images image.npy --labels label.npy' '--recipe run --train' '--out there --recipe run' \
    '--recipe pairs.ini --train --weights run' '--recipe run --query-labels label.npy' \
    '--split test --images image.npy --labels label.npy' '--set job.seed=1 --images image.npy --labels label.npy'; do
    expect 2 search map $wrong
    has err '^singa-ws search map: --'
done
expect 2 search index --out x
expect 2 search index --out x text.npy image.npy
expect 2 search index --out x --layer text_code text.npy
expect 2 search query texts --recipe run --vectors image.npy
expect 2 search query texts --vectors image.npy image.npy
has err 'files of queries need --recipe'

# Data without labels.
cat >unlabeled.ini <<'INI'
[job]
batch = 40
steps = 2
[data train]
format = npy
paths = raw.npy
fields = text:image.npy
[data test]
format = npy
paths = raw.npy
fields = text:image.npy
[updater]
type = sgd
lr = 0.1
[layer image]
type = input
field = image
[layer text]
type = input
field = text
[layer a]
type = inner_product
src = image
outputs = 3
[layer b]
type = inner_product
src = text
outputs = 3
[layer distance]
type = euclidean_loss
src = a, b
INI
expect 3 search map --recipe unlabeled.ini --train --out unlabeled --json
has err 'data test has no field `label`'
expect 0 search map --recipe unlabeled.ini --weights unlabeled --labels label.npy
expect 0 search index --recipe unlabeled --layer a --out a
hasnt out '^classes'
