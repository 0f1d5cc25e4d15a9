# ctest-labels: long
# ctest-timeout: 5400
# The tests that stop threads, and runs, at random moments, often enough to meet rare ones: a thousand
# threads stopped as by a debugger, a request to stop at hundreds of calls of the operating system, and
# signals at a hundred moments of a run in stages.
set -eu
tests=${SW_BINARY_DIR:?the build to test}/tests
SW_STOPS=1000 "$tests/test_fault_frozen"
SW_STOPS=300 "$tests/test_fault_stops"
SW_STOPS=100 sh "$SW_SOURCE_DIR/tests/cli/stops.sh"
