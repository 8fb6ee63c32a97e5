"""What is written comes back, and the table of formats: a file says its version, what is older is understood, what is
newer is refused."""

from __future__ import annotations

import importlib
import json
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_streamupdate import __version__
from airflow_provider_streamupdate.control.app_lease import holding
from airflow_provider_streamupdate.core import clock
from airflow_provider_streamupdate.core.compatibility.plan_file import PlanFile
from airflow_provider_streamupdate.core.coordination import lease
from airflow_provider_streamupdate.core.errors import CorruptError, NewerFormatError
from airflow_provider_streamupdate.core.formats import EVENT, FILES, Format, files_of, format_of
from airflow_provider_streamupdate.core.plan.plan import AppPlan
from airflow_provider_streamupdate.core.registry.deployment import DeploymentSpec, Launch
from airflow_provider_streamupdate.core.registry.registry import AppRegistry
from airflow_provider_streamupdate.core.registry.update import RollbackRecord, UpdateRecord
from airflow_provider_streamupdate.core.serde import from_json, to_json
from airflow_provider_streamupdate.core.snapshots import garbage
from airflow_provider_streamupdate.core.snapshots.snapshots import SnapshotStore

from .builders import app_plan, app_with_snapshots, set_status, spec, status

REPOSITORY = Path(__file__).resolve().parents[2]
LAUNCH = Launch(epoch=1, host="h", pid=1, log="/l", launched_at="2026-01-01T00:00:00+00:00")
FORMATS = {file.format.holds: file.format for file in FILES if file.format}


def fields(value: Any, **changes: Any) -> bytes:
    return json.dumps({**json.loads(to_json(value)), **changes}).encode()


def make_newer(app: AppRegistry, path: str, **changes: Any) -> None:
    """Write a file as a later version of this package would."""
    text = app.folder.read(path)
    assert text is not None, path
    app.folder.write(path, json.dumps({**json.loads(text), "format": 9, "format_since": "7.1.0", **changes}).encode())


@pytest.fixture
def app(tmp_path: Path) -> AppRegistry:
    """v1 runs; it has snapshots s1, s2 and s3, an update and a rollback."""
    made = app_with_snapshots(tmp_path / "root")
    set_status(made, "v1", status())
    made.set_launch("v1", LAUNCH)
    made.set_update(UpdateRecord(app="flights", old="v0", new="v1", started_at=clock.now(), outcome="promoted"))
    made.set_rollback(RollbackRecord(number=1, app="flights", left="v2", back_to="v1", started_at=clock.now()))
    return made


def test_the_table_has_a_format_for_each_class_and_a_kind_for_each_path() -> None:
    for holds, form in FORMATS.items():
        if form is EVENT:
            continue
        module, _, name = holds.rpartition(".")
        kind = getattr(importlib.import_module(f"airflow_provider_streamupdate.{module}"), name)
        assert format_of(kind) is form
        assert not {"format", "format_since"} & {field.name for field in attrs.fields(kind)}, holds
        assert all(older < form.version for older in form.upgrades)
    for file in FILES:
        assert file.format is None or FORMATS[file.format.holds] is file.format, file.path
        assert (file.format is None) == bool(file.why), file.path
    for path, kinds in {
        "updates/v2.json": 1,
        "updates/v2.report.json": 1,
        "updates/v2.rehearsal.report.md": 1,
        "deployments/v1/commands/1/drain.1.json": 1,
        "deployments/v1/commands/1/drain.1.result.json": 1,
        "deployments/v1/freed/note.json": 1,
        "deployments/v1/checkpoint/q/state/0/1/2.zip": 1,
        "deployments/v1/other.json": 0,
        "deployments/v1/x/spec.json": 0,
        "spec.json": 0,
    }.items():
        assert len(files_of(path)) == kinds, path


def test_what_is_written_says_its_version_and_comes_back() -> None:
    text = to_json(LAUNCH)
    assert json.loads(text) | {"format": 1, "format_since": "0.1.0"} == json.loads(text)
    assert from_json(text, Launch, "x") == LAUNCH
    text = to_json(app_plan())
    assert from_json(text, AppPlan, "x") == app_plan()
    assert to_json(from_json(text, AppPlan, "x")) == text


def test_a_newer_file_is_refused_with_the_version_that_reads_it() -> None:
    with pytest.raises(NewerFormatError) as caught:
        from_json(
            fields(LAUNCH, format=3, format_since="0.4.0", epoch="of another type by then"), Launch, "/root/l.json"
        )
    assert str(caught.value) == (
        f"/root/l.json was written by a newer version of this package (format 3; this one, {__version__}, "
        "reads up to 1): use airflow-provider-streamupdate >= 0.4.0"
    )
    for since in (None, 7, "\x1b]0;x\x07", "1.0 or so"):
        with pytest.raises(NewerFormatError, match=r"use the version that wrote it$"):
            from_json(fields(LAUNCH, format=3, format_since=since), Launch, "x")


