"""What a sink's function does with a batch id it has had (declared, found in its code, or asked), and rollbacks."""

from __future__ import annotations

from collections import Counter

import pytest
from bench import Bench, by, counts, distinct, row
from pyspark import TaskContext
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQueryListener

from airflow_provider_streamupdate.core.compatibility.self_update import check_updatable
from airflow_provider_streamupdate.core.compatibility.verdict import CARRIED, LOSS
from airflow_provider_streamupdate.core.errors import ApplicationError
from airflow_provider_streamupdate.core.plan.plan import ADDS, REPLACES, SEEN_BATCH, SKIPS, UNUSED, UPSERTS
from airflow_provider_streamupdate.core.registry.update import RollbackRecord
from airflow_provider_streamupdate.streaming.engine.renumbering import skip_used_batch_ids, used_beyond
from airflow_provider_streamupdate.streaming.planning.batch_id import uses_id
from airflow_provider_streamupdate.streaming.restore.restorer import restore_app
from airflow_provider_streamupdate.streaming.restore.saved_state import SavedState
from tests.cases import one_is_fast


def nothing(batch, number):
    batch.write.format("noop").mode("append").save()


def both(batch, number):
    return batch, number


DRIVER = """
import functools, types
def asks(batch): return batch.sparkSession.sparkContext.getLocalProperty('streaming.sql.batchId')
def shows(batch): batch.show()
class Writer:
    def whatever(self, batch, number): batch.show()
    def by_id(self, batch, number): batch.write.save(f"{number}.parquet")
    def __call__(self, batch, number): batch.show()
class Holder:
    def __init__(self, put): self.put = put
    def write(self, batch, number): self.put(batch)
class Asker:
    def write(self, batch, number): self.put(batch)
    def put(self, batch): return asks(batch)
HOLDER = Holder(asks)
def function(batch, number):
    %s
found = %s
"""
# Bodies of functions of `batch` and `number`, and whether they use the id.
BODIES = {
    "batch.show()": False,
    "del number": False,
    "print(number)": True,
    "return [number for _ in 'ab']": True,
    "return [lambda: number]": True,
    "print(locals()['number'])": True,
    "return asks(batch)": True,
    # Python 3.13 stores one and loads the other in one instruction
    "if (last := batch.count()) >= number: return last": True,
    "for table in ('a', 'b'): batch.write.saveAsTable((table, number))": True,
    "def inner():\n        import sys\n        return sys._getframe(1)\n    return inner()": True,
    "HOLDER.put(batch)": True,
    "import importlib\n    importlib.import_module('sinks').put(batch)": True,
}
OBJECTS = {
    "Writer().whatever": False,
    "Writer().by_id": True,
    "lambda batch, number=0: print(f'batch {number}')": True,
    "Holder(asks).write": True,
    "Holder(shows).write": False,
    "Asker().write": True,
    "types.MethodType(functools.partial(function), 1)": None,
    "types.MethodType(types.MethodType(lambda a, b, batch, number: number, 1), 2)": True,
    "lambda *both: both": None,
    "Writer()": None,
    "print": None,
    "functools.partial(lambda folder, batch, number: None, '/out')": None,
}


@pytest.mark.parametrize(
    ("body", "made", "used"),
    [*((b, "function", used) for b, used in BODIES.items()), *(("pass", m, used) for m, used in OBJECTS.items())],
)
def test_whether_a_function_uses_its_batch_id(body: str, made: str, used: bool | None) -> None:
    driver: dict = {"__name__": "driver_with_functions"}
    exec(DRIVER % (body, made), driver)
    assert uses_id(driver["found"]) is used


