# ctest-labels: long
# ctest-timeout: 3600
# The rounds of owners.sh often enough to meet rare orders of events.
ROUNDS=${ROUNDS:-1000} . "$(dirname "$0")/owners.sh"
