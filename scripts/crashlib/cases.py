"""What can go wrong, and when: each boundary of each strategy, and of a supervisor, with each process that can die
there."""

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
USER, UPDATE = "user", "update"  # nobody, but the app is restarted, or updated, while a supervisor waits
SUPERVISE = "supervise"  # in place of a strategy: no update, a driver that dies
STAND_BY = "hot-standby"  # the same, where a hot standby takes over
EVERY = "every"  # in place of a boundary: each of the way in turn, in one update
# Of commands that are no update and no supervisor: tests/cli/test_cli_command_pairs.py, test_cli_delete_app.py.
ELSEWHERE = {"cancelled", "rest-asked", "removing", "standby-unwanted"}
ELSEWHERE |= {"deletion-noted", "records-removed", "deployments-removed", "snapshots-removed"}


@attrs.frozen(kw_only=True)
class Case:
    """strategy: of the update. boundary: EVERY for each of the way, one after the other. process: who gets to it.
    victims: who is killed there with SIGKILL; STORAGE: nobody, but the process's next storage call fails.

    fails: the new version fails in its first batch
    after: a boundary that must have been reached before (the one that is meant is passed more than once)
    fallen: who is killed at that one
    alone: the update's process is started again only when the drivers have come to rest by themselves
    supervised: a supervisor watches the app meanwhile
    pair: two supervisors watch it, and one that dies is not started again
    """

    strategy: str
    boundary: str
    process: str
    victims: tuple[str, ...]
    fails: bool = False
    after: str | None = None
    fallen: tuple[str, ...] = ()
    alone: bool = False
    supervised: bool = False
    pair: bool = False

    @property
    def name(self) -> str:
        way = "-".join(
            word
            for word, said in (
                ("supervised", self.supervised),
                (self.strategy, True),
                ("pair", self.pair),
                ("fails", self.fails),
                ("dies", self.fallen),
            )
            if said
        )
        boundary = f"{self.boundary}@{self.after}" if self.after else self.boundary
        return f"{way}:{boundary}:{'+'.join(self.victims)}"

    def every(self) -> dict[str, str]:
        """The boundaries that a case of EVERY strikes, in order, each with who gets to it. Where a new version fails,
        only those of the way back: how far it comes before differs."""
        if self.strategy == SUPERVISE:
            way: tuple[Stretch, ...] = AGAIN
        else:
            way = BACK[self.strategy] if self.fails else WAYS[self.strategy]
        return {boundary: stretch.process for stretch in way for boundary in stretch.each()}


@attrs.frozen
class Stretch:
    """Boundaries that one process gets to in a row. drivers: those that live then, and whose death is the update's
    concern: an update that has found the new version healthy does not look at it again. after: as of a case."""

    process: str
    boundaries: str
    drivers: str = ""
    after: str | None = None

    def each(self) -> list[str]:
        return self.boundaries.split()


BOTH = f"{OLD} {NEW}"


def _with_standby(prepares: str) -> tuple[Stretch, ...]:
    """As an update goes whose new driver gets ready beside the old one. prepares: its last boundary before it does"""
    return (
        Stretch(TASK, "planned"),
        Stretch(TASK, "begun code-stored deployment-made driver-forked", OLD),
        Stretch(TASK, "driver-noted", BOTH),
        Stretch(NEW, "plan-written plan-answered", BOTH),
        Stretch(TASK, "checked", BOTH),
        Stretch(NEW, f"{prepares} stands-by", BOTH),
        Stretch(TASK, "standby-ready standby-noted handover-asked", BOTH),
        Stretch(OLD, "command-taken draining drained epoch-claimed current-replaced handed-over", BOTH),
        Stretch(NEW, "epoch-seen driver-claimed restoring checkpoint-built checkpoint-marked", BOTH),
        Stretch(NEW, "queries-started running-reported first-commit-seen", BOTH),
        Stretch(OLD, "successor-committed files-copied snapshot-stored answered", BOTH),
        Stretch(TASK, "handover-seen handover-completed stop-noted snapshotted new-running submitted", NEW),
        Stretch(TASK, "healthy verified promoted pause-noted ended"),
    )


