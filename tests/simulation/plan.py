"""What a schedule is made of: a plan, drawn from a seed, and the strikes, drawn as it runs. Both are data, so that a
schedule that has found something can be kept (found/), and be made smaller (shrinking.py)."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import attrs
from attrs.converters import optional

from airflow_provider_streamupdate.control.update.strategies import STRATEGIES
from airflow_provider_streamupdate.core.boundaries import BOUNDARIES
from airflow_provider_streamupdate.core.serde import from_dict
from airflow_provider_streamupdate.core.text_enum import TextEnum


class Place(TextEnum):
    """Where the root is."""

    DISK = "disk"
    BUCKET = "bucket"


class Strategy(TextEnum):
    RESTART = "restart"
    STANDBY = "standby"
    FOLLOW = "follow"
    PARALLEL = "parallel"
    IN_FLIGHT = "in_flight"


class Failure(TextEnum):
    """How the new version fails: in its first batch, when it starts, or it commits nothing."""

    RUN = "run"
    START = "start"
    STUCK = "stuck"


class Job(TextEnum):
    """What somebody does with the app by hand."""

    SNAPSHOT = "snapshot"
    COLLECT = "collect"
    RESTART = "restart"
    SUSPEND = "suspend"
    ROLLBACK = "rollback"
    CANCEL = "cancel"
    STANDBY_ON = "standby on"
    UPDATE = "update"


class Blow(TextEnum):
    """What goes wrong: with a process, its machine, or one call to the storage."""

    KILL = "kill"
    STOP = "stop"
    LOSE_MACHINE = "machine"
    CUT_OFF = "cut off"
    SET_CLOCK = "clock"
    FAIL = "fails"
    LOSE_ANSWER = "answer lost"
    HANG = "hangs"


class Scene(TextEnum):
    """A rare situation that is set up: mostly a process stands still until others, on other machines, take it for dead,
    and then goes on."""

    OLD = "the old driver is silent"
    LEADER = "the driver with a hot standby is silent"
    READY = "the new driver is silent before the hand-over"
    SUCCESSOR = "the new driver is silent after the hand-over"
    DEAD_SUCCESSOR = "the new driver dies as it is to take over"
    EXPORT = "an export is silent while somebody collects"
    SUSPENDED = "the driver of a suspended app dies"
    CLAIM = "the driver that hands over is silent while somebody cancels"
    TAKEOVER = "a hot standby that takes over loses the storage"
    DRAINING = "somebody rolls back while the old driver drains"


PROCESS_BLOWS = (Blow.KILL, Blow.STOP, Blow.LOSE_MACHINE, Blow.CUT_OFF, Blow.SET_CLOCK)
BATCH_WRITTEN, SUSPENDED = "batch-written", "app-suspended"  # the simulation's own boundaries
TIME = "time "  # the event of a strike that no process leads to, before its number
OF_STRATEGIES = {  # what a scene needs
    Scene.READY: (Strategy.STANDBY, Strategy.FOLLOW),
    Scene.SUCCESSOR: (Strategy.STANDBY, Strategy.FOLLOW),
    Scene.DEAD_SUCCESSOR: (Strategy.STANDBY, Strategy.FOLLOW),
    Scene.CLAIM: (Strategy.STANDBY, Strategy.FOLLOW),
    Scene.DRAINING: (Strategy.RESTART, Strategy.STANDBY),
}
# Where processes are struck in some schedules, whenever they come there: of one of these groups.
AIMED = (
    ("begun", "code-stored", "deployment-made", "driver-forked", "driver-noted", "standby-ready", "checked"),
    ("handover-asked", "command-taken", "draining", "drained", "epoch-claimed", "current-replaced", "handed-over"),
    ("command-taken", "drained", "epoch-claimed", "handed-over", "taken-back", "successor-committed", "answered"),
    ("plan-answered", "practised", "following", "stands-by", "epoch-seen", "driver-claimed", "restoring"),
    ("checkpoint-built", "checkpoint-marked", "queries-started", "running-reported", "first-commit-seen"),
    ("driver-claimed", "queries-started", "running-reported", "first-commit-seen"),
    ("beside-asked", "beside-seen", "standby-noted", "caught-up", "drain-asked", "old-drained", "drained"),
    ("change-asked", "command-taken", "drained", "change-recorded", "queries-started", "change-settled", "change-seen"),
    (BATCH_WRITTEN,),
    ("snapshot-asked", "files-copied", "snapshot-stored", "answered", "handover-seen", "stop-noted", "snapshotted"),
    ("new-running", "submitted", "healthy", "verified", "promoted", "pause-noted", "ended"),
    ("rollback-noted", "new-stopped", "old-settled", "old-runs", "rollback-ended", "gone-back"),
    ("rest-asked", "cancelled", "start-decided", "start-counted", "restarted", "driver-noted", "epoch-claimed"),
)
assert {name for group in AIMED for name in group} <= {*BOUNDARIES, BATCH_WRITTEN}
assert {str(strategy) for strategy in Strategy} == set(STRATEGIES), "each strategy is drawn"
STANDS_STILL = (3.0, 15.0, 45.0, 100.0, 100.0)  # seconds
SILENT = (50.0, 80.0, 100.0)
TROUBLE = (35.0, 60.0, 90.0)  # of virtual time, in which things go wrong
CALM = 0.06  # the share of schedules in which nothing goes wrong
SCENES = 0.4  # the share of those with several machines that set one up
LOCAL_SCENES = (Scene.DEAD_SUCCESSOR, Scene.SUSPENDED, Scene.DRAINING)  # no other machine is needed


@attrs.frozen(kw_only=True)
class Strike:
    """Something that goes wrong when a process comes to an event (a boundary, a call to the storage) for the nth time;
    without a process: so many seconds after the trouble has begun."""

    process: str = ""
    event: str
    nth: int = 1
    after: float = 0.0
    blow: Blow | None = attrs.field(default=None, converter=optional(Blow))
    victim: str = ""  # another process than the one that came there
    seconds: float = 0.0  # it stands still or is cut off for so long, or its clock is set by so many
    job: Job | None = attrs.field(default=None, converter=optional(Job))  # what somebody does then, too
    delay: float = 0.0  # seconds until that

    @property
    def moment(self) -> tuple[str, str, int]:
        return self.process, self.event, self.nth


def _blows(blows: Iterable[str]) -> tuple[Blow, ...]:
    return tuple(map(Blow, blows))


@attrs.frozen(kw_only=True)
class TimedJob:
    job: Job = attrs.field(converter=Job)
    after: float


@attrs.frozen(kw_only=True)
class Plan:
    """The people, tasks and machines of a schedule, and how often what goes wrong in it. The defaults are the simplest
    schedule: shrinking.py leads there."""

    seed: int = 0  # of how long calls take, how many rows there are and on which machine a process is
    place: Place = attrs.field(default=Place.DISK, converter=Place)
    strategy: Strategy = attrs.field(default=Strategy.RESTART, converter=Strategy)
    by_dag: bool = False
    machines: int = 1
    apart: bool = False  # the first driver has a machine of its own
    skips: bool = False  # the sink skips batches that it has seen
    supervisors: int = 0
    hot: bool = False
    begins: tuple[float, ...] = (0.0,)  # when each person begins the update
    impatient: bool = False  # they run it again while it stands still
    fails: Failure | None = attrs.field(default=None, converter=optional(Failure))
    jobs: tuple[TimedJob, ...] = ()
    dies: bool = False  # the current driver, in the end, so that it is started again
    probed: bool = False  # it is suspended in the end, to see that it obeys
    long: float = 35.0  # seconds of trouble
    slow: float = 0.0  # the share of calls to the storage that take long
    drifts: tuple[float, ...] = ()  # seconds that each machine's clocks gain in a second
    # How strikes are drawn.
    scene: Scene | None = attrs.field(default=None, converter=optional(Scene))
    failing: float = 0.0  # the share of calls that fail; creating: of creations
    creating: float = 0.0
    deaths: float = 0.0  # the share of boundaries
    blows: tuple[Blow, ...] = attrs.field(default=(Blow.STOP,), converter=_blows)
    aimed: tuple[str, ...] = ()
    aims: int = 0
    times: tuple[float, ...] = ()  # when somebody is struck

    def __str__(self) -> str:
        simple = Plan()
        fields = {n: v for n, v in attrs.asdict(self).items() if v != getattr(simple, n) or n == "strategy"}
        return ", ".join(f"{name} {value}" for name, value in fields.items() if name not in ("seed", "times"))


def draw(seed: int) -> Plan:
    chance = random.Random(seed)
    calm = chance.random() < CALM
    machines = chance.choice((1, 2, 3, 3))
    strategy, soon, few = chance.choice(list(Strategy)), chance.random() * 10, chance.choice((0.1, 0.4))
    often = (Job.SNAPSHOT, Job.COLLECT, Job.SNAPSHOT, Job.RESTART, Job.SUSPEND)
    jobs = [job for job in often if chance.random() < few]
    if chance.random() < 0.2:
        jobs.append(chance.choice((Job.ROLLBACK, Job.ROLLBACK, Job.CANCEL)))
    long = chance.choice(TROUBLE)
    aimed: tuple[str, ...] = ()
    if chance.random() < 0.7:
        names, at = tuple(BOUNDARIES), chance.randrange(len(BOUNDARIES))
        aimed = names[at : at + 7] if chance.random() < 0.3 else chance.choice(AIMED)
    plan = Plan(
        seed=seed,
        place=chance.choice(list(Place)),
        strategy=strategy,
        by_dag=chance.random() < 0.5,
        machines=machines,
        skips=chance.random() < 0.5,
        supervisors=chance.choice((0, 0, 1, 1, 2)),
        hot=chance.random() < 0.25,
        begins=tuple(
            soon + number * chance.choice((0.0, 0.01, 1.0, 10.0)) for number in range(chance.choice((0, 1, 1, 1, 1, 2)))
        ),
        impatient=chance.random() < 0.5,
        fails=chance.choice((None, None, None, None, Failure.RUN, Failure.RUN, Failure.START, Failure.STUCK)),
        jobs=tuple(TimedJob(job=job, after=chance.random() * long) for job in jobs),
        dies=chance.random() < 0.3,
        probed=chance.random() < 0.3,
        long=long,
        slow=chance.choice((0.0, 0.0, 0.01, 0.05)),
        drifts=tuple(chance.uniform(-0.01, 0.01) for _ in range(machines)) if chance.random() < 0.2 else (),
        failing=chance.choice((0.0, 0.0, 0.0, 0.002, 0.01)),
        creating=chance.choice((0.0, 0.0, 0.05, 0.2)),
        deaths=chance.choice((0.0, 0.0, 0.01, 0.04)),
        blows=tuple(blow for blow in PROCESS_BLOWS if chance.random() < 0.5) or (Blow.STOP,),
        aimed=aimed,
        aims=chance.choice((1, 2, 3)),
        times=tuple(chance.random() * long for _ in range(chance.choice((0, 0, 1, 1, 2, 3, 5)))),
    )
    if plan.strategy is Strategy.IN_FLIGHT and plan.fails:
        plan = attrs.evolve(plan, fails=Failure.RUN)
    if calm:
        names = ("seed", "place", "strategy", "by_dag", "machines", "skips", "supervisors", "dies", "probed")
        return attrs.evolve(Plan(), begins=(soon,), **{name: getattr(plan, name) for name in names})
    if chance.random() < SCENES:
        plan = _with_scene(plan, chance.choice(list(Scene) if machines > 1 else LOCAL_SCENES), soon, chance)
    return plan


def _with_scene(plan: Plan, scene: Scene, soon: float, chance: random.Random) -> Plan:
    """The plan with what the scene needs, and with less of what would only be in its way."""
    one = (soon,)
    needs: dict[Scene, dict[str, Any]] = {
        Scene.OLD: {"times": (soon + chance.random() * 15,)},
        Scene.LEADER: {"hot": True, "begins": (), "times": (soon,), "jobs": ()},
        Scene.TAKEOVER: {"hot": True, "begins": (), "times": (soon,), "jobs": (), "probed": True},
        Scene.READY: {"by_dag": True, "begins": one, "fails": None},
        Scene.SUCCESSOR: {"begins": one, "fails": None, "jobs": ()},
        Scene.DEAD_SUCCESSOR: {"begins": one, "fails": None},
        Scene.CLAIM: {"begins": one},
        Scene.DRAINING: {"begins": one},
        Scene.EXPORT: {"jobs": (*plan.jobs, TimedJob(job=Job.SNAPSHOT, after=chance.random() * 30))},
        Scene.SUSPENDED: {"jobs": (TimedJob(job=Job.SUSPEND, after=chance.random() * 30),), "supervisors": 1},
    }
    strategies = OF_STRATEGIES.get(scene, (plan.strategy,))
    plan = attrs.evolve(
        plan, scene=scene, apart=chance.random() < 0.7, long=120.0, strategy=chance.choice(strategies), **needs[scene]
    )
    if chance.random() < 0.6:  # nothing else
        plan = attrs.evolve(plan, failing=0.0, creating=0.0, deaths=0.0, aimed=(), drifts=())
        plan = plan if scene in (Scene.OLD, Scene.LEADER, Scene.TAKEOVER) else attrs.evolve(plan, times=())
    if scene is not Scene.SUSPENDED and chance.random() < 0.7:
        plan = attrs.evolve(plan, supervisors=0)
    return plan


class Strikes:
    """Decides what goes wrong: it draws, or does what is known. made: what it has decided"""

    def __init__(self, plan: Plan, known: Sequence[Strike] | None = None) -> None:
        self.chance = random.Random(f"strikes {plan.seed}")
        self.known = None if known is None else {strike.moment: strike for strike in known}
        self.made: list[Strike] = []
        self._counts: Counter[tuple[str, str]] = Counter()
        self.times = list(enumerate(plan.times))  # of those that no process leads to
        if known is not None:
            self.times = [(int(s.event.removeprefix(TIME)), s.after) for s in known if not s.process]

    def at(self, process: str, event: str, drawn: Callable[[str, str, int], Strike | None]) -> Strike | None:
        """What happens now that a process has come to an event."""
        self._counts[process, event] += 1
        nth = self._counts[process, event]
        strike = drawn(process, event, nth) if self.known is None else self.known.get((process, event, nth))
        if strike is not None:
            self.made.append(strike)
        return strike


@attrs.frozen(kw_only=True)
class Found:
    """A schedule that has found a fault of the package."""

    fault: str
    plan: Plan
    strikes: tuple[Strike, ...]

    @classmethod
    def read(cls, file: Path) -> Found:
        return from_dict(json.loads(file.read_text()), cls, str(file))

    def text(self) -> str:
        """As a file in found/ has it: without what is as by default."""

        def other(field: Any, value: Any) -> bool:
            return bool(value != field.default)

        found = attrs.asdict(self, filter=other)
        strikes = ",\n  ".join(map(json.dumps, found.pop("strikes", ())))
        fault, plan = json.dumps(found["fault"]), json.dumps(found.get("plan", {}))
        return f'{{"fault": {fault},\n "plan": {plan},\n "strikes": [\n  {strikes}\n]}}'
