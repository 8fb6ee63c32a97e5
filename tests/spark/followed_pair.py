"""Two versions of one app on a bench: the old one runs in a session of its own while the new one follows it, and takes
over when the old one has ended at a batch boundary. Only the process between the two is missing: the follower's
checkpoint gets an id of its own, because Spark runs no two queries of one id in one JVM."""

from __future__ import annotations

import copy
import functools
import json
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from bench import Bench, by, deploy, row

from airflow_provider_streamupdate.core.checkpoint.checkpoint import Checkpoint
from airflow_provider_streamupdate.core.coordination.following import unfollowable
from airflow_provider_streamupdate.core.serde import to_json
from airflow_provider_streamupdate.streaming.engine.following import Following
from airflow_provider_streamupdate.streaming.engine.queries import RunningQueries
from airflow_provider_streamupdate.streaming.planning.author import Declarations
from airflow_provider_streamupdate.streaming.planning.planner import plan_app
from airflow_provider_streamupdate.streaming.restore.restorer import restore_app
from airflow_provider_streamupdate.streaming.restore.saved_state import SavedState

PATIENCE = 120.0


counts = by("k", "count(*) n", "sum(a) s", name="counts")
windows = by("window(ts, '2 minutes'); k", name="windows", delay="1 minute")


def minutes(*numbers: int, keys: str = "ab") -> list[list[dict]]:
    """A file for each minute, with a row of each key."""
    return [[row(k, n, minute=n) for k in keys] for n in numbers]


def values(rows: Iterable[dict]) -> Counter:
    return Counter(tuple(r.values()) for r in rows)


class Pair:
    """Version `old` runs and version `new` follows it, from `follow` on.

    before: what the old version has written, by batch id; bench.emitted: what the new one has
    """

    def __init__(
        self, bench: Bench, old: Callable, new: Callable | None = None, mode: str = "update", trigger: str | None = None
    ) -> None:
        self.bench, self.mode, self.new = bench, mode, new or old
        self.elder = copy.copy(bench)
        self.elder.spark = _session_like(bench.spark)
        self.elder.emitted = {}
        if trigger is not None:
            for one in (bench, self.elder):
                one.sink, one.sink_seen_batch = functools.partial(_keep, one, trigger), "replaces"
        self.old_plan, writers = self.elder.plan(old, mode)
        self.plan: object = None
        self.running = Checkpoint(bench.registry.checkpoint("old", "q"))
        deploy(bench.registry, "old")
        bench.registry.deployment_folder("old").write("plan.json", to_json(self.old_plan))
        self.queries = RunningQueries(self.elder.spark, writers, {"q": self.running.folder}, self.old_plan)
        self.own = Checkpoint(bench.registry.checkpoint("new", "q"))
        self.follower: Following | None = None
        self.last_old = -1
        self.taken_over = False

    @property
    def before(self) -> dict[int, list[dict]]:
        return self.elder.emitted

    def write(self, rows: Iterable[dict], to: str = "in") -> None:
        self.bench.write(rows, to)
        self.elder.files = self.bench.files

    def start_old(self) -> None:
        self.queries.start()

    def old_reads_all(self, clock: bool = False) -> None:
        """Until the old version has read what was written; clock: it makes batches all the time."""
        _reads_all(self.queries._queries["q"], self.running, len(self.files(self.old_plan)), clock)

    def files(self, plan: object) -> list[object]:
        """The input files of a plan's sources."""
        folders = {s.location for q in plan.queries for s in q.sources if s.location}  # type: ignore[attr-defined]
        return [f for where in folders for f in self.bench.folder.glob(f"{where.rsplit('/', 1)[1]}/*.json")]

    def follow(
        self, refused: bool = False, name: str = "new", again: int = 0, record: Callable | None = None
    ) -> list[str]:
        """Restore what the old version has committed by now; why the new one cannot follow it.

        again: so many of the last batches are followed, too
        record: gets the rows of each followed batch
        """
        wait_for(lambda: self.running.committed_batch() is not None, "the first batch")
        deploy(self.bench.registry, name)
        self.own = Checkpoint(self.bench.registry.checkpoint(name, "q"))
        saved = SavedState.find(self.bench.registry, "deployment:old", again)
        plan, writers = self.planned(saved)
        problems = unfollowable(plan, self.old_plan)
        if refused:
            return problems
        assert not problems, "; ".join(problems)
        restore_app(saved, plan, writers, self.bench.registry, name, self.bench.migrations)
        self.own.folder.write("metadata", json.dumps({"id": str(uuid.uuid4())}).encode())
        old, new = self.old_plan.query("q"), plan.query("q")
        self.follower = Following(self.bench.spark, writers["q"], old, new, self.running, self.own, record=record)
        self.plan = plan
        return problems

    def planned(self, saved: SavedState):
        app = self.bench.app(self.new, self.mode)
        writers = app.build(self.bench.spark, {})
        declared = Declarations(app.name, migrations=self.bench.migrations, seen_batch=app.seen_batch)
        return plan_app(self.bench.spark, declared, writers, saved.recorded()), writers

    def begin(self, *files: object, clock: bool = False, **following) -> list[str]:
        """The old version reads files (rows, or rows and their folder), and the new one follows it."""
        for file in files:
            _write(self, file)
        self.start_old()
        self.old_reads_all(clock)
        return self.follow(**following)

    def in_step(self, *files: object) -> None:
        """No file comes before the one before it has been followed."""
        for file in files:
            _write(self, file)
            self.old_reads_all()
            self.catch_up(self.running.committed_batch())

    def right(self, version: Callable) -> None:
        """What was written last is what a batch over all input gives."""
        assert self.last("k") == {(r["k"],): r for r in self.bench.batch(version)}

    def catch_up(self, upto: int | None = None) -> None:
        """Follow what is logged; with the last batch of the old version: to its end."""
        follower = self.follower
        assert follower is not None

        def there() -> bool:
            follower.step()
            return follower.behind <= 1 if upto is None else follower.at(upto)

        wait_for(there, "the follower")

    def end_old(self) -> None:
        """At a batch boundary."""
        self.queries.drain()
        last = self.running.committed_batch()
        assert last is not None and self.running.logged_batch() == last
        self.last_old = last
        self.catch_up(last)
        assert self.bench.emitted == {}  # it has written nothing

    def take_over(self) -> None:
        assert self.follower is not None
        self.follower.take_over()
        self.taken_over = True

    def new_reads_all(self, clock: bool = False) -> None:
        query = self.follower.query  # type: ignore[union-attr]
        wait_for(lambda: self.own.committed_batch() > self.last_old or query.exception(), "a batch of its own", 60)  # type: ignore[operator]
        _reads_all(query, self.own, len(self.files(self.plan)), clock)

    def stop(self) -> None:
        self.queries.stop()
        self.stop_follower()

    def stop_follower(self) -> None:
        if self.follower is not None and self.follower.query is not None:
            self.follower.query.stop()

    def all(self) -> list[dict]:
        """Every row that was written, in the order of batches. No batch id was given twice, and none left out."""
        assert not self.before.keys() & self.bench.emitted.keys()
        both = {**self.before, **self.bench.emitted}
        assert sorted(both) == list(range(len(both)))
        assert max(self.before) == self.last_old
        return [row for batch in sorted(both) for row in both[batch]]

    def last(self, *key: str) -> dict[tuple, dict]:
        return {tuple(row[k] for k in key): row for row in self.all()}

    def same_states(self, *options: dict[str, str]) -> None:
        """Both have the same rows of state."""
        for given in options or ({},):
            mine, other = (states(self.bench.spark, c, **given) for c in (self.own, self.running))
            assert mine == other


