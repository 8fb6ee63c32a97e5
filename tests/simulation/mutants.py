"""Planted faults: the simulation must find each of them. A fault is a function in the place of one of the package's."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import attrs

from airflow_provider_streamupdate.control import app_lease
from airflow_provider_streamupdate.control.drivers import drivers
from airflow_provider_streamupdate.control.operations.snapshots import collect
from airflow_provider_streamupdate.control.supervision import supervise
from airflow_provider_streamupdate.control.update import promotion, record, rollback
from airflow_provider_streamupdate.core.checkpoint.checkpoint import Checkpoint
from airflow_provider_streamupdate.core.coordination import lease
from airflow_provider_streamupdate.core.coordination.commands import CommandBox
from airflow_provider_streamupdate.core.coordination.successor import Successor
from airflow_provider_streamupdate.core.coordination.watched import Watched
from airflow_provider_streamupdate.core.processes.process_identity import ProcessIdentity
from airflow_provider_streamupdate.core.processes.pulse import Beat, Pulse
from airflow_provider_streamupdate.core.registry.registry import AppRegistry
from airflow_provider_streamupdate.core.snapshots.snapshots import SnapshotStore
from airflow_provider_streamupdate.core.storage import Folder
from airflow_provider_streamupdate.streaming.agent import hand_over, lifecycle
from airflow_provider_streamupdate.streaming.agent.context import DriverContext
from airflow_provider_streamupdate.streaming.agent.epoch import Epoch
from airflow_provider_streamupdate.streaming.agent.origin import Origin
from airflow_provider_streamupdate.streaming.agent.roles.hot_standby import HotStandby

from .engine import CountingEngine

Replacement = Callable[[Callable[..., Any]], Callable[..., Any]]


@attrs.frozen
class Mutant:
    """place, attribute: what is replaced; made: of the original"""

    place: Any
    attribute: str
    made: Replacement


def _always(value: Any) -> Replacement:
    return lambda original: lambda *_, **__: value


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


def _quiet_never_counts(original: Callable[..., Any]) -> Callable[..., Any]:
    def look(self: Pulse, whose: str, value: object) -> Beat:
        return Beat(0.0, True)

    return look


def _impatient(original: Callable[..., Any]) -> Callable[..., Any]:
    def look(self: Pulse, whose: str, value: object) -> Beat:
        return Beat(1000.0, False)

    return look


def _kept_after_end(original: Callable[..., Any]) -> Callable[..., Any]:
    """The record says how the update ended before it has."""

    def begin(context: Any, wanted: Any, *args: Any, **named: Any) -> Any:
        begun = original(context, wanted, *args, **named)
        registry = context.registry.app(begun.app)
        registry.set_update(attrs.evolve(begun, outcome="promoted", ended_at=begun.started_at))
        return begun

    return begin


def _nobody_lives(original: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, kernel=None: False


def _drains_nothing(original: Callable[..., Any]) -> Callable[..., Any]:
    def drain(self: CountingEngine) -> None:
        self._ending.set()  # and does not wait for the batch under way

    return drain


def _starts_always(original: Callable[..., Any]) -> Callable[..., Any]:
    def decide(found: Any, *args: Any) -> Any:
        decision = original(attrs.evolve(found, updating=None, off=None, taking_over=None, asked_to_end=False), *args)
        return decision

    return decide


@contextlib.contextmanager
def planted(name: str) -> Iterator[None]:
    """Inside the block the package has this fault."""
    mutant = MUTANTS[name]
    original = getattr(mutant.place, mutant.attribute)
    with mock.patch.object(mutant.place, mutant.attribute, mutant.made(original)):
        yield


def _collects_all(original: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args, **named: {}


MUTANTS: dict[str, Mutant] = {
    "lease: its creation is not exclusive": Mutant(Folder, "create", _not_exclusive("lease/")),
    "lease: a living holder is not respected": Mutant(lease, "_check_deserted", _always(None)),
    "lease: an update under way does not keep it": Mutant(app_lease, "under_way", _always(False)),
    "lease: whoever holds it counts as dead": Mutant(app_lease, "alive", _always(False)),
    "lease: never released": Mutant(app_lease, "_give_back", _always(None)),
    "epoch: its claim is not exclusive": Mutant(AppRegistry, "claim", _without_claim),
    "epoch: two drivers may have the same one": Mutant(Epoch, "claim", _always(True)),
    "epoch: a driver does not notice that it is over": Mutant(Epoch, "check", _always(None)),
    "epoch: a rerun of a claim is another's": Mutant(AppRegistry, "_claimed", _always(False)),
    "fence: not put up for a silent driver": Mutant(drivers, "put_up", _always(0)),
    "fence: not put up for a silent leader": Mutant(Watched, "fence", _always(None)),
    "fence: never taken down": Mutant(lifecycle, "take_down", _always(None)),
    "hand-over: the batch under way is not waited for": Mutant(CountingEngine, "drain", _drains_nothing),
    "hand-over: the successor's first commit is not waited for": Mutant(Successor, "committed", _always(True)),
    "hand-over: a dead successor is not noticed": Mutant(Successor, "death", _always(None)),
    "hand-over: nothing is drained after all": Mutant(hand_over.DriverContext, "start", _always(None)),
    "take-back: the successor is not waited for": Mutant(hand_over, "_wait_gone", _always(None)),
    "take-back: without a claim of the epoch": Mutant(hand_over, "_take_back", _always(False)),
    "take-back: batch ids of the successor are used again": Mutant(DriverContext, "go_on_after_others", _always(None)),
    "restore: it continues from an old state of the parent": Mutant(Origin, "drained", lambda _: Origin.running),
    "restore: what was restored is taken for complete": Mutant(CountingEngine, "_mark", _always(None)),
    "follow: the last batches are not caught up with": Mutant(CountingEngine, "catch_up", _always(None)),
    "export: the batch in flight is forgotten": Mutant(Checkpoint, "export", _older),
    "export: the state is forgotten": Mutant(Checkpoint, "export", _forgets("state/")),
    "export: the offsets are forgotten": Mutant(Checkpoint, "export", _forgets("offsets/")),
    "snapshot: acknowledged before it is stored": Mutant(SnapshotStore, "_publish", _always(None)),
    "gc: what is current is freed": Mutant(collect, "needed", _collects_all),
    "record: an update has ended when it begins": Mutant(record, "begin", _kept_after_end),
    "record: an interrupted update is not found": Mutant(record, "interrupted", _always(None)),
    "record: the end of an update is not written": Mutant(promotion, "end", _always(None)),
    "rollback: the new version is not stopped": Mutant(rollback, "stop_deployment", _always(None)),
    "rollback: the old version is not started": Mutant(drivers.Drivers, "start", _always(None)),
    "rollback: its end is not recorded": Mutant(rollback, "_end_update", _always(None)),
    "cancel: commands of the epoch are not seen": Mutant(CommandBox, "told_to_end", _always(False)),
    "heartbeat: silence never counts": Mutant(Pulse, "look", _quiet_never_counts),
    "heartbeat: every driver is taken for silent": Mutant(Pulse, "look", _impatient),
    "process: every driver is taken for dead": Mutant(ProcessIdentity, "lives", _nobody_lives),
    "hot standby: takes over without a claim": Mutant(HotStandby, "_fence", _always(None)),
    "hot standby: any leader is dead": Mutant(HotStandby, "_death", _always("so it seems")),
    "supervisor: starts whatever it finds": Mutant(supervise, "decide", lambda decide: _starts_always(decide)),
}
