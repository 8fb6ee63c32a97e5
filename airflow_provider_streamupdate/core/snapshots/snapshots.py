"""The snapshots of an app: save, list, verify, delete.

Layout (below the app's folder): ``snapshots/<name>/snapshot.json`` is written last, exclusively: its presence makes
the snapshot exist; it holds a digest of itself. Bytes lie in ``objects/<export id>/<sha256>``; a file an earlier
snapshot of the same deployment already holds (same path and size, and a name that is never reused: SSTs) is referred
to, not stored again. Each export has an id and a mark of its own (pending_exports.py), so nothing it may refer to is
collected meanwhile. A delete removes exactly the manifest that it has read, never a newer one of the name, and creates
nothing, so that it works on a full disk.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor

import attrs

from .. import clock
from ..boundaries import boundary
from ..checkpoint.named_files import check_named_files, names_files
from ..checkpoint.snapshot import DamagedSnapshot, QuerySnapshot, Snapshot, SnapshotFile, SnapshotKind, Verified
from ..errors import AlreadyExistsError, CorruptError, InUseError, NewerFormatError, NotFoundError, StorageError
from ..formats import VERSION, format_of
from ..names import check_name, is_name, named
from ..plan.plan import AppPlan
from ..registry.registry import AppRegistry
from ..serde import from_json, read_file, to_json
from ..storage import Folder
from ..storage.space import check_room
from . import garbage
from . import pending_exports as export_marks
from .pending_exports import Export

Progress = Callable[[str], None]
COPIES_AT_ONCE = 8
# In a manifest's place, on a store that cannot remove exactly one version of a file: a delete that was held up on its
# way may write this later, too, since the name is not used again. Not JSON, so that nothing takes it for a manifest.
DELETED = b"this snapshot was deleted\n"


class SnapshotStore:
    """All snapshots of one app."""

    def __init__(self, app: AppRegistry) -> None:
        self.app = app
        self.folder = app.folder

    def names(self) -> list[str]:
        """Return the names of the snapshots. Folders that cannot be a snapshot's are ignored."""
        return [n for n in self.folder.names("snapshots") if is_name(n) and self.exists(n)]

    def exists(self, name: str) -> bool:
        found = self.folder.read(_manifest(check_name("snapshot", name)), len(DELETED))
        return found is not None and found != DELETED

    def all(self) -> list[Snapshot]:
        """Complete snapshots, oldest first; without those in `damaged`."""
        return self.read()[0]

    def damaged(self) -> list[DamagedSnapshot]:
        """Snapshots whose manifest cannot be read, so which bytes belong to them is unknown."""
        return self.read()[1]

    def newest(self) -> Snapshot:
        """Return the newest snapshot; NotFoundError when there is none, NewerFormatError when this version cannot read
        one that may be newer."""
        found, damaged = self.read()
        if newer := [each for each in damaged if each.error == NewerFormatError.__name__]:
            raise NewerFormatError(newer[0].problem)
        if not found:
            raise NotFoundError(f"app {self.app.name} has no snapshot; take one first (save-snapshot)")
        return found[-1]

    def get(self, name: str) -> Snapshot:
        """The snapshot; NotFoundError when there is none, CorruptError when its manifest was altered."""
        text = self._manifest_of(name)
        if text is None:
            raise self._unknown(name)
        return self._parse(name, text)

    def taken_at(self, name: str) -> str | None:
        """Return when the snapshot was taken, as `created_at` of `get`, which also says what is raised; None when there
        is none. A manifest that nobody altered is not checked field by field: there may be thousands."""
        text = self._manifest_of(name)
        if text is None:
            return None
        head = _head(text) if _whole(text) else {}
        created_at = head.get("created_at")
        as_expected = [head.get(key) for key in ("app", "name", VERSION)] == [self.app.name, name, _VERSION]
        if as_expected and isinstance(created_at, str):
            return created_at
        return self._parse(name, text).created_at

    def _manifest_of(self, name: str) -> bytes | None:
        text = self.folder.read(_manifest(check_name("snapshot", name)))
        return None if text == DELETED else text

    def _unknown(self, name: str) -> NotFoundError:
        known = ", ".join(self.names()) or "none"
        return NotFoundError(
            f"app {self.app.name} has no snapshot {name!r} (known: {known}); choose one of these, or take one "
            "(save-snapshot)"
        )

    def _parse(self, name: str, text: bytes) -> Snapshot:
        path = self.folder.path(_manifest(name))
        snapshot = from_json(text, Snapshot, path)
        if not _whole(text):
            raise CorruptError(f"{path} was altered: its checksum does not match; use another snapshot of the app")
        if (snapshot.app, snapshot.name) != (self.app.name, name):
            raise CorruptError(
                f"{path} describes snapshot {snapshot.name} of app {snapshot.app}, so it is in the wrong place; "
                "restore the file from a backup, or use another snapshot of the app"
            )
        if problem := snapshot.misplaced():
            raise CorruptError(f"{path} {problem}; restore the file from a backup, or do not use it")
        return snapshot

    def save(
        self,
        name: str,
        deployment: str,
        kind: SnapshotKind,
        plan: AppPlan,
        exports: Mapping[str, QuerySnapshot],
        checkpoints: Mapping[str, Folder],
        adopted_from: Mapping[str, str] | None = None,
    ) -> Snapshot:
        """Store exported queries under `name`. AlreadyExistsError when the name was used; StorageError, with nothing
        stored, when there is no room for it. What failed on the way leaves no snapshot, and the call can be repeated.
        """
        if self.exists(check_name("snapshot", name)):
            raise self._used(name)
        check_room(
            self.folder, self._new_bytes(deployment, exports, checkpoints), f"snapshot {name} of {self.app.name}"
        )
        with export_marks.begun(self.folder, name, deployment) as export:
            try:
                self.folder.remove(_verified(name))  # of a deleted one of the name, noted while that was deleted
                snapshot = self._export(export, kind, plan, exports, checkpoints, adopted_from)
            except BaseException:
                self._give_up(export)
                raise
        boundary("snapshot-stored")
        with contextlib.suppress(StorageError):  # the snapshot is there; a mark that stays is removed later
            export_marks.end(self.folder, export)
            self.folder.write(_newest(deployment), to_json(Newest(snapshot=name)))
        return snapshot

    def _export(
        self,
        export: Export,
        kind: SnapshotKind,
        plan: AppPlan,
        queries: Mapping[str, QuerySnapshot],
        checkpoints: Mapping[str, Folder],
        adopted_from: Mapping[str, str] | None,
    ) -> Snapshot:
        known = self.shared(export.deployment)  # now that the mark is there: what is found from here on stays
        stored: dict[str, QuerySnapshot] = {}
        new_bytes = 0
        for query, exported in queries.items():
            files, added = self._store(query, exported, checkpoints[query], export.export, known)
            stored[query] = attrs.evolve(exported, files=files)
            new_bytes += added
        snapshot = Snapshot(
            name=export.snapshot,
            app=self.app.name,
            deployment=export.deployment,
            created_at=clock.now(),
            kind=kind,
            plan=plan,
            queries=stored,
            bytes_new=new_bytes,
            adopted_from=dict(adopted_from or {}),
        )
        snapshot = attrs.evolve(snapshot, checksum=hashlib.sha256(to_json(snapshot)).hexdigest())
        # What the manifest names lasts before the manifest does. Of the checkpoint's files only this makes sure: Spark
        # does not sync them, and an object may be a link to one.
        made = f"objects/{export.export}/"
        self.folder.sync([f.object for q in stored.values() for f in q.files if f.object.startswith(made)])
        boundary("files-copied")
        self._publish(export, to_json(snapshot))
        return snapshot

    def _publish(self, export: Export, text: bytes) -> None:
        """Write the manifest. AlreadyExistsError when the name is another's, StorageError when the export was taken for
        dead: its objects may be gone."""
        name = export.snapshot
        try:
            created = self.folder.create(_manifest(name), text)
        except StorageError:
            created = False
            if self.folder.read(_manifest(name)) != text:
                raise
        if not created and self.folder.read(_manifest(name)) != text:  # its answer may have got lost
            raise self._used(name)
        try:
            stands = export_marks.stands(self.folder, export)
        except BaseException:
            self._remove_manifest(name, text)
            raise
        if not stands:
            self._remove_manifest(name, text)
            raise StorageError(
                f"snapshot {name} of {self.app.name} gave no sign of life for {export_marks.WATCH_SECONDS:.0f} s, was "
                "taken for dead, and is not kept; take the snapshot again"
            )

    def _give_up(self, export: Export) -> None:
        """Free what a failed export has stored, unless its manifest is there. What cannot be freed now has a mark
        without signs of life, so that the next delete or gc frees it."""
        with contextlib.suppress(StorageError, FileNotFoundError):
            text = self._manifest_of(export.snapshot)
            if text is None or export.export.encode() not in text:
                self.folder.remove(f"objects/{export.export}")
                export_marks.end(self.folder, export)
                self.folder.remove_empty(f"snapshots/{export.snapshot}")

    def _used(self, name: str) -> AlreadyExistsError:
        if self.folder.read(_manifest(name), len(DELETED)) == DELETED:
            return AlreadyExistsError(
                f"app {self.app.name} had a snapshot {name!r}, which was deleted; this store cannot remove exactly "
                "one version of a file, so a name can be used only once: choose another name"
            )
        return AlreadyExistsError(f"app {self.app.name} already has a snapshot {name!r}; choose another name")

    def _new_bytes(
        self, deployment: str, queries: Mapping[str, QuerySnapshot], checkpoints: Mapping[str, Folder]
    ) -> int:
        """Return the bytes that an export would write, without shared and linked files; 0 where free space is
        unknown."""
        copied = [query for query in queries if not self.folder.same_disk(checkpoints[query])]
        if not copied or self.folder.free() is None:
            return 0
        known = self.shared(deployment)
        return sum(f.size for q in copied for f in queries[q].files if (q, f.path, f.size) not in known)

    def verify(self, name: str, progress: Progress | None = None) -> int:
        """Read every file of a snapshot and compare size and checksum; the number of files. CorruptError lists
        what is missing or altered."""
        try:
            snapshot = self.get(name)
        except CorruptError as error:
            raise CorruptError(f"snapshot {name} of {self.app.name} is damaged: {error}") from error
        files = {f.object: (q, f) for q, query in snapshot.queries.items() for f in query.files}
        problems: list[str] = []
        folders: set[str] = set()
        with ThreadPoolExecutor(COPIES_AT_ONCE) as pool:
            for done, problem in enumerate(
                pool.map(lambda item: self._problem(item[0], item[1], folders), files.values()), 1
            ):
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
        """Record what a verification found, for commands that only show it."""
        found = Verified(at=clock.now(), files=files, problem=problem)
        if self.exists(name):
            self.folder.write(_verified(name), to_json(found))

    def verified(self, name: str) -> Verified | None:
        """Return the result of the last verification; None when there was none, or its note cannot be read."""
        with contextlib.suppress(CorruptError, NewerFormatError):
            return read_file(self.folder, _verified(name), Verified)
        return None

    def delete(self, name: str, progress: Progress | None = None) -> int:
        """Remove a snapshot, or what a failed export of the name left, and the bytes nothing else needs; the bytes
        freed. Creates nothing. The caller holds the lease, or what stands for it on a full disk.

        InUseError for the app's last snapshot, for one a deployment that may run again started from, and for one that
        is being taken. A damaged one can be deleted too; `progress` is told what that means.
        """
        say = progress or (lambda _: None)
        text = self._manifest_of(name)
        if text is None:
            return self._delete_failed(name)
        own: set[str] = set()  # what no export shares
        try:
            snapshot = self._parse(name, text)
        except CorruptError as error:
            say(
                f"snapshot {name} of {self.app.name} is damaged ({error}): which bytes belong to it is unknown, so "
                "all bytes that no other snapshot needs are deleted with it"
            )
        else:
            if len(self.all()) == 1:
                raise InUseError(f"{name} is the last snapshot of {self.app.name}; take another one before deleting it")
            own = {f.object for q in snapshot.queries.values() for f in q.files if not _lasting(f.path)}
        if users := self.users(name):
            raise InUseError(
                f"snapshot {name} of {self.app.name} is in use: {'; '.join(users)}; delete it after the next update"
            )
        if not self._remove_manifest(name, text):
            raise NotFoundError(f"snapshot {name} of {self.app.name} was deleted by another process meanwhile")
        found = self.garbage(own)
        freed = garbage.remove(self.folder, found)
        for line in found.kept:
            say(line)
        return freed

    def garbage(self, own: Collection[str] = (), only_look: bool = False) -> garbage.Garbage:
        """See `garbage.find`."""
        return garbage.find(self.folder, self.read, own, only_look)

    def _remove_manifest(self, name: str, text: bytes) -> bool:
        """Remove exactly this manifest; False when it is gone, whatever is there now. Its folder, and the note beside
        it, go too, unless there is something new in it."""
        removed = self.folder.remove_exactly(_manifest(name), text)
        if removed is None:
            if self.folder.read(_manifest(name)) != text:
                return False
            self.folder.write(_manifest(name), DELETED)  # no other manifest is ever in this place
            removed = True
        if removed:
            self.folder.remove(_verified(name))
            self.folder.remove_empty(f"snapshots/{name}")
        return removed

    def _delete_failed(self, name: str) -> int:
        """Free what exports of the name left that came to no snapshot."""
        marks = [export for export in export_marks.marks(self.folder) if export.snapshot == name]
        if not marks:
            raise self._unknown(name)
        living = export_marks.living(self.folder, marks)
        if living:
            raise InUseError(f"{living[0]} of {self.app.name} is under way; wait for it, or end its process")
        return garbage.remove(self.folder, self.garbage())

    def users(self, name: str) -> list[str]:
        """The users of the snapshot: the current deployment, the one that a rollback would return to, an update under
        way, a fork that is another app."""
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
        """Return the files that the deployment's next snapshot would share, by query, path and size: files of never
        reused names that complete snapshots of the same deployment hold. The newest of these is enough, because RocksDB
        does not come back to an SST it has dropped; where it is not known, all are read."""
        newest = self._newest(deployment)
        return {
            (query, file.path, file.size): file
            for snapshot in ([newest] if newest else self.all())
            if snapshot.deployment == deployment
            for query, exported in snapshot.queries.items()
            for file in exported.files
            if _lasting(file.path)
        }

    def _newest(self, deployment: str) -> Snapshot | None:
        """The last snapshot of the deployment; None where that is not known, or it was deleted or damaged since."""
        with contextlib.suppress(CorruptError, NewerFormatError, NotFoundError):
            hint = read_file(self.folder, _newest(deployment), Newest)
            snapshot = self.get(hint.snapshot) if hint else None
            return snapshot if snapshot and snapshot.deployment == deployment else None
        return None

    def _store(
        self,
        query: str,
        export: QuerySnapshot,
        checkpoint: Folder,
        export_id: str,
        known: Mapping[tuple[str, str, int], SnapshotFile],
    ) -> tuple[tuple[SnapshotFile, ...], int]:
        folders: set[str] = set()
        sizes: dict[str, int] = {}
        for place in sorted({file.object.rpartition("/")[0] for (of, *_), file in known.items() if of == query}):
            sizes |= self.folder.sizes(place)

        def store(file: SnapshotFile) -> tuple[SnapshotFile, int]:
            same = known.get((query, file.path, file.size))
            if same and (sizes.get(same.object) == same.size or self._fits(same)):
                return same, 0
            # Copied first and hashed afterwards: the source may be removed meanwhile, the copy cannot.
            name = f"objects/{export_id}/{hashlib.sha256(f'{query}/{file.path}'.encode()).hexdigest()}"
            try:
                self.folder.copy_from(checkpoint, file.path, name)
                self.folder.check_regular(name, folders)
                digest, size = self.folder.sha256(name, file.size)
            except FileNotFoundError as error:
                raise CorruptError(f"{checkpoint.path(file.path)} was removed during the export; try again") from error
            return SnapshotFile(path=file.path, size=size, object=name, sha256=digest), size

        with ThreadPoolExecutor(COPIES_AT_ONCE) as pool:
            results = list(pool.map(store, export.files))
        return tuple(f for f, _ in results), sum(n for _, n in results)

    def _fits(self, file: SnapshotFile) -> bool:
        """Whether an object is there and has its size; its bytes are another matter (shared_objects.py)."""
        try:
            return self.folder.size(file.object) == file.size
        except FileNotFoundError:
            return False

    def _problem(self, query: str, file: SnapshotFile, folders: set[str]) -> str | None:
        try:
            self.folder.check_regular(file.object, folders)
            digest, size = self.folder.sha256(file.object)
        except FileNotFoundError:
            return f"{query}/{file.path} ({file.object}) is missing"
        except CorruptError as error:
            return f"{query}/{file.path} ({file.object}): {error}"
        if size != file.size:
            return f"{query}/{file.path} ({file.object}) has {size} bytes instead of {file.size}"
        if digest != file.sha256:
            return f"{query}/{file.path} ({file.object}) has another checksum"
        if names_files(file.path):  # it is what was stored, which may have been made by anybody
            where = f"{query}/{file.path} ({file.object})"
            try:
                check_named_files(file.path, self.folder.read(file.object) or b"", where)
            except CorruptError as error:
                return str(error)
        return None

    def read(self) -> tuple[list[Snapshot], list[DamagedSnapshot]]:
        """Complete snapshots, oldest first, and damaged ones."""
        snapshots, damaged = [], []
        for name in self.names():
            try:
                snapshots.append(self.get(name))
            except NotFoundError:
                pass  # deleted since it was listed
            except (CorruptError, NewerFormatError) as error:
                damaged.append(DamagedSnapshot.of(self.app.name, name, error))
        return sorted(snapshots, key=lambda s: s.created_at), damaged


