# Sourced by scripts/setup.sh: messages, and what it installs with the system's package manager.

say() { printf 'setup: %s\n' "$*"; }
die() { # what failed, why, what to do
    printf 'setup: error: %s\n' "$1" >&2
    [ $# -lt 2 ] || printf '  reason: %s\n' "$2" >&2
    [ $# -lt 3 ] || printf '  next:   %s\n' "$3" >&2
    exit 1
}
is_macos() { [ "$(uname -s)" = Darwin ]; }
as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi
}
can_apt() {
    command -v apt-get >/dev/null 2>&1 && { [ "$(id -u)" = 0 ] || sudo -n true >/dev/null 2>&1; }
}
UPDATED=
apt_install() { # packages; true when all were installed
    can_apt || return 1
    if [ -z "$UPDATED" ]; then
        say "apt-get update" >&2
        as_root env DEBIAN_FRONTEND=noninteractive apt-get update -qq >&2 || say "apt-get update failed; trying with the old lists" >&2
        UPDATED=1
    fi
    say "apt-get install $*" >&2
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >&2
}
brew_install() { # formula
    is_macos && command -v brew >/dev/null 2>&1 && brew install "$1" >&2
}
how_to_install() { # apt packages, brew formula: one line of advice
    if command -v apt-get >/dev/null 2>&1; then
        echo "run: sudo apt-get update && sudo apt-get install -y $1    then run this again"
    elif is_macos; then
        command -v brew >/dev/null 2>&1 || printf 'install Homebrew, '
        echo "run: brew install $2    then run this again"
    else
        echo "install it with your system's package manager ($1 on Debian), then run this again"
    fi
}
makes_environments() { # python
    "$1" -c 'import ensurepip, venv' >/dev/null 2>&1
}
need_python() { # prints any Python that can hold uv; the environments' own Pythons are uv's business
    local python
    for python in ${STREAMUPDATE_PYTHON:-} python3 python; do
        if makes_environments "$python"; then
            echo "$python"
            return 0
        fi
    done
    apt_install python3 python3-venv || brew_install python@3.12 || true
    makes_environments python3 || die "no Python that can make environments" \
        "$(python3 -V 2>&1 || echo "there is no python3"); its modules venv and ensurepip are needed (Debian packages them apart)" \
        "$(how_to_install "python3 python3-venv" python@3.12)"
    echo python3
}
