"""Local files without permissions: ten times as fast to make, where Hadoop's native library is missing (measured).

Hadoop then starts a ``chmod`` for each file and folder (RawLocalFileSystem.setPermission), and a ``readlink`` for each
that is renamed (getFileLinkStatus), which is most of what a small micro-batch does. Everything else stays: checksum
files, renames, exclusive creation.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pyspark
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

SOURCE = Path(__file__).with_name("LocalFiles.java")
LOCAL_FILES = "streamupdate.LocalFiles"


def local_files() -> dict[str, str]:
    """Settings for a Spark session that has not begun; none where there is no Java compiler."""
    home = os.environ.get("JAVA_HOME")
    javac = shutil.which("javac", path=f"{home}/bin" if home else None)
    if javac is None:
        return {}
    return {
        "spark.driver.extraClassPath": str(_compiled(javac)),
        "spark.hadoop.fs.file.impl": LOCAL_FILES,
        "spark.hadoop.fs.AbstractFileSystem.file.impl": f"{LOCAL_FILES}$Context",
    }


def scratch_files(spark: SparkSession) -> dict[str, str]:
    """The same for files of dry runs, which have no checksum files, in a session that has begun."""
    has_them = spark.sparkContext.getConf().get("spark.hadoop.fs.file.impl") == LOCAL_FILES
    return {"fs.file.impl": f"{LOCAL_FILES}$Raw"} if has_them else {}


def delete_in_java(spark: SparkSession) -> None:
    """Keep Spark from starting an ``rm`` for each folder that it deletes (JavaUtils.deleteRecursively): stores
    of state have some for each batch, which were 13 processes a test (measured)."""
    with contextlib.suppress(Py4JError):  # a Spark without this field
        utils = spark._jvm.java.lang.Class.forName("org.apache.spark.network.util.JavaUtils")
        utils.getField("isUnix").setBoolean(None, False)


def _compiled(javac: str) -> Path:
    """The folder of the classes, made once a machine and source."""
    jars = Path(pyspark.__file__).parent / "jars"
    digest = hashlib.sha256(SOURCE.read_bytes() + str(jars).encode()).hexdigest()[:12]
    target = Path(tempfile.gettempdir()) / f"streamupdate-local-files-{digest}"
    if not target.exists():
        made = tempfile.mkdtemp(prefix="streamupdate-local-files-")
        subprocess.run([javac, "--release", "17", "-cp", f"{jars}/*", "-d", made, str(SOURCE)], check=True)
        try:
            os.replace(made, target)
        except OSError:  # another run was first
            shutil.rmtree(made, ignore_errors=True)
    return target
