# Sourced by scripts/setup.sh: an archive of Java's (class data sharing) with the classes that a Spark driver loads. Java
# takes them from there as they are: a driver starts in two thirds of the time (measured). An archive that does not fit
# (another Java, other jars) costs a warning and nothing else.

classes_known() { # environment
    [ -s "$1/classes.jsa" ] || [ -e "$1/classes.none" ]
}
make_classes() { # environment
    local started=$SECONDS folder
    rm -rf "$1"/.classes.* # of one that was killed; setup.sh lets one at a time work here
    folder=$(mktemp -d "$PWD/$1/.classes.XXXXXX") # beside its place: a rename is whole or not at all, a copy is not
    # Where it cannot be made everything works without: that is noted, so that it is not tried each time.
    if JAVA_HOME=$(cat "$1/java_home") PYSPARK_PYTHON=$PWD/$1/bin/python SPARK_SUBMIT_OPTS="-XX:ArchiveClassesAtExit=$folder/classes.jsa" \
        "$1/bin/spark-submit" --master "local[2]" scripts/setup/classes.py "$folder" >"$folder/log" 2>&1 && [ -s "$folder/classes.jsa" ]; then
        mv "$folder/classes.jsa" "$1/classes.jsa"
        say "Spark's classes are archived for faster starts ($((SECONDS - started)) s)"
    else
        cp "$folder/log" "$1/classes.none"
        say "Spark's classes could not be archived, so drivers start a little slower; why: $1/classes.none"
    fi
    rm -rf "$folder"
}