# What a driver has beside its sink's function, which writes `read`: a listener, of which `hears` is told a batch.
STATE = "STATE = {}"
CONF = "CONF = {'url': 'x'}"
CLASS = "class State: last = 0"
TELL = "class State:\n  def tell(self, id): self.id = id\nSTATE = State()"
CALLED = "STATE = {}\ndef tell(progress): STATE['id'] = progress.batchId"
LISTENERS = {
    "an item": (STATE, "STATE['id'] = event.progress.batchId", "STATE['id']", None),
    "an item by a method": (STATE, "STATE.update(at=event.progress.batchId)", "STATE.get('at')", None),
    "all of the progress": (STATE, "STATE['p'] = event.progress.json", "STATE['p']", None),
    "a list": ("SEEN = [0]", "SEEN.append(event.progress.batchId)", "SEEN[-1]", None),
    "a global variable": ("LAST = 0", "global LAST; LAST = event.progress.batchId", "LAST", None),
    "an attribute of a class": (CLASS, "State.last = event.progress.batchId", "State.last", None),
    "a method of an object": (TELL, "STATE.tell(event.progress.batchId)", "STATE.id", None),
    "what it was made with": (STATE, "self.given['id'] = event.progress.batchId", "STATE['id']", None),
    "a function that it calls": (CALLED, "tell(event.progress)", "STATE['id']", None),
    "an attribute by its name": (CLASS, "setattr(State, 'last', event.progress.batchId)", "State.last", None),
    "an item by a dunder": (STATE, "STATE.__setitem__('id', event.progress.batchId)", "STATE['id']", None),
    "itself": ("", "self.last = event.progress.batchId", "LISTENER.last", True),
    "nothing, it prints": ("", "print(event.progress.batchId)", "0", False),
    "nothing, it logs": (
        "import logging; LOG = logging.getLogger('x')",
        "LOG.info(event.progress.batchId)",
        "LOG.name",
        False,
    ),
    "settings that it reads": (
        CONF, "self.last += 1; print(CONF['url'], event.progress.batchId)", "CONF['url']", False),
    "counts of its own": (CONF, "self.own[event.progress.name] = event.progress.batchId", "CONF['url']", False),
    "settings, and it changes something": (
        CONF, "self.own[CONF['url']] = event.progress.batchId", "CONF['url']", None),
}  # fmt: skip


@pytest.mark.parametrize("name", LISTENERS)
def test_an_id_that_a_listener_hands_over_is_not_overlooked(name: str) -> None:
    """A function that read the id out of a dict that a listener had filled was said not to use it."""
    shared, hears, read, used = LISTENERS[name]
    driver: dict = {"__name__": "driver_with_a_listener"}
    given = "STATE" if "STATE" in shared else "None"
    text = f"""
from pyspark.sql.streaming import StreamingQueryListener
{shared}
class Listener(StreamingQueryListener):
    def __init__(self, given):
        self.given, self.own, self.last = given, {{}}, 0
    def onQueryStarted(self, event): pass
    def onQueryTerminated(self, event): pass
    def onQueryProgress(self, event): {hears}
LISTENER = Listener({given})
def write(batch, number): batch.write.save(str({read}))
"""
    exec(text, driver)
    assert uses_id(driver["write"]) is used


def test_an_id_in_a_variable_around_a_listener_is_not_overlooked() -> None:
    last = 0

    class Listener(StreamingQueryListener):
        def onQueryProgress(self, event):
            nonlocal last
            last = event.progress.batchId

        def onQueryStarted(self, event): ...

        def onQueryTerminated(self, event): ...

    listener = Listener()
    assert uses_id(lambda batch, number: batch.write.save(str(last))) is None, listener


def sink_of(bench: Bench, sink, declared: str | None = None):
    bench.sink, bench.sink_seen_batch = sink, declared
    return bench.plan(counts)[0].query("q").sink.seen_batch


def calls(function):
    return lambda writer: writer.foreachBatch(function)


def noop(writer):
    return writer.format("noop")


def each(writer):
    return writer.foreach(print)


def rows(function):
    return lambda writer: writer.foreach(function)


def shown(row):
    print(row.asDict())


def asked(row):
    print(TaskContext.get().getLocalProperty("streaming.sql.batchId"))


class Opened:
    """It gets the id."""

    def open(self, partition: int, batch_id: int) -> bool:
        return True

    def process(self, row) -> None:
        pass


