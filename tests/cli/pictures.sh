# Image files: filters, confusion matrices, codes, placement, nets. A build without cairo draws SVG.
. "$(dirname "$0")/lib.sh"

expect 0 run "$tiny" --out "$T/a" --name a --steps 40 --quiet
"$SW" weights a --plot "$T/f.png" >"$T/out" 2>"$T/err"
code=$?
if [ $code = 3 ] && grep -q 'without cairo' "$T/err"; then
    [ -e "$T/f.png" ] && fail 'a file without a picture'
    expect 0 weights a --plot "$T/f.svg"
    grep -q 'image/bmp' "$T/f.svg" || fail 'no filters in the SVG'
    expect 0 predict "$tiny" --plot "$T/c.svg"
    expect 0 topo --plot "$T/t.svg"
    expect 0 check "$tiny" --plot "$T/n.svg"
    exit 0
fi
[ $code = 0 ] || fail "weights --plot: exit $code"
is_png() {
    [ "$(head -c 4 "$T/$1" | od -An -tx1 | tr -d ' \n')" = 89504e47 ] || fail "$1 is no PNG"
}
is_svg() {
    grep -q '<svg' "$T/$1" || fail "$1 is no SVG"
}

is_png f.png
has out 'conv1\.weight: 8 filters of 3x3x3$'
expect 2 weights a --plot "$T/f.svg" --tensor fc1.weight
has err 'fc1\.weight cannot be drawn as images'
expect 3 weights a --plot "$T/f.svg" --tensor fc9.weight
expect 2 weights a --plot "$T/f.gif"
has err 'must end in \.png or \.svg'
expect 2 weights a list --plot "$T/f.png"
expect 2 weights a --tensor conv1.weight

expect 0 predict "$tiny" --plot "$T/c.svg"
is_svg c.svg
has out '^plot +.*c\.svg$'
expect 0 predict "$tiny" --plot "$T/c.png" --output "$T/y.npy" --quiet
is_png c.png
[ -s "$T/y.npy" ] || fail '--output beside --plot'
expect 2 predict "$tiny"
has err 'is missing'
sed 's/^outputs = 32/outputs = 2/' "$tiny" >"$T/two.ini"
expect 0 run "$T/two.ini" --out "$T/two" --name two --steps 2 --quiet
expect 0 predict "$T/two.ini" --layer fc1 --plot "$T/codes.png"
is_png codes.png
# Rows with the size of an image are drawn as images, with and without labels.
expect 0 predict "$tiny" --layer image --plot "$T/images.svg"
is_svg images.svg
has out '50x3x10x10'
sed 's/^outputs = 32/outputs = 1/' "$tiny" >"$T/one.ini"
expect 0 run "$T/one.ini" --out "$T/one" --name one --steps 2 --quiet
expect 2 predict "$T/one.ini" --layer fc1 --plot "$T/none.png"
has err 'outputs 1 elements per row'
[ -e "$T/none.png" ] && fail 'a picture of nothing'

expect 0 topo "$tiny" --from 'pack:2 numa:1 core:4 pu:2' --set cluster.workers_per_group=2 --plot "$T/t.png"
is_png t.png
has out '^placement '
expect 0 topo --plot "$T/t.svg" --json
is_svg t.svg
expect 2 topo --plot t
expect 0 check "$tiny" --oversubscribe --set cluster.workers_per_group=2 --set layer.fc1.partition=1 --plot "$T/n.svg" --quiet
is_svg n.svg
expect 0 check "$tiny" --plot "$T/n.png"
is_png n.png
has out '^parameters '
expect 3 check "$tiny" --plot "$T/no/such/n.png"
