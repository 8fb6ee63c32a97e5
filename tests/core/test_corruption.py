"""A damaged snapshot is found by verify, and before anything is started from it: every file of snapshots of checkpoints
that Spark wrote, cut short, with a byte flipped, removed, or exchanged for another."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from airflow_provider_streamupdate.control.client import StreamUpdateClient
from airflow_provider_streamupdate.core.errors import CorruptError, NotFoundError, StreamUpdateError
from airflow_provider_streamupdate.core.registry.application import Application
from airflow_provider_streamupdate.core.registry.registry import AppRegistry, Registry
from airflow_provider_streamupdate.core.snapshots.shared_objects import check_shared
from airflow_provider_streamupdate.core.snapshots.snapshots import SnapshotStore

from .builders import app_plan, app_with_snapshots, golden, spec, take, write_json

MANIFEST = "snapshots/s1/snapshot.json"
STORES = ("rocksdb", "default-store")


@pytest.fixture(scope="module", params=STORES)
def root(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An app with snapshots s1 and s2 of a checkpoint that Spark wrote: two stages, two partitions."""
    root = tmp_path_factory.mktemp(request.param)
    registry = Registry(str(root)).app("flights")
    registry.create_deployment(spec("v1", "flights"))
    write_json(registry, "deployments/v1/plan.json", app_plan(app="flights"))
    made = golden(request.param, root / "golden")
    registry.checkpoint("v1", "windows").write("metadata", b"")
    registry.checkpoint("v1", "windows").remove("")
    Path(made.base).rename(registry.checkpoint("v1", "windows").base)
    take(registry, "s1")
    take(registry, "s2")
    return root


@pytest.fixture
def app(root: Path) -> AppRegistry:
    return Registry(str(root)).app("flights")


@pytest.fixture
def site(root: Path) -> Iterator[StreamUpdateClient]:
    """A client whose launcher can start nothing."""

    class Nothing:
        def check(self) -> None:
            pass

        def command(self, *args: object) -> list[str]:
            raise AssertionError("a driver was to be started")

        environment = command

    client = StreamUpdateClient(str(root), Nothing())
    yield client
    assert [s.deployment for s in client.deployments("flights")] == ["v1"]
    assert client.registry.app("flights").current() is None


def files(app: AppRegistry) -> dict[str, str]:
    """Every file of s1, by where it lies: what its error calls it."""
    [query] = SnapshotStore(app).get("s1").queries.values()
    found = {file.object: f"windows/{file.path} ({file.object})" for file in query.files}
    assert len({p.split("/")[1] for p in (f.path for f in query.files) if p.startswith("state/")}) == 2
    return {MANIFEST: MANIFEST, **found}


Damage = Callable[[AppRegistry, str], bytes | None]


