# ctest-labels: long
# ctest-timeout: 3600
# All faults of tests/net/loss.sh, for each host and at several moments.
export SW_NET_REPEAT="${SW_NET_REPEAT:-3}"
set -- --long
. "$(dirname "$0")/loss.sh"
