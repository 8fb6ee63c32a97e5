"""The snapshots of an app: save, list, verify, delete.

Layout (below the app's folder): ``snapshots/<name>/snapshot.json`` is written last, exclusively: its presence makes
the snapshot exist; it holds a digest of itself. Bytes lie in ``objects/<export id>/<sha256>``; a file an earlier
snapshot of the same deployment already holds (same path and size, and a name that is never reused: SSTs) is referred
to, not stored again.
``snapshots/<name>/exporting.json`` marks one being written, so that nothing it may refer to is collected meanwhile.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import uuid
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor

import attrs

from . import clock
from .boundaries import boundary
from .errors import AlreadyExistsError, CorruptError, InUseError, NotFoundError, StorageError
from .names import check_name
from .plan import AppPlan
from .registry import AppRegistry
from .serde import from_json, to_json
from .snapshot import DamagedSnapshot, QuerySnapshot, Snapshot, SnapshotFile, Verified
from .storage import Folder

Progress = Callable[[str], None]
COPIES_AT_ONCE = 8
ABANDONED_SECONDS = 86400.0  # an export that has not ended for so long is not running any more


class SnapshotStore:
    """All snapshots of one app."""

    def __init__(self, app: AppRegistry) -> None:
        self.app = app
        self.folder = app.folder

    def names(self) -> list[str]:
        return [n for n in self.folder.names("snapshots") if self.exists(n)]

    def exists(self, name: str) -> bool:
        return self.folder.exists(_manifest(check_name("snapshot", name)))

    def all(self) -> list[Snapshot]:
        """Complete snapshots, oldest first; without those in `damaged`."""
        return self._read()[0]

    def damaged(self) -> list[DamagedSnapshot]:
        """Snapshots whose manifest cannot be read: nobody knows which bytes are theirs."""
        return self._read()[1]

    def newest(self) -> Snapshot:
        """NotFoundError when there is none."""
        if not (found := self.all()):
            raise NotFoundError(f"app {self.app.name} has no snapshot; take one first (save-snapshot)")
        return found[-1]

    def get(self, name: str) -> Snapshot:
        """The snapshot; NotFoundError when there is none, CorruptError when its manifest was altered."""
        path = _manifest(check_name("snapshot", name))
        text = self.folder.read(path)
        if text is None:
            known = ", ".join(self.names()) or "none"
            raise NotFoundError(
                f"app {self.app.name} has no snapshot {name!r} (known: {known}); choose one of these, or take one "
                "(save-snapshot)"
            )
        snapshot = from_json(text, Snapshot, self.folder.path(path))
        if not _whole(text):
            raise CorruptError(
                f"{self.folder.path(path)} was altered: its checksum does not fit; use another snapshot of the app"
            )
        if (snapshot.app, snapshot.name) != (self.app.name, name):
            raise CorruptError(
                f"{self.folder.path(path)} describes snapshot {snapshot.name} of app {snapshot.app}: it lies in "
                "another one's place; restore the file from a backup, or use another snapshot of the app"
            )
        return snapshot

    def save(
        self,
        name: str,
        deployment: str,
        kind: str,
        plan: AppPlan,
        exports: Mapping[str, QuerySnapshot],
        checkpoints: Mapping[str, Folder],
        adopted_from: Mapping[str, str] | None = None,
    ) -> Snapshot:
        """Store exported queries under `name`. AlreadyExistsError when the name was used; a crash leaves no
        snapshot, and the call can be repeated."""
        if self.exists(check_name("snapshot", name)):
            raise AlreadyExistsError(f"app {self.app.name} already has a snapshot {name!r}; choose another name")
        export_id = uuid.uuid4().hex
        marker = f"snapshots/{name}/exporting.json"
        self.folder.write(marker, to_json({"export": export_id, "started_at": clock.now()}))
        self.folder.remove(_verified(name))  # of a deleted one of the name, noted while that was deleted
        known = self.shared(deployment)
        stored: dict[str, QuerySnapshot] = {}
        new_bytes = 0
        for query, export in exports.items():
            files, added = self._store(query, export, checkpoints[query], export_id, known)
            stored[query] = attrs.evolve(export, files=files)
            new_bytes += added
        snapshot = Snapshot(
            name=name,
            app=self.app.name,
            deployment=deployment,
            created_at=clock.now(),
            kind=kind,
            plan=plan,
            queries=stored,
            bytes_new=new_bytes,
            adopted_from=dict(adopted_from or {}),
        )
        snapshot = attrs.evolve(snapshot, checksum=hashlib.sha256(to_json(snapshot)).hexdigest())
        boundary("files-copied")
        if not self.folder.create(_manifest(name), to_json(snapshot)):
            raise AlreadyExistsError(f"app {self.app.name} already has a snapshot {name!r}; choose another name")
        boundary("snapshot-stored")
        with contextlib.suppress(StorageError):  # the snapshot is there; a marker that stays is collected later
            self.folder.remove(marker)
            self.folder.write(_newest(deployment), to_json(Newest(snapshot=name)))
        return snapshot

    def verify(self, name: str, progress: Progress | None = None) -> int:
        """Read every file of a snapshot and compare size and checksum; the number of files. CorruptError lists
        what is missing or altered."""
        try:
            snapshot = self.get(name)
        except CorruptError as error:
            raise CorruptError(f"snapshot {name} of {self.app.name} is damaged: {error}") from error
        files = {f.object: (q, f) for q, query in snapshot.queries.items() for f in query.files}
        problems: list[str] = []
        with ThreadPoolExecutor(COPIES_AT_ONCE) as pool:
            for done, problem in enumerate(pool.map(lambda item: self._problem(*item), files.values()), 1):
                if problem:
                    problems.append(problem)
                if progress and done % 100 == 0:
                    progress(f"verified {done} of {len(files)} files")
        if problems:
            shown = "; ".join(problems[:5]) + (f"; and {len(problems) - 5} more" if len(problems) > 5 else "")
            raise CorruptError(
                f"snapshot {name} of {self.app.name} is damaged: {shown}; use another snapshot (list-snapshots)"
            )
        return len(files)

    def note_verified(self, name: str, files: int, problem: str | None = None) -> None:
        """Keep what a verification found, for those who only look."""
        found = Verified(at=clock.now(), files=files, problem=problem)
        if self.exists(name):
            self.folder.write(_verified(name), to_json(found))

    def verified(self, name: str) -> Verified | None:
        """What the last verification found; None: there was none, or its note cannot be read."""
        text = self.folder.read(_verified(name))
        with contextlib.suppress(CorruptError):
            return None if text is None else from_json(text, Verified, self.folder.path(_verified(name)))
        return None

    def delete(self, name: str, progress: Progress | None = None) -> int:
        """Remove a snapshot and the bytes nothing else needs; the bytes freed. The caller holds the lease.
        InUseError for the app's last snapshot and for one a deployment that may run again started from. A damaged one
        can be deleted too; `progress` is told what that means."""
        say = progress or (lambda _: None)
        try:
            self.get(name)
        except CorruptError as error:
            say(
                f"snapshot {name} of {self.app.name} is damaged ({error}): which bytes are its own is not known, so "
                "all that no other snapshot needs are deleted with it"
            )
        else:
            if len(self.all()) == 1:
                raise InUseError(f"{name} is the last snapshot of {self.app.name}; take another one before deleting it")
        if users := self.users(name):
            raise InUseError(
                f"snapshot {name} of {self.app.name} is in use: {'; '.join(users)}; delete it after the next update"
            )
        self.folder.remove(_manifest(name))
        freed = self._collect(say)
        self.folder.remove(f"snapshots/{name}")
        return freed

    def users(self, name: str) -> list[str]:
        """Who needs the snapshot: the current deployment, what a rollback would go back to, an update under way, a fork
        that is another app."""
        users = []
        current = self.app.current()
        if current:
            spec = self.app.spec(current.deployment)
            if spec.from_snapshot == name:
                users.append(f"deployment {spec.deployment}, which runs now, started from it")
        for update in self.app.updates():
            if update.outcome is None and update.snapshot == name:
                users.append(f"the update to {update.new} that is under way uses it")
        return users + [f"{fork}, which runs now, was forked from it" for fork in self._forks(name)]

    def _forks(self, name: str) -> list[str]:
        found = []
        for other in self.app.siblings():
            with contextlib.suppress(CorruptError):  # an app that is damaged stands in the way of no other's snapshots
                current = other.current()
                spec = other.spec(current.deployment) if current else None
                if spec and (spec.from_app, spec.from_snapshot) == (self.app.name, name):
                    found.append(f"deployment {spec.deployment} of app {other.name}")
        return found

    def shared(self, deployment: str) -> dict[tuple[str, str, int], SnapshotFile]:
        """What the deployment's next snapshot would refer to instead of storing it, by query, path and size: files of
        never reused names that complete snapshots of the same deployment hold. The newest of these is enough, because
        RocksDB does not come back to an SST it has dropped; where it is not known, all are read."""
        newest = self._newest(deployment)
        return {
            (query, file.path, file.size): file
            for snapshot in ([newest] if newest else self.all())
            if snapshot.deployment == deployment
            for query, exported in snapshot.queries.items()
            for file in exported.files
            if "/SSTs/" in file.path
        }

    def _newest(self, deployment: str) -> Snapshot | None:
        """The last snapshot of the deployment; None where that is not known, or it was deleted or damaged since."""
        if (text := self.folder.read(_newest(deployment))) is None:
            return None
        with contextlib.suppress(CorruptError, NotFoundError):
            snapshot = self.get(from_json(text, Newest, self.folder.path(_newest(deployment))).snapshot)
            return snapshot if snapshot.deployment == deployment else None
        return None

    def _store(
        self,
        query: str,
        export: QuerySnapshot,
        checkpoint: Folder,
        export_id: str,
        known: Mapping[tuple[str, str, int], SnapshotFile],
    ) -> tuple[tuple[SnapshotFile, ...], int]:
        def store(file: SnapshotFile) -> tuple[SnapshotFile, int]:
            same = known.get((query, file.path, file.size))
            if same and self._fits(same):
                return same, 0
            # Copied first and hashed afterwards: the source may be removed meanwhile, the copy cannot.
            name = f"objects/{export_id}/{hashlib.sha256(f'{query}/{file.path}'.encode()).hexdigest()}"
            try:
                self.folder.copy_from(checkpoint, file.path, name)
                digest, size = self.folder.sha256(name)
            except FileNotFoundError as error:
                raise CorruptError(f"{checkpoint.path(file.path)} vanished during the export; try again") from error
            return SnapshotFile(path=file.path, size=size, object=name, sha256=digest), size

        with ThreadPoolExecutor(COPIES_AT_ONCE) as pool:
            results = list(pool.map(store, export.files))
        return tuple(f for f, _ in results), sum(n for _, n in results)

    def _fits(self, file: SnapshotFile) -> bool:
        """Whether an object is there and has its size; its bytes are another matter (shared.py)."""
        try:
            return self.folder.size(file.object) == file.size
        except FileNotFoundError:
            return False

    def _problem(self, query: str, file: SnapshotFile) -> str | None:
        try:
            digest, size = self.folder.sha256(file.object)
        except FileNotFoundError:
            return f"{query}/{file.path} ({file.object}) is missing"
        if size != file.size:
            return f"{query}/{file.path} ({file.object}) has {size} bytes instead of {file.size}"
        if digest != file.sha256:
            return f"{query}/{file.path} ({file.object}) has another checksum"
        return None

    def _collect(self, say: Progress) -> int:
        """Remove every object that no snapshot needs, those that a crash left behind too; the bytes freed. None while a
        snapshot is damaged: it may need any of them, once its manifest is restored from a backup.

        The order counts: an export that wrote one of the listed objects, or read a manifest that is gone now, either
        still has its marker when that is looked for, or its manifest is read afterwards.
        """
        found = [f"objects/{path}" for path in self.folder.files("objects")]
        if any(self._exporting(name) for name in self.folder.names("snapshots")):
            return 0  # a later delete collects them
        snapshots, damaged = self._read()
        if damaged:
            names = ", ".join(d.name for d in damaged)
            say(
                f"no bytes are freed, since {names} of {self.app.name} is damaged and may need them: restore its "
                "snapshot.json from a backup, or delete it too"
            )
            return 0
        needed = {f.object for s in snapshots for q in s.queries.values() for f in q.files}
        freed = 0
        for name in found:
            if name not in needed:
                freed += self.folder.size(name)
                self.folder.remove(name)
        for export in {n.split("/")[1] for n in found} - {n.split("/")[1] for n in needed}:
            self.folder.remove(f"objects/{export}")
        return freed

    def _read(self) -> tuple[list[Snapshot], list[DamagedSnapshot]]:
        snapshots, damaged = [], []
        for name in self.names():
            try:
                snapshots.append(self.get(name))
            except NotFoundError:
                pass  # deleted since it was listed
            except CorruptError as error:
                damaged.append(DamagedSnapshot(app=self.app.name, name=name, problem=str(error)))
        return sorted(snapshots, key=lambda s: s.created_at), damaged

    def _exporting(self, name: str) -> bool:
        path = f"snapshots/{name}/exporting.json"
        text = self.folder.read(path)
        if text is None:
            return False
        try:
            started = from_json(text, dict, self.folder.path(path)).get("started_at")
        except CorruptError:  # it still tells by its age
            started = clock.from_epoch_ms(self.folder.modified(path) * 1000)
        return started is not None and clock.age(started) < ABANDONED_SECONDS


@attrs.frozen(kw_only=True)
class Newest:
    """The name of a deployment's last snapshot: for speed only, nothing rests on it."""

    snapshot: str


def _newest(deployment: str) -> str:
    return f"deployments/{deployment}/newest_snapshot.json"


def _manifest(name: str) -> str:
    return f"snapshots/{name}/snapshot.json"


def _verified(name: str) -> str:
    return f"snapshots/{name}/verified.json"


def _whole(manifest: bytes) -> bool:
    """Whether not a byte of a manifest was altered: it holds the digest of itself with an empty checksum. Of the bytes,
    so that a version of this package that knows more or fewer fields comes to the same result."""
    stated = re.search(rb'^ "checksum": "([0-9a-f]{64})"', manifest, re.MULTILINE)
    if stated is None:
        return False
    rest = manifest[: stated.start(1)] + manifest[stated.end(1) :]
    return hashlib.sha256(rest).hexdigest().encode() == stated[1]
