# ctest-timeout: 120
# Broken recipes: exit 2, file:line:column, the reason, and nothing created.
. "$(dirname "$0")/lib.sh"
cd "$T" || exit 1
count=0

# breaks NAME RECIPE SED PATTERN
breaks() {
    sed -E "$3" "$SW_SOURCE_DIR/recipes/$2.ini" >"$1.ini"
    cmp -s "$1.ini" "$SW_SOURCE_DIR/recipes/$2.ini" && fail "$1: the edit changed nothing"
    expect 2 run "$1.ini" --out "$T/out-$1" --no-ui
    has err "^$1\.ini:[0-9]+:[0-9]+: "
    grep -qiE -- "$4" "$T/err" || fail "$1: no /$4/"
    nothing_created "$1"
    expect 2 check "$1.ini"
    count=$((count + 1))
}
nothing_created() {
    [ -s "$T/out" ] && fail "$1: output on stdout"
    [ -e "$T/out-$1" ] && fail "$1: the folder was created"
    [ -e "$SINGA_DB" ] && fail "$1: the history was created"
    [ -e "$XDG_STATE_HOME" ] && fail "$1: the state directory was created"
    return 0
}

breaks unknown-key lenet '0,/^kernel =/s//kernal =/' "kernal.*|did you mean 'kernel'"
breaks unknown-type lenet '0,/^type = convolution/s//type = convolutoin/' 'did you mean .convolution'
breaks foreign-type lenet 's/^type = inner_product/type = linear/' "'linear' is from PyTorch; use 'inner_product'"
breaks foreign-dense lenet 's/^type = inner_product/type = dense/' "'dense' is from Keras; use 'inner_product'"
breaks foreign-fc lenet 's/^type = inner_product/type = fc/' "'fc' is from other programs; use 'inner_product'"
breaks foreign-conv lenet '0,/^type = convolution/s//type = conv2d/' "'conv2d' is from PyTorch; use 'convolution'"
breaks foreign-relu lenet '0,/^type = activation/s//type = relu/' "'relu' is from .*; use 'activation' and function = relu"
breaks foreign-norm lenet '0,/^type = activation/s//type = batchnorm/' "'batchnorm' is from Caffe; use 'batch_norm'"
breaks near-key lenet '0,/^outputs = 500/s//output = 500/' "did you mean 'outputs'"
breaks unknown-section lenet 's/^\[updater\]$/[updator]/' 'updator'
breaks unknown-format mnist-mlp '0,/^format = idx/s//format = idz/' 'idz'
breaks unknown-updater lenet 's/^type = sgd/type = sgdd/' 'did you mean .sgd'
breaks unknown-policy lenet 's/^policy = inverse/policy = invers/' 'did you mean .inverse'
breaks unknown-function lenet 's/^function = relu/function = rely/' 'relu'
breaks unknown-init lenet '0,/^weight.init = xavier/s//weight.init = savier/' 'did you mean .xavier'
breaks later-key lenet 's/^steps = 10000/&\nalgorithm = user/' 'algorithm'
breaks scale-alone lenet 's/^steps = 10000/&\nprecision = bf16\nloss_scale = 8/' 'only back-propagation with precision = fp16'
breaks later-section lenet 's/^\[updater\]$/[search one]\nsteps = 2\n&/' 'search'
breaks staged-steps lenet 's/^\[updater\]$/[stage one]\nsteps = 2\n&/' 'sets this key in each .stage NAME.'
breaks not-a-number lenet 's/^batch = 64/batch = many/' 'batch = many'
breaks negative lenet '0,/^kernel = 5/s//kernel = -5/' 'kernel = -5'
breaks zero lenet '0,/^outputs = 20/s//outputs = 0/' 'outputs = 0'
breaks too-large lenet '0,/^kernel = 5/s//kernel = 99999999/' 'kernel = 99999999'
breaks overflow lenet 's/^batch = 64/batch = 99999999999999999999/' 'batch'
breaks not-bool lenet 's/^shuffle = yes/shuffle = perhaps/' 'shuffle = perhaps'
breaks dangling lenet 's/^src = pool1/src = pool9/' "pool9"
breaks self-source lenet 's/^src = pool1/src = conv2/' 'conv2'
breaks cycle lenet 's/^src = image/src = conv2/' 'cycle|loop|circle|itself'
breaks too-many-sources lenet 's/^src = conv1/src = conv1, image/' 'pool1'
breaks too-few-sources lenet '0,/^src = fc2, label/s//src = fc2/' 'loss'
breaks kernel-too-large lenet '0,/^kernel = 5/s//kernel = 29/' '29'
breaks groups lenet '0,/^outputs = 20/s//outputs = 20\ngroups = 3/' 'groups = 3'
breaks labels-as-features lenet 's/^src = image/src = label/' 'label'
breaks features-as-labels lenet '0,/^src = fc2, label/s//src = fc2, relu1/' 'label'
breaks missing-key lenet '/^outputs = 500/d' 'outputs'
breaks missing-type lenet '/^type = softmax_loss/d' 'type'
breaks double-key lenet 's/^batch = 64/&\nbatch = 32/' 'batch'
breaks double-layer lenet 's/^\[layer pool2\]/[layer pool1]/' 'pool1'
breaks no-header lenet '0,/^\[job\]$/s//job/' 'job'
breaks open-header lenet 's/^\[layer conv1\]/[layer conv1/' 'conv1'
breaks falling-steps lenet 's/^policy = inverse/policy = multistep\nat = 9, 5/; /^gamma|^power/d' '5 comes after 9'
breaks rates-missing lenet 's/^policy = inverse/policy = fixed_step\nat = 1, 2\nrates = 1/; /^gamma|^power/d' 'one rate for each step'
breaks steps-and-epochs alexnet-owt 's/^steps = 60/&\nepochs = 3/' 'epochs'
breaks unknown-variable lenet '0,/^paths  = ..SINGA_DATA/s//paths  = ${SINGA_DATUM/' 'SINGA_DATUM'
breaks crop-too-large alexnet '0,/^crop = 227/s//crop = 400/' 'crop'
breaks wrong-channels cifar10-quick '0,/^mean = 125.3, 123.0, 113.9/s//mean = 125.3, 123.0/' 'mean'
[ "$count" -ge 30 ] || fail "only $count kinds"

