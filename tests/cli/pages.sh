# page.py, which tests the pages of recipes/tasks: a page that is wrong fails, each in its own way.
. "$(dirname "$0")/lib.sh"
have_python || skip 'there is no python3'
[ -z "${SINGA_SANITIZE:-}" ] || skip 'this is about scripts, not about the program'
mkdir "$T/bin" "$T/work"
ln -s "$SW" "$T/bin/singa-ws"
export PATH="$T/bin:$PATH"
cd "$T/work" || exit 1

# page CODE TEXT: what page.py says of a page with this text.
page() {
    printf '%b\n' "$2" >"$T/page.md"
    python3 "$SW_SOURCE_DIR/tests/cli/page.py" "$T/page.md" >"$T/out" 2>"$T/err" </dev/null
    got=$?
    [ "$got" = "$1" ] || fail "exit $got, not $1, for: $2"
}
shows() { # CODE TEXT: a page whose command prints three lines, and shows TEXT
    page "$1" "\`\`\`sh\nprintf 'loss 2.50\\\\nnone  here\\\\nstep 7, 12 ms\\\\n'\n\`\`\`\n\`\`\`text\n$2\n\`\`\`"
}

# Output.
shows 0 'loss 2.50\nnone here\nstep 7, 12 ms'
shows 0 'loss 2.7\nnone here' # within a tenth
shows 0 'step 7.4, 12 ms'
shows 0 'loss 2.5...'
shows 0 'loss 2...'
shows 1 'loss 2.6...'
shows 0 'loss ...\n...\nstep 7, ... ms'
shows 0 'step 7, 12 ms'
shows 1 'loss 2.9'
has err 'line 4: the output lacks'
shows 1 'step 8, 12 ms'
shows 1 'none'
shows 1 'loss 2.50\nstep 7, 12 ms' # a line between them
shows 1 'step 7, 12 ms\n...\nloss 2.50'
shows 1 'loss 2.50\nnone here\nstep 7, 12 ms\nmore'

# Exit status, files, and things that are missing.
page 0 '```sh\nsinga-ws frobnicate # exits with 2\n```\n```text\n...frobnicate...\n```'
page 1 '```sh\nsinga-ws frobnicate\n```'
has err 'exits with 2'
page 1 '```sh\nsinga-ws --version # exits with 3\n```'
page 0 '```ini a/b.ini\nx = 1\n```\n```sh\ngrep "x = 1" a/b.ini\n```'
page 1 '```ini ../b.ini\nx = 1\n```'
page 77 '```sh needs=ssh\nfalse\n```\n```text\nnothing\n```'
has out 'line 1: skipped, because there is no ssh'
page 1 '```ini\nx = 1\n```'
page 1 '```text\nfirst\n```'
page 1 '```console\ntrue\n```'
page 1 '```sh\ntrue'
page 1 "$(printf 'word %.0s' $(seq 351))\n\`\`\`sh\ntrue\n\`\`\`"
has err '351 words'

# Ctrl-C reaches a run, which must not have ended before.
linear stops >stops.ini
page 0 '```sh\nsinga-ws run stops.ini --set job.steps=100000000 # Ctrl-C; exits with 75\n```'
page 1 '```sh\ntrue # Ctrl-C\n```'
has err 'before Ctrl-C'

# The page about the dashboard names keys that its help names.
sed -n 's/^| \(`.*`\) | .*/\1/p' "$SW_SOURCE_DIR/recipes/tasks/dashboard.md" | grep -o '`[^`]*`' | tr -d '`' >keys
[ "$(wc -l <keys)" -ge 15 ] || fail 'dashboard.md has no keys'
while read -r key; do
    sed -n 's/^    {"\([^"]*\)", .*/ \1 /p' "$SW_SOURCE_DIR/ui/panels/help.c" | sed 's/ 1 to 9 / 1 9 /' |
        grep -qF -- " $key " || fail "dashboard.md names the key $key, and the help does not"
done <keys
exit 0
