"""Which settings Spark reads while it does something: two of its classes, replaced by ones that take note.

Everything that is registered is read through a ConfigReader, and that asks a MapProvider (in the driver) or a
TaskContextConfigProvider (in a task). A setting that nothing in the corpus reads cannot change what the corpus gives.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pyspark
from pyspark.sql import SparkSession

SOURCES = sorted((Path(__file__).parent / "settings_trace_java").rglob("*.java"))


def tracing_classes() -> str | None:
    """The folder of the compiled classes, made once a machine; None without a Java compiler."""
    home = os.environ.get("JAVA_HOME")
    javac = shutil.which("javac", path=f"{home}/bin" if home else None)
    if javac is None:
        return None
    jars = Path(pyspark.__file__).parent / "jars"
    digest = hashlib.sha256(b"".join(p.read_bytes() for p in SOURCES) + str(jars).encode()).hexdigest()[:12]
    target = Path(tempfile.gettempdir()) / f"streamupdate-trace-{digest}"
    if not target.exists():
        made = tempfile.mkdtemp(prefix="streamupdate-trace-")
        command = [javac, "--release", "17", "-nowarn", "-cp", f"{jars}/*", "-d", made, *map(str, SOURCES)]
        subprocess.run(command, check=True)
        try:
            os.replace(made, target)
        except OSError:  # another run was first
            shutil.rmtree(made, ignore_errors=True)
    return str(target)


def read_since(spark: SparkSession) -> set[str]:
    """The keys read since this was asked last."""
    provider = spark._jvm.org.apache.spark.internal.config.MapProvider
    return set(str(provider.drain()).split("\n"))