def test_it_is_declared_or_found_in_the_function_s_code(bench: Bench) -> None:
    found = [(calls(nothing), None, UNUSED), (calls(both), None, None), (each, None, None), (noop, None, None)]
    found += [(rows(shown), None, UNUSED), (rows(asked), None, None), (rows(Opened()), None, None)]
    for sink, declared, kept in (
        *found,
        (each, ADDS, ADDS),
        *((calls(both), each_of, each_of) for each_of in SEEN_BATCH),
    ):
        assert sink_of(bench, sink, declared) == kept
    with pytest.raises(ApplicationError, match=r"q: seen_batch='skips' applies to functions only .* its sink is noop"):
        sink_of(bench, noop, SKIPS)
    words = "query q of app bench: seen_batch='once' must be one of skips, replaces, adds, upserts"
    with pytest.raises(ApplicationError, match=words):
        sink_of(bench, calls(both), "once")


def test_a_function_that_uses_the_id_and_does_not_say_how_is_agreed_to(bench: Bench) -> None:
    """With the first update, not when it is submitted: it was refused then, as one that could never be updated."""
    bench.seen_batch = None
    plan, _ = bench.plan(counts)
    check_updatable(plan)
    [warning] = plan.warnings
    assert "query q: its foreachBatch function may use the batch id" in warning
    assert "(--agree q/foreachBatch)" in warning
    bench.sink = calls(nothing)
    assert bench.plan(counts)[0].warnings == (), "it does not look at it"
    bench.sink = None
    bench.write([row("a", 1)])
    bench.run(counts)
    bench.seen_batch = REPLACES  # in the new version; the old one, which a rollback starts, did not say
    item = bench.item("s1", counts, thing="sink")
    assert (item.verdict, item.name) == (LOSS, "q/foreachBatch") and "seen_batch='skips'" in item.reason
    assert item.reason.startswith("after a rollback")
    bench.run(counts, snapshot="s1", agree=("q/foreachBatch",))
    assert bench.item("s2", counts, thing="sink").verdict == CARRIED
    bench.seen_batch, bench.sink = None, noop
    item = bench.item("s1", counts, thing="sink", agree=("q/noop",))
    assert "after a rollback" not in item.reason, "its ids are not those of the function"


class Kind(Bench):
    """Its function does with ids as `does`, and the app says `seen_batch`."""

    def __init__(self, spark, folder, does: str, seen_batch: str | None) -> None:
        super().__init__(spark, folder)
        self.does, self.seen_batch = does, seen_batch
        self.keys("ab")
        snapshot = self.run(once, "append")
        self.keys("cde")
        self.run(wrongly, "append", snapshot=snapshot, agree=() if seen_batch else ("q/foreachBatch",))
        assert self.sunk() == {"a": 1, "b": 1, "c wrong": 1, "d wrong": 1, "e wrong": 1}

    def keep(self, batch_id: int, rows: list[dict]) -> None:
        if self.does == SKIPS and batch_id in self.emitted:
            return
        kept = self.emitted.get(batch_id, []) if self.does == ADDS else []
        self.emitted[batch_id] = kept + rows

    def sunk(self) -> Counter:
        return Counter(r["k"] for rows in self.emitted.values() for r in rows)

    def roll_back(self) -> None:
        plan, writers = self.plan(once, "append")
        skip_used_batch_ids(self.registry, "d1", plan)
        self.keys("fg")
        self._read_all(writers, self.registry.checkpoint("d1", "q"), plan)


once = distinct("k", shown=("k",))


def wrongly(bench: Bench):
    return once(bench).select(F.concat("k", F.lit(" wrong")).alias("k"))


RIGHT = Counter("abcdefg")
WRONG = Counter(["c wrong", "d wrong", "e wrong"])


@pytest.mark.parametrize(("kind", "left"), one_is_fast([(SKIPS, WRONG), (REPLACES, Counter()), (ADDS, WRONG)]))
def test_after_a_rollback_every_kind_of_function_has_every_row(spark, tmp_path, kind: str, left: Counter) -> None:
    bench = Kind(spark, tmp_path, kind, kind)
    bench.roll_back()
    assert bench.sunk() == RIGHT + left