# As an update goes that nothing happens to.
WAYS = {
    Restart.name: (
        Stretch(TASK, "planned"),
        Stretch(TASK, "begun checked snapshot-asked", OLD),
        Stretch(OLD, "command-taken draining drained files-copied snapshot-stored answered", OLD),
        Stretch(TASK, "snapshot-seen stop-noted snapshotted code-stored deployment-made"),
        Stretch(TASK, "epoch-claimed current-replaced driver-forked"),
        Stretch(TASK, "driver-noted", NEW),
        Stretch(NEW, "driver-claimed plan-written restoring checkpoint-built checkpoint-marked", NEW),
        Stretch(NEW, "queries-started running-reported first-commit-seen", NEW),
        Stretch(TASK, "new-running submitted", NEW),
        Stretch(TASK, "healthy verified promoted pause-noted ended"),
    ),
    Standby.name: _with_standby("practised"),
    Follow.name: _with_standby("following"),
    Parallel.name: (
        Stretch(TASK, "planned"),
        Stretch(TASK, "begun code-stored deployment-made driver-forked", OLD),
        Stretch(TASK, "driver-noted", BOTH),
        Stretch(NEW, "driver-claimed plan-written plan-answered", BOTH),
        Stretch(TASK, "checked", BOTH),
        Stretch(NEW, "stands-by", BOTH),
        Stretch(TASK, "snapshot-asked", BOTH),
        Stretch(OLD, "command-taken files-copied snapshot-stored", BOTH),
        Stretch(TASK, "snapshot-seen beside-asked", BOTH),
        Stretch(NEW, "restoring checkpoint-built checkpoint-marked", BOTH),
        Stretch(NEW, "queries-started running-reported first-commit-seen", BOTH),
        Stretch(TASK, "beside-seen standby-noted caught-up drain-asked", BOTH),
        Stretch(OLD, "command-taken", BOTH, after="caught-up"),
        Stretch(OLD, "draining drained answered", BOTH),
        Stretch(TASK, "old-drained epoch-claimed current-replaced snapshotted new-running submitted", NEW),
        Stretch(TASK, "healthy verified promoted pause-noted ended"),
    ),
    InFlight.name: (  # `promoted` is passed only when the running version was not accepted before
        Stretch(TASK, "planned"),
        Stretch(TASK, "begun checked change-asked", OLD),
        Stretch(OLD, "command-taken draining drained change-recorded plan-written", OLD),
        Stretch(OLD, "queries-started running-reported change-settled", OLD),
        Stretch(TASK, "change-seen submitted", OLD),
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
    Stretch(OLD, "epoch-claimed current-replaced", OLD, after="handed-over"),
    Stretch(OLD, "taken-back", OLD),
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
        Stretch(OLD, "change-recorded plan-written", OLD, after="queries-started"),
        Stretch(OLD, "queries-started", OLD, after="running-reported"),
        Stretch(TASK, "rollback-noted new-stopped old-settled gone-back rollback-ended"),
    ),
}

# On the way back from where a driver was killed: who, and where; then the old version is started again.
DIES = {
    Parallel.name: (
        NEW,
        Stretch(
            TASK,
            "rollback-noted new-stopped old-settled epoch-claimed current-replaced driver-forked driver-noted old-runs "
            "gone-back rollback-ended",
            after="old-drained",
        ),
    ),
    InFlight.name: (
        OLD,
        Stretch(
            TASK,
            "rollback-noted change-recorded new-stopped old-settled epoch-claimed current-replaced driver-forked "
            "driver-noted old-runs gone-back rollback-ended",
            after="change-settled",
        ),
    ),
}

# As a supervisor starts a driver again that has died.
AGAIN = (
    Stretch(SUPERVISOR, "watching start-decided start-counted epoch-claimed current-replaced driver-forked"),
    Stretch(SUPERVISOR, "driver-noted", NEW),
    Stretch(NEW, "driver-claimed plan-written queries-started running-reported first-commit-seen", NEW),
    Stretch(SUPERVISOR, "restarted recovery-noted", NEW),
)


# As a hot standby takes over from a driver that has died.
TAKES_OVER = (
    "epoch-claimed current-replaced epoch-seen driver-claimed restoring checkpoint-built checkpoint-marked "
    "queries-started running-reported first-commit-seen"
)


