"""What must be so at every step: of what is acknowledged, of what is stored once, and of what comes to the sink."""

from __future__ import annotations

import contextlib
import json
import uuid
from collections.abc import Callable, Generator, Iterator
from typing import Any
from unittest import mock

import attrs

from airflow_provider_streamupdate.control.update import rollback
from airflow_provider_streamupdate.core.checkpoint.checkpoint import FENCE
from airflow_provider_streamupdate.core.coordination import lease
from airflow_provider_streamupdate.core.coordination.lease import DEFAULT_SECONDS, Lease
from airflow_provider_streamupdate.core.coordination.successor import Successor
from airflow_provider_streamupdate.core.registry.deployment import STANDBY, Current
from airflow_provider_streamupdate.core.registry.registry import AppRegistry
from airflow_provider_streamupdate.core.snapshots import pending_exports
from airflow_provider_streamupdate.core.snapshots.pending_exports import Export
from airflow_provider_streamupdate.core.storage import Folder
from airflow_provider_streamupdate.streaming.agent import command_execution, hand_over
from airflow_provider_streamupdate.streaming.agent.context import DriverContext
from airflow_provider_streamupdate.streaming.agent.epoch import Epoch
from airflow_provider_streamupdate.streaming.agent.reporting import Reporter

from .storage import Storage
from .world import World

RECOVERS = 60.0  # seconds after its last trouble, after which a living process has given its signs of life again
# What is created once: by the folder that it is in. Never replaced by other bytes.
ONCE = ("/epochs/", "/drivers/", "/offsets/", "/objects/")


Watch = Generator[None, Any, None]  # is sent the value of what it watches


@attrs.frozen
class Holder:
    """until: when the lease is free, unless it is renewed"""

    pid: int
    owner: str
    until: float


@attrs.define
class Leases:
    """What was acknowledged of a folder's leases. tokens: by number; kept: the owner of one that is not released, and
    its last sign of life"""

    tokens: dict[int, str] = attrs.field(factory=dict)
    holder: Holder | None = None
    kept: tuple[str, float] | None = None