@pytest.mark.parametrize("version", [None, True, "1", 1.0, 0, -1, [], {}])
def test_what_is_no_version_is_damage(version: object) -> None:
    with pytest.raises(CorruptError, match="as its format version"):
        from_json(fields(LAUNCH, format=version), Launch, "x")


def test_an_older_file_goes_through_every_version_since() -> None:
    def renamed(found: dict[str, Any]) -> dict[str, Any]:
        return {"b": found["a"]}

    def doubled(found: dict[str, Any]) -> dict[str, Any]:
        return {"b": 2 * found["b"]}

    form = Format(holds="x", version=4, since="1.2.0", upgrades={1: renamed, 3: doubled})
    assert form.understood({"format": 1, "a": 1}, "x") == {"b": 2}
    assert form.understood({"format": 2, "b": 1}, "x") == {"b": 2}
    assert form.understood(form.stamped({"b": 1}), "x") == {"b": 1}
    with pytest.raises(NewerFormatError):
        form.understood({"format": 5, "b": 1}, "x")


@pytest.mark.parametrize(
    "path",
    [
        "current.json",
        "deployments/v1/spec.json",
        "deployments/v1/launch.json",
        "deployments/v1/status.json",
        "deployments/v1/plan.json",
        "updates/v1.json",
        "rollbacks/1.json",
    ],
)
def test_nothing_works_on_an_app_that_a_newer_version_has_worked_on(app: AppRegistry, path: str) -> None:
    with holding(app, "o"):
        pass
    before = lease.read(app.folder)
    make_newer(app, path)
    with pytest.raises(NewerFormatError, match=rf"{path} was written .*>= 7\.1\.0"):
        with holding(app, "o"):
            raise AssertionError("it went on")
    assert lease.read(app.folder) == before
    app.folder.write(path, b"{")  # damaged is another matter, of whoever needs the file
    with holding(app, "o"):
        pass


def test_a_snapshot_of_a_newer_version_hides_no_other_and_costs_none_its_bytes(app: AppRegistry) -> None:
    store = SnapshotStore(app)
    names = store.names()
    make_newer(app, f"snapshots/{names[-1]}/snapshot.json")
    assert [s.name for s in store.all()] == names[:-1]
    [damaged] = store.damaged()
    assert (damaged.name, damaged.error) == (names[-1], "NewerFormatError")
    for asked in (store.newest, lambda: store.get(names[-1]), lambda: store.verify(names[-1])):
        with pytest.raises(NewerFormatError):
            asked()
    objects = app.folder.files("objects")
    with pytest.raises(NewerFormatError):
        store.delete(names[-1])
    garbage.remove(app.folder, store.garbage())
    assert app.folder.files("objects") == objects and names[-1] in store.names()


def test_a_plan_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_bytes(fields(app_plan(), format=2))
    with pytest.raises(NewerFormatError):
        PlanFile.read(str(path))
    path.write_bytes(to_json(app_plan()))
    assert PlanFile.read(str(path)).plan == app_plan()


def test_the_table_is_light_to_import_and_the_page_is_what_it_says() -> None:
    code = "import sys; import airflow_provider_streamupdate.core.formats; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    assert not {"cattrs", "fsspec", "psutil", "tenacity"} & set(loaded.stdout.split())
    # scripts/formats_docs.py writes it.
    made = runpy.run_path(str(REPOSITORY / "scripts" / "formats_docs.py"))["page"]()
    assert (REPOSITORY / "docs" / "reference" / "formats.md").read_text() == made


@given(st.integers(0, 400))
def test_truncated_text_is_told_with_its_place(length: int) -> None:
    text = to_json(spec())
    cut = text.rstrip()[: min(length, len(text.rstrip()) - 1)]
    with pytest.raises(CorruptError, match=r"^/root/spec\.json is not valid JSON .*truncated or altered.*backup"):
        from_json(cut, DeploymentSpec, "/root/spec.json")


@pytest.mark.parametrize("text", [b"[]", b"null", b'{"format": 1, "app": "x"}', b'"text"'])
def test_json_of_another_form_is_told_with_its_place(text: bytes) -> None:
    with pytest.raises(CorruptError, match=r"^/root/spec\.json does not hold a valid DeploymentSpec"):
        from_json(text, DeploymentSpec, "/root/spec.json")
