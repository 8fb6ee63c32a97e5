"""Names in files that come from strangers: none of them leads out of the folder it is joined to, be it in a manifest,
in a file of a checkpoint, or in a record of the registry; and no symbolic link is followed."""

from __future__ import annotations

import hashlib
import io
import json
import os
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_streamupdate.core import clock
from airflow_provider_streamupdate.core.checkpoint.checkpoint import Checkpoint
from airflow_provider_streamupdate.core.checkpoint.named_files import check_named_files, names_files
from airflow_provider_streamupdate.core.coordination.commands import CommandBox
from airflow_provider_streamupdate.core.difference.comparison import rows_of
from airflow_provider_streamupdate.core.errors import ApplicationError, CorruptError, InvalidInputError
from airflow_provider_streamupdate.core.names import check_part, check_path, path_problem
from airflow_provider_streamupdate.core.registry.deployment import Current
from airflow_provider_streamupdate.core.registry.registry import AppRegistry
from airflow_provider_streamupdate.core.registry.update import UpdateRecord
from airflow_provider_streamupdate.core.serde import to_dict, to_json
from airflow_provider_streamupdate.core.snapshots.adoption import save_adopted
from airflow_provider_streamupdate.core.snapshots.export import export
from airflow_provider_streamupdate.core.snapshots.pending_exports import Export, marks
from airflow_provider_streamupdate.core.snapshots.restore import bring_files, plan_restore
from airflow_provider_streamupdate.core.snapshots.snapshots import SnapshotStore
from airflow_provider_streamupdate.core.storage import Folder
from tests.golden import DEPLOYMENT, unpack

from .builders import app_plan, app_with_snapshots, spec, take, write_json
from .test_commit_log import changelog

HOSTILE = {
    "../../private.key": "leads out of its folder",
    "a/../../../private.key": "leads out of its folder",
    "..": "leads out of its folder",
    ".": "has an empty part",
    "": "is empty",
    "a//b": "has an empty part",
    "a/": "has an empty part",
    "/etc/passwd": "is absolute",
    "//host/share": "is absolute",
    "a\0b": "cannot be printed",
    "\x1b[2Ja": "cannot be printed",
    "\u202egnp.a": "cannot be printed",
    "\ud800": "cannot be printed",
    "..\\private.key": "holds a backslash",
    "C:/private.key": "begins with a drive or a scheme",
    "s3a://bucket/key": "begins with a drive or a scheme",
    "x" * 300: "is too long",
    "x/" * 600 + "x": "is too long",
}
KEY = b"-----BEGIN PRIVATE KEY-----"
MANIFEST = "snapshots/s1/snapshot.json"
STORES = ("rocksdb", "rocksdb-v2", "changelog-v2", "hdfs")


@pytest.mark.parametrize(("path", "problem"), HOSTILE.items(), ids=[ascii(p)[:30] for p in HOSTILE])
def test_a_path_that_leads_elsewhere_is_refused_with_the_reason(path: str, problem: str) -> None:
    for check in (check_path, check_part):
        with pytest.raises(CorruptError) as error:
            check(path, "/x/snapshot.json")
        assert str(error.value).startswith("/x/snapshot.json names ") and problem in str(error.value)
        assert len(str(error.value)) < 350 and str(error.value).isprintable(), "it may be shown in a terminal"


def test_what_spark_and_this_package_write_is_kept() -> None:
    written = ("state/0/1/SSTs/000008-6fa12502.sst", "state/0/_stateSchema/default/0_x", "a b", "été/ü", ".a", "a..b")
    assert [check_path(path, "x") for path in written] == [*written]
    with pytest.raises(CorruptError, match=r"^x names 'a/b', which is a path instead of a single name"):
        check_part("a/b", "x")


@given(st.text(max_size=60) | st.lists(st.sampled_from(["..", ".", "", "a", "C:", "\\", "\0"])).map("/".join))
def test_what_is_kept_stays_below_its_folder(path: str) -> None:
    if path_problem(path) is None:
        joined = os.path.normpath(os.path.join("/root/checkpoint", path))
        assert joined.startswith("/root/checkpoint/") and joined == f"/root/checkpoint/{path}"


@pytest.fixture(params=STORES)
def app(request: pytest.FixtureRequest, tmp_path: Path) -> AppRegistry:
    """An app with snapshot s1 of a checkpoint that Spark wrote, below a folder with a key that is nobody's business."""
    (tmp_path / "private.key").write_bytes(KEY)
    app = unpack("4.3", request.param, tmp_path / "root")
    plan = app.plan(DEPLOYMENT)
    plan = attrs.evolve(plan, queries=plan.queries[:1])  # one of them is enough
    write_json(app, f"deployments/{DEPLOYMENT}/plan.json", plan)
    export(app, DEPLOYMENT, "s1", plan, False, {})
    return app


