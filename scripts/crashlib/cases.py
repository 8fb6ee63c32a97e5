"""What is struck, and when: each boundary of each strategy, of a supervisor and of a hot standby, with real drivers.

The update's process, or the supervisor, is killed at each boundary in turn in one case, and storage calls fail at each
of them in another; a driver is killed at each of its own boundaries, in a case of its own. Combinations, stops, other
machines and clocks are drawn by tests/simulation."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import attrs

from airflow_provider_streamupdate.control.update.strategies.follow import Follow
from airflow_provider_streamupdate.control.update.strategies.in_flight import InFlight
from airflow_provider_streamupdate.control.update.strategies.parallel import Parallel
from airflow_provider_streamupdate.control.update.strategies.restart import Restart
from airflow_provider_streamupdate.control.update.strategies.standby import Standby
from airflow_provider_streamupdate.core.boundaries import BOUNDARIES

# Who dies. STORAGE: nobody, but the next storage call fails. NEW, without an update: the driver that is started again.
TASK, OLD, NEW, SUPERVISOR, STORAGE = "task", "old", "new", "supervisor", "storage"
SUPERVISE = "supervise"  # in place of a strategy: no update, a driver that dies
STAND_BY = "hot-standby"  # the same, where a hot standby takes over
EVERY = "every"  # in place of a boundary: each of the way in turn, in one update
# Of commands that are no update and no supervisor: tests/cli/test_cli_command_pairs.py, test_cli_snapshots.py.
ELSEWHERE = {"cancelled", "rest-asked", "removing", "standby-unwanted"}
ELSEWHERE |= {"deletion-noted", "records-removed", "deployments-removed", "snapshots-removed"}


@attrs.frozen(kw_only=True)
class Case:
    """strategy: of the update. boundary: EVERY for each of the way, one after the other. process: who gets to it.
    victims: who is killed there with SIGKILL; STORAGE: nobody, but the process's next storage call fails. With the TASK
        among two, the drivers are left alone until they have come to rest

    fails: the new version fails in its first batch
    after: a boundary that must have been reached before (the one that is meant is passed more than once)
    """

    strategy: str
    boundary: str
    process: str
    victims: tuple[str, ...]
    fails: bool = False
    after: str | None = None

    @property
    def name(self) -> str:
        way = f"{self.strategy}-fails" if self.fails else self.strategy
        boundary = f"{self.boundary}@{self.after}" if self.after else self.boundary
        return f"{way}:{boundary}:{'+'.join(self.victims)}"

    @property
    def alone(self) -> bool:
        """Whether the drivers are left alone with each other."""
        return len(self.victims) > 1

    def every(self) -> dict[str, str]:
        """The boundaries that a case of EVERY strikes, in order, each with who gets to it. Where a new version fails,
        only those of the way back: how far it comes before differs."""
        if self.strategy == SUPERVISE:
            way: tuple[Stretch, ...] = AGAIN
        elif self.strategy == STAND_BY:
            way = (TAKES_OVER,)
        else:
            way = BACK[self.strategy] if self.fails else WAYS[self.strategy]
        return {boundary: stretch.process for stretch in way for boundary in stretch.each()}


@attrs.frozen
class Stretch:
    """Boundaries that one process gets to in a row. after: as of a case"""

    process: str
    boundaries: str
    after: str | None = None

    def each(self) -> list[str]:
        return self.boundaries.split()


def _with_standby(prepares: str) -> tuple[Stretch, ...]:
    """As an update goes whose new driver gets ready beside the old one. prepares: its last boundary before it does"""
    return (
        Stretch(TASK, "planned"),
        Stretch(TASK, "begun code-stored deployment-made driver-forked"),
        Stretch(TASK, "driver-noted"),
        Stretch(NEW, "plan-written plan-answered"),
        Stretch(TASK, "checked"),
        Stretch(NEW, f"{prepares} stands-by"),
        Stretch(TASK, "standby-ready standby-noted handover-asked"),
        Stretch(OLD, "command-taken draining drained epoch-claimed current-replaced handed-over"),
        Stretch(NEW, "epoch-seen driver-claimed restoring checkpoint-built checkpoint-marked"),
        Stretch(NEW, "queries-started running-reported first-commit-seen"),
        Stretch(OLD, "successor-committed files-copied snapshot-stored answered"),
        Stretch(TASK, "handover-seen handover-completed stop-noted snapshotted new-running submitted"),
        Stretch(TASK, "healthy verified promoted pause-noted ended"),
    )


# As an update goes that nothing happens to.
WAYS = {
    Restart.name: (
        Stretch(TASK, "planned"),
        Stretch(TASK, "begun checked snapshot-asked"),
        Stretch(OLD, "command-taken draining drained files-copied snapshot-stored answered"),
        Stretch(TASK, "snapshot-seen stop-noted snapshotted code-stored deployment-made"),
        Stretch(TASK, "epoch-claimed current-replaced driver-forked"),
        Stretch(TASK, "driver-noted"),
        Stretch(NEW, "driver-claimed plan-written restoring checkpoint-built checkpoint-marked"),
        Stretch(NEW, "queries-started running-reported first-commit-seen"),
        Stretch(TASK, "new-running submitted"),
        Stretch(TASK, "healthy verified promoted pause-noted ended"),
    ),
    Standby.name: _with_standby("practised"),
    Follow.name: _with_standby("following"),
    Parallel.name: (
        Stretch(TASK, "planned"),
        Stretch(TASK, "begun code-stored deployment-made driver-forked"),
        Stretch(TASK, "driver-noted"),
        Stretch(NEW, "driver-claimed plan-written plan-answered"),
        Stretch(TASK, "checked"),
        Stretch(NEW, "stands-by"),
        Stretch(TASK, "snapshot-asked"),
        Stretch(OLD, "command-taken files-copied snapshot-stored"),
        Stretch(TASK, "snapshot-seen beside-asked"),
        Stretch(NEW, "restoring checkpoint-built checkpoint-marked"),
        Stretch(NEW, "queries-started running-reported first-commit-seen"),
        Stretch(TASK, "beside-seen standby-noted caught-up drain-asked"),
        Stretch(OLD, "command-taken", after="caught-up"),
        Stretch(OLD, "draining drained answered"),
        Stretch(TASK, "old-drained epoch-claimed current-replaced snapshotted new-running submitted"),
        Stretch(TASK, "healthy verified promoted pause-noted ended"),
    ),
    InFlight.name: (  # `promoted` is passed only when the running version was not accepted before
        Stretch(TASK, "planned"),
        Stretch(TASK, "begun checked change-asked"),
        Stretch(OLD, "command-taken draining drained change-recorded plan-written"),
        Stretch(OLD, "queries-started running-reported change-settled"),
        Stretch(TASK, "change-seen submitted"),
        Stretch(TASK, "healthy verified pause-noted ended"),
    ),
}

# Where the two drivers of a standby update are alone with each other, should the update's process die as well.
ALONE = (
    "epoch-claimed",
    "current-replaced",
    "handed-over",
    "epoch-seen",
    "driver-claimed",
    "restoring",
    "checkpoint-built",
    "checkpoint-marked",
    "queries-started",
    "running-reported",
    "first-commit-seen",
)

# By the old version that still runs.
TAKEN_BACK = (
    Stretch(OLD, "epoch-claimed current-replaced", after="handed-over"),
    Stretch(OLD, "taken-back"),
    Stretch(TASK, "new-stopped old-settled gone-back"),
)

# On the way back from a new version that fails. With restart the old version has ended; else it runs.
BACK = {
    Restart.name: (
        Stretch(TASK, "rollback-noted new-stopped old-settled"),
        Stretch(TASK, "epoch-claimed current-replaced driver-forked driver-noted", after="old-settled"),
        Stretch(TASK, "old-runs gone-back rollback-ended"),
    ),
    Standby.name: TAKEN_BACK,
    Follow.name: TAKEN_BACK,
    Parallel.name: (Stretch(TASK, "rollback-noted new-stopped old-settled gone-back rollback-ended"),),
    InFlight.name: (
        Stretch(OLD, "change-recorded plan-written", after="queries-started"),
        Stretch(OLD, "queries-started", after="running-reported"),
        Stretch(TASK, "rollback-noted new-stopped old-settled gone-back rollback-ended"),
    ),
}

# As a supervisor starts a driver again that has died.
AGAIN = (
    Stretch(SUPERVISOR, "watching start-decided start-counted epoch-claimed current-replaced driver-forked"),
    Stretch(SUPERVISOR, "driver-noted"),
    Stretch(NEW, "driver-claimed plan-written queries-started running-reported first-commit-seen"),
    Stretch(SUPERVISOR, "restarted recovery-noted"),
)


# As a hot standby takes over from a driver that has died.
TAKES_OVER = Stretch(
    NEW,
    "epoch-claimed current-replaced epoch-seen driver-claimed restoring checkpoint-built checkpoint-marked "
    "queries-started running-reported first-commit-seen",
)


def cases() -> list[Case]:
    """All of them, in an order in which any first part has something of everything."""
    found = [*_every(), *_updates(), *_ways_back(), *_without_update()]
    return sorted(found, key=lambda case: hashlib.sha256(case.name.encode()).digest())


def _every() -> Iterator[Case]:
    for victim in (TASK, STORAGE):
        for strategy in WAYS:
            for fails in (False, True):
                yield Case(strategy=strategy, boundary=EVERY, process=TASK, victims=(victim,), fails=fails)
    for victim in (SUPERVISOR, STORAGE):
        yield Case(strategy=SUPERVISE, boundary=EVERY, process=SUPERVISOR, victims=(victim,))
    yield Case(strategy=STAND_BY, boundary=EVERY, process=NEW, victims=(STORAGE,))


def _updates() -> Iterator[Case]:
    """A driver dies at each of its boundaries. Standby and follow share the hand-over: with follow, the update's
    process dies there as well."""
    for strategy, way in WAYS.items():
        for stretch in (stretch for stretch in way if stretch.process in (OLD, NEW)):
            for boundary in stretch.each():
                victims: tuple[str, ...] = (stretch.process,)
                if strategy == Follow.name and boundary in ALONE:
                    victims = (TASK, stretch.process)
                elif strategy == Follow.name and stretch.process == OLD:
                    continue
                yield _of(strategy, stretch, boundary, victims)


def _ways_back() -> Iterator[Case]:
    for strategy, back in BACK.items():
        for stretch in (stretch for stretch in back if stretch.process == OLD and strategy != Follow.name):
            for boundary in stretch.each():
                yield attrs.evolve(_of(strategy, stretch, boundary, (OLD,)), fails=True)


def _without_update() -> Iterator[Case]:
    for strategy, way in ((SUPERVISE, AGAIN), (STAND_BY, (TAKES_OVER,))):
        for stretch in (stretch for stretch in way if stretch.process == NEW):
            for boundary in stretch.each():
                yield _of(strategy, stretch, boundary, (NEW,))


def _of(strategy: str, stretch: Stretch, boundary: str, victims: tuple[str, ...]) -> Case:
    return Case(strategy=strategy, boundary=boundary, process=stretch.process, victims=victims, after=stretch.after)


def never_struck() -> set[str]:
    """Boundaries without a case."""
    found = cases()
    struck = {case.boundary for case in found}.union(*(case.every() for case in found if case.boundary == EVERY))
    return set(BOUNDARIES) - ELSEWHERE - struck
