# ctest-timeout: 300
# digits has 97 % of the records that were held out of its table.
. "$(dirname "$0")/lib.sh"
needs uci/digits.csv.gz
train digits.ini
reaches "$(final accuracy)" 0.97 'accuracy of digits'