@pytest.fixture
def hand_made(tmp_path: Path) -> AppRegistry:
    (tmp_path / "private.key").write_bytes(KEY)
    return app_with_snapshots(tmp_path / "root")


def manifest(app: AppRegistry) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(app.folder.read(MANIFEST) or b"")
    return found


def signed(described: dict[str, Any]) -> bytes:
    """With the checksum that fits: anybody can compute it."""
    bare = {**described, "checksum": ""}
    digest = hashlib.sha256((json.dumps(bare, indent=1, sort_keys=True) + "\n").encode()).hexdigest()
    return (json.dumps({**bare, "checksum": digest}, indent=1, sort_keys=True) + "\n").encode()


def refused(app: AppRegistry, described: dict[str, Any], entry: str) -> None:
    app.folder.write(MANIFEST, signed(described))
    store = SnapshotStore(app)
    for use in (store.get, store.verify):
        with pytest.raises(CorruptError) as error:
            use("s1")
        assert "snapshots/s1/snapshot.json" in str(error.value) and entry in str(error.value), str(error.value)
    assert [d.name for d in store.damaged()] == ["s1"] and store.all() == []


def test_no_file_of_a_manifest_is_anywhere_else(app: AppRegistry) -> None:
    described = manifest(app)
    app.folder.write(MANIFEST, signed(described))
    assert SnapshotStore(app).verify("s1")
    tried = 0
    for query in described["queries"].values():
        for file in query["files"]:
            for field in ("path", "object"):
                before = file[field]
                for hostile, problem in HOSTILE.items():
                    file[field] = hostile
                    app.folder.write(MANIFEST, signed(described))
                    with pytest.raises(CorruptError) as error:
                        SnapshotStore(app).get("s1")
                    assert MANIFEST in str(error.value) and problem in str(error.value), str(error.value)
                    tried += 1
                refused(app, described, problem)
                file[field] = before
    assert tried >= 10 * 2 * len(HOSTILE)


def test_a_manifest_s_objects_are_snapshots_objects_and_its_files_a_checkpoint_s(hand_made: AppRegistry) -> None:
    """Inside the app's folder, too, there are files that are none of a snapshot's."""
    described = manifest(hand_made)
    [file, other] = described["queries"]["windows"]["files"][:2]
    for field, values in (
        ("object", ["deployments/v1/spec.json", "objects/../current.json", "objects", "objects/a/b/c", "x"]),
        ("path", ["spec.json", "state/x/1.zip", "offsets/x", "sources/0", "commits/1/2", other["path"]]),
    ):
        before = file[field]
        for value in values:
            file[field] = value
            refused(hand_made, described, value if value not in ("objects/../current.json",) else "leads out")
        file[field] = before


@pytest.mark.parametrize("hostile", HOSTILE, ids=[ascii(p)[:30] for p in HOSTILE])
def test_every_other_name_in_a_manifest_is_one(hand_made: AppRegistry, hostile: str) -> None:
    whole = json.dumps(manifest(hand_made))
    for change in (
        lambda m: m.update(name=hostile),
        lambda m: m.update(app=hostile),
        lambda m: m.update(deployment=hostile),
        lambda m: m["queries"].update({hostile: m["queries"].pop("windows")}),
        lambda m: m["plan"]["queries"][0].update(name=hostile),
        lambda m: m["plan"]["queries"][0]["sources"][0].update(name=hostile),
        lambda m: m["plan"]["queries"][0]["stages"][0].update(stores=["default", hostile]),
        lambda m: m["plan"]["queries"][0]["stages"][0].update(operator_id=hostile),
    ):
        described = json.loads(whole)
        change(described)
        refused(hand_made, described, "")


# Files of a checkpoint that name others


def hostile_forms(path: str, data: bytes) -> Iterator[bytes]:
    """The file with each of the names in it, in turn, made each of the hostile ones."""
    for hostile in HOSTILE:
        if path.endswith(".zip"):
            yield from _zips(data, hostile)
        elif path.endswith(".changelog"):
            yield changelog({1: hostile})
        elif path.startswith("offsets/"):
            if not {":", "\n"} & set(hostile):  # these end a name there
                yield f"v2\n{{}}\n{hostile}:{{}}".encode("utf-8", "surrogatepass")
        else:
            version, _, text = data.decode().partition("\n")
            for described in _with_names(json.loads(text), hostile, path):
                yield f"{version}\n{json.dumps(described)}".encode()