class Upserts(Bench):
    """Its function merges rows by their key into a table."""

    def __init__(self, spark, folder) -> None:
        super().__init__(spark, folder)
        self.seen_batch = UPSERTS
        self.table: dict[str, int] = {}

    def keep(self, batch_id: int, rows: list[dict]) -> None:
        self.table |= {r["k"]: r["n"] for r in rows}


def sums(files: str, factor: int = 1):
    made = by("k", "sum(a) s", name="sums", maxFilesPerTrigger=files)
    return lambda bench: made(bench).selectExpr("k", f"s * {factor} n")


def test_upserts_are_right_when_the_input_is_done_however_batches_are_cut(spark, tmp_path) -> None:
    """Version d2 is wrong, and reads one file a batch; after the rollback d1 reads three under the same ids."""
    bench = Upserts(spark, tmp_path)
    bench.write([row("a", 1), row("b", 1)])
    first = bench.run(sums("1"))
    for number in range(3):
        bench.write([row("a", 10), row(f"c{number}", number)])
    bench.run(sums("1", factor=100), snapshot=first)
    assert bench.table == {"a": 3100, "b": 1, "c0": 0, "c1": 100, "c2": 200}
    plan, writers = bench.plan(sums("3"))
    assert skip_used_batch_ids(bench.registry, "d1", plan) == {}, "it gets the same ids"
    bench.unread = 6
    bench._read_all(writers, bench.registry.checkpoint("d1", "q"), plan)
    assert bench.table == {r["k"]: r["n"] for r in bench.batch(sums("3"))}


@pytest.mark.parametrize("said", one_is_fast([False, True]))
def test_a_function_that_skips_and_does_not_say_so_has_them_when_the_rollback_is_told(spark, tmp_path, said) -> None:
    bench = Kind(spark, tmp_path, SKIPS, None)
    for number, (name, to) in enumerate((("q", "d1"), ("other", "d2")), 1):
        more = {"started_at": "2026-01-01T00:00:00+00:00", "later_ids": (name,) if said else ()}
        bench.registry.set_rollback(RollbackRecord(number=number, app="bench", left="d2", back_to=to, **more))
    bench.roll_back()
    assert bench.sunk() == (RIGHT if said else RIGHT - Counter("cde")) + WRONG


def test_after_a_rollback_a_standby_uses_no_ids_of_the_version_that_was_left(bench: Bench) -> None:
    """The old version does not look at ids, so that it uses those of the newer one again, in fewer batches; the next
    version's function skips ids it has had."""
    table: dict[int, list[str]] = {}

    def skips(batch, number):
        table.setdefault(number, [r["k"] for r in batch.collect()])

    def version(function, says, files):
        bench.sink, bench.sink_seen_batch = calls(function), says
        return distinct("k", shown=("k",), maxFilesPerTrigger=files)

    bench.keys("ab")
    first = bench.run(version(nothing, None, "1"), "append")
    plan, _ = bench.plan(version(skips, SKIPS, "1"), "append", snapshot=first)
    assert not used_beyond(bench.registry, "d1", plan)
    bench.keys("cde")
    bench.run(version(skips, SKIPS, "1"), "append", snapshot=first)
    plan, writers = bench.plan(version(nothing, None, "10"), "append")
    assert skip_used_batch_ids(bench.registry, "d1", plan) == {}
    bench.unread = 3
    bench._read_all(writers, bench.registry.checkpoint("d1", "q"), plan)  # c, d and e in batch 2

    build = version(skips, SKIPS, "1")
    saved = SavedState.find(bench.registry, "drained:d1")
    plan, writers = bench.plan(build, "append", snapshot=first)
    assert used_beyond(bench.registry, "d1", plan)
    restore_app(saved, plan, writers, bench.registry, "d3")
    assert skip_used_batch_ids(bench.registry, "d3", plan) == {"q": (2, 4)}
    bench.keys("fg")
    bench._read_all(writers, bench.registry.checkpoint("d3", "q"), plan)
    assert sorted(key for keys in table.values() for key in keys) == list("cdefg")
