"""One schedule: an app, people and tasks who work on it, faults that are drawn, and what must be so afterwards."""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Callable
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
from airflow_provider_streamupdate.core.registry.deployment import RUNNING, SUSPENDED
from airflow_provider_streamupdate.core.snapshots.snapshots import SnapshotStore
from airflow_provider_streamupdate.core.snapshots.superseded import Retention

from .site import APP, Site
from .storage import Storage
from .world import Process, Stuck, World

STRATEGIES = ("restart", "standby", "follow")
START, LONGEST = 300.0, 6000.0  # seconds of virtual time
TROUBLE = (35.0, 60.0, 90.0)  # of it, in which things go wrong
STANDS_STILL = (3.0, 15.0, 45.0, 100.0, 100.0)
# Where processes are struck in some schedules, whenever they come there: of one of these groups.
AIMED = (
    ("begun", "code-stored", "deployment-made", "driver-forked", "driver-noted", "standby-ready", "checked"),
    ("handover-asked", "command-taken", "draining", "drained", "epoch-claimed", "current-replaced", "handed-over"),
    ("command-taken", "drained", "epoch-claimed", "handed-over", "taken-back", "successor-committed", "answered"),
    ("plan-answered", "practised", "following", "stands-by", "epoch-seen", "driver-claimed", "restoring"),
    ("checkpoint-built", "checkpoint-marked", "queries-started", "running-reported", "first-commit-seen"),
    ("driver-claimed", "queries-started", "running-reported", "first-commit-seen"),
    ("batch-written",),
    ("snapshot-asked", "files-copied", "snapshot-stored", "answered", "handover-seen", "stop-noted", "snapshotted"),
    ("new-running", "submitted", "healthy", "verified", "promoted", "pause-noted", "ended"),
    ("rollback-noted", "new-stopped", "old-settled", "old-runs", "rollback-ended", "gone-back"),
    ("rest-asked", "cancelled", "start-decided", "start-counted", "restarted", "driver-noted", "epoch-claimed"),
)
RARELY = ("batch-written", "first-commit-seen")  # struck, since a process comes there again and again
# What somebody does at such a moment.
MEANWHILE = ("cancel", "rollback", "rollback", "restart", "snapshot", "collect", "suspend", "standby on", "update")
SILENT = (*(None,) * 5, "old", "old", "ready", "successor", "successor", "export", "suspended", "claim")
# Where a new version's driver stands still then.
READY, SUCCESSOR = ("stands-by", "practised", "following"), ("epoch-seen", "queries-started", "running-reported")
CALM = 0.06  # the share of schedules in which nothing goes wrong
TRIES = 12


@attrs.define
class Outcome:
    """What became of a schedule. problems: what must not be, in words; empty: the schedule is right"""

    seed: int
    what: str
    problems: list[str] = attrs.field(factory=list)
    faults: Counter[str] = attrs.field(factory=Counter)
    outcome: str | None = None
    seconds: float = 0.0
    calls: int = 0
    batches: int = 0


