"""One schedule: an app, people and tasks who work on it, what goes wrong, and what must be so afterwards."""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import attrs
from fake_engine import QUERY

from airflow_provider_streamupdate.control.client import StreamUpdateClient
from airflow_provider_streamupdate.control.update.engine import UpdateEngine
from airflow_provider_streamupdate.control.update.options import UpdateOptions
from airflow_provider_streamupdate.control.update.rollback import RollbackOptions
from airflow_provider_streamupdate.control.update.strategies import strategy_named
from airflow_provider_streamupdate.core.checkpoint.checkpoint import Checkpoint
from airflow_provider_streamupdate.core.errors import StreamUpdateError
from airflow_provider_streamupdate.core.registry.application import Application
from airflow_provider_streamupdate.core.registry.deployment import CANCELLED, RUNNING, SUSPENDED
from airflow_provider_streamupdate.core.snapshots.snapshots import SnapshotStore
from airflow_provider_streamupdate.core.snapshots.superseded import Retention

from . import plan as plans
from .plan import BATCH_WRITTEN, Blow, Failure, Job, Plan, Scene, Strategy, Strike, Strikes
from .site import APP, Site
from .storage import Storage
from .world import Machine, Process, Stuck, World

START, LONGEST = 300.0, 6000.0  # seconds of virtual time
RARELY = (BATCH_WRITTEN, "first-commit-seen")  # struck, since a process comes there again and again
# What somebody does at such a moment.
MEANWHILE = (Job.CANCEL, Job.ROLLBACK, Job.ROLLBACK, Job.RESTART, Job.SNAPSHOT, Job.COLLECT, Job.SUSPEND,
             Job.STANDBY_ON, Job.UPDATE)  # fmt: skip
READY, SUCCESSOR = ("stands-by", "practised", "following"), ("epoch-seen", "queries-started", "running-reported")
TRIES = 12


@attrs.define
class Outcome:
    """What became of a schedule. problems: what must not be, in words; empty: the schedule is right"""

    plan: Plan
    strikes: tuple[Strike, ...] = ()
    problems: list[str] = attrs.field(factory=list)
    faults: Counter[str] = attrs.field(factory=Counter)
    outcome: str | None = None


