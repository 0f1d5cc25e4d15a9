# An image folder with a damaged image: training stops and names it, or with on_bad_record = skip it
# continues, records an event, and counts it. The records read do not depend on the threads.
. "$(dirname "$0")/lib.sh"
cd "$T" || exit 1

# Twenty PNG files of 12 x 10 to 12 x 29 in two classes, and a JPEG that ends after its first bytes.
python3 - <<'PYTHON' || fail 'no pictures'
import os, struct, zlib

def chunk(name, data):
    return struct.pack('>I', len(data)) + name + data + struct.pack('>I', zlib.crc32(name + data))

for i in range(20):
    folder = 'pictures/' + ('dark', 'light')[i % 2]
    os.makedirs(folder, exist_ok=True)
    width, height, level = 12, 10 + i, (40, 200)[i % 2] + i
    rows = b''.join(b'\0' + bytes((level + x) % 256 for x in range(3 * width)) for _ in range(height))
    with open(f'{folder}/{i:02}.png', 'wb') as f:
        f.write(b'\x89PNG\r\n\x1a\n' + chunk(b'IHDR', struct.pack('>IIBBBBB', width, height, 8, 2, 0, 0, 0)) +
                chunk(b'IDAT', zlib.compress(rows)) + chunk(b'IEND', b''))
with open('pictures/dark/05.JPEG', 'wb') as f:
    f.write(b'\xff\xd8\xff\xe0\0\x10JFIF\0\1\1\0\0\1\0\1\0\0')
PYTHON

cat >pictures.ini <<'INI'
[job]
batch = 8
eval_batch = 8
steps = 12
[data train]
format = image_folder
paths = pictures
crop = 8
mirror = yes
brightness = 0.2
shuffle = yes
scale = 0.00390625
workers = 2
[data test]
format = image_folder
paths = pictures
crop = 8
scale = 0.00390625
[updater]
type = sgd
lr = 0.05
[layer image]
type = input
field = image
[layer label]
type = input
field = label
[layer fc]
type = inner_product
src = image
outputs = 2
weight.init = xavier
[layer loss]
type = softmax_loss
src = fc, label
[layer accuracy]
type = accuracy
src = fc, label
include = eval
INI

expect 3 run pictures.ini --out "$T/stopped" --no-ui
has err 'data (train|test): record 3 \(pictures/dark/05\.JPEG\): damaged JPEG of 20 bytes'

expect 0 run pictures.ini --out "$T/a" --no-ui --set job.on_bad_record=skip
has out 'data (train|test): record 3 \(pictures/dark/05\.JPEG\): damaged JPEG .*; skipped'
hasnt out 'step=-'
has out '^skipped +2 records that could not be read' # one in each section
expect 0 history sql "SELECT count(*) FROM events WHERE level = 'warning' AND source = 'data'
    AND text LIKE '%05.JPEG%skipped'"
[ "$(cat "$T/out")" = 2 ] || fail "$(cat "$T/out") events, not 2"

expect 0 run pictures.ini --out "$T/b" --no-ui --json --set job.on_bad_record=skip \
    --set data.train.workers=5
has out '"skipped_records": ?2'
same_tensors "$T/a/checkpoint-12.safetensors" "$T/b/checkpoint-12.safetensors"

expect 0 eval pictures.ini --weights "$T/a/checkpoint-12.safetensors" --json \
    --set job.on_bad_record=skip
has out '"skipped_records": ?1'
has err '05\.JPEG.*skipped'
expect 3 eval pictures.ini --weights "$T/a/checkpoint-12.safetensors"
has err '05\.JPEG'
