"""Which versions of Spark a driver runs on."""

from __future__ import annotations

from types import SimpleNamespace

import pyspark
import pytest

from airflow_provider_streamupdate.core.errors import EnvironmentProblem
from airflow_provider_streamupdate.streaming.spark_internals import check_version
from airflow_provider_streamupdate.streaming.spark_internals.queries import dry_runs
from airflow_provider_streamupdate.streaming.spark_internals.version import ADAPTERS


@pytest.mark.parametrize("version", ["4.1.1", "4.4.0", "5.0.0"])
def test_a_version_that_is_not_known_is_refused(monkeypatch, version: str) -> None:
    monkeypatch.setattr(pyspark, "__version__", version)
    with pytest.raises(EnvironmentProblem, match=rf"Spark {version} is not supported \(supported: 4\.2, 4\.3\)"):
        check_version(SimpleNamespace(version=version))


def test_two_mixed_versions_are_told_apart(monkeypatch) -> None:
    monkeypatch.setattr(pyspark, "__version__", "4.2.1")
    with pytest.raises(EnvironmentProblem, match=r"pyspark 4\.2\.1 is driving Spark 4\.3\.0"):
        check_version(SimpleNamespace(version="4.3.0"))


def test_a_patch_of_a_known_version_is_fine(monkeypatch) -> None:
    for minor in ADAPTERS:
        monkeypatch.setattr(pyspark, "__version__", f"{minor}.7")
        assert check_version(SimpleNamespace(version=f"{minor}.7")) == f"{minor}.7"


def test_a_python_worker_that_is_late_says_nothing_about_the_query(monkeypatch) -> None:
    """Not to be had at will: Spark's error is put in place of it."""
    tries = []

    def late(times: int):
        def work(*_: object) -> str:
            tries.append(1)
            if len(tries) <= times:
                raise RuntimeError("org.apache.spark.SparkException: Python worker failed to connect back.")
            return "planned"

        tries.clear()
        monkeypatch.setattr(dry_runs, "_dry_run", work)
        return dry_runs.dry_run(None, "append", "file:///nowhere", 0)

    assert (late(2), len(tries)) == ("planned", 3)
    with pytest.raises(EnvironmentProblem, match="the machine is too busy"):
        late(3)
