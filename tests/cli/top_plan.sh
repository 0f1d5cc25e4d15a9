# The plan of a run in the dashboard: top --once, as text and as JSON, has the numbers of history show.
. "$(dirname "$0")/lib.sh"
have_python || skip 'python3 is not installed'

expect 0 run "$tiny" --steps 3 --out "$T/a" --name plain --quiet
expect 0 run "$tiny" --plan --set cluster.workers_per_group=1 --steps 40 --out "$T/b" --name planned --quiet

"$SW" history show planned --json >"$T/show" || fail 'history show'
"$SW" history sql 'SELECT json FROM plans' >"$T/plan" || fail 'the table of plans'
"$SW" top planned --once --json >"$T/top" || fail 'top --once'
python3 - "$T/show" "$T/top" "$T/plan" <<'END' || fail 'top --once and history show differ'
import json, sys
show, top = (json.load(open(p)) for p in sys.argv[1:3])
stored = json.loads(open(sys.argv[3]).read().replace("\\\\", "\\"))
(step,) = show["plan"]
plan = top["plan"]
assert plan["predicted_ms"] == step["predicted_ms"] and plan["measured_ms"] == step["measured_ms"], (plan, step)
assert plan["shape"].endswith(", 1 group of 1 worker") and plan["recent_ms"] > 0, plan
parts = {p["part"]: p for p in plan["parts"]}
for part, key in ("parameters", "params"), ("activations", "activations"), ("wait", "wait"):
    assert abs(parts[part]["predicted_ms"] - stored[key + "_ms"]) < 1e-9, (part, parts[part])
assert abs(sum(p["predicted_ms"] for p in plan["parts"]) - step["predicted_ms"]) < 1e-6 * step["predicted_ms"], parts
assert parts["compute"]["recent_ms"] > 0 and parts["activations"]["recent_ms"] == 0, parts
assert [l["name"] for l in plan["layers"]] == [l["name"] for l in stored["layers"]]
assert all(l["measured_ms"] is not None for l in plan["layers"]), plan["layers"]
END

# As text: the mean step is the number of history show.
expect 0 history show planned
line=$(sed -n '/^PLAN/{n;s/^step  *//p;}' "$T/out")
[ -n "$line" ] || fail 'history show has no line of the plan'
expect 0 top planned --once
has out '9 plan '
grep 'mean step' "$T/out" | sed 's/[^a-z0-9. ]//g; s/  */ /g' >"$T/mean"
words=$(printf '%s' "$line" | sed 's/  */ /g')
grep -q "$words" "$T/mean" || fail "history show says '$words', top $(cat "$T/mean")"

expect 0 top plain --once
hasnt out '9 plan'
expect 0 top plain --once --json
has out '"plan":null'
exit 0
