# A terminal for the scripts of this folder, by tmux: keys are sent to it, and its screen is read. To be
# sourced after lib.sh.
command -v tmux >/dev/null 2>&1 || skip 'tmux is not installed'
ldd "$SW" 2>/dev/null | grep -q ncurses || skip 'the program was built without ncurses'
tmux_() {
    tmux -L "sw-$$" -f /dev/null "$@"
}
trap 'tmux_ kill-server 2>/dev/null; finish' EXIT
# terminal NAME WIDTH HEIGHT: a shell in a new terminal, with the environment of this script.
terminal() {
    LC_ALL=C.UTF-8 TERM=xterm-256color tmux_ new-session -d -s "$1" -x "$2" -y "$3" \
        "PS1='ready> ' exec sh" || skip 'tmux cannot start here'
    tmux_ set -g remain-on-exit on >/dev/null
    until_true 10 seen "$1" 'ready>'
}
# enter NAME TEXT: types a line.
enter() {
    tmux_ send-keys -t "$1" -l "$2"
    tmux_ send-keys -t "$1" Enter
}
# press NAME KEY...
press() {
    name=$1
    shift
    tmux_ send-keys -t "$name" "$@"
}
# seen NAME PATTERN: an extended regular expression matches a line of the screen.
seen() {
    tmux_ capture-pane -p -t "$1" >"$T/screen.$1"
    grep -qE -- "$2" "$T/screen.$1"
}
# sees NAME PATTERN: waits until a line of the screen matches.
sees() {
    tries=4000
    until seen "$1" "$2"; do
        tries=$((tries - 1))
        [ "$tries" -gt 0 ] || fail "not on the screen of $1: $2
$(cat "$T/screen.$1")"
        sleep 0.05
    done
}
# sane NAME: the terminal echoes input lines and is not on its alternate screen.
sane() {
    enter "$1" 'stty -a | tr ";" "\n" | grep -cE "(^| )(icanon|echo|isig|opost)( |$)"; echo modes'
    sees "$1" '^modes'
    [ "$(tmux_ display -p -t "$1" '#{alternate_on}')" = 0 ] || fail "$1 stays on the second screen"
    enter "$1" 'case $(stty -a) in *-icanon*|*-echo\ *|*-isig*|*-opost*) echo is bad ;; *) echo is good ;; esac'
    sees "$1" '^is (good|bad)'
    seen "$1" '^is good' || fail "the terminal's modes were not restored
$(cat "$T/screen.$1")"
    enter "$1" clear
}
