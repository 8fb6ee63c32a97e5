"""Planted faults: the simulation must find each of them. A fault is a function in the place of one of the package's."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any
from unittest import mock

import attrs

from airflow_provider_streamupdate.control import app_lease
from airflow_provider_streamupdate.control.drivers import drivers
from airflow_provider_streamupdate.control.supervision import supervise
from airflow_provider_streamupdate.control.update import cancellation, promotion, rollback
from airflow_provider_streamupdate.control.update.engine import UpdateEngine
from airflow_provider_streamupdate.core.checkpoint.checkpoint import Checkpoint
from airflow_provider_streamupdate.core.coordination import lease
from airflow_provider_streamupdate.core.coordination.successor import Successor
from airflow_provider_streamupdate.core.coordination.watched_driver import Watched
from airflow_provider_streamupdate.core.processes.process_identity import ProcessIdentity
from airflow_provider_streamupdate.core.processes.pulse import Beat, Pulse
from airflow_provider_streamupdate.core.registry.deployment import RUNNING
from airflow_provider_streamupdate.core.registry.registry import AppRegistry
from airflow_provider_streamupdate.core.registry.update import Outcome
from airflow_provider_streamupdate.core.snapshots import garbage, pending_exports, superseded
from airflow_provider_streamupdate.core.snapshots.snapshots import SnapshotStore
from airflow_provider_streamupdate.core.storage import Folder
from airflow_provider_streamupdate.streaming.agent import command_execution, hand_over, lifecycle
from airflow_provider_streamupdate.streaming.agent.context import DriverContext
from airflow_provider_streamupdate.streaming.agent.epoch import Epoch
from airflow_provider_streamupdate.streaming.agent.roles import hot_standby as roles
from airflow_provider_streamupdate.streaming.agent.roles.hot_standby import HotStandby
from airflow_provider_streamupdate.streaming.agent.roles.standby import Standby
from airflow_provider_streamupdate.streaming.agent.saved_state_source import SavedStateSource

from .engine import CountingEngine

Replacement = Callable[[Callable[..., Any]], Callable[..., Any]]


@attrs.frozen
class Mutant:
    """place, attribute: what is replaced; made: of the original"""

    place: Any
    attribute: str
    made: Replacement


def _always(value: Any) -> Replacement:
    return lambda original: lambda *_, **__: copy.copy(value)


def _value(value: Any) -> Replacement:
    """Another constant."""
    return lambda original: value


def _not_exclusive(folder: str) -> Replacement:
    """A creation below a folder replaces what is there."""

    def made(original: Callable[..., Any]) -> Callable[..., Any]:
        def create(self: Folder, relative: str, data: bytes, nonce: str | None = None) -> bool:
            if relative.startswith(folder) or f"/{folder}" in f"/{relative}":
                self.write(relative, data)
                return True
            return bool(original(self, relative, data, nonce))

        return create

    return made


def _forgets(*left_out: str) -> Replacement:
    """A snapshot leaves files out whose path begins so."""

    def made(original: Callable[..., Any]) -> Callable[..., Any]:
        def export(self: Checkpoint, *args: Any, **named: Any) -> Any:
            found = original(self, *args, **named)
            return attrs.evolve(found, files=tuple(f for f in found.files if not f.path.startswith(left_out)))

        return export

    return made


def _older(original: Callable[..., Any]) -> Callable[..., Any]:
    """What is restored is a batch older than what was committed, under the number of the newer one."""

    def export(self: Checkpoint, carry_in_flight: bool, *args: Any, **named: Any) -> Any:
        found = original(self, carry_in_flight, *args, **named)
        return attrs.evolve(found, in_flight=None) if carry_in_flight else found

    return export


def _without_claim(original: Callable[..., Any]) -> Callable[..., Any]:
    def claim(self: AppRegistry, current: Any, after: int | None = None) -> bool:
        self.set_current(current)
        return True

    return claim


def _leaves_out(**found: Any) -> Replacement:
    """A supervisor overlooks this in what it finds."""
    return lambda decide: lambda seen, *args: decide(attrs.evolve(seen, **found), *args)


def _takes_for_dead(original: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, current: original(self, current) or "so it seems"


def _unclaimed(original: Callable[..., Any]) -> Callable[..., Any]:
    """An epoch is written to current.json alone."""

    def over(driver: DriverContext, successor: Successor) -> Any:
        with mock.patch.object(driver.app, "claim", partial(_without_claim(driver.app.claim), driver.app)):
            return original(driver, successor)

    return over


def _ends_promoted(original: Callable[..., Any]) -> Callable[..., Any]:
    """A rollback's update is recorded as promoted."""

    def end_update(registry: Any, record: Any, outcome: Any, reason: str) -> None:
        original(registry, record, Outcome.PROMOTED, reason)

    return end_update


def _writes_before(original: Callable[..., Any]) -> Callable[..., Any]:
    """The manifest is there before the bytes are."""

    def store(self: SnapshotStore, query: str, exported: Any, *args: Any) -> Any:
        files, added = original(self, query, exported, *args)
        for file in files[-1:]:
            self.folder.remove(file.object)
        return files, added

    return store


def _without_snapshots(original: Callable[..., Any]) -> Callable[..., Any]:
    return lambda folder, read, own, only_look: original(folder, lambda: ([], []), own, only_look)


@contextlib.contextmanager
def planted(name: str) -> Iterator[None]:
    """Inside the block the package has this fault; none without a name."""
    if not name:
        yield
        return
    mutant = MUTANTS[name]
    original = getattr(mutant.place, mutant.attribute)
    with mock.patch.object(mutant.place, mutant.attribute, mutant.made(original)):
        yield


