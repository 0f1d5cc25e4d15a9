# history compare, plot and export: differences, curves, all points.
. "$(dirname "$0")/lib.sh"

expect 0 run "$tiny" --out "$T/a" --name slow --steps 40 --quiet --set updater.lr=0.0001
expect 0 run "$tiny" --out "$T/b" --name fast --steps 40 --quiet

expect 0 history compare slow fast
has out '^RECIPE +1 slow +2 fast$'
has out '^updater\.lr +0\.0001 +0\.02$'
hasnt out '^updater\.momentum'
has out '^train loss +[0-9.]+ +[0-9.]+$'
has out '^accuracy >= .* at +step 20, '
has out 'loss, train by step'
expect 0 history compare slow fast --target 2
has out '^accuracy >= 2 at +never +never$'
expect 0 history compare slow fast --all
has out '^updater\.momentum +0\.9 +0\.9$'
expect 2 history compare slow
expect 2 history compare slow fast --target high
expect 3 history compare slow slwo
if have_python; then
    expect 0 history compare slow fast --json
    python3 -c 'import json,sys
d = json.load(open(sys.argv[1]))
assert [r["name"] for r in d["runs"]] == ["slow", "fast"], d["runs"]
assert {"key": "updater.lr", "values": ["0.0001", "0.02"]} in d["recipe"], d["recipe"]
assert [r["key"] for r in d["recipe"]] == ["updater.lr"], d["recipe"]
loss = [m for m in d["metrics"] if (m["split"], m["name"]) == ("train", "loss")][0]
assert len(loss["last"]) == len(loss["best"]) == 2 and loss["best"][0] <= loss["last"][0]
assert d["reached"]["metric"] == "accuracy" and len(d["reached"]["steps"]) == 2' "$T/out" || fail 'compare --json'
fi

# Plots: braille with UTF-8, else ASCII; image files with --png and --svg.
LC_ALL=C.UTF-8 expect 0 history plot fast
has out '^ +run 2 "fast": loss by step$'
grep -q "$(printf '\342\240')\|$(printf '\342\241')\|$(printf '\342\242')\|$(printf '\342\243')" "$T/out" || fail 'no braille'
LC_ALL=C expect 0 history plot fast slow --metric accuracy
LC_ALL=C tr -d '\000-\177' <"$T/out" | grep -q . && fail 'not ASCII in a terminal that has nothing else'
expect 3 history plot fast --metric los
has err "available: loss"
expect 2 history plot --smooth 1
expect 2 history plot --by day
expect 2 history plot --png a --svg b
expect 2 history plot --width 100
expect 0 history plot fast --svg "$T/x.svg"
grep -q '<svg' "$T/x.svg" || fail 'no SVG'
"$SW" history plot fast slow --png "$T/x.png" --log --by time --width 300 --height 200 2>"$T/err"
code=$?
if [ $code = 3 ] && grep -q 'without cairo' "$T/err"; then
    [ -e "$T/x.png" ] && fail 'a file without a picture'
else
    [ $code = 0 ] || fail "plot --png: exit $code"
    [ "$(head -c 4 "$T/x.png" | od -An -tx1 | tr -d ' \n')" = 89504e47 ] || fail 'no PNG'
    expect 2 history plot fast --png "$T/y.png" --width 100000
    has err '1 to 16384'
fi
expect 3 history plot fast --svg "$T/no/such/y.svg"

# Export: every point, in the order of the view.
expect 0 history export slow fast --metric loss --split train
[ "$(wc -l <"$T/out")" = 81 ] || fail 'export has not 80 points and a line of names'
[ "$(head -n 1 "$T/out")" = 'run_id,step,epoch,time,split,name,value' ] || fail 'names of columns'
sed -n 2p "$T/out" | grep -qE '^1,1,1,[0-9.]+,train,loss,[0-9.]+$' || fail 'the first point'
expect 0 history export --what steps
has out '^run_id,step,worker,read_ms,'
[ "$(wc -l <"$T/out")" = 41 ] || fail 'export --what steps'
expect 2 history export --what step --metric loss
expect 2 history export --csv --json
if have_python; then
    expect 0 history export fast slow --json
    python3 -c 'import json,sys
d = json.load(open(sys.argv[1]))
assert sum(p["run_id"] == 2 and p["name"] == "loss" and p["split"] == "train" for p in d) == 40
assert {p["run_id"] for p in d} == {1, 2}' "$T/out" || fail 'export --json'
fi
"$SW" history export fast | head -n 1 >"$T/out" || fail 'a reader that had enough'