@contextmanager
def running_pair(
    bench: Bench, old: Callable, new: Callable | None = None, mode: str = "update", trigger: str | None = None
) -> Iterator[Pair]:
    pair = Pair(bench, old, new, mode, trigger)
    try:
        yield pair
    finally:
        pair.stop()
    if pair.taken_over:
        assert pair.follower is not None and pair.follower.query is not None
        assert pair.follower.query.exception() is None


def updated(
    pair: Pair,
    first: list,
    meanwhile: list,
    after: list,
    clock: bool = False,
    states: tuple[dict[str, str], ...] | None = ({},),
    in_step: bool = False,
) -> Pair:
    """An update from the old to the new version. first, meanwhile, after: files that come before the new version
    follows, while it does, and after it has taken over. states: what is compared."""
    pair.begin(*first, clock=clock)
    if in_step:
        pair.in_step(*meanwhile)
    for file in () if in_step else meanwhile:
        _write(pair, file)
        pair.catch_up()
    pair.old_reads_all(clock)
    pair.end_old()
    if states is not None:
        pair.same_states(*states)
    pair.take_over()
    for file in after:
        _write(pair, file)
    pair.new_reads_all(clock)
    return pair


def check_followed(
    bench: Bench, old: Callable, new: Callable, *files: list, expected: Counter, states: tuple | None = None
) -> Pair:
    """An update in append mode; each expected row is written once."""
    with running_pair(bench, old, new, mode="append") as pair:
        updated(pair, *files, states=states)
        assert values(pair.all()) == expected
    return pair


def _keep(bench: Bench, trigger: str, writer):
    def keep(batch, batch_id: int) -> None:
        bench.keep(batch_id, [row.asDict(recursive=True) for row in batch.collect()])

    return writer.trigger(processingTime=trigger).foreachBatch(keep)


def _write(pair: Pair, file: object) -> None:
    if isinstance(file, tuple):
        pair.write(*file)
    else:
        pair.write(file)  # type: ignore[arg-type]


def states(spark, checkpoint: Checkpoint, **options: str) -> list[str]:
    rows = spark.read.format("statestore").options(**options).load(checkpoint.folder.uri)
    return sorted(map(str, rows.collect()))


def wait_for(done: Callable[[], object], what: str = "it", seconds: float = PATIENCE, pause: float = 0.02) -> None:
    deadline = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < deadline, f"waited {seconds} seconds for {what}"
        time.sleep(pause)


def _reads_all(query, checkpoint: Checkpoint, files: int, clock: bool) -> None:
    """Files are read one a batch, so that a source's offset tells how many it has read."""

    def done() -> bool:
        if error := query.exception():
            raise error
        batch = checkpoint.committed_batch()
        return batch is not None and files_read(checkpoint, batch) >= files

    wait_for(done, f"{files} files to be read")
    if not clock:
        query.processAllAvailable()


def files_read(checkpoint: Checkpoint, batch: int) -> int:
    offsets = [json.loads(o) for o in checkpoint.offsets(batch).sources if o != "-"]
    return sum(o["logOffset"] + 1 for o in offsets)


def _session_like(spark):
    """A new session with the same settings: one of its own for the query names and the queries in it."""
    made = spark.newSession()
    for key, value in spark.conf.getAll.items():
        if made.conf.get(key, None) != value and spark.conf.isModifiable(key):
            made.conf.set(key, value)
    return made
