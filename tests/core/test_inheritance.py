"""What an update takes over from the running version."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from airflow_provider_streamupdate.control.update.inheritance import inherit, setting_changes, without
from airflow_provider_streamupdate.control.update.options import UpdateOptions
from airflow_provider_streamupdate.core.errors import InvalidInputError, RefusedError
from airflow_provider_streamupdate.core.registry.application import Application
from airflow_provider_streamupdate.core.registry.in_flight import check_applications

from .builders import spec


@pytest.fixture
def running(tmp_path: Path) -> Application:
    for name in ("v1.py", "v2.py", "lookups.py"):
        (tmp_path / name).write_text("")
    return Application(
        file=str(tmp_path / "v1.py"),
        py_files=(str(tmp_path / "lookups.py"),),
        params={"input": "/in", "limit": "5"},
        conf={"spark.sql.shuffle.partitions": "4"},
        master="local[2]",
        env_vars={"TZ": "UTC"},
    )


def updated(running: Application, unset: tuple[str, ...] = (), again: bool = False, **given: Any) -> Application:
    new = Application(file=str(Path(running.file).with_name("v2.py")), **given)
    options = UpdateOptions(application=new, unset=unset)
    return without(inherit(running, new), options, "deployment v1 of flights", again)


def test_what_is_not_given_is_that_of_the_running_version(running: Application) -> None:
    """Old behaviour: nothing was taken over; `--set limit=7` alone dropped the parameter input."""
    made = updated(running, params={"limit": "7"})
    assert made.file.endswith("v2.py") and made.params == {"input": "/in", "limit": "7"}
    assert (made.conf, made.master, made.env_vars, made.py_files) == (
        running.conf, running.master, running.env_vars, running.py_files
    )  # fmt: skip


def test_what_is_unset_is_gone(running: Application) -> None:
    unset = ("limit", "conf=spark.sql.shuffle.partitions", "env=TZ", "option=master", "option=py-files")
    made = updated(running, unset)
    assert made.params == {"input": "/in"}
    assert (made.conf, made.env_vars, made.master, made.py_files) == ({}, {}, None, ())


@pytest.mark.parametrize(
    ("unset", "words"),
    [
        ("limt", r"deployment v1 of flights has no such value \(it has: conf=spark.*, env=TZ, input, limit, option="),
        ("option=files", "has no such value"),
        ("conf=nope", "has no such value"),
        ("option=deploy-mode", "is not understood"),
        ("jar=x", "is not understood"),
    ],
)
def test_a_name_that_the_running_version_does_not_have_is_an_error(
    running: Application, unset: str, words: str
) -> None:
    with pytest.raises(InvalidInputError, match=words):
        updated(running, (unset,))


def test_an_earlier_try_may_have_removed_it(running: Application) -> None:
    assert updated(running, ("gone",), again=True).params == running.params


def test_set_and_unset_contradict_each_other(running: Application) -> None:
    with pytest.raises(InvalidInputError, match="limit is both set and unset"):
        updated(running, ("limit",), params={"limit": "7"})
    with pytest.raises(InvalidInputError, match="nothing to unset"):
        UpdateOptions(application=running, unset=("limit",), reset=True)


def test_changes_are_told_with_both_values_and_without_secrets(running: Application) -> None:
    old = spec(application=running)
    made = updated(running, ("env=TZ",), params={"limit": "7", "password": "hunter2"}, master="yarn")
    lines = setting_changes(old, made)
    assert "parameter limit: 5 -> 7" in lines and "environment variable TZ: UTC -> not given" in lines
    assert "option master: local[2] -> yarn" in lines and "hunter2" not in "".join(lines)
    assert setting_changes(old, running) == ["parameters and settings are those of v1"]


def test_what_keeps_a_change_from_being_made_in_flight_has_both_values(running: Application) -> None:
    """Old behaviour: "besides parameters, these differ: the Spark master"."""
    check_applications(running, updated(running, params={"limit": "7"}), {"limit"})
    with pytest.raises(RefusedError, match=r"the Spark master \(local\[2\], now yarn\)"):
        check_applications(running, updated(running, master="yarn"), {"limit"})
    with pytest.raises(
        RefusedError, match=r"configuration \(spark.x is not given, now 1\), the environment \(TZ is UTC"
    ):
        check_applications(running, updated(running, conf={"spark.x": "1"}, env_vars={"TZ": "CET"}), {"limit"})