class Schedule:
    """versions: a folder for application files; strikes: what goes wrong; None: it is drawn"""

    def __init__(
        self,
        plan: Plan,
        versions: Path,
        strikes: Sequence[Strike] | None = None,
        trace: Callable[[str], None] | None = None,
    ) -> None:
        self.plan, self.strikes = plan, Strikes(plan, strikes)
        self.world = World(plan.seed, trace)
        for number in range(plan.machines):
            self.world.machine(f"host-{number}")
        self.storage = Storage(self.world)
        self.site = Site(self.world, self.storage, plan.place, versions, plan.skips)
        self.site.reached = self._reached
        if plan.strategy is Strategy.PARALLEL:
            self.site.beside = "v2"
        self.faults: Counter[str] = Counter()
        self.trouble = False
        self.scene = plan.scene  # until it has been set up
        self.aims = plan.aims
        self.acknowledged: list[str] = []  # snapshots
        self.jobs: set[Job] = set()  # that somebody has begun
        self.repaired = 0  # updates to a version that does not fail, in the end
        self.kept_down = False  # somebody has cancelled the app, and it was acknowledged
        self.cancelled = False
        self.answers: dict[int, Any] = {}
        self.by_hand: list[Process] = []  # who has given a command by hand
        self.to_come = 0  # commands that somebody will give after a strike

    def run(self) -> Outcome:
        outcome = Outcome(self.plan)
        with self.site.installed():
            try:
                self._run(outcome)
            except Stuck as error:
                outcome.problems.append(f"stuck: {error}")
            except Wrong as error:
                outcome.problems.append(str(error))
            for task, raised in self.world.failures:
                text = "".join(traceback.format_exception(raised)[-6:])
                outcome.problems.append(
                    f"{task.process.name}/{task.name} raised {type(raised).__name__}: {raised}\n{text}"
                )
        late = Counter({"batches that came late": self.site.sink.late})
        outcome.faults, outcome.strikes = self.faults + self.storage.faults + late, tuple(self.strikes.made)
        return outcome

    def _run(self, outcome: Outcome) -> None:
        world, plan = self.world, self.plan
        self._wait("submit", self._do("submit", self._submit, world.machines[:1]), START)
        self._go(lambda: len(self.site.sink.batches) >= 2, START)
        if plan.hot:
            self._wait("standby on", self._do("standby on", lambda client: client.stand_by(APP, 60.0)), START)
            self._go(lambda: False, 10.0)
        self._begin_trouble()
        for _ in range(plan.supervisors):
            self._supervise()
        for job in plan.jobs:
            world.at(job.after, partial(self._do_job, job.job))
        updates = [Dag(self) if plan.by_dag and not n else Command(self) for n in range(len(plan.begins))]
        for update, begins in zip(updates, plan.begins, strict=True):
            world.at(begins, update.begin)
        self._go(lambda: False, plan.long)
        self._end_trouble()
        if not self._go(lambda: all(update.ended for update in updates), LONGEST):
            raise Wrong(f"the update does not end: {[update.said for update in updates]}")
        # What somebody has asked for while a call hung is carried out later.
        if not self._go(lambda: not (self.to_come or any(process.alive for process in self.by_hand)), LONGEST):
            raise Wrong(f"does not end: {[process.name for process in self.by_hand if process.alive]}")
        self._settle()
        if plan.dies and not self.cancelled:
            for driver in self._drivers():
                world.kill(driver)
            self._settle()
        said = updates[0].said if updates else "promoted"
        harmless = not (self.faults or self.storage.faults or self.jobs or plan.fails) and len(updates) == 1
        if harmless and said != "promoted":
            raise Wrong(f"nothing went wrong, and the update is not promoted: {said}")
        record = self._ask("record", lambda client: self.site.registry().update("v2"))
        outcome.outcome = record.outcome if record else said
        self._check_end(record)

    def _go(self, until: Callable[[], bool], seconds: float) -> bool:
        """Go on until something is so; whether it became so in that time. Wrong as soon as an invariant is broken."""
        wrong = self.site.invariants.wrong
        became = self.world.run(lambda: bool(wrong) or until(), seconds)
        if wrong:
            raise Wrong("; ".join(wrong[:3]))
        return became

    # who works

    def _do(
        self, name: str, work: Callable[[StreamUpdateClient], Any], machines: Sequence[Machine] | None = None
    ) -> Process:
        """A process that does something with a client; its answer, or error, is in `answers`."""
        apart = self.plan.apart and self.plan.machines > 1

        def main() -> None:
            pid = self.world.own_pid()
            try:
                self.answers[pid] = work(self.site.client())
            except StreamUpdateError as error:
                self.answers[pid] = error
                self.world.note(f"{name}: {type(error).__name__}: {error}")

        return self.world.spawn(name, machines or self.world.machines[apart:], main)

    def _wait(self, name: str, process: Process, seconds: float) -> Any:
        if not self._go(lambda: not process.alive, seconds):
            raise Wrong(f"{name} does not end within {seconds:g} s")
        return self.answers.get(process.pid)

    def _ask(self, name: str, work: Callable[[StreamUpdateClient], Any], seconds: float = LONGEST) -> Any:
        answer = self._wait(name, self._do(name, work), seconds)
        if isinstance(answer, Exception):
            raise Wrong(f"{name}: {type(answer).__name__}: {answer}")
        return answer

    def _submit(self, client: StreamUpdateClient) -> Any:
        return client.submit(self._first(), "v1", app=APP, timeout=60.0)

    def _first(self) -> Application:
        return self.site.application("v1", SINK=_sink("old"), RELOADABLE=("threshold",))

    def options(self) -> UpdateOptions:
        plan = self.plan
        if plan.strategy is Strategy.IN_FLIGHT:
            application = attrs.evolve(self._first(), params={"threshold": "bad" if plan.fails else "7"})
        else:
            sink = _sink("new" if plan.strategy is Strategy.PARALLEL else "old")
            fails = {"FAIL": str(plan.fails)} if plan.fails else {}
            application = self.site.application("v2", SINK=sink, **fails)
        return UpdateOptions(
            application=application,
            deployment="v2",
            strategy=plan.strategy,
            submit_timeout=120.0,
            drain_timeout=120.0,
            catch_up_timeout=120.0 if plan.strategy in (Strategy.FOLLOW, Strategy.PARALLEL) else None,
            verify_for=3.0,
        )

    def _supervise(self) -> None:
        process = self._do("supervisor", lambda client: client.supervise((APP,), interval=5.0, timeout=60.0))

        def again() -> None:
            if not process.alive and not self.cancelled:
                self._supervise()
            else:
                self.world.at(20.0, again)

        self.world.at(20.0, again)

    def _do_later_job(self, job: Job) -> None:
        self.to_come -= 1
        self._do_job(job)

    def _do_job(self, job: Job) -> None:
        """Somebody does it. From the hub only."""
        name = f"by-hand-{len(self.by_hand)}"

        def snapshot(client: StreamUpdateClient) -> None:
            self.acknowledged.append(client.save_snapshot(APP, name, timeout=60.0).name)

        work: dict[Job, Callable[[StreamUpdateClient], Any]] = {
            Job.SNAPSHOT: snapshot,
            Job.COLLECT: lambda client: client.collect(APP, Retention(deployments=0)),
            Job.RESTART: lambda client: client.restart(APP, timeout=60.0),
            Job.ROLLBACK: self._roll_back,
            Job.SUSPEND: self._suspend,
            Job.CANCEL: self._cancel,
            Job.STANDBY_ON: lambda client: client.stand_by(APP, 60.0),
            Job.UPDATE: lambda client: client.update(self.options()),
        }
        self.jobs.add(job)
        process = self._do(job, work[job])
        self.by_hand.append(process)
        if job is Job.SUSPEND:
            self._rests(process)

    def _rests(self, process: Process) -> None:
        """Whoever has suspended the app and is gone tells nobody when it goes on."""
        if process.alive and not process.stopped:
            self.world.at(0.5, lambda: self._rests(process))
        else:
            self.site.invariants.resting = False

    def _suspend(self, client: StreamUpdateClient, seconds: float = 20.0) -> None:
        client.suspend(APP, timeout=120.0)
        self.site.invariants.resting = True
        self._reached(plans.SUSPENDED)
        self.world.sleep(seconds)
        self.site.invariants.resting = False
        client.resume(APP, timeout=120.0)

    def _roll_back(self, client: StreamUpdateClient) -> None:
        client.rollback(APP, timeout=120.0)
        if left := [record for record in self.site.registry().rollbacks() if record.ended_at is None]:
            self.site.invariants.broken(f"a rollback is acknowledged, and its record has not ended: {left[0]}")

    def _cancel(self, client: StreamUpdateClient) -> None:
        self.cancelled = True  # from here on it may be, whatever becomes of this process
        client.cancel(APP)
        self.kept_down = True

    # what goes wrong

    def _begin_trouble(self) -> None:
        plan, world = self.plan, self.world
        self.trouble = True
        self.storage.slow = plan.slow
        if self.strikes.known is not None or plan.failing or plan.creating:
            self.storage.strike = self._strike_call
        for machine, drift in zip(world.machines, plan.drifts, strict=False):
            machine.drift = drift
        for number, after in self.strikes.times:
            world.at(after, partial(self._strike_at, number, after))

    def _end_trouble(self) -> None:
        self.trouble = False
        self.storage.slow, self.storage.strike = 0.0, None
        self.world.note("from here on nothing goes wrong")
        for machine in self.world.machines:
            machine.cut_off = False
        for process in self.world.processes.values():
            self.world.go_on(process)

    def _strike_call(self, verb: str, path: str) -> Blow | None:
        """What goes wrong with a call to the storage."""
        chance, plan = self.strikes.chance, self.plan

        def draw(process: str, event: str, nth: int) -> Strike | None:
            blow = None
            if plan.failing and chance.random() < plan.failing:
                blow = chance.choice((Blow.FAIL, Blow.LOSE_ANSWER, Blow.HANG))
            elif plan.creating and verb == "create" and chance.random() < plan.creating:
                blow = chance.choice((Blow.LOSE_ANSWER, Blow.HANG))
            return Strike(process=process, event=event, nth=nth, blow=blow) if blow else None

        strike = self.strikes.at(self.world.running().process.name, f"{verb} {path}", draw)
        return strike.blow if strike is not None else None

    def _strike_at(self, number: int, after: float) -> None:
        """From the hub only."""
        chance, scene = self.strikes.chance, self.scene

        def draw(process: str, event: str, nth: int) -> Strike | None:
            living, drivers = self._living(), self._drivers()
            strike = Strike(event=event, after=after)
            if scene in (Scene.OLD, Scene.LEADER, Scene.TAKEOVER) and drivers:
                self.scene = scene if scene is Scene.TAKEOVER else None
                blow = Blow.STOP if scene is not Scene.TAKEOVER else Blow.KILL
                return attrs.evolve(strike, blow=blow, victim=drivers[0].name, seconds=chance.choice(plans.SILENT))
            if drivers and chance.random() < 0.5:
                living = drivers
            return attrs.evolve(strike, victim=chance.choice(living).name, **self._blow()) if living else None

        if strike := self.strikes.at("", f"{plans.TIME}{number}", draw):
            self._carry_out(strike, None)

    def _blow(self, *more: Blow) -> dict[str, Any]:
        """A blow at a process, and how long it takes or how far it goes."""
        chance = self.strikes.chance
        blow, seconds = chance.choice((*more, *self.plan.blows)), chance.choice(plans.STANDS_STILL)
        return {"blow": blow, "seconds": chance.uniform(-400, 400) if blow is Blow.SET_CLOCK else seconds}

    def _reached(self, name: str) -> None:
        """A process is at a boundary."""
        task = self.world.current
        if task is None or not self.trouble:
            return
        strike = self.strikes.at(task.process.name, name, self._draw)
        if strike is not None:
            self.faults[f"at {name}"] += 1
            self.world.at(0.0, lambda: self._carry_out(strike, task.process))
            self.world.sleep(strike.seconds if strike.blow is Blow.HANG else 0.001)

    def _draw(self, process: str, name: str, nth: int) -> Strike | None:
        """What goes wrong as a process is at a boundary."""
        chance, strike = self.strikes.chance, Strike(process=process, event=name, nth=nth)
        if self.scene is not None and (needs := self._draw_scene(process, name)) is not None:
            self.scene = None
            return attrs.evolve(strike, **needs)
        aimed = name in self.plan.aimed and self.aims > 0
        if not aimed and name in RARELY:
            return None
        if chance.random() >= (0.05 if name in RARELY else 0.4 if aimed else self.plan.deaths):
            return None
        self.aims -= aimed
        needs = self._blow(*((Blow.STOP, Blow.KILL) if aimed else ()))
        if aimed and chance.random() < 0.5:
            job = chance.choice(MEANWHILE)
            if name in ("files-copied", "snapshot-asked") and chance.random() < 0.5:
                job = Job.COLLECT
            needs |= {"job": job, "delay": chance.choice((0.0, 0.1, 2.0, 35.0))}
            if chance.random() < 0.7:
                needs |= {"blow": Blow.STOP, "seconds": chance.choice(plans.STANDS_STILL)}
        others = [p.name for p in self._living() if p.name != process]
        if aimed and others and name not in RARELY and chance.random() < 0.3:
            needs["victim"] = chance.choice(others)
        return attrs.evolve(strike, **needs)

    def _draw_scene(self, process: str, name: str) -> dict[str, Any] | None:
        """What the scene needs here; None: it is not time for it."""
        chance, new = self.strikes.chance, process.startswith("driver v2")
        silent = {"blow": Blow.STOP, "seconds": chance.choice(plans.SILENT)}
        first, others = [p.name for p in self._drivers()[:1]], [p.name for p in self._drivers()[1:]]
        if self.scene is Scene.READY and name in READY and new and chance.random() < 0.5:
            return silent
        if self.scene is Scene.SUCCESSOR and name in SUCCESSOR and new and chance.random() < 0.5:
            return silent
        if self.scene is Scene.DEAD_SUCCESSOR and name in ("standby-noted", "handover-asked") and others:
            return {"blow": Blow.KILL, "victim": others[-1]} if chance.random() < 0.5 else None
        if self.scene is Scene.EXPORT and name == "files-copied":
            return silent | {"blow": chance.choice((Blow.STOP, Blow.HANG)), "job": Job.COLLECT, "delay": 1.0}
        if self.scene is Scene.CLAIM and name == "drained":
            return silent | {"job": Job.CANCEL, "delay": 1.0}
        if self.scene is Scene.SUSPENDED and name == plans.SUSPENDED and first:
            return {"blow": Blow.KILL, "victim": first[0]}
        if self.scene is Scene.TAKEOVER and name == "epoch-claimed" and "-standby-" in process:
            return {"blow": Blow.CUT_OFF, "seconds": 100.0}
        if self.scene is Scene.DRAINING and name in ("snapshot-asked", "handover-asked"):
            return {"blow": Blow.KILL, "job": Job.ROLLBACK, "delay": chance.choice((0.0, 0.0, 0.2, 0.5))}
        return None

    def _carry_out(self, strike: Strike, process: Process | None) -> None:
        """From the hub only."""
        if strike.job is not None:
            self.to_come += 1
            self.world.at(strike.delay, partial(self._do_later_job, strike.job))
        if strike.victim:
            process = next((p for p in self._living() if p.name == strike.victim), None)
        if process is not None and strike.blow is not None:
            self._hit(process, strike.blow, strike.seconds, f"at {strike.event}")

    def _hit(self, victim: Process, blow: Blow, seconds: float, where: str) -> None:
        machine = victim.machine
        if not victim.alive or not self.trouble:
            return
        self.faults[blow] += 1
        if blow is Blow.KILL:
            self.world.kill(victim, f"dies {where}")
        elif blow is Blow.STOP:
            self.world.note(where)
            self.world.stop(victim)
            self.site.invariants.trouble(victim.pid, seconds)
            self.world.at(seconds, lambda: self.world.go_on(victim))
        elif blow is Blow.LOSE_MACHINE:
            for process in list(self.world.processes.values()):
                if process.machine is machine:
                    self.world.kill(process, f"is lost with {machine.name}")
            machine.boot += "'"
        elif blow is Blow.HANG:  # one thread of it, which waits at the boundary
            self.site.invariants.trouble(victim.pid, seconds)
        elif blow is Blow.CUT_OFF:
            machine.cut_off = True
            self.world.note(f"{machine.name} is cut off for {seconds:g} s {where}")
            self.world.at(seconds, lambda: setattr(machine, "cut_off", False))
        else:
            machine.offset += seconds
            self.world.note(f"{machine.name}: the clock is set by {seconds:.0f} s")

    def _living(self) -> list[Process]:
        return [p for p in self.world.processes.values() if p.alive and p.tasks]

    # what must be so

    def _settle(self) -> None:
        """Without a person, or by the command that `status` names."""
        for number in range(TRIES):
            self._go(lambda: False, 120.0 if number else 15.0)
            status = self._ask("status", lambda client: client.status(APP))
            step = status.outage and status.outage.help
            self.world.note(f"status: {status.state}, {step}")
            if status.current is not None and status.current.cancelled is not None:  # whoever did it may have died
                self._ask("cancel", lambda client: client.cancel(APP, timeout=900.0))
                return
            if status.state == SUSPENDED:  # whoever suspended it has died
                self.site.invariants.resting = False
                self._wait("resume", self._do("resume", lambda client: client.resume(APP)), LONGEST)
            if step is None and status.state == CANCELLED and Job.RESTART in self.jobs:  # whose error told to try again
                self._wait("restart", self._do("restart", lambda c: c.restart(APP, timeout=120.0)), LONGEST)
            elif step is None and status.state == RUNNING and self._is_stuck(status):  # it was cancelled, and restarted
                self._wait("rollback", self._do("rollback", self._roll_back), LONGEST)
            if step is None:
                # A driver that died on a machine whose clock was ahead looks alive for as long as that was.
                if status.state == RUNNING and status.update is None and self._goes_on(status.current.deployment):
                    return
                continue
            if "streamupdate rollback" in step and status.update is None:
                self._wait("rollback", self._do("rollback", self._roll_back), LONGEST)
            elif self.plan.fails and "update FIXED" in step and self.repaired < 2:
                self.repaired += 1
                self._wait("update", self._do("update", self._mend(f"v{2 + self.repaired}")), LONGEST)
            elif "again" in step and "restart" not in step:
                self._wait("update", self._do("update", lambda c: c.update(self.options())), LONGEST)
            else:
                self._wait("restart", self._do("restart", lambda c: c.restart(APP, timeout=120.0)), LONGEST)
        raise Wrong(f"the app does not settle: {status.state}, {step}")

    def _mend(self, version: str) -> Callable[[StreamUpdateClient], Any]:
        """An update to a version that does not fail."""
        application = self.site.application(version, SINK=_sink("old"), RELOADABLE=("threshold",))
        options = UpdateOptions(
            application=application, deployment=version, strategy="restart", submit_timeout=120.0, drain_timeout=120.0
        )
        return lambda client: client.update(options)

    def _is_stuck(self, status: Any) -> bool:
        return self.plan.fails is Failure.STUCK and status.current.deployment == "v2" and status.update is None

    def _goes_on(self, deployment: str) -> bool:
        """Whether a deployment writes batches after all others, within a while."""
        sink, version = self.site.sink_of(deployment), deployment.partition("-standby")[0]
        last = sink.last

        return self._go(
            lambda: sink.last > last and sink.batches[sink.last].version.partition("-standby")[0] == version, 60.0
        )

    def _check_end(self, record: Any) -> None:
        app = self.site.registry()
        current = self._ask("current", lambda client: app.current())
        sink = self.site.sink_of(current.deployment)
        if current.cancelled is not None and not self.cancelled:
            raise Wrong("the app is cancelled, and nobody has asked for it")
        if current.cancelled is None:
            if self.kept_down and not {Job.RESTART, Job.ROLLBACK} & self.jobs:
                raise Wrong("the app is not cancelled any more")
            self._check_runs(current)
        elif self.kept_down and not {Job.RESTART, Job.ROLLBACK} & self.jobs:
            before = sink.writes
            self._go(lambda: False, 60.0)
            if sink.writes > before or self._drivers():
                raise Wrong(f"the app is cancelled, and there are drivers: {[p.name for p in self._drivers()]}")
        for deployment in sorted({current.deployment, "v1"} if self.site.beside else {current.deployment}):
            last = self._ask("committed", partial(self._committed, deployment))
            if problems := self.site.sink_of(deployment).problems(last):
                raise Wrong("; ".join(problems[:4]))
        if record is not None and record.outcome is None:
            raise Wrong("the update has not ended")
        by_hand = {Job.ROLLBACK, Job.RESTART} & self.jobs
        if record is not None and not by_hand and not self.cancelled and not self.repaired:
            in_place = self.plan.strategy is Strategy.IN_FLIGHT
            expected = "v2" if record.outcome == "promoted" and not in_place else "v1"
            if current.deployment.partition("-standby")[0] != expected:
                raise Wrong(f"the update is {record.outcome}, and {current.deployment} is current")
            if in_place:
                self._check_parameters(current.deployment, record.outcome == "promoted")
        if record is not None and record.outcome == "promoted" and record.snapshot is not None:
            self.acknowledged.append(record.snapshot)
        if record is not None and record.outcome == "promoted" and self.plan.fails:
            raise Wrong(f"a version that fails ({self.plan.fails}) is promoted")
        rollbacks = self._ask("rollbacks", lambda client: app.rollbacks())
        ended = {(r.left, r.back_to) for r in rollbacks if r.ended_at is not None}  # others changed nothing
        unended = [r for r in rollbacks if r.ended_at is None and r.left == "v2" and (r.left, r.back_to) not in ended]
        if unended and record is not None and record.outcome == "rolled-back":
            raise Wrong(f"a rollback has not ended: {unended[0]}")
        if Job.COLLECT in self.jobs and current.cancelled is None:
            self._wait("collect", self._do("collect", lambda c: c.collect(APP, Retention(deployments=0))), LONGEST)
        kept = {current.deployment} | (
            {record.old} if record is not None and current.deployment == record.new else set()
        )
        for name in kept:
            if any(f"/deployments/{name}/freed/" in path for path in self.storage.files):
                raise Wrong(f"the checkpoint of {name} is freed, and {current.deployment} is current")
        for name in self._ask("snapshots", self._all_snapshots):
            self._ask(f"verify {name}", partial(self._verify, name))

    def _check_parameters(self, deployment: str, changed: bool) -> None:
        """What is recorded, and what the driver uses."""
        params = {"threshold": "7"} if changed else {}
        found = self._ask("spec", lambda client: self.site.registry().spec(deployment).application.params)
        own = [driver.pid for driver in self._drivers() if driver.name.startswith(f"driver {deployment}#")]
        used = [self.site.engines[pid].params for pid in own if pid in self.site.engines]
        if found != params or any(used_now != params for used_now in used):
            raise Wrong(f"{deployment} has the parameters {found}, and uses {used}, instead of {params}")

    def _all_snapshots(self, client: StreamUpdateClient) -> list[str]:
        return sorted({*self.acknowledged, *(snapshot.name for snapshot in client.snapshots(APP))})

    def _drivers(self) -> list[Process]:
        return [p for p in self.world.processes.values() if p.alive and p.name.startswith("driver ")]

    def _check_runs(self, current: Any) -> None:
        """The current deployment, and nothing else."""
        if not self._goes_on(current.deployment):
            raise Wrong(f"{current.deployment} is current and goes no further")
        if self.plan.probed:
            self._probe()
        began, writers = self.world.seconds, self.site.sink_of(current.deployment).writers
        if self.plan.probed and not self._goes_on(current.deployment):
            raise Wrong(f"{current.deployment} goes no further once it was suspended")
        self._go(lambda: False, 5.0)
        if len(busy := [pid for pid, at in writers.items() if at > began]) > 1:
            raise Wrong(f"two drivers write: {busy}")
        # One that hung, was taken for dead and is fenced ends when it goes on.
        if not self._go(lambda: not self._are_beside(current.deployment), 120.0):
            left = [driver.name for driver in self._drivers()]
            raise Wrong(f"drivers are left beside that of {current.deployment}: {left}")

    def _are_beside(self, deployment: str) -> bool:
        """Whether other drivers than the deployment's one and a hot standby live."""
        names = {p.name.partition("#")[0] for p in self._drivers()} - {f"driver {deployment}"}
        return any("-standby-" not in name for name in names) or len(self._drivers()) - len(names) > 1

    def _probe(self, last: bool = False) -> None:
        """The app's lease is free again, and its driver obeys."""
        for _ in range(TRIES):
            answer = self._wait("suspend", self._do("suspend", lambda client: self._suspend(client, 5.0)), LONGEST)
            if answer is None:
                return
            self._go(lambda: False, 20.0)
        if last:
            raise Wrong(f"the app cannot be suspended: {answer}")
        self._settle()  # a call that hung when the trouble ended may have come to its end since
        self._probe(last=True)

    def _committed(self, deployment: str, _client: StreamUpdateClient) -> int:
        app = self.site.registry()
        spec = app.spec(deployment)
        if spec.parent is not None and not app.folder.exists(f"deployments/{deployment}/restored/{QUERY}.json"):
            return self._committed(spec.parent, _client)  # it has only followed
        batch = Checkpoint(app.checkpoint(deployment, QUERY)).committed_batch()
        return -1 if batch is None else batch

    def _verify(self, name: str, client: StreamUpdateClient) -> None:
        """Its bytes are there, and its state is that of its offsets."""
        client.verify_snapshot(APP, name)
        app = self.site.registry()
        if (query := SnapshotStore(app).get(name).queries.get(QUERY)) is None or query.batch < 0:
            return
        content = {file.path: app.folder.read(file.object) for file in query.files}
        state = content.get(f"state/0/0/{query.batch + 1}.snapshot")
        entry = content.get(f"offsets/{query.batch}")
        if state is None or entry is None or int(state) != int(entry.rpartition(b"\n")[2]):
            self.site.invariants.broken(f"snapshot {name} holds state {state!r} of offsets {entry!r}")