# An error about a missing section has no line number.
sed 's/^type = softmax_loss/type = accuracy/' "$SW_SOURCE_DIR/recipes/mnist-mlp.ini" >no-loss.ini
expect 2 run no-loss.ini --out "$T/out-no-loss"
has err '^no-loss\.ini: .*loss'
nothing_created no-loss

# All errors at once, in the order of the file.
sed -E 's/^batch = 64/batch = many/; 0,/^kernel =/s//kernal =/; s/^src = pool1/src = pool9/' \
    "$SW_SOURCE_DIR/recipes/lenet.ini" >all.ini
expect 2 run all.ini --out "$T/out-all"
lines=$(grep -cE '^all\.ini:[0-9]+:[0-9]+: ' err)
[ "$lines" -ge 3 ] || fail "$lines of 3 errors shown"
grep -E '^all\.ini:' err | cut -d: -f2 >lines
sort -n lines | cmp -s - lines || fail "the errors are not in the order of the file"

# Errors that different phases find: keys, workers, data, shapes of two branches. Each is shown once,
# and nothing that only follows from them.
cat >phases.ini <<'END'
[job]
batch = 8
steps = 10
batchsize = 3
[data train]
format = synthetic
classes = 4
height = 8
width = 8
[data val]
format = csv
paths = nowhere.csv
[updater]
type = sgd
lr = -1
[layer image]
type = input
field = image
[layer label]
type = input
field = label
[layer conv]
type = convolution
src = image
outputs = 4
kernel = 99
[layer pool]
type = pooling
src = image
kernel = 77
[layer fc]
type = inner_product
src = conv
outputs = 4
[layer loss]
type = softmax_loss
src = fc, label
END
# phases PATTERN...: exactly these errors, in this order.
phases() {
    grep -E '^[a-z]+\.ini:' err >shown
    for pattern in "$@"; do
        sed -n 1p shown | grep -qE -- "$pattern" || fail "not /$pattern/ but: $(sed -n 1p shown)"
        sed -i 1d shown
    done
    [ -s shown ] && fail "more errors: $(cat shown)"
    return 0
}
expect 2 check phases.ini
phases "4:1: job: unknown key 'batchsize'" '10:2: data val: .*nowhere\.csv' '15:6: updater: lr = -1' \
    '22:2: layer conv: the kernel 99 x 99' '27:2: layer pool: the window 77 x 77'
# Workers: the plan is wrong, the rest is checked all the same.
sed '/^batchsize/d; s/^lr = -1/lr = 1/; s/^\[updater\]/[cluster]\nworker_groups = 70\n&/' phases.ini >groups.ini
expect 2 check groups.ini
phases '9:2: data val' '13:17: cluster: worker_groups = 70' '23:2: layer conv' '28:2: layer pool'
# A wrong layer: shapes are not guessed, data are read.
sed 's/^kernel = 99/kernle = 99/; /^batchsize/d; s/^lr = -1/lr = 1/' phases.ini >layer.ini
expect 2 check layer.ini
phases '9:2: data val' "25:1: layer conv: unknown key 'kernle'"
# Only files are missing: both are named, with the exit code of missing files.
sed '/^batchsize/d; s/^lr = -1/lr = 1/; s/^kernel = .*/kernel = 3/; s/^format = synthetic/format = csv\npaths = no.csv/
    /^classes\|^height\|^width/d' phases.ini >files.ini
expect 3 check files.ini
phases '4:2: data train: .*no\.csv' '7:2: data val: .*nowhere\.csv'

# Errors in command-line options name the option.
for set in job.batch=-1 layer.conv1.kernl=3 nosuch.key=1 layer.conv1.kernel job; do
    expect 2 run "$tiny" --set "$set" --out "$T/out-set"
    has err "--set $set"
    nothing_created set
done
expect 2 run "$tiny" --device warp
has err 'warp'
nothing_created device

# A binary file.
head -c 2000 /dev/urandom >random.ini
expect 2 check random.ini
has err '^random\.ini:'
: >empty.ini
expect 2 check empty.ini
has err '^empty\.ini'
# A folder is not a recipe.
expect 3 run "$T" --out "$T/out-folder"
has err 'is a directory, not a regular file'
nothing_created folder
echo "$count broken recipes explained"