@attrs.frozen(kw_only=True)
class Newest:
    """The name of a deployment's last snapshot: for speed only, nothing depends on it."""

    snapshot: str = attrs.field(validator=named("snapshot"))


def _newest(deployment: str) -> str:
    return f"deployments/{deployment}/newest_snapshot.json"


_FORMAT = format_of(Snapshot)
_VERSION = _FORMAT.version if _FORMAT else 0


def _manifest(name: str) -> str:
    return f"snapshots/{name}/snapshot.json"


def _verified(name: str) -> str:
    return f"snapshots/{name}/verified.json"


def _lasting(path: str) -> bool:
    """Whether a file's name is never used again, so that snapshots share it."""
    return "/SSTs/" in path


def _head(manifest: bytes) -> dict[str, object]:
    """Return the fields of a manifest that stand before its plan, as `to_json` writes them; none of another text."""
    try:
        found = json.loads(manifest.partition(b',\n "plan": ')[0] + b"}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _whole(manifest: bytes) -> bool:
    """Whether not a byte of a manifest was altered: it holds the digest of itself with an empty checksum. Of the bytes,
    so that a version of this package that knows more or fewer fields comes to the same result."""
    stated = re.search(rb'^ "checksum": "([0-9a-f]{64})"', manifest, re.MULTILINE)
    if stated is None:
        return False
    rest = manifest[: stated.start(1)] + manifest[stated.end(1) :]
    return hashlib.sha256(rest).hexdigest().encode() == stated[1]
