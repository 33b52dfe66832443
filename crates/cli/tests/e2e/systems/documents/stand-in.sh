#!/bin/sh
# `plumb` as a page has it, with short windows and few blocks: a page shows which commands there are, and not how fast a machine is.
# A verdict other than `holds` is a result, so 1, 3 and 4 let the page go on; 2 and 5 end it, as the command was wrong or failed.
set -u
plumb=@PLUMB@
directory=@DIRECTORY@

# A server is the process itself, so that the page can stop it.
case " $* " in *" serve "* | *" ui "*) exec "$plumb" "$@" ;; esac

# An experiment, from a file or built in, with short windows and little memory. The tools that drive a load measure whole seconds.
shortened() {
    if [ -f "$1" ]; then text=$(cat "$1"); else text=$("$plumb" list --show "$1") || return; fi
    case $text in *driver:*) window='1 s' ;; *) window='200 ms' ;; esac
    printf '%s\n' "$text" | sed -E "s/duration: [0-9.]+ m?s/duration: $window/; s/warmup: [1-9][0-9.]* m?s/warmup: 20 ms/; \
        s/memory: [0-9]+ GiB/memory: 128 MiB/"
}

command=${1-}
before=
duration=
blocks=
case $command in migrate | command) duration='-d 100ms' ;; network) duration='-d 1s' ;; esac
for word; do
    shift
    case $command/$before in
    run/run)
        if shortened "$word" > "$directory/short.yaml" && grep -q 'duration:' "$directory/short.yaml"; then
            word=$directory/short.yaml
            blocks='--blocks 2'
        fi
        ;;
    command/--within) blocks='--blocks 2' ;;
    run/--blocks) word=2 blocks= ;;
    # The page's server is Python's, which answers nothing in a window of 100 ms on a busy machine.
    http/-d) word=2s ;;
    # Two ends that never sleep may get no message through in 100 ms there.
    network/-d) word=1s duration= ;;
    # A disk that others keep busy may complete nothing in 100 ms.
    storage/-d) word=1s duration= ;;
    */-d) word=100ms duration= ;;
    command/-r) duration= ;;
    migrate/--memory) word=64M ;;
    esac
    before=$word
    set -- "$@" "$word"
done
# Each of the last two has no spaces but between its two words.
# shellcheck disable=SC2086
"$plumb" "$@" $duration $blocks 2> "$directory/messages"
code=$?
cat "$directory/messages" >&2
case $code in 0 | 1 | 3 | 4) exit 0 ;; esac
# On a busy machine, all slots of so short a run can fail because counters were read late. The command was right.
grep -q "failed to read the system's counters in time" "$directory/messages" && exit 0
echo "failed: plumb $* $duration $blocks" >&2
exit 1
