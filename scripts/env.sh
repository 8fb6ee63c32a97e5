# Sourced by the other scripts and the Makefile's recipes. Needs ROOT (the repository's root).
# Keeps a foreign Spark or Python out of the two environments and points Spark at the Java that setup.sh found.
unset SPARK_HOME SPARK_CONF_DIR PYTHONPATH PYTHONHOME VIRTUAL_ENV
if [ -s "$ROOT/.venv-spark/java_home" ]; then
    JAVA_HOME=$(cat "$ROOT/.venv-spark/java_home")
    export JAVA_HOME
fi
