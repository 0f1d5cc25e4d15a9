# page.sh PAGE: does what a page of recipes/tasks says (page.py has the rules), as a new user would: an empty
# home, a folder with nothing in it but the recipes, and the program in PATH.
. "$(dirname "$0")/lib.sh"
have_python || skip 'there is no python3'
[ -z "${SINGA_SANITIZE:-}" ] || skip 'pages are for the release build'
page=$1
mkdir -p "$T/bin" "$T/home" "$T/work"
mkdir -m 700 "$T/run"
ln -s "$SW" "$T/bin/singa-ws"
case $page in
*/containers.md) # an image is built from the sources
    (cd "$SW_SOURCE_DIR" && tar -c --exclude=./build --exclude=./.git .) | tar -x -C "$T/work"
    mkdir -p "$T/work/data"
    ;;
*) ln -s "$SW_SOURCE_DIR/recipes" "$T/work/recipes" ;;
esac
unset XDG_STATE_HOME SINGA_DB SINGA_DATA
export HOME="$T/home" XDG_RUNTIME_DIR="$T/run" PATH="$T/bin:$PATH" LC_ALL=C.UTF-8 TERM=xterm
cd "$T/work" || exit 1

python3 "$SW_SOURCE_DIR/tests/cli/page.py" "$page" </dev/null
code=$?
# What a page that failed has left in the background; the registry is that of this test.
for name in $(singa-ws ps --json 2>/dev/null | tr ',' '\n' | sed -n 's/.*"pid":\([0-9]*\).*/\1/p'); do
    children="$children $name"
done
exit $code
