# Sourced by scripts/setup.sh after system.sh: one setup at a time. Needs LOCKS (a folder that is kept).
#
# Who works, or is about to, has a file in LOCKS that is named after its process. It works only when it has looked, with
# its own file there, and seen none of another living process: of two, at least one sees the other. Only files of
# processes that are gone are removed by others, so nobody can remove what somebody has just taken. Of several that see
# each other, the one with the lowest number keeps its file and is next. (macOS has no flock.)

lives() { # process; that of another user, too
    kill -0 "$1" 2>/dev/null || ps -p "$1" >/dev/null 2>&1
}
others() { # prints the other living processes that have a file
    local file process
    for file in "$LOCKS"/[0-9]*; do
        process=${file##*/}
        [ -e "$file" ] && [ "$process" != $$ ] || continue
        if lives "$process"; then echo "$process"; else rm -f "$file"; fi
    done
}
take_lock() {
    local waited=0 found other
    mkdir -p "$LOCKS"
    while :; do
        : >"$LOCKS/$$"
        found=$(others)
        [ -n "$found" ] || return 0
        for other in $found; do
            [ "$other" -gt $$ ] || rm -f "$LOCKS/$$"
        done
        [ $waited -gt 0 ] || say "another setup (process ${found%%[!0-9]*}) is running; waiting for it"
        waited=$((waited + 1))
        [ $waited -lt 1200 ] || die "another setup has not finished in 20 minutes" \
            "process ${found%%[!0-9]*} is at it" "end that process, then run this again"
        sleep "${SETUP_POLL_SECONDS:-1}"
    done
}
release_lock() {
    rm -f "$LOCKS/$$"
}
