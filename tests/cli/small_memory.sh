#!/bin/sh
# ctest-timeout: 120
# Under a limit of the address space every verb works, or reports that there is too little memory and
# exits with 3; none hangs or is killed. Verbs that compute nothing do not load large libraries.
. "$SW_SOURCE_DIR/tests/cli/lib.sh"
[ -z "$SINGA_SANITIZE" ] || skip "sanitizers need all of the address space"

# under MEGABYTES ARGUMENT...: runs the program with a time limit; its exit code is in $got.
under() {
    megabytes=$1
    shift
    (
        ulimit -v $((megabytes * 1000))
        exec timeout -s KILL 50 "$SW" "$@"
    ) >"$T/out" 2>"$T/err" </dev/null
    got=$?
}
sed 's/^lr = .*/lr = 0.0001/; s/^steps = .*/steps = 2/; s/^eval_every = .*/eval_every = 2/' "$tiny" \
    >"$T/short.ini"
works=0
refused=0
try() {
    under "$@"
    case $got in
    0) works=$((works + 1)) ;;
    3)
        has err '^singa-ws: .+ (ulimit -v|[0-9]+ bytes)|^singa-ws: no history '
        refused=$((refused + 1))
        ;;
    127) has err 'while loading shared libraries' ;; # the loader of the system
    *) fail "with $megabytes MB: singa-ws $2 exits with $got" ;;
    esac
}
megabytes=60
while [ $megabytes -le 400 ]; do
    for verb in --version --help layers "history list" "check $T/short.ini" "topo $T/short.ini" \
        "doctor --quick"; do
        try $megabytes $verb
    done
    try $megabytes run "$T/short.ini" --quiet
    megabytes=$((megabytes + 20))
done
[ $works -gt 0 ] && [ $refused -gt 0 ] || fail "$works calls work, $refused are refused"

# OpenBLAS alone takes more than 256 MB.
for verb in --version --help layers "layers convolution"; do
    under 240 $verb
    [ $got = 0 ] || fail "singa-ws $verb needs more than 240 MB"
done
under 200 doctor --quick
has out 'out of memory: OpenBLAS .*; the memory of this process is limited to 2.*: raise ulimit -v'