class Wrong(Exception):
    """An invariant is broken."""


def _sink(topic: str) -> dict[str, Any]:
    return {"format": "kafka", "options": {"topic": topic}}


class Update:
    """Who updates the app. said: how it stands, in words"""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule, self.tries, self.ended, self.said = schedule, 0, False, "not begun"
        self.process: Process | None = None

    def begin(self) -> None:
        raise NotImplementedError

    def handle_end(self, answer: Any) -> None:
        """A process that works for it has ended: with an answer, an error, or None when it died."""
        raise NotImplementedError

    def start(self, name: str, work: Callable[[StreamUpdateClient], Any]) -> None:
        self.tries += 1
        self.process = self.schedule._do(name, work)
        self.schedule.world.at(1.0, self._look)

    def note(self, line: str) -> None:
        self.schedule.world.note(f"  > {line}")

    def _look(self) -> None:
        assert self.process is not None
        if not self.process.alive:
            self.handle_end(self.schedule.answers.get(self.process.pid))
        elif self.process.stopped and self.does_not_wait():
            self.begin()
        else:
            self.schedule.world.at(1.0, self._look)

    def does_not_wait(self) -> bool:
        """Whether it is begun again while the process stands still."""
        return False


class Command(Update):
    """A person who runs `streamupdate update`, again after it was killed or has failed."""

    def begin(self) -> None:
        self.said = "under way"
        options = self.schedule.options()
        self.start("update", lambda client: client.update(options, self.note))

    def does_not_wait(self) -> bool:
        return self.schedule.plan.impatient and self.tries < TRIES

    def handle_end(self, answer: Any) -> None:
        died = answer is None
        self.said = "died" if died else str(getattr(answer, "outcome", answer))
        again = died or "LeaseHeld" in type(answer).__name__ or "Storage" in type(answer).__name__
        if again and self.tries < TRIES:
            self.schedule.world.at(5.0, self.begin)
        else:
            self.ended = True