class Invariants:
    """wrong: what was broken, in words. running: by pid, whether a driver's queries run"""

    def __init__(self, world: World, storage: Storage) -> None:
        self.world = world
        self.wrong: list[str] = []
        self.running: dict[int, Callable[[], bool]] = {}
        self.current: dict[int, str] = {}  # deployment by epoch
        self.newest: Callable[[], int] = lambda: 0  # the latest epoch that has written to the sink
        self.resting = False  # the app was suspended, and nobody has told it to go on
        self._leases: dict[str, Leases] = {}  # by folder
        self._claims: dict[int, tuple[int, str]] = {}  # of epochs: pid and token
        self.claimed_at: dict[int, float] = {}  # of epochs
        self._state_of: dict[int, str] = {}  # the last that a driver has said of itself, whether it was stored or not
        self._unready: set[int] = set()  # who hands over to a driver that did not stand by when it began
        self._exports: set[str] = set()  # that are under way
        self._drivers: dict[tuple[str, int], int] = {}  # who claimed them
        self._troubled: dict[int, float] = {}
        self._storage = storage
        storage.replaced = self._replaced
        storage.failed = self.trouble

    def trouble(self, pid: int, seconds: float = 0.0) -> None:
        """Note that a process is kept from its work for so long from now."""
        self._troubled[pid] = max(self._troubled.get(pid, 0.0), self.world.seconds + seconds)

    def well(self, pid: int) -> bool:
        """Whether a process lives, and nothing has kept it from its signs of life."""
        process = self.world.processes.get(pid)
        if process is None or not process.alive or process.stopped or process.machine.cut_off:
            return False
        return self.world.seconds - self._troubled.get(pid, -RECOVERS) >= RECOVERS

    def broken(self, line: str) -> None:
        self.wrong.append(line)
        self.world.note(f"WRONG: {line}")

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Inside the block the acknowledgements are checked."""
        with contextlib.ExitStack() as patches:
            for place, name, watch in (
                (lease, "acquire", self._acquiring),
                (lease, "renew", self._renewing),
                (lease, "leave", self._leaving),
                (lease, "release", self._releasing),
                (AppRegistry, "claim", self._claiming),
                (Epoch, "claim", self._driver_claiming),
                (Reporter, "report", self._reporting),
                (command_execution, "hand_over", self._handing_over),
                (hand_over, "_take_back", self._taking_back),
                (pending_exports, "end", self._ending_export),
                (rollback, "_go_back", self._going_back),
            ):
                patches.enter_context(mock.patch.object(place, name, _watched(getattr(place, name), watch)))
            begun = self._exporting(pending_exports.begun)
            patches.enter_context(mock.patch.object(pending_exports, "begun", begun))
            yield

    # the lease

    def _acquiring(self, folder: Folder, *_: Any, **__: Any) -> Watch:
        self._acknowledged(self._of(folder), (yield))

    def _of(self, folder: Folder) -> Leases:
        return self._leases.setdefault(folder.base, Leases())

    def _acknowledged(self, leases: Leases, taken: Lease) -> None:
        pid, before = self.world.own_pid(), leases.holder
        if leases.tokens.setdefault(taken.number, taken.token) != taken.token:
            self.broken(f"lease {taken.number} is acknowledged twice")
        if taken.number < max(leases.tokens):
            return  # it was taken over meanwhile, and its holder finds out
        holds = before is not None and self.well(before.pid) and self.world.seconds < before.until
        if before is not None and before.pid != pid and holds and self.well(pid):
            self.broken(f"lease {taken.number} is acknowledged to {pid}, and {before.pid} holds it for {before.owner}")
        if leases.kept is not None and leases.kept[0] != taken.owner:
            owner, at = leases.kept
            if self.world.seconds - at < DEFAULT_SECONDS - RECOVERS and self._under_way(owner):
                self.broken(f"{taken.owner} gets the lease that the update to {owner} keeps")
        leases.holder = Holder(pid, taken.owner, self.world.seconds + taken.seconds)
        leases.kept = (taken.owner, self.world.seconds)

    def _under_way(self, deployment: str) -> bool:
        """Whether the update has not ended, and is about what runs: none needs one that was left behind."""
        data = self._stored(f"/updates/{deployment}.json")
        claims = [json.loads(f.data) for path, f in self._storage.files.items() if "/epochs/" in path]
        if not data or not claims:
            return False
        update, current = json.loads(data), max(claims, key=lambda claim: claim["epoch"])
        return update.get("outcome") is None and current["deployment"] in (update["old"], update["new"])

    def _renewing(self, folder: Folder, *_: Any, **__: Any) -> Watch:
        renewed: Lease | None = yield
        leases = self._of(folder)
        if renewed is not None and leases.kept is not None and leases.kept[0] == renewed.owner:
            leases.kept = (renewed.owner, self.world.seconds)
            if leases.holder is not None:
                leases.holder = attrs.evolve(leases.holder, until=self.world.seconds + renewed.seconds)

    def _leaving(self, folder: Folder, held: Lease) -> Watch:
        self._forget_holder(folder)
        yield

    def _releasing(self, folder: Folder, held: Lease) -> Watch:
        if self._forget_holder(folder):
            self._of(folder).kept = None
            if self._under_way(held.owner):
                self.broken(f"the lease for {held.owner} is released, and its update has not ended")
        yield

    def _forget_holder(self, folder: Folder) -> bool:
        leases = self._of(folder)
        if leases.holder is not None and leases.holder.pid == self.world.own_pid():
            leases.holder = None
            return True
        return False

    # epochs

    def _claiming(self, app: AppRegistry, current: Current, after: int | None = None) -> Watch:
        last, pid = current.epoch - 1 if after is None else after, self.world.own_pid()
        number, before = last + 1, self._driver_of(last)
        if current.cancelled is None and before not in (None, pid) and not self._hands_over(last, pid):
            assert before is not None
            if self.well(before) and self.running.get(before, lambda: False)():
                self.broken(f"{pid} claims epoch {number}, and the driver of epoch {last} works ({before})")
        hands_over = pid == before and current.cancelled is None and current.deployment != self.current[last]
        if hands_over and self.well(pid) and pid in self._unready:
            self.broken(f"{pid} hands over to {current.deployment}, which does not stand by")
        if not self.world.processes[pid].name.startswith("supervisor"):
            self.resting = False
        claimed: bool = yield
        if claimed:
            if self._claims.setdefault(number, (pid, app._token)) != (pid, app._token):
                self.broken(f"epoch {number} is acknowledged to {pid}, and was to {self._claims[number][0]}")
            self.current.setdefault(current.epoch, current.deployment)
            self.claimed_at.setdefault(current.epoch, self.world.seconds)
        elif app._token.encode() in self._stored(f"/epochs/{number}.json"):
            self.broken(f"epoch {number} is denied to {pid}, whose claim stands")

    def _driver_of(self, epoch: int) -> int | None:
        """Who runs an epoch's queries."""
        return self._drivers.get((self.current.get(epoch, ""), epoch))

    def _hands_over(self, epoch: int, pid: int) -> bool:
        """Whether it takes back what it has handed over."""
        return self._driver_of(epoch - 1) == pid

    def _stands_by(self, deployment: str) -> bool:
        """Whether the driver that was started last says so, in its status or before one that was replaced wrote its own
        over it, and is not known to be dead."""
        status, launch = (
            json.loads(self._stored(f"/deployments/{deployment}/{name}.json") or b"{}") for name in ("status", "launch")
        )
        process = self.world.processes.get(launch.get("pid"))
        here = process is not None and process.machine is self.world.process().machine
        said = status if status.get("pid") == launch.get("pid") else {"state": self._state_of.get(launch.get("pid"))}
        return said.get("state") == STANDBY and not (here and process is not None and not process.alive)

    def _stored(self, ending: str) -> bytes:
        return next((f.data for p, f in self._storage.files.items() if p.endswith(ending)), b"")

    def _reporting(self, reporter: Reporter, **changes: Any) -> Watch:
        if "state" in changes:
            self._state_of[self.world.own_pid()] = changes["state"]
        yield

    def _driver_claiming(self, epoch: Epoch) -> Watch:
        claimed: bool = yield
        key, pid = (epoch.spec.deployment, epoch.number), self.world.own_pid()
        if claimed:  # a deployment that was dropped may be made again, once its driver is gone
            other, self._drivers[key] = self._drivers.get(key, pid), pid
            if other != pid and self.world.processes[other].alive:
                self.broken(f"epoch {key[1]} of {key[0]} has two drivers: {other} and {pid}")

    def _handing_over(self, driver: DriverContext, successor: Successor) -> Watch:
        ready, pid = self._stands_by(successor.deployment), self.world.own_pid()
        (self._unready.discard if ready else self._unready.add)(pid)
        yield
        if driver.signals.number is None and self.newest() < successor.epoch:
            self.broken(f"{driver.spec.deployment} ends before {successor.deployment} has committed a batch")

    def _taking_back(self, driver: DriverContext, successor: Successor) -> Watch:
        taken: bool = yield
        if taken and self._claims.get(driver.epoch.number, (0, ""))[0] != self.world.own_pid():
            self.broken(f"{driver.spec.deployment} goes on in epoch {driver.epoch.number} without a claim")
        if taken:  # its driver's claim may have failed, and nobody else is started for this epoch
            self._drivers.setdefault((driver.spec.deployment, driver.epoch.number), self.world.own_pid())

    # exports and rollbacks

    def _exporting(self, begun: Callable[..., Any]) -> Callable[..., Any]:
        @contextlib.contextmanager
        def exporting(*args: Any) -> Iterator[Export]:
            with begun(*args) as export:
                self._exports.add(export.export)
                try:
                    yield export
                finally:
                    self._exports.discard(export.export)

        return exporting

    def _ending_export(self, folder: Folder, export: Export) -> Watch:
        signs = (export.mark, f"snapshots/_{export.export}/alive.json")
        at = max((f.at for path in signs if (f := self._storage.files.get(folder.path(path)))), default=0.0)
        if export.export in self._exports and export.pid != self.world.own_pid() and self.world.seconds - at < 10:
            self.broken(f"{export} gives signs of life, and {self.world.own_pid()} takes it for dead")
        yield

    def _going_back(self, leaving: rollback.Leaving, *_: Any) -> Watch:
        epoch = max(self.current)
        told = self._told_to_end(leaving.old, epoch)
        yield
        if (left := told & self._told_to_end(leaving.old, epoch)) and max(self.current) == epoch:
            self.broken(f"the rollback to {leaving.old} has ended, and its driver was told to end: {left}")

    def _told_to_end(self, deployment: str, epoch: int) -> set[str]:
        """The commands to end that a driver has not answered with an error."""
        start, found = f"/deployments/{deployment}/commands/{epoch}/", set()
        for path, file in self._storage.files.items():
            if start in path and not path.endswith(".result.json"):
                command = json.loads(file.data)
                answer = self._storage.files.get(path.removesuffix(".json") + ".result.json")
                failed = answer is not None and json.loads(answer.data)["error"] is not None
                if (command["kind"] in ("cancel", "drain") or command["cancel"]) and not failed:
                    found.add(path)
        return found

    # the storage

    def _replaced(self, path: str, before: bytes, after: bytes) -> None:
        if before == after or before in (b"", FENCE):  # who catches up may write over a fence, and then looks again
            return
        if any(folder in path for folder in ONCE):
            self.broken(f"{path} is replaced")
        elif "/lease/" in path and _token(before) != _token(after):
            self.broken(f"{path} is replaced by another lease")


def _watched(call: Callable[..., Any], watch: Callable[..., Watch]) -> Callable[..., Any]:
    """A call with what is noted before it, and once its value is there."""

    def watched(*args: Any, **named: Any) -> Any:
        noted = watch(*args, **named)
        next(noted)
        value = call(*args, **named)
        with contextlib.suppress(StopIteration):
            noted.send(value)
        return value

    return watched


def _token(data: bytes) -> str:
    with contextlib.suppress(ValueError):
        return str(json.loads(data).get("token"))
    return uuid.uuid4().hex
