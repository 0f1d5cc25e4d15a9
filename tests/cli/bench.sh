# ctest-timeout: 240
# bench/papers runs, draws from the history, and stores no result of a trial run.
. "$(dirname "$0")/lib.sh"
have_python || skip 'there is no python3'
[ -z "${SINGA_SANITIZE:-}" ] || skip 'this is about scripts, not about the program'

python3 "$SW_SOURCE_DIR/bench/papers" 18a --trial --repeats 1 --binary "$SW" --db "$T/kept.db" \
    --results "$T/results" >"$T/out" 2>"$T/err" || fail 'a trial of bench/papers 18a'
has out '^workers or threads +SINGA \(threads\) +SINGA-dist \(sandblaster\) +allreduce$'
has out '^1 +[0-9.]+ ms \(1\.00\) +[0-9.]+ ms \(1\.00\) '
has out '^fig\. 18a \| 1 x 1 ms: [0-9.]+$'
has out '^A trial'
[ -e "$T/results" ] && fail 'a trial is kept'
SINGA_DB=$T/kept.db "$SW" history sql "SELECT count(*) FROM runs WHERE name LIKE '%-sandblaster-1-x-1'
    AND framework = 'sandblaster' AND status = 'done'" >"$T/count"
[ "$(cat "$T/count")" = 1 ] || fail 'the history lacks a run'

python3 "$SW_SOURCE_DIR/bench/papers" 20b-mlp 10 --trial --repeats 1 --binary "$SW" >"$T/out" 2>"$T/err" ||
    fail 'a trial of bench/papers 20b-mlp and 10'
has out '^batch +data partition +data partition, moved .* data / hybrid$'
has out '^32 +[0-9.]+ ms +[0-9.]+ MB .* [0-9.]+$'
has out '^ +4 +2 servers +[0-9.]+ ms +[0-9.]+ ms$'
has out '^ +2 +2 servers, slices of 5 M +[0-9.]+ ms '

# Plans for the papers' machines, and pictures where their program is built.
set --
[ -x "$(dirname "$SW")/tests/chart" ] && set -- --out "$T/pictures"
python3 "$SW_SOURCE_DIR/bench/papers" plan-equations plan-tr7 plan-tr10 --trial --binary "$SW" "$@" >"$T/out" \
    2>"$T/err" || fail 'a trial of planned figures'
has out 'largest relative difference of counts is 0\. They agree'
has out '^data partition, best at +about 4 nodes, then rises '
has out '^more servers +less time +less time$'
[ $# = 0 ] || for end in png svg; do
    [ -s "$T/pictures/tech-report-7.$end" ] || fail "no picture tech-report-7.$end"
done

# Figures with several hosts, where there may be namespaces.
python3 "$SW_SOURCE_DIR/bench/papers" 18b 11 --trial --repeats 1 --binary "$SW" --results "$T/results" >"$T/out" \
    2>"$T/err"
if [ $? = 0 ] && ! file_has out 'skipped: no network namespaces|skipped: this kernel'; then
    has out '^ *2 +[0-9.]+ ms +[0-9.]+ +almost linear$'
    has out '^1 server +[0-9.]+ s +falls with the servers$'
else
    grep -qE 'unshare|skipped: |namespaces' "$T/out" "$T/err" || fail 'a trial of figures with hosts'
fi

# Searches of the thesis: times of random vectors, and scores only where Wikipedia's pairs are.
python3 "$SW_SOURCE_DIR/bench/papers" wiki-5.12 wiki-5.4 --trial --repeats 1 --data /none --binary "$SW" >"$T/out" \
    2>"$T/err" || fail 'a trial of bench/papers wiki-5.12'
has out '^Figure 5.12 .*, 50 neighbors'
has out '^ +8000 +[0-9.]+ +[0-9.]+'
has out '^wiki-5.4: skipped: there is no wikipedia-xmodal in /none'

# The GPU benchmark, on a simulated GPU.
python3 "$SW_SOURCE_DIR/bench/gpu" host 20a --trial --repeats 1 --device 'sim:gpus=1,mem=1GiB' \
    --binary "$SW" >"$T/out" 2>"$T/err" || fail 'a trial of bench/gpu'
has out '^lenet, batch 4, launch +limit +us +[0-9.]+ +30 '
has out '^lenet, batch 4, waiting +limit +fraction of a step '
has out '^lenet, batch 4, copy = sync +async +ms/step '
has out '^lenet, batch 4, copy = async +none +ms/step '
has out '^A trial'
python3 "$SW_SOURCE_DIR/bench/gpu" lenet --trial --torch /none --binary "$SW" >"$T/out" 2>"$T/err" ||
    fail 'a missing PyTorch is no reason to fail'
has out 'lenet: skipped: none has no PyTorch'

python3 "$SW_SOURCE_DIR/bench/papers" 18x --binary "$SW" >"$T/out" 2>"$T/err"
[ $? = 2 ] || fail 'an unknown figure is not refused'
has err "no figure '18x'"

# Sums over hosts, where there is an MPI.
if "$SW_SOURCE_DIR/bench/hosts" --trial >"$T/out" 2>"$T/err"; then
    has out '^(openmpi|mpich) +sums [0-9.]+ ms; by its own messages [0-9.]+ ms: [0-9]+ %; these alone .* %$'
else
    has err 'no MPI'
fi

# Searches: without FAISS what needs it is skipped, with a reason.
if [ -x "$(dirname "$SW")/tests/search_times" ]; then
    python3 "$SW_SOURCE_DIR/bench/search" scan flat --trial --repeats 1 --faiss /none --binary "$SW" >"$T/out" \
        2>"$T/err" || fail 'a missing FAISS is no reason to fail'
    has out '^scan, 64 bits, 1 thread +reading memory +GB/s +[0-9.]+ '
    has out '^flat: skipped: none has no faiss'
fi

# Vectors of words: without gensim, or without the text.
python3 "$SW_SOURCE_DIR/bench/skipgram" one --trial --gensim /none --data "$T" --binary "$SW" >"$T/out" 2>"$T/err" ||
    fail 'a missing text is no reason to fail'
has out '^one: skipped: there is no text/text8-head in '
mkdir "$T/text"
echo 'the text' >"$T/text/text8-head"
echo ': x' >"$T/text/questions-words.txt"
python3 "$SW_SOURCE_DIR/bench/skipgram" one --trial --gensim /none --data "$T" --binary "$SW" >"$T/out" 2>"$T/err" ||
    fail 'a missing gensim is no reason to fail'
has out '^one: skipped: none has no gensim'
