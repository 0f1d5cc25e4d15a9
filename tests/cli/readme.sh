# The dashboard in README.md and the plot beside it are what the program draws of two recorded runs
# (readme.db). After an intended change, SW_GOLDEN=write in the environment rewrites both.
. "$(dirname "$0")/lib.sh"
export SINGA_DB="$T/readme.db" TZ=UTC LC_ALL=C.UTF-8 COLUMNS=80 NO_COLOR=1
readme=$SW_SOURCE_DIR/README.md svg=$SW_SOURCE_DIR/ui/plot.svg
cp "$SW_SOURCE_DIR/tests/cli/readme.db" "$SINGA_DB"

# Two panels: the lines to the second lower edge.
expect 0 top sgd --once
awk '{ print "    " $0 } /^╰/ && ++edges == 2 { exit }' "$T/out" >"$T/frame"
grep -q '2 throughput' "$T/frame" || fail "no second panel: $(cat "$T/frame")"
expect 0 history plot sgd adam --svg "$T/plot.svg"

# The captured lines of the page: from the one with the run to the second lower edge.
awk '/^     #1 sgd /, /^$/ { if (NF) print }' "$readme" >"$T/captured"
if [ "${SW_GOLDEN:-}" = write ]; then
    awk -v frame="$T/frame" '/^     #1 sgd / { while ((getline line < frame) > 0) print line; inside = 1 }
        inside && !NF { inside = 0 }
        !inside { print }' "$readme" >"$T/page"
    cp "$T/page" "$readme"
    cp "$T/plot.svg" "$svg"
    exit 0
fi
diff -u "$T/captured" "$T/frame" || fail 'README.md shows another frame; see SW_GOLDEN in this script'
cmp "$T/plot.svg" "$svg" || fail 'ui/plot.svg is another plot; see SW_GOLDEN in this script'
exit 0
