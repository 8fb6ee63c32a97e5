"""An application: what is checked before it is submitted, what an update takes over from the running one, and what
a copy keeps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs
import pytest

from airflow_provider_streamupdate.control.operations.version import store_copy
from airflow_provider_streamupdate.control.update.inheritance import inherit, setting_changes, without
from airflow_provider_streamupdate.control.update.options import UpdateOptions
from airflow_provider_streamupdate.core.compatibility.compatibility import compare
from airflow_provider_streamupdate.core.errors import ApplicationError, InvalidInputError
from airflow_provider_streamupdate.core.registry.application import Application, default_deployment_id
from airflow_provider_streamupdate.core.registry.registry import Registry
from airflow_provider_streamupdate.core.serde import to_json

from .builders import app_plan, query_plan, spec, stage_plan


@pytest.fixture
def application(tmp_path: Path) -> Application:
    for name in ("app.py", "helper.py", "data.csv"):
        (tmp_path / name).write_text(f"# {name}\n")
    return Application(
        file=str(tmp_path / "app.py"),
        py_files=(str(tmp_path / "helper.py"),),
        files=(str(tmp_path / "data.csv"),),
        params={"input": "/in"},
        conf={"spark.x": "1"},
    )


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"file": "/nix.py"}, "application file .* does not exist"),
        ({"file": "/"}, "application file .* is a folder"),
        ({"py_files": ("/nix/a",)}, r"file /nix/a of application .*app\.py does not exist"),
        ({"files": ("/nix/a",)}, r"file /nix/a of application .*app\.py does not exist"),
        ({"params": {"n": 7}}, r"parameter 'n'=7 of .* must have a name and a text value"),
        *((text, r"does not parse as Python: .*; fix it") for text in (b"def broken(:\n", b"\xff\xfe", b"x = 1\0")),
    ],
)
def test_what_cannot_be_submitted_is_told(application: Application, changes: Any, problem: str) -> None:
    if isinstance(changes, bytes):
        Path(application.file).write_bytes(changes)
        changes = {}
    with pytest.raises(ApplicationError, match=problem):
        attrs.evolve(application, **changes).check()


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        ("from pyspark import pipelines as dp\n@dp.table\ndef orders(): ...\n", True),
        ("import pyspark.pipelines as dp\n", True),
        ("from pyspark.pipelines import table\n", True),
        ("from . import pipelines\nfrom company.pyspark import pipelines\nimport pyspark\n", False),
        ("# from pyspark import pipelines\ntext = 'import pyspark.pipelines'\n", False),
    ],
)
def test_a_pipeline_s_file_is_told(tmp_path: Path, text: str, refused: bool) -> None:
    (tmp_path / "app.py").write_text(text)
    application = Application(file=str(tmp_path / "app.py"))
    if not refused:
        application.check()
        return
    with pytest.raises(ApplicationError, match=r"app.py is of a Spark Declarative Pipeline .* adopt its checkpoint"):
        application.check()


def test_the_digest_tells_whether_two_run_alike(application: Application, tmp_path: Path) -> None:
    digest = application.digest()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "other_name.py").write_text("# app.py\n")
    assert attrs.evolve(application, file=str(elsewhere / "other_name.py")).digest() == digest, "not where it lies"
    changed = [
        attrs.evolve(application, params={"input": "/in2"}),
        attrs.evolve(application, conf={}),
        attrs.evolve(application, env_vars={"A": "1"}),
        attrs.evolve(application, master="local[4]"),
        attrs.evolve(application, py_files=()),
        attrs.evolve(application, files=()),
    ]
    digests = {a.digest() for a in changed}
    Path(application.file).write_text("# another\n")
    digests.add(application.digest())
    assert len(digests) == 7 and digest not in digests
    # default ids are short and unused
    digest = "0123456789abcdef"
    assert default_deployment_id("a", digest, {"01234567", "01234567-2"}) == "01234567-3"


# What an update takes over from the running version


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


def test_what_is_not_given_is_that_of_the_running_version_unless_it_is_unset(running: Application) -> None:
    # Old behaviour: nothing was taken over; `--set limit=7` alone dropped the parameter input.
    made = updated(running, params={"limit": "7"})
    assert made.file.endswith("v2.py") and made.params == {"input": "/in", "limit": "7"}
    assert (made.conf, made.master, made.env_vars, made.py_files) == (
        running.conf, running.master, running.env_vars, running.py_files
    )  # fmt: skip
    unset = ("limit", "conf=spark.sql.shuffle.partitions", "env=TZ", "option=master", "option=py-files")
    made = updated(running, unset)
    assert made.params == {"input": "/in"}
    assert (made.conf, made.env_vars, made.master, made.py_files) == ({}, {}, None, ())
    # an earlier try may have removed it
    assert updated(running, ("gone",), again=True).params == running.params
    # set and unset contradict each other
    with pytest.raises(InvalidInputError, match="limit is both set and unset"):
        updated(running, ("limit",), params={"limit": "7"})
    with pytest.raises(InvalidInputError, match="nothing to unset"):
        UpdateOptions(application=running, unset=("limit",), reset=True)


@pytest.mark.parametrize(
    ("unset", "words"),
    [
        ("limt", r"deployment v1 of flights has no such value \(it has: conf=spark.*, env=TZ, input, limit, option="),
        ("option=files", "has no such value"),
        ("conf=nope", "has no such value"),
        ("option=deploy-mode", "has no such value"),
        ("jar=x", "is not understood"),
    ],
)
def test_a_name_that_the_running_version_does_not_have_is_an_error(
    running: Application, unset: str, words: str
) -> None:
    with pytest.raises(InvalidInputError, match=words):
        updated(running, (unset,))


def test_changes_are_told_with_both_values_and_without_secrets(running: Application) -> None:
    old = spec(application=running)
    made = updated(running, ("env=TZ",), params={"limit": "7", "password": "hunter2"}, master="yarn")
    lines = setting_changes(old, made)
    assert "parameter limit: 5 -> 7" in lines and "environment variable TZ: UTC -> not given" in lines
    assert "option master: local[2] -> yarn" in lines and "hunter2" not in "".join(lines)
    assert setting_changes(old, running) == ["parameters and settings are those of v1"]


# A copy of a version: a hot standby's, a comparison's


def test_a_copy_keeps_no_agreement_to_the_change_that_made_its_version(tmp_path: Path) -> None:
    file = tmp_path / "app.py"
    file.write_text("")
    registry, plan = Registry(str(tmp_path / "root")).app("flights"), app_plan(query_plan(stage_plan()))
    agreed = ("windows:fork", "windows/seen=not needed")  # of the update that brought v2 in
    application = Application(file="application/app.py")
    registry.folder.write("deployments/v2/application/app.py", b"")
    registry.create_deployment(spec("v2", agree=agreed, application=application))
    registry.folder.write("deployments/v2/plan.json", to_json(plan))
    copy = store_copy(registry, "v2", "v2-standby-1", owner="hot standby of v2")
    assert copy.agree == () and copy.digest == registry.spec("v2").digest
    assert compare(plan, plan, "v2", copy.agree).compatible  # its driver compares so, and refuses other names
