# What ./bootstrap says and does without building: packages of each system, and the first run.
. "$(dirname "$0")/lib.sh"

bootstrap=$SW_SOURCE_DIR/bootstrap
for system in debian-12 debian-13 ubuntu-22.04 ubuntu-24.04 fedora; do
    "$bootstrap" deps --list $system >"$T/out" 2>"$T/err" || fail "no packages for $system"
    has out '^cmake$'
    has out '^(libopenblas-openmp-dev|openblas-devel)$'
    has out '^(libssl-dev|openssl-devel)$'
    # Ubuntu 22.04's oneDNN is too old.
    [ $system = ubuntu-22.04 ] || has out '^(libdnnl-dev|onednn-devel)$'
    "$bootstrap" help | grep -qF "$system" || fail "help does not name $system"
done
"$bootstrap" deps --list beos-5 >"$T/out" 2>"$T/err"
[ $? = 3 ] || fail 'packages of an unknown system'
has err 'debian-13'
"$bootstrap" deps --lists >"$T/out" 2>"$T/err"
[ $? = 2 ] || fail 'an unknown option of deps'

# The first run: digits are learned, then AlexNet, here of one image, which leaves no checkpoint. What
# bootstrap would build and install is there: cmake and the packages' list are stand-ins.
[ -z "${SINGA_SANITIZE:-}" ] || skip 'AlexNet takes long with sanitizers (the lists passed)'
mkdir -p "$T/tree/build/release" "$T/bin"
cp "$bootstrap" "$T/tree/"
cp -R "$SW_SOURCE_DIR/recipes" "$T/tree/"
cat >"$T/tree/build/release/singa-ws" <<END
#!/bin/sh
printf '%s\n' "\$*" >>"$T/runs"
case \$2 in *alexnet*) set -- "\$@" --set job.batch=1 --set job.eval_batch=1 --set data.test.records=1 --steps 2 ;; esac
exec "$SW" "\$@"
END
chmod +x "$T/tree/build/release/singa-ws"
for tool in cmake ninja pkg-config python3 dpkg-query rpm; do
    printf '#!/bin/sh\n[ "$1" != -W ] || shift 3\nprintf "%%s installed\\n" "$@"\n' >"$T/bin/$tool"
    chmod +x "$T/bin/$tool"
done
PATH="$T/bin:$PATH" SINGA_DATA="$T/nothing" "$T/tree/bootstrap" run --no-ui >"$T/out" 2>"$T/err" ||
    fail 'bootstrap run'
[ "$(sed -n 's/^run \([^ ]*\).*/\1/p' "$T/runs" | tr '\n' ' ')" = 'recipes/digits.ini recipes/alexnet.ini ' ] ||
    fail "it ran: $(cat "$T/runs")"
grep -q 'alexnet.*--steps 20 .*--no-ui$' "$T/runs" || fail 'options do not reach AlexNet'
awk -F= '/split=test/ && $NF > 0.97 { found = 1 } END { exit !found }' "$T/out" ||
    fail 'the digits were not learned'
has out "^step=2 "
left=$(find "$T" -name 'checkpoint-*' -size +10M)
[ -z "$left" ] || fail "left behind: $left"
