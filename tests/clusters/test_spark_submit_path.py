"""Where spark-submit is looked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_streamupdate.control.drivers.launcher import find_spark_submit


@pytest.fixture
def installed(tmp_path: Path, monkeypatch) -> Path:
    """A spark-submit below the working directory, and none elsewhere."""
    script = tmp_path / "spark" / "bin" / "spark-submit"
    script.parent.mkdir(parents=True)
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    for name in ("STREAMUPDATE_SPARK_SUBMIT", "SPARK_HOME"):
        monkeypatch.delenv(name, raising=False)
    return script


def test_a_path_is_that_of_the_caller_and_a_link_is_kept(installed, monkeypatch, tmp_path) -> None:
    # A driver is started in a folder of its own, where the relative path leads nowhere.
    relative = "spark/bin/spark-submit"
    assert find_spark_submit(relative) == str(installed)
    monkeypatch.setenv("STREAMUPDATE_SPARK_SUBMIT", relative)
    assert find_spark_submit() == str(installed)
    monkeypatch.delenv("STREAMUPDATE_SPARK_SUBMIT")
    monkeypatch.setenv("SPARK_HOME", "spark")
    assert find_spark_submit() == str(installed)
    # The Python beside it is that of the environment it was installed into, not of where a link leads.
    link = tmp_path / "venv" / "spark-submit"
    link.parent.mkdir()
    link.symlink_to(installed)
    assert find_spark_submit("venv/spark-submit") == str(link)


def test_a_name_is_looked_for_on_path_or_left_as_it_is(installed, monkeypatch) -> None:
    assert find_spark_submit() == "spark-submit"
    assert find_spark_submit("spark4-submit") == "spark4-submit"
    monkeypatch.setenv("PATH", str(installed.parent))
    assert find_spark_submit("spark-submit") == str(installed) == find_spark_submit()