OLD, RUNS = (lambda self, without=(): self.before(2)), (lambda self, without=(): self.running())
MUTANTS: dict[str, Mutant] = {
    "lease: its creation is not exclusive": Mutant(Folder, "create", _not_exclusive("lease/")),
    "lease: a living holder is not respected": Mutant(lease, "_check_deserted", _always(None)),
    "lease: an update under way does not keep it": Mutant(app_lease, "under_way", _always(False)),
    "lease: whoever holds it counts as dead": Mutant(app_lease, "alive", _always(False)),
    "lease: never released": Mutant(app_lease, "_give_back", _always(None)),
    "lease: its holder gives no sign of life": Mutant(lease, "RENEW_SECONDS", _value(1e6)),
    "epoch: its claim is not exclusive": Mutant(AppRegistry, "claim", _without_claim),
    "epoch: its file is replaced": Mutant(Folder, "create", _not_exclusive("epochs/")),
    "epoch: two drivers may have the same one": Mutant(Epoch, "claim", _always(True)),
    "epoch: a driver's claim is replaced": Mutant(Folder, "create", _not_exclusive("drivers/")),
    "epoch: a claim whose answer was lost is another's": Mutant(AppRegistry, "_claimed", _always(False)),
    "epoch: a claim that is unknown was made": Mutant(AppRegistry, "_claimed", _always(True)),
    "fence: not put up for a silent driver": Mutant(drivers, "fence", _always(0)),
    "fence: not put up for a silent successor or leader": Mutant(Watched, "fence", _always(None)),
    "fence: never taken down": Mutant(lifecycle, "unfence", _always(None)),
    "hand-over: nothing is drained": Mutant(CountingEngine, "drain", _always(None)),
    "hand-over: the epoch is not claimed": Mutant(command_execution, "hand_over", _unclaimed),
    "hand-over: the successor's first commit is not waited for": Mutant(Successor, "committed", _always(True)),
    "hand-over: a successor counts as dead": Mutant(Successor, "death", _always("so it seems")),
    "hand-over: the successor need not be ready": Mutant(Successor, "check_ready", _always(None)),
    "hand-over: the new version begins before it": Mutant(Standby, "begins", _always(True)),
    "take-back: the successor is not waited for": Mutant(hand_over, "_wait_gone", _always(None)),
    "take-back: never": Mutant(hand_over, "_take_back", _always(False)),
    "take-back: without a claim of the epoch": Mutant(hand_over, "_take_back", _unclaimed),
    "take-back: batch ids of the successor are used again": Mutant(DriverContext, "skip_used_batch_ids", _always(None)),
    "restore: it continues from an old state of the parent": Mutant(SavedStateSource, "drained", _value(OLD)),
    "restore: the parent's batch in flight is forgotten": Mutant(SavedStateSource, "drained", _value(RUNS)),
    "restore: what was restored is not marked": Mutant(CountingEngine, "_mark", _always(None)),
    "export: the batch in flight is forgotten": Mutant(Checkpoint, "export", _older),
    "export: the state is forgotten": Mutant(Checkpoint, "export", _forgets("state/")),
    "export: the offsets are forgotten": Mutant(Checkpoint, "export", _forgets("offsets/")),
    "snapshot: acknowledged before it is stored": Mutant(SnapshotStore, "_publish", _always(None)),
    "snapshot: its bytes are not all stored": Mutant(SnapshotStore, "_store", _writes_before),
    "snapshot: one that was taken for dead is acknowledged": Mutant(pending_exports, "stands", _always(True)),
    "gc: what is current is freed": Mutant(superseded, "needed", _always({})),
    "gc: living exports are taken for dead": Mutant(pending_exports, "living", _always([])),
    "gc: every object is an orphan": Mutant(garbage, "find", _without_snapshots),
    "record: the end of an update is not written": Mutant(promotion, "end", _always(None)),
    "record: a failed update is recorded as promoted": Mutant(rollback, "_end_update", _ends_promoted),
    "record: an update under way is not found": Mutant(AppRegistry, "update_under_way", _always(None)),
    "update: the new version is not verified": Mutant(UpdateEngine, "_verify", _always(None)),
    "rollback: the new version is not stopped": Mutant(rollback, "stop_deployment", _always(None)),
    "rollback: the old version's end is not waited for": Mutant(rollback, "_await_open_commands", _always(RUNNING)),
    "rollback: its end is not recorded": Mutant(rollback, "_end_update", _always(None)),
    "rollback: its own record is not ended": Mutant(rollback, "_end_rollback", _always(None)),
    "cancel: no epoch is claimed": Mutant(cancellation, "claim_cancellation", _always(None)),
    "heartbeat: silence never counts": Mutant(Pulse, "observe", _always(Beat(0.0, True))),
    "heartbeat: every driver is taken for silent": Mutant(Pulse, "observe", _always(Beat(1000.0, False))),
    "process: every driver is taken for dead": Mutant(ProcessIdentity, "lives", _always(False)),
    "hot standby: its takeover's lease is held for half an hour": Mutant(roles, "HELD_SECONDS", _value(1800.0)),
    "hot standby: the leader is not fenced": Mutant(HotStandby, "_fence", _always(None)),
    "hot standby: any leader is dead": Mutant(HotStandby, "_death", _takes_for_dead),
    "supervisor: starts what was told to end": Mutant(supervise, "decide", _leaves_out(asked_to_end=False)),
}