def _zips(data: bytes, hostile: str) -> Iterator[bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        entries = {info.filename: archive.read(info) for info in archive.infolist()}
    version, _, text = entries["metadata"].decode().partition("\n")
    for kind, dfs in (("sstFiles", "dfsSstFileName"), ("logFiles", "dfsLogFileName")):
        for field in (dfs, "localFileName"):
            described = json.loads(text)
            described.setdefault(kind, []).append({"localFileName": "1.sst", dfs: "1.sst", "sizeBytes": 1})
            described[kind][-1][field] = hostile
            yield _zip({**entries, "metadata": f"{version}\n{json.dumps(described)}".encode()})
    if hostile.isprintable() and hostile:  # Python's own writer changes others
        yield _zip({**entries, hostile: b""})


def _zip(entries: dict[str, bytes]) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name, data in entries.items():
            archive.writestr(name, data)
    return made.getvalue()


def _with_names(described: dict[str, Any], hostile: str, path: str) -> Iterator[dict[str, Any]]:
    whole = json.dumps(described)
    if path.startswith("commits/"):
        for operator in described.get("stateUniqueIds") or ():
            changed = json.loads(whole)
            changed["stateUniqueIds"][operator][0][0] = hostile
            yield changed
        return
    for field, value in (("storeName", hostile), ("stateSchemaFilePaths", [f"/x/_stateSchema/{hostile}"])):
        changed = json.loads(whole)
        changed["stateStoreInfo"][0][field] = value
        yield changed


def naming(app: AppRegistry) -> list[dict[str, Any]]:
    found = [f for q in manifest(app)["queries"].values() for f in q["files"] if names_files(f["path"])]
    assert {f["path"].split("/")[0] for f in found} >= {"offsets", "commits", "state"}
    return found


def test_verify_finds_every_hostile_name_inside_a_snapshot_s_files(app: AppRegistry) -> None:
    """Their bytes are what the manifest says: whoever made them made it, too."""
    described, tried = manifest(app), 0
    for query in described["queries"].values():
        for file in query["files"]:
            if not names_files(file["path"]):
                continue
            before, kept = dict(file), app.folder.read(file["object"]) or b""
            for data in hostile_forms(file["path"], kept):
                app.folder.write(file["object"], data)
                file.update(size=len(data), sha256=hashlib.sha256(data).hexdigest())
                app.folder.write(MANIFEST, signed(described))
                with pytest.raises(CorruptError) as error:
                    SnapshotStore(app).verify("s1")
                assert file["path"] in str(error.value) and "snapshot s1 " in str(error.value), str(error.value)
                tried += 1
            app.folder.write(file["object"], kept)
            file.update(before)
    app.folder.write(MANIFEST, signed(described))
    assert SnapshotStore(app).verify("s1") and tried > 3 * len(HOSTILE)


@pytest.fixture
def adopt(app: AppRegistry) -> Callable[[], object]:
    """Adopts the app's checkpoint as snapshot `taken`."""
    plan = app.plan(DEPLOYMENT)
    folders = {q.name: app.checkpoint(DEPLOYMENT, q.name) for q in plan.queries}
    return lambda: save_adopted(app, DEPLOYMENT, "taken", plan, folders)


def test_two_queries_do_not_go_on_from_one_checkpoint(app: AppRegistry) -> None:
    plan = app.plan(DEPLOYMENT)
    twice = attrs.evolve(plan, queries=tuple(attrs.evolve(plan.queries[0], name=name) for name in ("a", "b")))
    folders = dict.fromkeys("ab", app.checkpoint(DEPLOYMENT, plan.queries[0].name))
    with pytest.raises(InvalidInputError, match="the checkpoints of a and b have the same query id: one is a copy"):
        save_adopted(app, DEPLOYMENT, "taken", twice, folders)


def checkpoint(app: AppRegistry) -> Folder:
    [query] = app.plan(DEPLOYMENT).queries
    return app.checkpoint(DEPLOYMENT, query.name)


def test_no_checkpoint_with_a_hostile_name_is_adopted(app: AppRegistry, adopt: Callable[[], object]) -> None:
    folder, stored, tried = checkpoint(app), objects(app), 0
    for file in naming(app):
        path = file["path"]
        if path.startswith(("offsets/", "state/")) and path.endswith((".changelog", "/0")):
            continue  # an entry before the last, and changelogs but the last: verify looks at them
        kept = folder.read(path) or b""
        for data in hostile_forms(path, kept):
            folder.write(path, data)
            with pytest.raises(CorruptError) as error:
                adopt()
            assert path in str(error.value), str(error.value)
            tried += 1
        folder.write(path, kept)
    assert tried > len(HOSTILE) and objects(app) == stored and not SnapshotStore(app).exists("taken")
    assert adopt()


def objects(app: AppRegistry) -> set[str]:
    return set(app.folder.files("objects"))


@pytest.mark.parametrize("data", [b"", b"\xff\xfe", b"v1\n[]", b"v1\n{", b"v2\nnull\n", b"v1\n7"])
def test_what_cannot_be_read_is_no_better(data: bytes) -> None:
    for path in ("state/0/0/1.zip", "state/0/0/1_a.changelog", "state/0/_metadata/v2/0"):
        with pytest.raises(CorruptError, match="/ck/it"):
            check_named_files(path, data, "/ck/it")


def links(folder: Path, outside: Path) -> Iterator[Path]:
    """Each file of a folder and each folder in it, in turn, moved outside with a link in its place."""
    for path in sorted(folder.rglob("*")):
        if not path.name.startswith(".") and not path.is_symlink():
            outside.parent.mkdir(exist_ok=True)
            path.rename(outside)
            path.symlink_to(outside, target_is_directory=outside.is_dir())
            yield path
            path.unlink()
            outside.rename(path)


def test_no_link_in_a_checkpoint_is_followed(app: AppRegistry, adopt: Callable[[], object], tmp_path: Path) -> None:
    folder, stored, tried = checkpoint(app), objects(app), 0
    needed = {f["path"] for q in manifest(app)["queries"].values() for f in q["files"]}
    for path in links(Path(folder.base), tmp_path / "outside" / "it"):
        relative = str(path.relative_to(folder.base))
        if any(f == relative or f.startswith(f"{relative}/") for f in needed):
            with pytest.raises(CorruptError, match="is a symbolic link; links inside") as error:
                adopt()
            assert str(path) in str(error.value)
            tried += 1
    assert tried > len(needed) and objects(app) == stored
    assert adopt()


def test_a_link_in_a_snapshot_is_damage_and_is_not_restored(app: AppRegistry, tmp_path: Path) -> None:
    plan = app.plan(DEPLOYMENT)
    [query] = plan.queries
    saved = SnapshotStore(app).get("s1").queries[query.name]
    restore = plan_restore(saved, query, query)
    brought = {file.object for file, _ in restore.moves} | {file.object for file in restore.offsets}
    tried = 0
    for path in links(Path(app.folder.path("objects")), tmp_path / "outside" / "it"):
        with pytest.raises(CorruptError, match=r"snapshot s1 of .* is damaged: .* is a symbolic link"):
            SnapshotStore(app).verify("s1")
        if path.is_dir() or str(path.relative_to(app.folder.base)) in brought:
            with pytest.raises(CorruptError, match="is a symbolic link"):
                bring_files(restore, app.folder, Folder.open(str(tmp_path / f"new-{tried}")))
        tried += 1
    assert tried == len(saved.files) + 1 and SnapshotStore(app).verify("s1")


def test_a_pipe_in_a_checkpoint_keeps_nobody_waiting(hand_made: AppRegistry) -> None:
    folder = hand_made.checkpoint("v1", "windows")
    for path in ("metadata", "offsets/0", "commits/0", "state/0/0/1.zip"):
        kept = folder.read(path) or b""
        os.unlink(folder.path(path))
        os.mkfifo(folder.path(path))
        with pytest.raises(CorruptError, match="is not a regular file"):
            take(hand_made, "s2")
        os.unlink(folder.path(path))
        folder.write(path, kept)
    assert take(hand_made, "s2")


def test_a_file_that_becomes_a_link_during_the_export_is_not_followed(hand_made: AppRegistry, tmp_path: Path) -> None:
    folder = hand_made.checkpoint("v1", "windows")
    exported = Checkpoint(folder).export(False)
    os.unlink(folder.path("metadata"))
    os.symlink(tmp_path / "private.key", folder.path("metadata"))
    with pytest.raises(CorruptError, match="is a symbolic link"):
        SnapshotStore(hand_made).save("s2", "v1", "live", app_plan(), {"windows": exported}, {"windows": folder})
    assert not SnapshotStore(hand_made).exists("s2")
    assert KEY not in [hand_made.folder.read(f"objects/{path}") for path in objects(hand_made)]


def test_a_link_in_a_circle_is_listed_once_and_a_name_that_cannot_be_printed_is_refused(tmp_path: Path) -> None:
    folder = Folder.open(str(tmp_path / "folder"))
    folder.write("a/b", b"")
    folder.write("kept", b"")
    os.symlink(tmp_path / "folder", tmp_path / "folder" / "a" / "round")
    assert folder.files() == ["a/b", "a/round", "kept"]
    folder.remove("a/round")
    assert folder.files() == ["a/b", "kept"]
    # a file whose name could not be told again is not submitted
    from airflow_provider_streamupdate.core.registry.application import Application

    strange = tmp_path / "a\nb.py"
    strange.write_text("")
    with pytest.raises(ApplicationError, match="holds characters that cannot be printed: rename it"):
        Application(file=str(strange)).check()


@pytest.mark.parametrize("hostile", [h for h in HOSTILE if h], ids=[ascii(p)[:30] for p in HOSTILE if p])
def test_a_record_of_the_registry_names_nothing_elsewhere(hand_made: AppRegistry, hostile: str) -> None:
    app = hand_made
    update = UpdateRecord(app="flights", old="v1", new="v1", started_at="2026-11-24", snapshot="s1")
    app.create_deployment(spec("v0"))
    write_json(app, "updates/v1.json", update)
    uses: list[tuple[str, tuple[str, ...], Callable[[], object]]] = [
        ("current.json", ("deployment",), app.current),
        ("epochs/2.json", ("deployment",), app.current),
        ("updates/v1.json", ("app", "old", "new", "snapshot"), lambda: app.update("v1")),
        (
            "deployments/v0/spec.json",
            ("app", "deployment", "parent", "from_snapshot", "from_app"),
            lambda: app.spec("v0"),
        ),
    ]
    write_json(app, "epochs/2.json", Current(deployment="v1", epoch=2))
    for path, fields, use in uses:
        kept = app.folder.read(path) or b""
        assert use()
        for field in fields:
            app.folder.write(path, json.dumps({**json.loads(kept), field: hostile}).encode())
            with pytest.raises(CorruptError) as error:
                use()
            assert path in str(error.value) and str(error.value).isprintable()
        app.folder.write(path, kept)
    app.folder.remove("epochs/2.json")
    described = to_dict(spec("v0"))
    for field, value in (("file", hostile), ("py_files", [hostile]), ("files", ["application/x", hostile])):
        changed = {**described, "application": {**described["application"], field: value}}
        app.folder.write("deployments/v0/spec.json", json.dumps({**changed, "format": 1}).encode())
        with pytest.raises(CorruptError, match=r"deployments/v0/spec\.json names "):
            app.spec("v0")
    app.folder.write("deployments/v0/spec.json", json.dumps(described).encode())
    with pytest.raises(CorruptError, match="a record or lease names"):
        app.update(hostile)
    app.folder.write("deployments/v1/newest_snapshot.json", json.dumps({"snapshot": hostile}).encode())
    assert SnapshotStore(app).shared("v1"), "a hint that is none is not taken"


def test_damaged_records_are_told(hand_made: AppRegistry) -> None:
    write_json(hand_made, "epochs/2.json", Current(deployment="v1", epoch=1))
    with pytest.raises(CorruptError, match=r"epochs/2\.json is the claim of epoch 1, which is over"):
        hand_made.current()
    # a change that is none is told
    hand_made.folder.write("deployments/v1/changes/x.json", b"{}")
    with pytest.raises(CorruptError, match=r"changes holds 'x'\.json, which is not a numbered change; remove it"):
        hand_made.spec("v1")


def test_a_command_is_answered_in_its_own_place(hand_made: AppRegistry) -> None:
    box = CommandBox(hand_made.deployment_folder("v1"), 1)
    name = box.issue("snapshot", snapshot="s9")
    described = json.loads(box.folder.read(f"{name}.json") or b"")
    box.folder.write(f"{name}.json", json.dumps({**described, "name": "../../../current"}).encode())
    assert box.pending(refuse=True) == []
    told = box.result(name)
    assert told and "commands/1/snapshot-s9.1.json says that it is '../../../current'" in str(told.error)


def test_rows_and_exports_lie_beside_what_names_them(tmp_path: Path, hand_made: AppRegistry) -> None:
    # What names them is removed with them.
    rows = Folder.open(str(tmp_path))
    rows.write("3", b"../../..")
    with pytest.raises(CorruptError, match=r"3 names '\.\./\.\./\.\.', which leads out of its folder"):
        rows_of(rows, 3)
    # an export's bytes are below the objects
    mark = f"snapshots/_{'x' * 32}/exporting.json"
    hand_made.folder.write(mark, to_json(Export(export="../deployments", snapshot="s9", started_at=clock.now())))
    assert [found.export for found in marks(hand_made.folder) if found.mark == mark] == ["x" * 32]
