"""The registry: apps and their deployments as files under one root (docs/reference/formats.md lists them)."""

from __future__ import annotations

import contextlib
import uuid
from typing import Any, TypeVar

import attrs

from .. import clock
from ..boundaries import boundary
from ..compatibility.report import CompatibilityReport
from ..difference.report import DifferenceReport
from ..errors import AlreadyExistsError, CorruptError, FencedError, NotFoundError, NotRunningError, StorageError
from ..formats import check_readable, format_of
from ..names import check_name, check_new_id, check_part, check_path, is_name, meant, numbers
from ..plan.plan import AppPlan
from ..serde import parse_json, read_file, to_json
from ..storage import Folder
from ..storage.ownership import refusal, unwritable
from .deployment import Cancellation, Current, Deletion, DeploymentSpec, Launch, Status
from .in_flight import ChangeRequest, ParameterChange
from .update import RollbackRecord, UpdateRecord

T = TypeVar("T")
DELETION = "deletion.json"
# What an update writes before the new version runs. tests/cli/test_cli_foreign_folders.py closes one at a time.
WRITTEN = ("", "deployments", "epochs", "lease", "updates", "rollbacks", "snapshots", "objects")


class Registry:
    """All apps under a root."""

    def __init__(self, root: str, storage_options: dict[str, Any] | None = None) -> None:
        self.root = root
        self.folder = Folder.open(root, storage_options)

    def apps(self) -> list[str]:
        """Names of the apps that have at least one deployment."""
        return [name for name in self.folder.names() if self.folder.names(f"{name}/deployments")]

    def app(self, name: str) -> AppRegistry:
        """The app's part of the registry, whether it exists yet or not."""
        return AppRegistry(check_name("app", name), self.folder.sub(name))

    def existing(self, name: str) -> AppRegistry:
        """The app's part of the registry; NotFoundError when it has no deployment, or is being deleted."""
        app = self.app(name)
        app.check_not_deleted()
        if not app.has_deployments():
            raise NotFoundError(f"no app {name!r} under {self.root}{_known_apps(name, self.apps())}")
        return app

    def with_snapshots(self, name: str) -> AppRegistry:
        """The part of an app that exists, or of one that was deleted and whose snapshots were kept; NotFoundError
        otherwise."""
        app = self.app(name)
        deletion = app.deletion()
        return app if deletion is not None and deletion.completed else self.existing(name)

    def all_with_snapshots(self) -> list[AppRegistry]:
        """The apps that have snapshots, deleted ones among them."""
        names = (name for name in self.folder.names() if is_name(name))
        return [self.app(name) for name in names if self.folder.names(f"{name}/snapshots")]


def _known_apps(name: str, apps: list[str]) -> str:
    """The hint for a name that no app has."""
    if not apps:
        return " (known: none); correct the root, or submit the app first"
    return f" (known: {', '.join(apps)}); {meant(name, apps) or 'correct the name'}"


