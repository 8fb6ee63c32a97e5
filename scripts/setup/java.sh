# Sourced by scripts/setup.sh: the Java that Spark runs on.

JAVA_MIN=17 # Spark 4

java_major() { # java command: 17 for "17.0.15", 8 for "1.8.0_392", nothing when it does not run
    local version
    version=$("$1" -version 2>&1 </dev/null | sed -n 's/.*version "\([^"]*\)".*/\1/p' | head -n 1) || return 0
    version=${version#1.}
    echo "${version%%[!0-9]*}"
}
java_fits() { # home
    local major
    [ -x "$1/bin/java" ] || return 1
    major=$(java_major "$1/bin/java")
    [ -n "$major" ] && [ "$major" -ge "$JAVA_MIN" ]
}
java_homes() { # candidates, a line each, the best first
    echo "${JAVA_HOME:-}"
    # Java itself knows its home: links and shims (jenv, asdf, the macOS stub) do not lead there.
    java -XshowSettings:properties -version 2>&1 </dev/null | sed -n 's/^ *java\.home = //p' | head -n 1 || true
    [ ! -x /usr/libexec/java_home ] || /usr/libexec/java_home -v "$JAVA_MIN+" 2>/dev/null || true
    printf '%s\n' /usr/lib/jvm/*17* /usr/lib/jvm/*21* /usr/lib/jvm/default-java \
        /opt/homebrew/opt/openjdk@*/libexec/openjdk.jdk/Contents/Home \
        /usr/local/opt/openjdk@*/libexec/openjdk.jdk/Contents/Home
}
find_java() { # prints a Java home
    local home
    while IFS= read -r home; do
        if [ -n "$home" ] && java_fits "$home"; then
            echo "$home"
            return 0
        fi
    done < <(java_homes)
    return 1
}
java_known() { # file: it names a Java that is still there, and the user asks for no other
    local home
    home=$(cat "$1" 2>/dev/null) && [ -x "$home/bin/java" ] || return 1
    [ -z "${JAVA_HOME:-}" ] || [ "$JAVA_HOME" = "$home" ] || ! java_fits "$JAVA_HOME"
}
need_java() { # file: notes there which Java it is
    local home found
    if ! home=$(find_java); then
        found="java is $(java -version 2>&1 </dev/null | head -n 1 || true), JAVA_HOME is ${JAVA_HOME:-not set}"
        command -v java >/dev/null 2>&1 || found="there is no java on PATH, JAVA_HOME is ${JAVA_HOME:-not set}"
        say "no Java $JAVA_MIN or newer: $found"
        apt_install openjdk-17-jre-headless || apt_install default-jre-headless || brew_install openjdk@17 || true
        home=$(find_java) || die "no Java $JAVA_MIN or newer" "$found; Spark 4 needs $JAVA_MIN" \
            "$(how_to_install openjdk-17-jre-headless openjdk@17); or set JAVA_HOME to one you have"
    fi
    [ -z "${JAVA_HOME:-}" ] || [ "$home" = "$JAVA_HOME" ] || say "JAVA_HOME=$JAVA_HOME is not Java $JAVA_MIN or newer; using $home"
    echo "$home" >"$1"
    rm -f "${1%/*}"/classes.* # they are another Java's
    say "Java: $home"
}
