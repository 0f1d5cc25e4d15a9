# Names of classes for data that carry none: eval and predict show them, also without the data.
. "$(dirname "$0")/lib.sh"
have_python || skip 'python3 is not installed'
cd "$T" || exit 1

# 200 images of CIFAR's form: class k is brighter than class k - 1.
python3 - <<'END'
import struct
with open("batch.bin", "wb") as f:
    for i in range(200):
        k = i * 7 % 10
        f.write(bytes([k]) + bytes((20 * k + (i * j) % 23) for j in range(3072)))
rows = [20 * k + 11 for k in (3, 8)]
head = "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 3, 32, 32), }"
head += " " * (63 - (10 + len(head)) % 64) + "\n"
with open("two.npy", "wb") as f:
    f.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode())
    f.write(b"".join(bytes([v]) * 3072 for v in rows))
END
cat >cifar.ini <<'END'
[job]
name = cifar
batch = 20
steps = 60
eval_batch = 50
[data train]
format = cifar10
paths = batch.bin
classes = airplane, automobile, bird, cat, deer, dog, frog, horse, ship, truck
fallback = synthetic
resize = 4, 4
mean = 110
std = 60
[data test]
format = cifar10
paths = batch.bin
fallback = synthetic
resize = 4, 4
mean = 110
std = 60
[updater]
type = adam
lr = 0.02
[layer image]
type = input
field = image
[layer label]
type = input
field = label
[layer fc1]
type = inner_product
src = image
outputs = 20
[layer relu]
type = activation
src = fc1
function = relu
[layer fc2]
type = inner_product
src = relu
outputs = 10
[layer loss]
type = softmax_loss
src = fc2, label
END
# The names of the training data are those of the evaluation data.
expect 0 run cifar.ini --name cifar --quiet
expect 0 eval cifar --report
has out '^automobile +20 '
has out '^true \\ predicted +airplane +automobile +bird '
expect 0 eval cifar.ini --report
has out '^automobile +20 '
expect 0 predict cifar two.npy --json
[ "$(grep -c '"class":"[a-z]*"' out)" = 2 ] || fail 'no names of classes'
expect 0 predict cifar two.npy
has out 'cat|bird|deer'

# Classes that are ordered otherwise in the test data are an error.
sed 's/^\[data test\]/&\nclasses = truck, automobile, bird, cat, deer, dog, frog, horse, ship, airplane/' \
    cifar.ini >other.ini
expect 2 check other.ini
has err 'differ from the 10 of data train in number or order'
sed '/^classes/s/, truck//' cifar.ini >nine.ini
expect 2 check nine.ini
has err '9 names of classes, but the data have 10 classes'

# The file that CIFAR-10 comes with.
sed '/^classes/d' cifar.ini >plain.ini
expect 0 run plain.ini --name numbers --steps 1 --quiet
expect 0 eval numbers --report
has out '^9 +20 '
printf 'plane\ncar\nbird\ncat\ndeer\ndog\nfrog\nhorse\nship\ntruck\n\n' >batches.meta.txt
expect 0 run plain.ini --name named --steps 1 --quiet
expect 0 eval named --report
has out '^car +20 '

# Shards, with the names in a file, which only the training needs.
expect 0 data import plain.ini --split train --out all.shard
cp batches.meta.txt names.txt
sed -e '/^classes/d' -e 's/^format = cifar10/format = shard\nclass_names = names.txt/' \
    -e 's/batch.bin/all.shard/' cifar.ini >shard.ini
expect 0 run shard.ini --name shard --steps 1 --quiet
rm names.txt
expect 0 eval shard --report
has out '^car +20 '
expect 3 eval shard.ini --report
has err 'names\.txt'

# Data that stand in for missing ones have no need of the names.
rm batch.bin
expect 0 check cifar.ini
has out 'synthetic'
exit 0
