"""What can go wrong, and when: each boundary of each strategy with each process that can die there."""

from __future__ import annotations

import attrs

from airflow_provider_streamupdate.control.update.strategies.restart import Restart
from airflow_provider_streamupdate.control.update.strategies.standby import Standby
from airflow_provider_streamupdate.core.boundaries import BOUNDARIES

TASK, OLD, NEW, STORAGE = "task", "old", "new", "storage"  # who dies; STORAGE: the next storage call fails, none dies


@attrs.frozen(kw_only=True)
class Case:
    """strategy: of the update. process: who gets to the boundary. victims: who is killed there with SIGKILL; STORAGE:
    nobody, but the process's next storage call fails.

    fails: the new version fails in its first batch. after: a boundary that the update must have reached before (the
    one that is meant is passed more than once). alone: the update's process is started again only when the drivers
    have come to rest by themselves
    """

    strategy: str
    boundary: str
    process: str
    victims: tuple[str, ...]
    fails: bool = False
    after: str | None = None
    alone: bool = False

    @property
    def name(self) -> str:
        way = f"{self.strategy}-fails" if self.fails else self.strategy
        return f"{way}:{self.boundary}:{'+'.join(self.victims)}"


@attrs.frozen
class Stretch:
    """Boundaries that one process gets to in a row. drivers: those that live then, and whose death is the update's
    concern: an update that has found the new version healthy does not look at it again."""

    process: str
    boundaries: str
    drivers: str = ""


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
    Standby.name: (
        Stretch(TASK, "planned"),
        Stretch(TASK, "begun code-stored deployment-made driver-forked", OLD),
        Stretch(TASK, "driver-noted", f"{OLD} {NEW}"),
        Stretch(NEW, "plan-written plan-answered", f"{OLD} {NEW}"),
        Stretch(TASK, "checked", f"{OLD} {NEW}"),
        Stretch(NEW, "practised stands-by", f"{OLD} {NEW}"),
        Stretch(TASK, "standby-ready standby-noted handover-asked", f"{OLD} {NEW}"),
        Stretch(OLD, "command-taken draining drained epoch-claimed current-replaced handed-over", f"{OLD} {NEW}"),
        Stretch(NEW, "epoch-seen driver-claimed restoring checkpoint-built checkpoint-marked", f"{OLD} {NEW}"),
        Stretch(NEW, "queries-started running-reported first-commit-seen", f"{OLD} {NEW}"),
        Stretch(OLD, "successor-committed files-copied snapshot-stored answered", f"{OLD} {NEW}"),
        Stretch(TASK, "handover-seen handover-completed stop-noted snapshotted new-running submitted", NEW),
        Stretch(TASK, "healthy verified promoted pause-noted ended"),
    ),
}

# Where the two drivers are alone with each other, should the update's process die as well.
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

# On the way back from a new version that fails: boundary, process, and what was passed before.
BACK = {
    Restart.name: (
        ("rollback-noted", TASK, None),
        ("new-stopped", TASK, None),
        ("old-settled", TASK, None),
        ("epoch-claimed", TASK, "old-settled"),
        ("current-replaced", TASK, "old-settled"),
        ("driver-forked", TASK, "old-settled"),
        ("driver-noted", TASK, "old-settled"),
        ("old-runs", TASK, None),
        ("gone-back", TASK, None),
        ("rollback-ended", TASK, None),
    ),
    Standby.name: (
        ("epoch-claimed", OLD, "handed-over"),
        ("current-replaced", OLD, "handed-over"),
        ("taken-back", OLD, None),
        ("new-stopped", TASK, None),
        ("old-settled", TASK, None),
        ("gone-back", TASK, None),
    ),
}


def cases() -> list[Case]:
    """All of them, in an order in which any first part has something of everything."""
    found = []
    for strategy, way in WAYS.items():
        for stretch in way:
            for boundary in stretch.boundaries.split():
                for victim in (TASK, STORAGE, *stretch.drivers.split()):
                    found.append(Case(strategy=strategy, boundary=boundary, process=stretch.process, victims=(victim,)))
                if strategy == Standby.name and boundary in ALONE:
                    for driver in (OLD, NEW):
                        found.append(
                            Case(
                                strategy=strategy,
                                boundary=boundary,
                                process=stretch.process,
                                victims=(TASK, driver),
                                alone=True,
                            )
                        )
    for strategy, back in BACK.items():
        for boundary, process, after in back:
            for victim in (TASK, STORAGE, *((OLD,) if process == OLD else ())):
                found.append(
                    Case(
                        strategy=strategy,
                        boundary=boundary,
                        process=process,
                        victims=(victim,),
                        fails=True,
                        after=after,
                    )
                )
    return found


def never_struck() -> set[str]:
    """Boundaries without a case."""
    return set(BOUNDARIES) - {case.boundary for case in cases()}