class Dag(Update):
    """The tasks of an update's DAG, each a process with retries; when one fails for good, the rollback's task runs."""

    RETRIES = 3
    steps: list[str]

    def begin(self) -> None:
        strategy = strategy_named(self.schedule.plan.strategy)
        self.steps = ["plan", *(str(step) for step in strategy.steps[1:])]
        self._start()

    def _start(self) -> None:
        step, options = self.steps[0], self.schedule.options()
        self.said = f"at {step}"

        def work(client: StreamUpdateClient) -> Any:
            if step == "rollback":
                record = self.schedule.site.registry().update("v2")  # as StreamUpdateRollbackOperator
                if record is None or record.outcome is not None:
                    return True
                given = RollbackOptions(reason="a task failed")
                return client.rollback(APP, "v2", timeout=120.0, options=given) or True
            engine = UpdateEngine(client.context, options, self.note)
            if step == "plan":
                return engine.begin(APP)
            update = engine.resume(APP, "v2")
            name = next(s for s in strategy_named(self.schedule.plan.strategy).steps if str(s) == step)
            return engine.run(name, update) or True

        self.start(f"task {step}", work)

    def handle_end(self, answer: Any) -> None:
        world, failed = self.schedule.world, answer is None or isinstance(answer, Exception)
        if failed and self.tries <= self.RETRIES:
            world.at(5.0, self._start)
            return
        step = self.steps.pop(0)
        self.tries = 0
        if failed and step == "plan":
            self.ended = True
        elif failed and step != "rollback":
            self.steps = ["rollback"]
            world.at(2.0, self._start)
        elif self.steps:
            world.at(2.0, self._start)
        else:
            self.ended, self.said = True, "rolled back" if step == "rollback" else "promoted"
