"""One Spark session for all tests here; each test has its own folder, apps and checkpoints."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from bench import ROCKSDB, Bench
from local_files import delete_in_java, local_files, scratch_files
from pairs import Ground
from py4j.java_gateway import JavaClass, JavaMember, JavaPackage, JVMView
from pyspark import cloudpickle
from pyspark.sql import SparkSession

from airflow_provider_streamupdate.streaming.spark_internals import families_problem
from airflow_provider_streamupdate.streaming.spark_internals.jvm import pairs
from airflow_provider_streamupdate.streaming.spark_internals.queries import dry_runs

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
ROOT = str(Path(__file__).parents[2])
if ROOT not in os.environ.get("PYTHONPATH", "").split(os.pathsep):  # where Python workers find their daemon
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [ROOT, os.environ.get("PYTHONPATH")]))

# How plans are run, not what they are nor what they give: small plans are interpreted faster than compiled.
RUN_AT_ONCE = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.driver.memory": "2g",
    "spark.python.daemon.module": "tests.spark.warm_daemon",
    "spark.driver.extraJavaOptions": "-Xmn600m",
}


def _remember_names(kind: type) -> None:
    """Find each name of the JVM once.

    py4j asks for each part of a dotted name, each time, and the JVM looks into all of Spark's 280 jars for a class that
    does not exist: a tenth of the JVM's time in these tests (measured).
    """
    find = kind.__getattr__  # type: ignore[attr-defined]

    def remembered(self: Any, name: str) -> Any:
        value = find(self, name)
        if isinstance(value, JavaPackage | JavaClass | JavaMember):  # not a field's value
            vars(self)[name] = value
        return value

    kind.__getattr__ = remembered  # type: ignore[attr-defined]


for kind in (JVMView, JavaPackage, JavaClass):
    _remember_names(kind)


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem):
    """Skip a test of what an older Spark lacks. That column families are refused which it cannot rewrite is tested by
    test_stores.py."""
    try:
        return (yield)
    except Exception as error:
        if (why := families_problem()) and why in str(error):
            pytest.skip(why)
        if "has no attribute 'transformWithState'" in str(error):
            pytest.skip("PySpark 4.0 has no transformWithState for rows")
        raise


@pytest.fixture(scope="session")
def spark_session():
    session = (
        SparkSession.builder.master("local[2]")
        .appName("tests")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "2")
        .config(map={**RUN_AT_ONCE, **local_files()})
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    delete_in_java(session)
    dry_runs._SCRATCH.update(scratch_files(session))  # they choose a file system of their own
    yield session
    session.stop()


def pytest_collection_finish() -> None:
    """Python workers cannot import test modules: what is theirs goes to them as a whole."""
    for module in list(sys.modules.values()):
        if Path(getattr(module, "__file__", None) or "/").parent == Path(__file__).parent:
            cloudpickle.register_pickle_by_value(module)


@pytest.fixture
def bench(spark, tmp_path: Path, request: pytest.FixtureRequest) -> Bench:
    """With the state store that the module names, if it does (STORE)."""
    return Bench(spark, tmp_path, getattr(request.module, "STORE", ROCKSDB))


@pytest.fixture
def rocksdb(spark, tmp_path: Path) -> Bench:
    """The same where a module has a `bench` of its own."""
    return Bench(spark, tmp_path)


@pytest.fixture
def ground(spark, tmp_path: Path) -> Ground:
    return Ground(spark, tmp_path)


@pytest.fixture
def zone_of_java(spark) -> Iterator[Callable[[str], None]]:
    """Sets the default zone of the JVM."""
    kind = spark._jvm.java.util.TimeZone
    before = kind.getDefault()
    yield lambda name: kind.setDefault(kind.getTimeZone(name))
    kind.setDefault(before)


@pytest.fixture
def spark(spark_session):
    """The session with its streaming configuration as new afterwards, and no query left behind."""

    def given() -> dict[str, str]:  # conf.getAll takes three calls of the JVM for each
        return pairs(spark_session._jvm, spark_session._jsparkSession.sessionState().conf().getAllConfs().toSeq())

    before = given()
    yield spark_session
    for query in spark_session.streams.active:
        query.stop()
    for key, value in given().items():
        if key in before and before[key] != value:
            spark_session.conf.set(key, before[key])
        elif key not in before:
            spark_session.conf.unset(key)
