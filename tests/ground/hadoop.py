"""Hadoop on this machine: HDFS and YARN in one JVM, which MiniCluster.java is run by."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import attrs

from .daemon import daemon
from .records import PARTS

LOGGING = """\
log4j.rootLogger=INFO, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%d %p %c %m%n
"""


@attrs.frozen
class Hadoop:
    """address: of HDFS; environment: by which spark-submit finds both"""

    address: str
    environment: dict[str, str]


@contextmanager
def hadoop(folder: Path) -> Iterator[Hadoop]:
    """A cluster with its files in `folder`, while the block runs."""
    logging, source = folder / "log4j.properties", Path(__file__).with_name("MiniCluster.java")
    logging.write_text(LOGGING)
    java = Path(shutil.which("java", path=f"{home}/bin" if (home := os.environ.get("JAVA_HOME")) else None) or "java")
    options = ["-Xmx1g", f"-Dlog4j.configuration={logging.as_uri()}", "-cp", f"{(PARTS / 'yarn').resolve()}/*"]
    # Containers inherit it: they are to find this package in what was submitted only.
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "SPARK"))}
    environment["JAVA_HOME"] = str(java.resolve().parents[1])
    command = [str(java), *options, str(source), str(folder)]
    with daemon(command, folder / "log", r"Cluster started: (\S+)", environment, 600, cwd=folder) as found:
        yield Hadoop(found[1], {"HADOOP_CONF_DIR": str(folder / "conf"), "SPARK_LOCAL_IP": "127.0.0.1"})
