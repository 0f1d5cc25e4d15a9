# The reference pages name every verb with its options, and every type with its keys; roff takes them
# without a warning.
. "$(dirname "$0")/lib.sh"

expect 0 layers commands --man
mv "$T/out" "$T/singa-ws.1"
expect 0 layers --man
mv "$T/out" "$T/singa-ws-recipe.5"
expect 0 layers commands --markdown
mv "$T/out" "$T/commands.md"
expect 0 layers --markdown
mv "$T/out" "$T/recipe.md"

# Every verb that --help lists, and each of its options.
"$SW" --help | sed -n '/^Verbs:/,/^$/s/^  \([a-z]*\) .*/\1/p' >"$T/verbs"
[ "$(wc -l <"$T/verbs")" -ge 10 ] || fail 'verbs are missing'
while read -r verb; do
    grep -q "^\.SS $verb\$" "$T/singa-ws.1" || fail "no $verb in the page"
    grep -q "^### $verb\$" "$T/commands.md" || fail "no $verb in the Markdown"
    "$SW" layers "$verb" >"$T/verb" || fail "layers $verb"
    "$SW" "$verb" --help | cmp -s - "$T/verb" || fail "layers $verb is not its --help"
    sed -n "/^\.SS $verb\$/,/^\.S[SH] /p" "$T/singa-ws.1" | sed 's/\\-/-/g' >"$T/part"
    "$SW" "$verb" --help | sed -n '/^Options:/,/^$/s/^ .*--\([a-z-]*\).*/\1/p' | while read -r option; do
        grep -q "^.fB.*--$option" "$T/part" || exit 1
    done || fail "an option of $verb is not in the page"
done <"$T/verbs"
for code in 0 1 2 3 4 75; do
    grep -q "^.fB$code.fR" "$T/singa-ws.1" || fail "no exit status $code"
done

# Every type and every key.
if have_python; then
    expect 0 layers --json
    python3 - "$SW" "$T" <<'END' || fail 'the page lacks a type or a key'
import json, re, subprocess, sys
sw, T = sys.argv[1:]
page = open(T + "/singa-ws-recipe.5").read().replace("\\-", "-")
markdown = open(T + "/recipe.md").read().replace("\\", "")
everything = json.load(open(T + "/out"))
for group in ("layers", "updaters", "policies", "formats"):
    assert everything[group], group
    for t in everything[group]:
        one = json.loads(subprocess.run([sw, "layers", t["name"], "--json"], capture_output=True).stdout)
        assert "\n### %s\n" % t["name"] in markdown, t
        parts = re.findall(r"^\.SS %s\n(.*?)(?=^\.S[SH] |\Z)" % re.escape(t["name"]), page, re.S | re.M)
        assert parts, t
        for key in one["keys"]:
            assert any("\n\\fB%s\\fR" % key["key"] in p for p in parts), (t, key)
            assert key["help"] and any(key["help"] in p for p in parts), (t, key)
verbs = {v["name"] for v in everything["verbs"]}
assert {"run", "predict", "weights", "explain", "data"} <= verbs, verbs
run = json.loads(subprocess.run([sw, "layers", "run", "--json"], capture_output=True).stdout)
assert {"steps", "set", "help"} <= {o["name"] for o in run["options"]}, run
END
fi

command -v groff >/dev/null 2>&1 && for page in singa-ws.1 singa-ws-recipe.5; do
    groff -man -ww -Tutf8 -P-c "$T/$page" >"$T/text" 2>"$T/warnings" || fail "groff $page"
    [ -s "$T/warnings" ] && fail "$page: $(head -3 "$T/warnings")"
    [ "$(wc -l <"$T/text")" -gt 100 ] || fail "$page is empty"
done

expect 2 layers --man --markdown
expect 2 layers convolution --man
expect 2 layers --json --man
expect 2 layers predit
has err "did you mean 'predict'"
exit 0