class Schedule:
    """seed: decides everything. versions: a folder for application files"""

    def __init__(self, seed: int, versions: Path, trace: Callable[[str], None] | None = None) -> None:
        self.world = World(seed, trace)
        self.chance = self.world.chance
        self.storage = Storage(self.world)
        self.kind = self.chance.choice(("disk", "bucket"))
        self.strategy = self.chance.choice(STRATEGIES)
        self.by_dag = self.chance.random() < 0.5
        for number in range(self.chance.choice((1, 2, 3, 3))):
            self.world.machine(f"host-{number}")
        skips = self.chance.random() < 0.5
        self.site = Site(self.world, self.storage, self.kind, versions, skips)
        self.site.reached = self._reached
        self.faults: Counter[str] = Counter()
        self.trouble = False
        self.deaths = 0.0  # the share of boundaries at which a process dies
        self.supervisors = self.chance.choice((0, 0, 1, 1, 2))
        self.hot = self.chance.random() < 0.25
        self.people = self.chance.choice((0, 1, 1, 1, 1, 1, 2, 2))  # who run the same update
        self.impatient = self.chance.random() < 0.5  # they run it again while it stands still
        self.fails = self.chance.choice((None, None, None, None, "run", "run", "start", "stuck"))
        few = self.chance.choice((0.1, 0.4))
        self.commands = [
            c for c in ("snapshot", "collect", "snapshot", "restart", "suspend") if self.chance.random() < few
        ]
        if self.chance.random() < 0.2:
            self.commands.append(self.chance.choice(("rollback", "rollback", "cancel")))
        self.calm = self.chance.random() < CALM
        # A driver that stands still for so long that others on other machines take it for dead, and then goes on.
        self.silent = self.chance.choice(SILENT) if not self.calm and len(self.world.machines) > 1 else None
        if self.silent and self.chance.random() < 0.7:
            self.supervisors = 0
        if self.silent == "ready":  # each task on a machine of its own
            self.by_dag, self.people, self.fails = True, 1, None
        elif self.silent == "export":
            self.commands.append("snapshot")
        elif self.silent == "suspended":
            self.commands, self.supervisors = ["suspend"], 1
        if self.calm:
            self.people, self.fails, self.commands, self.hot = 1, None, [], False
        self.dies = self.chance.random() < 0.3  # the current driver, in the end, so that it is started again
        self.probed = self.chance.random() < 0.3  # whether it is suspended in the end, to see that it obeys
        self.acknowledged: list[str] = []
        self.repaired = 0  # updates to a version that does not fail, in the end
        self.kept_down = False  # somebody has cancelled the app, and it was acknowledged
        self.cancelled = False
        self.answers: dict[int, Any] = {}
        self.by_hand: list[Process] = []  # who has given a command by hand

    @property
    def what(self) -> str:
        more = [self.kind, f"{len(self.world.machines)} machines", "dag" if self.by_dag else "command"]
        more += ["skipping sink"] * self.site.sink.skips + [f"{self.supervisors} supervisors"] * bool(self.supervisors)
        more += ["hot"] * self.hot + [f"{self.people} people"] * (self.people != 1) + ["impatient"] * self.impatient
        more += [f"v2 fails: {self.fails}"] * bool(self.fails) + ["calm"] * self.calm + self.commands
        more += [f"silent {self.silent}"] * bool(self.silent)
        return f"{self.strategy}: {', '.join(more)}"

    def run(self) -> Outcome:
        outcome = Outcome(self.world.chance.randrange(0, 1), self.what)
        with self.site.installed():
            try:
                self._run(outcome)
            except Stuck as error:
                outcome.problems.append(f"stuck: {error}")
            except Wrong as error:
                outcome.problems.append(str(error))
            for task, error in self.world.failures:
                text = "".join(traceback.format_exception(error)[-6:])
                outcome.problems.append(
                    f"{task.process.name}/{task.name} raised {type(error).__name__}: {error}\n{text}"
                )
        outcome.faults = self.faults + Counter(self.storage.faults)
        outcome.seconds, outcome.calls = self.world.seconds, self.storage.calls
        outcome.batches = self.site.sink.writes
        return outcome

    def _run(self, outcome: Outcome) -> None:
        world = self.world
        self._wait("submit", self._do("submit", self._submit), START)
        self._go(lambda: len(self.site.sink.batches) >= 2, START)
        if self.hot:
            self._wait("standby on", self._do("standby on", lambda client: client.stand_by(APP, 60.0)), START)
        self.trouble = True
        long = 120.0 if self.silent else self.chance.choice(TROUBLE)
        self._draw_faults(long)
        for _ in range(self.supervisors):
            self._supervise()
        for command in self.commands:
            world.at(self.chance.random() * long, lambda command=command: self._command(command))
        updates = [Dag(self) if self.by_dag and not n else Command(self) for n in range(self.people)]
        soon = self.chance.random() * 10
        if self.silent == "old":
            world.at(soon + self.chance.random() * 15, lambda: self._silence(self._drivers()[:1]))
        for number, update in enumerate(updates):
            world.at(soon + number * self.chance.choice((0.0, 0.01, 1.0, 10.0)), update.begin)
        self._go(lambda: False, long)
        self._calm()
        if not self._go(lambda: all(update.ended for update in updates), LONGEST):
            raise Wrong(f"the update does not end: {[update.said for update in updates]}")
        # What somebody has asked for while a call hung is carried out later.
        if not self._go(lambda: not any(process.alive for process in self.by_hand), LONGEST):
            raise Wrong(f"does not end: {[process.name for process in self.by_hand if process.alive]}")
        self._settle()
        if self.dies and not self.cancelled:
            for driver in self._drivers():
                world.kill(driver)
            self._settle()
        said = updates[0].said if updates else "promoted"
        harmless = not (self.faults or self.storage.faults or self.commands or self.fails)
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

    def _do(self, name: str, work: Callable[[StreamUpdateClient], Any]) -> Process:
        """A process that does something with a client; its answer, or error, is in `answers`."""
        machine = self.chance.choice(self.world.machines)

        def main() -> None:
            pid = self.world.own_pid()
            try:
                self.answers[pid] = work(self.site.client())
            except StreamUpdateError as error:
                self.answers[pid] = error
                self.world.note(f"{name}: {type(error).__name__}: {error}")

        return self.world.spawn(name, machine, main)

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
        return client.submit(self.site.application("v1"), "v1", app=APP, timeout=60.0)

    def options(self) -> UpdateOptions:
        more = {"FAIL": self.fails} if self.fails else {}
        return UpdateOptions(
            application=self.site.application("v2", **more),
            deployment="v2",
            strategy=self.strategy,
            submit_timeout=120.0,
            drain_timeout=120.0,
            catch_up_timeout=120.0 if self.strategy == "follow" else None,
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

    def _command(self, command: str) -> None:
        number = self.chance.randrange(1000)

        def snapshot(client: StreamUpdateClient) -> None:
            self.acknowledged.append(client.save_snapshot(APP, f"by-hand-{number}", timeout=60.0).name)

        work: dict[str, Callable[[StreamUpdateClient], Any]] = {
            "snapshot": snapshot,
            "collect": lambda client: client.collect(APP, Retention(deployments=0)),
            "restart": lambda client: client.restart(APP, timeout=60.0),
            "rollback": self._roll_back,
            "suspend": self._suspend,
            "cancel": self._cancel,
            "standby on": lambda client: client.stand_by(APP, 60.0),
            "update": lambda client: client.update(self.options()),
        }
        process = self._do(command, work[command])
        self.by_hand.append(process)
        if command == "suspend":
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
        if self.silent == "suspended" and self.trouble:
            self.world.at(1.0, lambda: [self.world.kill(driver) for driver in self._drivers()])
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

    def _draw_faults(self, long: float) -> None:
        """Each schedule has some kinds of trouble, and others not."""
        chance, storage = self.chance, self.storage
        self.deaths, self.kinds, self.aimed, self.aims = 0.0, ["stop"], (), 0
        if self.calm:
            return
        storage.failing = chance.choice((0.0, 0.0, 0.0, 0.002, 0.01))
        storage.slow = chance.choice((0.0, 0.0, 0.01, 0.05))
        storage.creating = chance.choice((0.0, 0.0, 0.05, 0.2))
        self.deaths = chance.choice((0.0, 0.0, 0.01, 0.04))
        kinds = ("kill", "stop", "machine", "cut off", "clock")
        self.kinds = [kind for kind in kinds if chance.random() < 0.5] or ["stop"]
        if chance.random() < 0.7:
            self.aimed = chance.choice(AIMED)
        self.aims = chance.choice((1, 2, 3))  # how often
        if chance.random() < 0.2:
            for machine in self.world.machines:
                machine.drift = chance.uniform(-0.01, 0.01)
        for _ in range(chance.choice((0, 0, 1, 1, 2, 3, 5))):
            self.world.at(chance.random() * long, self._strike)

    def _strike(self) -> None:
        living = [p for p in self.world.processes.values() if p.alive and p.tasks]
        drivers = [p for p in living if p.name.startswith("driver ")]
        if drivers and self.chance.random() < 0.5:
            living = drivers
        if living:
            self._hit(self.chance.choice(living), self.chance.choice(self.kinds), "")

    def _hit(self, victim: Process, kind: str, where: str) -> None:
        """From the hub only."""
        machine, seconds = victim.machine, self.chance.choice(STANDS_STILL)
        jump = self.chance.uniform(-400, 400)
        if not victim.alive or not self.trouble:
            return
        self.faults[kind] += 1
        if kind == "kill":
            self.world.kill(victim, f"dies {where}")
        elif kind == "stop":
            self.world.note(where)
            self.world.stop(victim)
            self.site.invariants.trouble(victim.pid, seconds)
            self.world.at(seconds, lambda: self.world.go_on(victim))
        elif kind == "machine":
            self._lose(machine)
        elif kind == "cut off":
            machine.cut_off = True
            self.world.note(f"{machine.name} is cut off for {seconds:g} s {where}")
            self.world.at(seconds, lambda: setattr(machine, "cut_off", False))
        else:
            machine.offset += jump
            self.world.note(f"{machine.name}: the clock is set by {jump:.0f} s")

    def _silence(self, drivers: list[Process]) -> None:
        """From the hub only."""
        for driver in drivers:
            self.faults["silent"] += 1
            self.silent = None
            self.world.stop(driver)
            seconds = self.chance.choice((50.0, 80.0, 100.0))
            self.site.invariants.trouble(driver.pid, seconds)
            self.world.at(seconds, lambda driver=driver: self.world.go_on(driver))

    def _lose(self, machine: Any) -> None:
        for process in list(self.world.processes.values()):
            if process.machine is machine:
                self.world.kill(process, f"is lost with {machine.name}")
        machine.boot += "'"

    def _reached(self, name: str) -> None:
        task = self.world.current
        if task is None or not self.trouble:
            return
        if name in (READY if self.silent == "ready" else SUCCESSOR if self.silent == "successor" else ()):
            process = task.process
            if process.name.startswith("driver v2") and self.chance.random() < 0.5:
                self.world.at(0.0, lambda: self._silence([process]))
                self.world.sleep(0.001)
                return
        if (name, self.silent) in (("files-copied", "export"), ("drained", "claim")):
            command = "collect" if self.silent == "export" else "cancel"
            self.world.at(0.0, lambda: self._silence([task.process]))
            self.commands.append(command)
            self.world.at(1.0, lambda: self._command(command))
            self.world.sleep(0.001)
            return
        aimed = name in self.aimed and self.aims > 0
        if not aimed and name in RARELY:
            return
        if self.chance.random() >= (0.05 if name in RARELY else 0.4 if aimed else self.deaths):
            return
        self.aims -= aimed
        process, kind = task.process, self.chance.choice(["stop", "kill", *self.kinds] if aimed else self.kinds)
        if aimed and self.chance.random() < 0.5:
            command, kind = self.chance.choice(MEANWHILE), self.chance.choice(("stop", "stop", kind))
            if name in ("files-copied", "snapshot-asked") and self.chance.random() < 0.5:
                command = "collect"
            self.commands.append(command)
            self.world.at(self.chance.choice((0.0, 0.1, 2.0, 35.0)), lambda: self._command(command))
        others = [p for p in self.world.processes.values() if p.alive and p.tasks and p is not process]
        if aimed and others and name not in RARELY and self.chance.random() < 0.3:
            self.world.note(f"{process.name} ({process.pid}) is at {name}")
            process = self.chance.choice(others)
        self.faults[f"at {name}"] += 1
        self.world.at(0.0, lambda: self._hit(process, kind, f"at {name}"))
        self.world.sleep(0.001)

    def _calm(self) -> None:
        """No more faults."""
        self.trouble = False
        self.storage.failing = self.storage.slow = self.storage.creating = 0.0
        self.world.note("from here on nothing goes wrong")
        for machine in self.world.machines:
            machine.cut_off = False
        for process in self.world.processes.values():
            self.world.go_on(process)

    # what must be so

    def _settle(self) -> None:
        """Without a person, or by the command that `status` names."""
        for number in range(TRIES):
            self._go(lambda: False, 120.0 if number else 15.0)
            status = self._ask("status", lambda client: client.status(APP))
            step = status.next_step
            self.world.note(f"status: {status.state}, {step}")
            if status.current is not None and status.current.cancelled is not None:  # whoever did it may have died
                self._ask("cancel", lambda client: client.cancel(APP, timeout=120.0))
                return
            if status.state == SUSPENDED:  # whoever suspended it has died
                self.site.invariants.resting = False
                self._wait("resume", self._do("resume", lambda client: client.resume(APP)), LONGEST)
            if step is None:
                # A driver that died on a machine whose clock was ahead looks alive for as long as that was.
                if status.state == RUNNING and status.update is None and self._goes_on(status.current.deployment):
                    return
                continue
            if "streamupdate rollback" in step and status.update is None:
                self._wait("rollback", self._do("rollback", self._roll_back), LONGEST)
            elif self.fails and "update FIXED" in step and self.repaired < 2:
                self.repaired += 1
                version = f"v{2 + self.repaired}"
                mended = attrs.evolve(
                    self.options(), application=self.site.application(version), deployment=version, strategy="restart"
                )
                self._wait("update", self._do("update", lambda c, mended=mended: c.update(mended)), LONGEST)
            elif "again" in step and "restart" not in step:
                self._wait("update", self._do("update", lambda c: c.update(self.options())), LONGEST)
            else:
                self._wait("restart", self._do("restart", lambda c: c.restart(APP, timeout=120.0)), LONGEST)
        raise Wrong(f"the app does not settle: {status.state}, {step}")

    def _goes_on(self, deployment: str) -> bool:
        """Whether a deployment writes batches after all others, within a while."""
        sink = self.site.sink
        last = max(sink.batches)
        return self._go(lambda: max(sink.batches) > last and self._by(deployment), 60.0)

    def _check_end(self, record: Any) -> None:
        app, sink = self.site.registry(), self.site.sink
        current = self._ask("current", lambda client: app.current())
        if current.cancelled is not None and not self.cancelled:
            raise Wrong("the app is cancelled, and nobody has asked for it")
        if current.cancelled is None:
            if self.kept_down and not {"restart", "rollback"} & set(self.commands):
                raise Wrong("the app is not cancelled any more")
            self._check_runs(current)
        elif self.kept_down and not {"restart", "rollback"} & set(self.commands):
            before = sink.writes
            self._go(lambda: False, 60.0)
            if sink.writes > before or self._drivers():
                raise Wrong(f"the app is cancelled, and there are drivers: {[p.name for p in self._drivers()]}")
        if problems := sink.problems(self._ask("committed", lambda client: self._committed(current.deployment))):
            raise Wrong("; ".join(problems[:4]))
        if record is not None and record.outcome is None:
            raise Wrong("the update has not ended")
        by_hand = {"rollback", "restart"} & set(self.commands)
        if record is not None and not by_hand and not self.cancelled and not self.repaired:
            expected = {"promoted": "v2"}.get(record.outcome, "v1")
            if current.deployment.partition("-standby")[0] != expected:
                raise Wrong(f"the update is {record.outcome}, and {current.deployment} is current")
        if record is not None and record.outcome == "promoted" and record.snapshot is not None:
            self.acknowledged.append(record.snapshot)
        if record is not None and record.outcome == "promoted" and self.fails:
            raise Wrong(f"a version that fails ({self.fails}) is promoted")
        rollbacks = self._ask("rollbacks", lambda client: app.rollbacks())
        ended = {(r.left, r.back_to) for r in rollbacks if r.ended_at is not None}  # others changed nothing
        unended = [r for r in rollbacks if r.ended_at is None and r.left == "v2" and (r.left, r.back_to) not in ended]
        if unended and record is not None and record.outcome == "rolled-back":
            raise Wrong(f"a rollback has not ended: {unended[0]}")
        if "collect" in self.commands and current.cancelled is None:
            self._wait("collect", self._do("collect", lambda c: c.collect(APP, Retention(deployments=0))), LONGEST)
        kept = {current.deployment} | (
            {record.old} if record is not None and current.deployment == record.new else set()
        )
        for name in kept:
            if any(f"/deployments/{name}/freed/" in path for path in self.storage.files):
                raise Wrong(f"the checkpoint of {name} is freed, and {current.deployment} is current")
        for name in self._ask("snapshots", self._all_snapshots):
            self._ask(f"verify {name}", lambda client, name=name: self._verify(client, name))

    def _all_snapshots(self, client: StreamUpdateClient) -> list[str]:
        return sorted({*self.acknowledged, *(snapshot.name for snapshot in client.snapshots(APP))})

    def _drivers(self) -> list[Process]:
        return [p for p in self.world.processes.values() if p.alive and p.name.startswith("driver ")]

    def _check_runs(self, current: Any) -> None:
        """The current deployment, and nothing else."""
        if not self._goes_on(current.deployment):
            raise Wrong(f"{current.deployment} is current and goes no further")
        began, writers = self.world.seconds, self.site.sink.writers
        if self.probed:
            self._probe()
            if not self._goes_on(current.deployment):
                raise Wrong(f"{current.deployment} goes no further once it was suspended")
        else:
            self._go(lambda: False, 5.0)
        if len(busy := [pid for pid, at in writers.items() if at > began]) > 1:
            raise Wrong(f"two drivers write: {busy}")
        names = {p.name.partition("#")[0] for p in self._drivers()} - {f"driver {current.deployment}"}
        if left := [name for name in names if "-standby-" not in name] or len(self._drivers()) - len(names) > 1:
            raise Wrong(f"drivers are left beside that of {current.deployment}: {left}, {self._drivers()}")

    def _probe(self) -> None:
        """The app's lease is free again, and its driver obeys."""
        for _ in range(TRIES):
            answer = self._wait("suspend", self._do("suspend", lambda client: self._suspend(client, 5.0)), LONGEST)
            if answer is None:
                return
            self._go(lambda: False, 20.0)
        raise Wrong(f"the app cannot be suspended: {answer}")

    def _committed(self, deployment: str) -> int:
        app = self.site.registry()
        spec = app.spec(deployment)
        if spec.parent is not None and not app.folder.exists(f"deployments/{deployment}/restored/{QUERY}.json"):
            return self._committed(spec.parent)  # it has only followed
        batch = Checkpoint(app.checkpoint(deployment, QUERY)).committed_batch()
        return -1 if batch is None else batch

    def _verify(self, client: StreamUpdateClient, name: str) -> None:
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

    def _by(self, deployment: str) -> bool:
        written = self.site.sink.batches
        return written[max(written)].version.partition("-standby")[0] == deployment.partition("-standby")[0]


class Wrong(Exception):
    """An invariant is broken."""


class Command:
    """A person who runs `streamupdate update`, again after it was killed or has failed."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule, self.tries, self.ended, self.said = schedule, 0, False, "not begun"
        self.process: Process | None = None

    def begin(self) -> None:
        self.tries += 1
        self.said = "under way"
        world, options = self.schedule.world, self.schedule.options()
        self.process = self.schedule._do(
            "update", lambda client: client.update(options, lambda line: world.note(f"  > {line}"))
        )
        world.at(1.0, self._look)

    def _look(self) -> None:
        assert self.process is not None
        world = self.schedule.world
        if self.process.alive and self.process.stopped and self.schedule.impatient and self.tries < TRIES:
            self.begin()
            return
        if self.process.alive:
            world.at(1.0, self._look)
            return
        answer = self.schedule.answers.get(self.process.pid)
        died = answer is None
        self.said = "died" if died else str(getattr(answer, "outcome", answer))
        again = died or "LeaseHeld" in type(answer).__name__ or "Storage" in type(answer).__name__
        if again and self.tries < TRIES:
            world.at(5.0, self.begin)
        else:
            self.ended = True


class Dag:
    """The tasks of an update's DAG, each a process with retries; when one fails for good, the rollback's task runs."""

    RETRIES = 3

    def __init__(self, schedule: Schedule) -> None:
        self.schedule, self.ended, self.said = schedule, False, "not begun"
        self.steps: list[str] = []
        self.tries = 0
        self.process: Process | None = None

    def begin(self) -> None:
        strategy = strategy_named(self.schedule.strategy)
        self.steps = ["plan", *(str(step) for step in strategy.steps[1:])]
        self._start()

    def _start(self) -> None:
        step, options = self.steps[0], self.schedule.options()
        world = self.schedule.world
        self.tries += 1
        self.said = f"at {step}"

        def work(client: StreamUpdateClient) -> Any:
            if step == "rollback":
                record = self.schedule.site.registry().update("v2")  # as StreamUpdateRollbackOperator
                if record is None or record.outcome is not None:
                    return True
                return (
                    client.rollback(APP, "v2", timeout=120.0, options=RollbackOptions(reason="a task failed")) or True
                )
            engine = UpdateEngine(client.context, options, lambda line: world.note(f"  > {line}"))
            if step == "plan":
                return engine.begin(APP)
            update = engine.resume(APP, "v2")
            name = next(s for s in strategy_named(self.schedule.strategy).steps if str(s) == step)
            return engine.run(name, update) or True

        self.process = self.schedule._do(f"task {step}", work)
        world.at(1.0, self._look)

    def _look(self) -> None:
        assert self.process is not None
        world = self.schedule.world
        if self.process.alive:
            world.at(1.0, self._look)
            return
        answer = self.schedule.answers.get(self.process.pid)
        failed = answer is None or isinstance(answer, Exception)
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
