# Many stages: counts how often each is opened; and stage lengths whose sum overflows.
. "$(dirname "$0")/lib.sh"
recipe=$T/many.ini
# many COUNT STEPS: a recipe with so many stages of so many steps.
many() {
    linear many >"$recipe"
    for i in $(seq "$1"); do
        printf '[stage s%d]\nsteps = %s\n' "$i" "$2" >>"$recipe"
    done
}
# counts PATTERN N: so many lines of standard error.
counts() {
    got=$(grep -cE -- "$1" "$T/err")
    [ "$got" = "$2" ] || fail "$got lines of /$1/, not $2"
}

# Each stage is checked before the first one begins, and opened when it begins; the first is opened
# once.
for n in 3 6; do
    many $n 1
    expect 0 run "$recipe" --out "$T/run$n" --name "run$n" --steps $((n - 1)) -v
    has out 'stages .*s1 \(1 steps\), s2 \(1 steps\), s3 \(1 steps\)'
    counts 'opening stage s[0-9]+' $((2 * n - 2))
    counts 'opening stage s1$' 1
    counts 'the machine map was read' 1
    # The last one is left: what is resumed has one stage to open.
    expect 0 resume "run$n" --steps $n -v
    counts 'opening stage s[0-9]+' 1
    [ -s "$T/run$n/checkpoint-$n.safetensors" ] || fail 'the last stage did not end'
done

# An error in the last stage is reported before the first one begins.
expect 2 run "$recipe" --out "$T/none" --set stage.s6.batch=0
[ ! -e "$T/none" ] || fail 'a run with a wrong stage began'

# Steps whose sum, or whose number of samples, overflows.
most=9223372036854775807
many 2 $most
expect 2 check "$recipe"
has err "stage s1: .*$most steps of 8 samples after step 0 .* at most"
many 3 300000000000000000
expect 2 check "$recipe"
has err 'stage s2: .*300000000000000000 steps of 8 samples after step 300000000000000000 '
has err 'use at most 276460752303423487 steps'
sed -e '/^\[stage/,$d' "$recipe" >"$T/one.ini"
expect 2 check "$T/one.ini" --set job.steps=$most
has err 'use at most 576460752303423487 steps'
expect 2 check "$T/one.ini" --set job.epochs=1e300
has err 'epochs = 1e300: .* at most'
expect 2 run "$T/one.ini" --set job.steps=1 --steps $most --out "$T/none"
has err "steps $most: .* use at most 576460752303423487 steps"
expect 0 check "$T/one.ini" --set job.steps=576460752303423487