def truncated(app: AppRegistry, path: str) -> bytes:
    data = content(app, path)
    return data[: len(data) // 2]


def flipped(app: AppRegistry, path: str) -> bytes:
    data = bytearray(content(app, path))
    data[len(data) // 3] ^= 0x10
    return bytes(data)


def removed(app: AppRegistry, path: str) -> None:
    return None


def exchanged(app: AppRegistry, path: str) -> bytes:
    """The bytes of another file of the snapshot, of one of the same size if there is one; for the manifest, another
    snapshot's."""
    mine = content(app, path)
    if path == MANIFEST:
        return content(app, "snapshots/s2/snapshot.json")
    others = [other for name in files(app) if (other := content(app, name)) != mine]
    return min(others, key=lambda other: abs(len(other) - len(mine)))


def content(app: AppRegistry, path: str) -> bytes:
    data = app.folder.read(path)
    return data


def damaged(app: AppRegistry, damage: Damage) -> Iterator[tuple[str, str]]:
    """Each file in turn, damaged: where it lies and what its error calls it. (It is replaced, not written into: its
    bytes are shared with the checkpoint.)"""
    for path, called in files(app).items():
        before, after = content(app, path), damage(app, path)
        app.folder.remove(path)
        if after is not None:
            app.folder.write(path, after)
        yield path, called
        app.folder.write(path, before)
    assert SnapshotStore(app).verify("s1") == len(files(app)) - 1


def fits(error: pytest.ExceptionInfo[StreamUpdateError], called: str) -> None:
    text = str(error.value)
    if error.type is NotFoundError:
        assert called == MANIFEST and "has no snapshot 's1' (known: s2)" in text
        return
    assert "s1" in text and called in text, text
    unreadable = ("is not valid JSON", "does not hold a valid Snapshot")  # by where the flipped byte happens to lie
    reasons = ("was altered", "describes snapshot s2", "is missing", " bytes instead of ", "another checksum")
    assert any(reason in text for reason in (*unreadable, *reasons)), text
    assert "use another snapshot" in text or "restore" in text, text


@pytest.mark.parametrize("damage", [truncated, flipped, removed, exchanged])
def test_verify_finds_every_damaged_file_and_nothing_is_started_from_it(
    app: AppRegistry, site: StreamUpdateClient, damage: Damage, tmp_path: Path
) -> None:
    (tmp_path / "v2.py").write_text("")
    application, found = Application(file=str(tmp_path / "v2.py")), 0
    for _, called in damaged(app, damage):
        for use in (
            lambda: SnapshotStore(app).verify("s1"),
            lambda: site.submit(application, "v2", "s1", app="flights"),
        ):
            with pytest.raises((CorruptError, NotFoundError)) as error:
                use()
            fits(error, called)
        found += 1
    assert found > 20


def test_no_byte_of_the_manifest_may_change(app: AppRegistry) -> None:
    """White space counts, too: what says nothing about the state still says that the disk cannot be trusted."""
    before = content(app, MANIFEST)
    white = before.index(b"\n ")
    for at in (0, white, white + 1, len(before) - 1, *range(1, len(before), len(before) // 60)):
        for bit in (0x01, 0x20):
            data = bytearray(before)
            data[at] ^= bit
            app.folder.write(MANIFEST, bytes(data))
            with pytest.raises(CorruptError, match=r"snapshot\.json"):
                SnapshotStore(app).get("s1")
    app.folder.write(MANIFEST, before)
    assert SnapshotStore(app).get("s1")


def test_a_manifest_of_another_version_s_fields_is_whole(app: AppRegistry) -> None:
    """Its digest is one of its bytes: a field this version does not know is no damage."""
    import hashlib

    before = content(app, MANIFEST)
    stated = SnapshotStore(app).get("s1").checksum
    bare = before.replace(stated.encode(), b"").replace(b'\n "version"', b'\n "later_field": [1],\n "version"')
    digest = hashlib.sha256(bare).hexdigest().encode()
    app.folder.write(MANIFEST, bare.replace(b' "checksum": ""', b' "checksum": "' + digest + b'"', 1))
    assert SnapshotStore(app).verify("s1")
    app.folder.write(MANIFEST, before)


# Objects shared by snapshots, before an app is stopped


@pytest.fixture
def running(tmp_path: Path) -> AppRegistry:
    """A running app whose next snapshot would share two SSTs with s1 and s2."""
    return app_with_snapshots(tmp_path, ["s1", "s2"])


def shared(running: AppRegistry) -> tuple[Path, Path]:
    """One of them: the object, and the same file in the checkpoint, with bytes of its own."""
    file = next(f for f in SnapshotStore(running).get("s1").queries["windows"].files if "/SSTs/" in f.path)
    stored, live = Path(running.folder.path(file.object)), Path(running.checkpoint("v1", "windows").path(file.path))
    data = stored.read_bytes()
    stored.unlink()
    stored.write_bytes(data)
    return stored, live


@pytest.mark.parametrize("damage", [lambda data: None, lambda data: data[:5], lambda data: b"x" * len(data)])
def test_a_damaged_shared_object_is_stored_again_from_the_checkpoint(
    running: AppRegistry, damage: Callable[[bytes], bytes | None]
) -> None:
    stored, live = shared(running)
    whole = stored.read_bytes()
    stored.unlink()
    if (data := damage(whole)) is not None:
        stored.write_bytes(data)
    with pytest.raises(CorruptError):
        SnapshotStore(running).verify("s1")
    said: list[str] = []
    assert check_shared(running, "v1", said.append) == 2
    assert [line for line in said if "was damaged; it was stored again" in line and stored.name in line]
    assert stored.read_bytes() == whole == live.read_bytes()
    assert SnapshotStore(running).verify("s1") and SnapshotStore(running).verify("s2")


def test_when_the_checkpoint_is_damaged_as_well_the_update_is_refused(running: AppRegistry) -> None:
    stored, live = shared(running)
    for path in (stored, live):
        path.write_bytes(b"x" * len(path.read_bytes()))
    with pytest.raises(CorruptError) as error:
        check_shared(running, "v1", lambda _: None)
    assert all(str(path) in str(error.value) for path in (stored, live)) and "update --snapshot" in str(error.value)


def test_an_object_that_is_cut_short_is_not_referred_to(running: AppRegistry) -> None:
    stored, _ = shared(running)
    stored.write_bytes(b"short")
    taken = take(running, "s3")
    assert SnapshotStore(running).verify("s3")
    assert str(stored) not in {running.folder.path(f.object) for f in taken.queries["windows"].files}