class AppRegistry:
    """One app: its current deployment, its deployments, its updates."""

    def __init__(self, name: str, folder: Folder) -> None:
        self.name = name
        self.folder = folder
        self._token = uuid.uuid4().hex  # who claims an epoch: a claim that is tried again is the same claim

    def sibling(self, name: str) -> AppRegistry:
        """Another app under the same root."""
        return AppRegistry(check_name("app", name), self.folder.parent.sub(name))

    def siblings(self) -> list[AppRegistry]:
        """All other apps under the same root."""
        root = self.folder.parent
        names = [n for n in root.names() if n != self.name and root.names(f"{n}/deployments")]
        return [self.sibling(name) for name in names]

    def current(self) -> Current | None:
        """Return the deployment that may commit. A claimed epoch counts even if its claimer died before it replaced
        current.json."""
        current = self._read("current.json", Current)
        while claimed := self._read(path := _claim((current.epoch if current else 0) + 1), Current):
            if current is not None and claimed.epoch <= current.epoch:  # it would be read for ever
                raise CorruptError(f"{self.folder.path(path)} is the claim of epoch {claimed.epoch}, which is over")
            current = claimed
        return current

    def check_readable(self) -> None:
        """NewerFormatError when a newer version of this package wrote what an operation on the app rests on: who is
        current, its files, and the records that were written last."""
        folder, paths, last = self.folder, ["current.json"], self.folder.names("rollbacks")
        with contextlib.suppress(CorruptError):  # reported by the code that needs it
            if current := self.current():
                names = ("spec", "launch", "status", "plan")
                paths += [f"deployments/{current.deployment}/{name}.json" for name in names]
        if newest := folder.newest([f"updates/{name}.json" for name in self.update_ids()]):
            paths.append(newest)
        if taken := numbers(last):
            paths.append(f"rollbacks/{max(taken)}.json")
        check_readable(((path, folder.read(path)) for path in paths), folder.path())

    def check_writable(self) -> None:
        """StorageError when this user cannot write to a folder that another version's start needs. Only a local root
        has folders with owners of their own. Writes nothing."""
        root, app = self.folder.parent.path_here, self.folder.path_here
        if root is not None and app is not None and (closed := unwritable(app / name for name in WRITTEN)):
            raise StorageError(refusal(root, app, closed))

    def current_id(self) -> str | None:
        """The id of the current deployment."""
        current = self.current()
        return current.deployment if current else None

    def cancellation(self) -> Cancellation | None:
        """Return who cancelled the app, and when; None: it was not, or somebody has started it since."""
        current = self.current()
        return current.cancelled if current is not None else None

    def deletion(self) -> Deletion | None:
        """Return who deleted the app, and when, while something of it is left; None when it was not deleted."""
        return self._read(DELETION, Deletion)

    def set_deletion(self, deletion: Deletion) -> None:
        """The caller holds the lease."""
        self.folder.write(DELETION, to_json(deletion))

    def check_not_deleted(self) -> None:
        """NotFoundError when somebody has begun to delete the app, or has kept only its snapshots."""
        if (deletion := self.deletion()) is not None:
            raise NotFoundError(deletion.refusal(self.name))

    def running(self) -> tuple[str, int]:
        """The current deployment and its epoch, whether or not its driver lives; NotRunningError when there is none."""
        current = self.current()
        if current is None:
            raise NotRunningError(f"app {self.name} has no current deployment; submit it first")
        return current.deployment, current.epoch

    def claim(self, current: Current, after: int | None = None) -> bool:
        """Make a deployment current in the epoch after the last: an exclusive creation, so that of two who try one
        wins. False: the epoch is another's. StorageError: it was not claimed; FencedError: it is unknown whether it
        was. `after`: the last epoch, for a deployment that ran beside the current one and goes on under a later number,
        which its driver has already."""
        path = _claim(current.epoch if after is None else after + 1)
        current = attrs.evolve(current, claim=self._token)
        try:
            claimed = self.folder.create(path, to_json(current), nonce=current.claim)
        except StorageError as error:
            claimed = self._claimed(path, current, error)
        if not claimed:
            return False
        boundary("epoch-claimed")
        with contextlib.suppress(StorageError):  # the claim counts without it
            self.set_current(current)
        boundary("current-replaced")
        return True

    def first_claim(self) -> str:
        """Return a random text that tells this app from one of the same name and address; empty before it was started
        first."""
        first = self._read(_claim(1), Current)
        return first.claim or "" if first else ""

    def _claimed(self, path: str, current: Current, error: StorageError) -> bool:
        """Whether a claim that raised an error was made after all."""
        try:
            found = self._read(path, Current)
        except StorageError:
            raise FencedError(
                f"which deployment may commit in epoch {current.epoch} of {self.name} is unknown: {error}"
            ) from error
        if found is None:
            self.check_writable()  # says what to do
            raise error
        return found == current and found.claim == current.claim

    def set_current(self, current: Current) -> None:
        """Replace current.json atomically, within its epoch; the caller holds the lease."""
        self.folder.write("current.json", to_json(current))

    def deployment_ids(self) -> list[str]:
        """Ids of the deployments whose spec is written, oldest first."""
        return [spec.deployment for spec in self.deployments()]

    def has_deployments(self) -> bool:
        """Return whether there is one, without reading all."""
        return any(self._spec(name) for name in self.folder.names("deployments"))

    def deployments(self) -> list[DeploymentSpec]:
        """Oldest first."""
        specs = (self._spec(name) for name in self.folder.names("deployments"))
        return sorted((s for s in specs if s), key=lambda s: s.submitted_at)

    def latest_deployments(self, count: int) -> list[DeploymentSpec]:
        """Oldest first, those that were submitted last, and the current one. Of more than `count` the others are not
        read."""
        names = [f"deployments/{name}/spec.json" for name in self.folder.names("deployments")]
        if len(names) > count:
            current = self.current_id()
            names = list(
                {*self.folder.latest(names, count), *([f"deployments/{current}/spec.json"] if current else [])}
            )
        found = self.folder.read_many(lambda path: self._spec(path.split("/")[1]), names)
        return sorted((spec for spec in found if spec), key=lambda spec: spec.submitted_at)

    def spec(self, deployment: str) -> DeploymentSpec:
        """Return what was submitted, with the parameters that were changed in flight since."""
        check_name("deployment", deployment)
        spec = self._spec(deployment)
        if spec is None:
            known = ", ".join(self.deployment_ids()) or "none"
            raise NotFoundError(
                f"app {self.name} has no deployment {deployment!r} (known: {known}); choose one of these"
            )
        return spec

    def check_spec(self, deployment: str) -> None:
        """Raise what `spec` raises for a file that is missing or cannot be read, without building what it holds."""
        path, form = f"deployments/{deployment}/spec.json", format_of(DeploymentSpec)
        text, where = self.folder.read(path), self.folder.path(path)
        fields = None if text is None else parse_json(text, where)
        if form is None or not isinstance(fields, dict) or fields.get("deployment") != deployment:
            self.spec(deployment)
        else:
            form.version_of(fields, where)

    def create_deployment(self, spec: DeploymentSpec) -> None:
        """Write the spec exclusively; AlreadyExistsError when the id was used before."""
        check_new_id(spec.deployment)
        if not self.folder.create(f"deployments/{spec.deployment}/spec.json", to_json(spec), nonce=spec.submitted_at):
            raise AlreadyExistsError(used_before(self.name, spec.deployment))
        boundary("deployment-made")

    def remove_deployment(self, deployment: str) -> None:
        """Remove a deployment that has never run a query and whose driver is gone."""
        for part in ("spec.json", ""):  # without the first the deployment does not exist, whatever is left
            self.folder.remove(f"deployments/{deployment}/{part}".rstrip("/"))

    def changes(self, deployment: str) -> list[ParameterChange]:
        """The changes made in flight, oldest first."""
        folder = f"deployments/{deployment}/changes"
        names = [n.removesuffix(".json") for n in self.folder.names(folder) if n.endswith(".json")]
        if strange := [n for n in names if not (n.isascii() and n.isdigit())]:
            raise CorruptError(
                f"{self.folder.path(folder)} holds {strange[0]!r}.json, which is not a numbered change; remove it"
            )
        found = (self._read(f"{folder}/{number}.json", ParameterChange) for number in sorted(map(int, names)))
        return [change for change in found if change]

    def add_change(
        self, deployment: str, request: ChangeRequest, undoes: str | None = None, after: int | None = None
    ) -> ParameterChange:
        """Make the request's parameters the deployment's, by an exclusive creation. FencedError when another change
        came first.

        after: how many changes there were when it was asked for; None: all that there are
        """
        spec = self.spec(deployment)
        change = ParameterChange(
            number=(len(self.changes(deployment)) if after is None else after) + 1,
            request=request,
            before=spec.application.params,
            digest_before=spec.digest,
            at=clock.now(),
            undoes=undoes,
        )
        path = f"deployments/{deployment}/changes/{change.number}.json"
        if not self.folder.create(path, to_json(change), nonce=change.at):  # one driver writes these
            raise FencedError(f"the parameters of deployment {deployment} of {self.name} were changed a moment ago")
        boundary("change-recorded")
        return change

    def deployment_folder(self, deployment: str) -> Folder:
        return self.folder.sub(f"deployments/{deployment}")

    def checkpoint(self, deployment: str, query: str) -> Folder:
        return self.folder.sub(f"deployments/{deployment}/checkpoint/{query}")

    def checkpoints_of_both(self, one: str, other: str) -> dict[str, tuple[Folder, Folder]]:
        """Return both checkpoints of each query that both deployments have; empty while one of them has no plan yet."""
        plans = self.plan(one), self.plan(other)
        if plans[0] is None or plans[1] is None:
            return {}
        names = [query.name for query in plans[1].queries if plans[0].query(query.name) is not None]
        return {name: (self.checkpoint(one, name), self.checkpoint(other, name)) for name in names}

    def status(self, deployment: str) -> Status | None:
        return self._read(f"deployments/{deployment}/status.json", Status)

    def launch(self, deployment: str) -> Launch | None:
        return self._read(f"deployments/{deployment}/launch.json", Launch)

    def set_launch(self, deployment: str, launch: Launch) -> None:
        self.folder.write(f"deployments/{deployment}/launch.json", to_json(launch))

    def plan(self, deployment: str) -> AppPlan | None:
        return self._read(f"deployments/{deployment}/plan.json", AppPlan)

    def update(self, deployment: str) -> UpdateRecord | None:
        """The record of the update that brings or brought `deployment` in."""
        check_part(deployment, f"{self.folder.path()}: a record or lease")
        record = self._read(f"updates/{deployment}.json", UpdateRecord)
        return record if record is not None and record.new == deployment else None  # else a copy of another's

    def set_update(self, record: UpdateRecord) -> None:
        self.folder.write(f"updates/{record.new}.json", to_json(record))

    def remove_update(self, deployment: str) -> None:
        """Remove the record of an update that changed nothing."""
        self.folder.remove(f"updates/{deployment}.json")

    def updates(self) -> list[UpdateRecord]:
        """Oldest first."""
        return sorted((r for n in self.update_ids() if (r := self.update(n))), key=lambda r: r.started_at)

    def latest_updates(self, count: int) -> list[UpdateRecord]:
        """Oldest first, the records that were written last. Of more than `count` the others are not read."""
        names = [f"updates/{name}.json" for name in self.update_ids()]
        if len(names) > count:
            names = self.folder.latest(names, count)
        found = self.folder.read_many(
            lambda path: self.update(path.removeprefix("updates/").removesuffix(".json")), names
        )
        return sorted((record for record in found if record), key=lambda record: record.started_at)

    def update_under_way(self) -> UpdateRecord | None:
        """The update that has begun and not ended, and whose old or new version is the current deployment."""
        current = self.current_id()
        found = [u for u in self.updates() if u.under_way(current)]
        return found[-1] if found else None

    def last_update(self) -> UpdateRecord | None:
        """The update record that was written last, found without reading the others: an update under way, else the one
        that ended last."""
        left = {f"updates/{name}.json": name for name in self.update_ids()}
        while newest := self.folder.newest(list(left)):
            if record := self.update(left.pop(newest)):
                return record  # else it is a copy, or was removed since it was listed
        return None

    def rollbacks(self) -> list[RollbackRecord]:
        """Oldest first."""
        taken = numbers(self.folder.names("rollbacks"))
        found = (self._read(f"rollbacks/{n}.json", RollbackRecord) for n in taken)
        return sorted((record for record in found if record), key=lambda record: record.number)

    def rollback_under_way(self, current: Current) -> RollbackRecord | None:
        """Return the last rollback if it has not ended, and nobody cancelled the app or started another version since.

        current: who runs, as it was read
        """
        last = [] if current.cancelled else self.rollbacks()[-1:]
        return next((record for record in last if record.under_way(current)), None)

    def set_rollback(self, record: RollbackRecord) -> None:
        """The caller holds the lease."""
        self.folder.write(f"rollbacks/{record.number}.json", to_json(record))

    def remove_rollback(self, record: RollbackRecord) -> None:
        """Remove the record of a rollback that changed nothing, or that its update went on in place of."""
        self.folder.remove(f"rollbacks/{record.number}.json")

    def report(self, deployment: str) -> CompatibilityReport | None:
        """The compatibility report of the update that brings or brought `deployment` in."""
        return self._read(f"updates/{deployment}.report.json", CompatibilityReport)

    def difference(self, deployment: str) -> DifferenceReport | None:
        """Return the differences between `deployment` and the version before it; None when they were not compared."""
        return self._read(f"differences/{deployment}.json", DifferenceReport)

    def set_difference(self, deployment: str, report: DifferenceReport) -> None:
        self.folder.write(f"differences/{deployment}.json", to_json(report))
        self.folder.write(f"differences/{deployment}.md", report.to_markdown().encode())

    def remove_reports(self, deployment: str) -> None:
        """Remove the reports on its compatibility and its differences, if there are any."""
        for stem in (f"updates/{deployment}.report", f"differences/{deployment}"):
            self.folder.remove(f"{stem}.json")
            self.folder.remove(f"{stem}.md")

    def update_ids(self) -> list[str]:
        """The updates that have a record, in no order."""
        files = [n for n in self.folder.names("updates") if n.endswith(".json") and not n.endswith(".report.json")]
        return [name for file in files if is_name(name := file.removesuffix(".json"))]

    def _spec(self, deployment: str) -> DeploymentSpec | None:
        path = f"deployments/{deployment}/spec.json"
        spec = self._read(path, DeploymentSpec)
        if spec is not None and spec.deployment != deployment:
            return None  # a copy of another's folder
        if spec is not None:
            for file in (spec.application.file, *spec.application.py_files, *spec.application.files):
                check_path(file, self.folder.path(path))
        if spec is None or not (changes := self.changes(deployment)):
            return spec
        now = changes[-1].request
        return attrs.evolve(spec, application=attrs.evolve(spec.application, params=now.params), digest=now.digest)

    def copies(self) -> list[tuple[str, str]]:
        """Return the files of deployments and updates that describe another one than their path says, with that one's
        name. They are ignored everywhere."""
        specs = {f"deployments/{name}/spec.json": name for name in self.folder.names("deployments")}
        updates = {f"updates/{name}.json": name for name in self.update_ids()}
        found: list[tuple[str, str]] = []
        for path, name in specs.items():
            if (spec := self._read(path, DeploymentSpec)) and spec.deployment != name:
                found.append((path, spec.deployment))
        for path, name in updates.items():
            if (record := self._read(path, UpdateRecord)) and record.new != name:
                found.append((path, record.new))
        return found

    def _read(self, path: str, kind: type[T]) -> T | None:
        return read_file(self.folder, path, kind)


def _claim(epoch: int) -> str:
    return f"epochs/{epoch}.json"


def used_before(app: str, deployment: str) -> str:
    return f"app {app} already has a deployment {deployment!r}; ids are never reused: choose another"