def cases() -> list[Case]:
    """All of them, in an order in which any first part has something of everything."""
    found = [*_every(), *_updates(), *_ways_back(), *_supervise(), *_supervised(), *_hot_standby()]
    return sorted(found, key=lambda case: hashlib.sha256(case.name.encode()).digest())


def _every() -> Iterator[Case]:
    for strategy in WAYS:
        for fails in (False, True):
            yield Case(strategy=strategy, boundary=EVERY, process=TASK, victims=(TASK,), fails=fails)
    yield Case(strategy=SUPERVISE, boundary=EVERY, process=SUPERVISOR, victims=(SUPERVISOR,))


def _updates() -> Iterator[Case]:
    for strategy, way in WAYS.items():
        for stretch in way:
            for boundary in stretch.each():
                here = Case(
                    strategy=strategy, boundary=boundary, process=stretch.process, victims=(TASK,), after=stretch.after
                )
                for victim in (TASK, STORAGE, *stretch.drivers.split()):
                    yield attrs.evolve(here, victims=(victim,))
                if strategy in (Standby.name, Follow.name) and boundary in ALONE:
                    for driver in (OLD, NEW):
                        yield attrs.evolve(here, victims=(TASK, driver), alone=True)


def _ways_back() -> Iterator[Case]:
    for strategy, back in BACK.items():
        for stretch in back:
            for boundary in stretch.each():
                for victim in (TASK, STORAGE, *stretch.drivers.split()):
                    yield Case(
                        strategy=strategy,
                        boundary=boundary,
                        process=stretch.process,
                        victims=(victim,),
                        fails=True,
                        after=stretch.after,
                    )
    for strategy, (fallen, stretch) in DIES.items():
        for boundary in stretch.each():
            for victim in (TASK, STORAGE):
                yield Case(
                    strategy=strategy,
                    boundary=boundary,
                    process=stretch.process,
                    victims=(victim,),
                    after=stretch.after,
                    fallen=(fallen,),
                )


def _supervise() -> Iterator[Case]:
    for stretch in AGAIN:
        for boundary in stretch.each():
            here = Case(strategy=SUPERVISE, boundary=boundary, process=stretch.process, victims=(SUPERVISOR,))
            yield here
            yield attrs.evolve(here, victims=(STORAGE,))
            if stretch.process == SUPERVISOR:
                yield attrs.evolve(here, pair=True)
            if stretch.drivers:
                yield attrs.evolve(here, victims=(NEW,))
                yield attrs.evolve(here, victims=(SUPERVISOR, NEW))
    for boundary in ("start-decided", "start-counted"):
        for meanwhile in (USER, UPDATE):
            yield Case(strategy=SUPERVISE, boundary=boundary, process=SUPERVISOR, victims=(meanwhile,))


def _supervised() -> Iterator[Case]:
    """The update's process is killed where nothing runs, or along with a driver, or the new driver where the update
    does not look any more: the supervisor starts nothing while the update is under way, and what is dead afterwards."""
    for strategy, way in WAYS.items():
        for stretch in (s for s in way if s.process == TASK and s.after is None):
            for boundary in stretch.each():
                here = Case(strategy=strategy, boundary=boundary, process=TASK, victims=(TASK,), supervised=True)
                if strategy == Restart.name:
                    yield here
                if boundary == stretch.each()[-1]:
                    for driver in stretch.drivers.split():
                        yield attrs.evolve(here, victims=(TASK, driver))
        runs = OLD if strategy == InFlight.name else NEW
        for boundary in way[-1].each():
            yield Case(strategy=strategy, boundary=boundary, process=TASK, victims=(runs,), supervised=True)
    for stretch in BACK[Restart.name]:
        for boundary in stretch.each():
            yield Case(
                strategy=Restart.name,
                boundary=boundary,
                process=TASK,
                victims=(TASK,),
                fails=True,
                after=stretch.after,
                supervised=True,
            )


def _hot_standby() -> Iterator[Case]:
    for boundary in TAKES_OVER.split():
        for victim in (OLD, NEW, STORAGE):  # the old one has died in all of them
            yield Case(strategy=STAND_BY, boundary=boundary, process=NEW, victims=(victim,))


def never_struck() -> set[str]:
    """Boundaries without a case."""
    return set(BOUNDARIES) - ELSEWHERE - {case.boundary for case in cases()}
