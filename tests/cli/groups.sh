# ctest-timeout: 180
# Worker groups: a warm-up across a resume, update control per group, server groups whose state a
# resume restores, and meaningless combinations, which are refused.
. "$(dirname "$0")/lib.sh"

groups='--oversubscribe --framework downpour --set cluster.worker_groups=3'
steps_of() {
    sql "SELECT count(*) FROM step_time t JOIN runs r ON r.id = t.run_id WHERE r.name = '$1' ${2:-}"
}

# Twelve steps of the first group, then eight of all three; interrupted in the middle of the warm-up.
expect 0 run "$tiny" $groups --set cluster.warmup_steps=12 --name warm --out "$T/warm" --steps 7 --quiet
[ "$(steps_of warm)" = 7 ] || fail 'the others did not rest'
expect 0 resume warm --oversubscribe --steps 20
[ "$(steps_of warm)" = 36 ] || fail "$(steps_of warm) steps of workers, not 12 + 3 x 8"
[ "$(steps_of warm 'AND worker > 0 AND step <= 12')" = 0 ] || fail 'the others did not rest'
expect 0 check "$tiny" $groups --set cluster.warmup_steps=12
has out 'the first group trains 12 steps alone'

# Each group clips by its own norm, and the norm of each step is in the history.
expect 0 run "$tiny" $groups --name clips --out "$T/clips" --set job.grad_clip=norm:0.5 --steps 10 --quiet
norms=$(sql "SELECT count(*) FROM metrics m JOIN runs r ON r.id = m.run_id WHERE r.name = 'clips' AND
    m.name = 'grad_norm' AND value > 0")
[ "$norms" = 10 ] || fail "$norms norms of 10 steps"

# Two server groups, then one: the run reports whose state it uses.
expect 0 run "$tiny" --oversubscribe --framework hogwild --set cluster.worker_groups=2 \
    --set cluster.server_groups=2 --name merged --out "$T/merged" --steps 10 --quiet
expect 0 resume merged --oversubscribe --steps 14
hasnt out 'server groups'
expect 0 resume merged --oversubscribe --set cluster.server_groups=1 --steps 20
has out 'state of 2 server groups, but there is 1'

# Each synchronous group partitions the net separately.
expect 0 run "$tiny" --oversubscribe --framework custom --set cluster.worker_groups=2 \
    --set cluster.workers_per_group=2 --set job.partition=1 --name hybrid --out "$T/hybrid" --steps 10 \
    --quiet
[ "$(steps_of hybrid)" = 40 ] || fail 'not four workers with ten steps'

# A warm-up is refused with bsp, since all groups make every update together.
for framework in allreduce sandblaster custom; do
    expect 2 run "$tiny" --framework $framework --set cluster.warmup_steps=5
    has err 'warmup_steps = 5: with bsp .*no group can train alone first'
done
