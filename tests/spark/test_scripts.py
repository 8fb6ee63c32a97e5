"""Scripts of the shapes that people write, run unchanged: which queries they start, what goes on when these run and
have ended, and what is said of them. Real updates of one are in tests/e2e/test_scripts.py."""

from __future__ import annotations

import builtins
import io
import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import attrs
import pyspark
import pytest
from pyspark.sql import SparkSession

from airflow_provider_streamupdate.core.compatibility.compatibility import compare
from airflow_provider_streamupdate.core.errors import ApplicationError
from airflow_provider_streamupdate.core.plan.plan import AppPlan
from airflow_provider_streamupdate.core.registry.application import Script
from airflow_provider_streamupdate.streaming.planning.planner import plan_app
from airflow_provider_streamupdate.streaming.scripts import run
from airflow_provider_streamupdate.streaming.scripts.app import ScriptApp
from airflow_provider_streamupdate.streaming.scripts.names import name_queries
from airflow_provider_streamupdate.streaming.scripts.protection import protect
from airflow_provider_streamupdate.streaming.scripts.run import ScriptQuery

SESSION = "from pyspark.sql import SparkSession\nspark = SparkSession.builder.appName('x').getOrCreate()\n"
ROWS = SESSION + "import sys\nrows = spark.readStream.schema('k string, n int').json(sys.argv[1])\n"
COUNTS = "counts = rows.groupBy('k').count()\n"
START = (
    "counts.writeStream.outputMode('update').format('noop').option('checkpointLocation', '/chk').queryName('counts')"
    ".start()"
)
ENDED = "open(sys.argv[2], 'a').write('ended')\n"


@pytest.fixture(autouse=True)
def own_main() -> Iterator[None]:
    """Of the test's process."""
    main, argv, path, folder = sys.modules["__main__"], sys.argv, [*sys.path], os.getcwd()
    yield
    sys.modules["__main__"], sys.argv, sys.path[:] = main, argv, path
    os.chdir(folder)


class Place:
    """A folder with a script, its input, and a file in which it notes that it has ended."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder, self.repository = spark, folder, folder / "repository"
        self.repository.mkdir()
        (folder / "in").mkdir()
        (folder / "in" / "0.json").write_text(json.dumps({"k": "a", "n": 1}))
        self.ended = folder / "ended"

    def app(self, text: str, *arguments: str, **beside: str) -> ScriptApp:
        self.spark.catalog.dropTempView("rows")  # each is to be the first in its session
        protect(self.folder / "none", lambda: False)  # another script's run may not write here
        for name, content in {"job.py": text, **{n.replace("__", "/") + ".py": t for n, t in beside.items()}}.items():
            (self.repository / name).parent.mkdir(exist_ok=True)
            (self.repository / name).write_text(content)
        given = (str(self.folder / "in"), str(self.ended), *arguments)
        return ScriptApp(self.repository / "job.py", Script(app="clicks", arguments=given))

    def plan(self, app: ScriptApp) -> AppPlan:
        writers = app.build(self.spark, {})
        return plan_app(self.spark, app.declarations(), writers)


@pytest.fixture
def place(spark: SparkSession, tmp_path: Path) -> Place:
    return Place(spark, tmp_path)


# What the script does, and the queries that it starts.
SHAPES = {
    "at the top level": (ROWS + COUNTS + f"q = {START}\nq.awaitTermination()\n{ENDED}", ["counts"]),
    "without a wait": (ROWS + COUNTS + f"{START}\n{ENDED}", ["counts"]),
    "chained": (ROWS + COUNTS + f"{START}.awaitTermination()\n{ENDED}", ["counts"]),
    "a function called main": (
        "import sys\nfrom pyspark.sql import SparkSession\n\n\ndef main():\n"
        "    spark = SparkSession.builder.getOrCreate()\n"
        "    rows = spark.readStream.schema('k string, n int').json(sys.argv[1])\n"
        "    counts = rows.groupBy('k').count()\n"
        f"    q = {START}\n    q.awaitTermination()\n    {ENDED}\n\nif __name__ == '__main__':\n    main()\n",
        ["counts"],
    ),
    "try and finally": (
        ROWS + COUNTS + f"q = {START}\ntry:\n    q.awaitTermination()\nfinally:\n    {ENDED}    spark.stop()\n",
        ["counts"],
    ),
    "several queries": (
        ROWS + COUNTS + f"{START}\nrows.dropDuplicates(['k']).writeStream.format('noop').start()\n"
        f"spark.streams.awaitAnyTermination()\n{ENDED}",
        ["counts", "query-1"],
    ),
    "options of start": (
        ROWS + COUNTS + "q = counts.writeStream.start(format='noop', outputMode='update', queryName='named',\n"
        f"    checkpointLocation='/chk')\nq.awaitTermination()\n{ENDED}",
        ["named"],
    ),
    "foreachBatch with a closure": (
        ROWS + COUNTS + "def keep(folder):\n    def save(df, batch):\n        df.count()\n    return save\n"
        f"q = counts.writeStream.outputMode('complete').foreachBatch(keep('x')).start()\nq.awaitTermination()\n{ENDED}",
        ["query-1"],
    ),
    "argparse": (
        ROWS + COUNTS + "import argparse\np = argparse.ArgumentParser()\np.add_argument('given', nargs=2)\n"
        "p.add_argument('--limit', type=int, default=3)\na = p.parse_args()\n"
        f"q = {START}\nq.awaitTermination()\n{ENDED}",
        ["counts"],
    ),
    "modules and packages": (
        "from lib.io import read\nimport names\n" + SESSION + "import sys\nrows = read(spark, sys.argv[1])\n"
        f"counts = rows.groupBy(names.KEY).count()\nq = {START}\nq.awaitTermination()\n{ENDED}",
        ["counts"],
    ),
    "a signal's handler and logging": (
        ROWS + COUNTS + "import signal, logging\nlogging.basicConfig(level=logging.WARNING)\n"
        f"q = {START}\nsignal.signal(signal.SIGTERM, lambda *_: q.stop())\nq.awaitTermination()\n{ENDED}",
        ["counts"],
    ),
    "a loop that looks": (
        ROWS + COUNTS + f"q = {START}\nwhile q.isActive:\n    print(q.lastProgress, q.status, q.id, q.recentProgress)\n"
        f"    q.awaitTermination(0.1)\n{ENDED}",
        ["counts"],
    ),
    "a loop that sleeps": (
        ROWS + COUNTS + f"import time\nq = {START}\nwhile q.isActive:\n    time.sleep(0.05)\n{ENDED}",
        ["counts"],
    ),
    "a few sleeps": (
        ROWS + COUNTS + f"import time\nq = {START}\nfor _ in range(3):\n    time.sleep(0.05)\n{ENDED}",
        ["counts"],
    ),
    "what a query says before it runs": (
        ROWS + COUNTS + f"q = {START}\nassert q.status['message'] and q.isActive and not q.exception()\nq.explain()\n"
        "assert spark.streams.active == [q]\nimport threading\nwhile not threading.Event().wait(0.05):\n"
        f"    if not q.isActive:\n        break\n{ENDED}",
        ["counts"],
    ),
    "an old beginning": (
        "from pyspark import SparkConf, SparkContext\nfrom pyspark.sql import SparkSession\nimport sys\n"
        "context = SparkContext(conf=SparkConf().set('spark.sql.shuffle.partitions', '2'), appName='x')\n"
        "spark = SparkSession(context)\nrows = spark.readStream.schema('k string, n int').json(sys.argv[1])\n"
        + COUNTS + "assert SparkSession.getActiveSession() is not None\n"
        "assert spark.conf.get('spark.sql.shuffle.partitions') == '2'\nrows.createTempView('rows')\n"
        f"q = {START}\nq.awaitTermination()\ncontext.stop()\n{ENDED}",
        ["counts"],
    ),
    "types that are asked for": (
        ROWS + COUNTS + "import dataclasses\n@dataclasses.dataclass\nclass Event:\n    k: str\n"
        f"assert dataclasses.fields(Event)[0].type is str\nq = {START}\nq.awaitTermination()\n{ENDED}",
        ["counts"],
    ),
    "a loop over places": (
        ROWS + "for place in ('eu', 'us'):\n    out = rows.where(rows.k == place).writeStream.format('noop')\n"
        f"    out.option('checkpointLocation', f'/chk/{{place}}/c').start()\n"
        f"spark.streams.awaitAnyTermination()\n{ENDED}",
        ["eu", "us"],
    ),
    "the name of its application": (
        ROWS + COUNTS + f"assert spark.sparkContext.appName == 'x'\nq = {START}\nq.awaitTermination()\n{ENDED}",
        ["counts"],
    ),
    "a thread that watches it": (
        ROWS + COUNTS + "import threading\n\n\ndef watch(q):\n    while q.isActive and not q.awaitTermination(0.05):\n"
        f"        print(q.lastProgress)\n\n\nq = {START}\nthreading.Thread(target=watch, args=(q,)).start()\n"
        f"q.awaitTermination()\n{ENDED}",
        ["counts"],
    ),
    "available now": (
        ROWS + COUNTS + "q = counts.writeStream.outputMode('update').format('noop')\n"
        f"q = q.trigger(availableNow=True).start()\nq.processAllAvailable()\nq.stop()\nq.awaitTermination()\n{ENDED}",
        ["query-1"],
    ),
}  # fmt: skip
BESIDE = {
    "lib__io": "def read(spark, folder):\n    return spark.readStream.schema('k string, n int').json(folder)\n",
    "lib____init__": "",
    "names": "KEY = 'k'\n",
}


@pytest.mark.parametrize("shape", SHAPES)
def test_a_script_is_an_app_as_it_is(place: Place, shape: str) -> None:
    text, queries = SHAPES[shape]
    app = place.app(text, **BESIDE)
    plan = place.plan(app)
    assert [query.name for query in plan.queries] == queries and app.unread({}) == []
    own = {"eu": "/chk/eu/c", "us": "/chk/us/c"} if "/chk/" in text else {queries[0]: "/chk"} if "/chk" in text else {}
    assert app.checkpoints() == own
    assert [*app.build(place.spark, {})] == queries  # in the same process
    # An app can always be updated to itself.
    assert compare(plan, place.plan(place.app(text, **BESIDE)), "itself").problems == []
    waits = "without" not in shape
    app.finish()  # of a driver that has run no query
    assert place.ended.exists() is not waits, "it is where it waits, and no further"
    app.begin()
    app.finish()
    assert place.ended.read_text() == "ended" * (1 if waits else 3)


def test_a_module_does_it_all_when_it_is_imported(place: Place) -> None:
    app = place.app("import whole\n", whole=f"{ROWS}{COUNTS}q = {START}\nq.awaitTermination()\n{ENDED}")
    plan = place.plan(app)
    assert compare(plan, place.plan(app), "itself").problems == []  # a second run would wait for the first one's import
    app.begin()
    app.finish()
    assert place.ended.read_text() == "ended"


def test_its_modules_are_not_those_of_another_version(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor of another script in the session: Spark keeps one file of a name."""
    text = "import names\n" + ROWS + COUNTS + START
    for key in ("k", "n"):
        monkeypatch.delitem(sys.modules, "names", raising=False)
        assert len(place.plan(place.app(text, names=f"KEY = {key!r}\n")).queries) == 1


def test_an_alias_is_a_name(place: Place) -> None:
    """Right above what it names, once, and not one of a table or of columns alone."""
    rows = ROWS.replace(".json(sys.argv[1])", ".json(sys.argv[1]).alias('orders')")
    app = place.app(rows + "counts = rows.groupBy('k').count().alias('by-key').where('count > 0')\n" + START)
    old = place.plan(app)
    [query] = old.queries
    assert ([s.name for s in query.sources], [s.name for s in query.stages]) == (["orders"], ["by-key"])
    # It may be there for a join: another one is no other name.
    counted = "counts = rows.groupBy('k').count().alias('c').where('count > 0')\n"
    new = place.plan(place.app(rows.replace("orders", "o") + counted + START))
    assert not [item for item in compare(old, new, "s1").items if item.blocks]
    assert {item.continues for item in compare(old, new, "s1").items} == {None, "orders", "by-key"}
    twice = (
        "counts = rows.groupBy('k').count().alias('c')\nonce = rows.dropDuplicates(['k']).select('k', 'n').alias('c')\n"
    )
    app = place.app(ROWS + twice + START + "\nonce.writeStream.format('noop').start()\n")
    counted, once = place.plan(app).queries
    assert [s.name for s in (*counted.stages, *once.stages)] == ["c", "deduplicate-1"]  # a projection is between
    text = "SELECT k, c FROM (SELECT k, count(*) c FROM t GROUP BY k) AS daily"
    sql = f"rows.createOrReplaceTempView('t')\ncounts = spark.sql('{text}')\n"
    [query] = place.plan(place.app(ROWS + sql + START)).queries
    assert ([s.name for s in query.sources], [s.name for s in query.stages]) == (["source-1"], ["daily"])


def test_the_wait_for_a_query_that_fails_raises(place: Place) -> None:
    text = ROWS + COUNTS + f"q = {START}\ntry:\n    q.awaitTermination()\nexcept Exception as error:\n"
    app = place.app(text + "    open(sys.argv[2], 'w').write(type(error).__name__)\n")
    app.build(place.spark, {})
    app.begin()
    app.finish(failed=True)
    assert place.ended.read_text() == "StreamingQueryException"


def test_a_script_may_stop_its_queries(place: Place) -> None:
    """Then the driver finds that all have ended by themselves. Before, it was warned of, and they went on for good."""
    text = f"q = {START}\nq.processAllAvailable()\nq.stop()\nassert not q.isActive\nq.awaitTermination()\n{ENDED}"
    app = place.app(ROWS + COUNTS + text)
    [(name, writer)] = app.build(place.spark, {}).items()
    query = writer.queryName(name).option("checkpointLocation", str(place.folder / "checkpoint")).start()
    app.begin()
    query.awaitTermination()
    app.finish()
    assert query.exception() is None and place.ended.read_text() == "ended"


def test_a_script_may_stop_its_queries_one_by_one(place: Place) -> None:
    """The wait for the first one, which it had stopped, was one for the other as well, for good."""
    text = (
        f"{START}\nrows.writeStream.format('noop').queryName('other').start()\ntime.sleep(0.1)\n"
        "for q in spark.streams.active:\n    q.stop()\n    q.awaitTermination()\n"
        f"assert not spark.streams.active\n{ENDED}"
    )
    app = place.app("import time\n" + ROWS + COUNTS + text)
    queries = []
    for name, writer in app.build(place.spark, {}).items():
        own = str(place.folder / f"checkpoint-{name}")
        queries.append(writer.queryName(name).option("checkpointLocation", own).start())
    app.begin()
    try:
        assert all(query.awaitTermination(20) for query in queries)
    finally:
        for query in queries:
            query.stop()
        app.finish()
    assert place.ended.read_text() == "ended"


def test_another_session_is_refused(place: Place) -> None:
    """The driver would look for its queries, and their settings, in its own."""
    text = ROWS.replace("import sys\n", "import sys\nspark = spark.newSession()\n") + COUNTS + START
    with pytest.raises(ApplicationError, match=r"job\.py:7 starts a query in a session of its own"):
        place.app(text).build(place.spark, {})


@pytest.mark.parametrize(
    ("queries", "names"),
    [
        ([("", "/ck/5")], ["query-1"]),
        ([("", "/ck/1"), ("", "/ck/5")], ["checkpoint-1", "checkpoint-5"]),  # neither is the one above
        ([("", "/ck/eu/c"), ("", "/ck/us/c"), ("all of it", "/x")], ["eu", "us", "all of it"]),
        ([("top/größte", ""), ("", "/x")], ["top-gr-te", "query-1"]),
        ([("a/b", ""), ("a-b", "")], "job.py:0 and job.py:1 start a query that would be named 'a-b' here"),
        ([("query-1", ""), ("", "/x")], "job.py:0 and job.py:1 start a query that would be named 'query-1' here"),
        ([("ä", "")], "job.py:0 starts a query that would be named '' here"),
        ([("", "/ck/ä"), ("", "/ck/ö")], "the queries that job.py:0 and job.py:1 start have neither"),
    ],
)
def test_names_of_queries(queries: list[tuple[str, str]], names: list[str] | str) -> None:
    found = [ScriptQuery(None, name, None, f"job.py:{n}", place) for n, (name, place) in enumerate(queries)]
    if isinstance(names, str):
        with pytest.raises(ApplicationError, match=names):
            name_queries(found)
    else:
        name_queries(found)
        assert [query.name for query in found] == names


BUSY = "work = threading.Thread(target=lambda: threading.Event().wait(60), daemon=True)\nwork.start()\nwork.join()\n"


def test_a_script_that_is_at_work_behind_its_start_is_refused(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "_AT_WORK_SECONDS", 0.5)
    app = place.app(ROWS + COUNTS + f"import threading\n{START}\n" + BUSY)
    with pytest.raises(ApplicationError, match=r"at work for 0\.5 s since job\.py:7 started a query"):
        app.build(place.spark, {})


def test_other_threads_start_queries_as_ever(place: Place) -> None:
    app = place.app(SHAPES["at the top level"][0])
    app.build(place.spark, {})
    rows = place.spark.readStream.schema("k string").json(str(place.folder / "in"))
    query = rows.writeStream.format("noop").option("checkpointLocation", str(place.folder / "own")).start()
    try:
        query.processAllAvailable()
        assert query.lastProgress["numInputRows"] == 1
    finally:
        query.stop()
        app.finish()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (SESSION, "job.py started no streaming query"),
        (
            ROWS + "rows.nothing\n",
            r"job\.py:5 raised PySparkAttributeError: .*correct it, or its arguments \(behind --\)",
        ),
        ("import sys\nsys.exit(3)\n", "ended with exit code 3 before it started a query"),
        (ROWS + COUNTS + f"{START}\n{START}\n", r"job\.py:7 starts a second query named counts \(job\.py:6\)"),
        ("import argparse\nargparse.ArgumentParser().parse_args()\n", "ended with exit code 2"),
        ("raise SystemExit('no topic given')\n", "ended with 'no topic given' before it started a query"),
        (ROWS + COUNTS + f"{START}\nraise SystemExit(1)\n", "ended with exit code 1 behind the start of its queries"),
        (
            ROWS + COUNTS + "import threading\n"
            f"work = threading.Thread(target=lambda: {START}.awaitTermination(), daemon=True)\n"
            "work.start()\nwork.join()\n",
            r"job\.py:7 starts a query in a thread of its own",
        ),
        (
            ROWS + COUNTS + f"{START}\nspark.conf.set('spark.sql.streaming.multipleWatermarkPolicy', 'max')\n"
            "rows.writeStream.format('noop').queryName('more').start()\n",
            r"job\.py:8 starts a query under another spark\.sql\.streaming\.multipleWatermarkPolicy than job\.py:6",
        ),
        (
            ROWS + "rows.writeStream.format('noop').start()\nrows.writeStream.format('console').start()\n",
            r"job\.py:5 and job\.py:6 start have neither a queryName nor a checkpointLocation of their own",
        ),
    ],
)
def test_a_script_that_is_no_app_is_told_why(place: Place, text: str, told: str) -> None:
    with pytest.raises(ApplicationError, match=told):
        place.app(text).build(place.spark, {})


def test_a_writer_that_is_started_twice_is_two_queries(place: Place) -> None:
    text = (
        ROWS + "w = rows.writeStream.format('parquet').option('checkpointLocation', '/chk/a')\n"
        "w.queryName('a').start(sys.argv[2] + '/a')\n"
        "w.option('checkpointLocation', '/chk/b').queryName('b').format('json').start(sys.argv[2] + '/b')\n"
    )
    first, second = place.plan(place.app(text)).queries
    assert [(q.name, q.sink.format, str(q.sink.path)[-2:]) for q in (first, second)] == [
        ("a", "parquet", "/a"),
        ("b", "json", "/b"),
    ]


@pytest.mark.parametrize(
    "write",
    [
        "(HERE / 'totals.json').write_text('{}')",
        "__import__('sqlite3').connect(HERE / 'state.db')",
        "(HERE / 'data').mkdir()",
        "(HERE / 'job.py').rename(HERE / 'old.py')",
        "__import__('os').chdir(HERE); open('totals.json', 'w')",
    ],
)
def test_what_a_script_would_keep_beside_itself_is_refused(place: Place, write: str) -> None:
    """Each version has a copy of its own of that."""
    text = (
        "from pathlib import Path\nHERE = Path(__file__).resolve().parent\nopen(HERE / 'job.py').read()\n"
        + write
        + "\n"
    )
    with pytest.raises(ApplicationError, match=r"job\.py:4 raised PermissionError: .* lost at the next update"):
        place.app(text + ROWS + COUNTS + START).build(place.spark, {})
    sink = "rows.writeStream.format('parquet').start(str(HERE / 'result'))\n"
    with pytest.raises(ApplicationError, match=r"job\.py:9 writes to a place that goes away"):
        place.app(text.replace(write, "") + ROWS + sink).build(place.spark, {})


@pytest.mark.parametrize(
    "read",
    [
        "json(os.path.join(HERE, 'data'))",
        "format('json').option('path', HERE + '/data').load()",
        "format('json').options(maxFilesPerTrigger=1, path=HERE + '/data').load()",
    ],
)
def test_a_stream_from_its_own_folder_is_refused(place: Place, read: str) -> None:
    """New files do not come into a version's copy of it: before, the app ran on and read nothing."""
    (place.repository / "data").mkdir()
    text = SESSION + "import os\nHERE = os.path.dirname(__file__)\n"
    text += f"rows = spark.readStream.schema('k string').{read}\n" + COUNTS + START
    with pytest.raises(ApplicationError, match=r"job\.py:5 reads a stream from .*data lies in the script's folder"):
        place.app(text).build(place.spark, {})


def test_what_it_keeps_in_a_file_of_its_folder_is_refused_or_goes_on(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would begin with the content that it had when it was submitted (17 where 47 was due)."""
    monkeypatch.chdir(place.folder)
    for folder in (place.folder, place.repository):
        (folder / "total.txt").write_text("7")
        (folder / "seen.txt").write_text("a")
    (place.folder / "total.txt").write_text("9")
    text = ROWS + COUNTS + "import pathlib\nTOTAL = 'total.txt'\nold = open(TOTAL).read()\n"
    app = place.app(text + "pathlib.Path(TOTAL).write_text(old)\n" + START)
    app.script = attrs.evolve(app.script, in_folder=True)
    with pytest.raises(
        ApplicationError, match=r"PermissionError: .*/total\.txt is written, and was read as it was when"
    ):
        app.build(place.spark, {})
    # What it only writes, as a log, or opens by name to write, is where it runs.
    text = ROWS + COUNTS + "open('seen.txt', 'a').write('b')\nopen('total.txt', 'r+').read()\n"
    app = place.app(text + f"assert open('total.txt').read() == '9'\nassert open('seen.txt').read() == 'ab'\n{START}")
    app.script = attrs.evolve(app.script, in_folder=True)
    app.build(place.spark, {})


def test_a_folder_that_it_deletes_at_its_start_is_refused(place: Place) -> None:
    """A check would delete what the running version has written."""
    out = place.folder / "out"
    out.mkdir()
    text = "import shutil, sys\nshutil.rmtree(sys.argv[3], ignore_errors=True)\n" + ROWS + COUNTS + START
    with pytest.raises(
        ApplicationError, match=r"job\.py:2 raised PermissionError: .*out is deleted before the queries"
    ):
        place.app(text, str(out)).build(place.spark, {})
    assert out.exists()


def test_its_queries_have_the_settings_of_their_start(place: Place) -> None:
    """Not those that it sets for what it does next."""
    key = "spark.sql.streaming.multipleWatermarkPolicy"
    text = f"spark.conf.set('{key}', 'max')\n"
    place.app(ROWS + COUNTS + text + START + "\n" + text.replace("max", "min")).build(place.spark, {})
    assert place.spark.conf.get(key) == "max"
    place.spark.conf.unset(key)


def test_a_version_reads_its_own_copy_of_a_file_that_it_names(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a relative path, which leads into the folder where it was submitted: there the newest one is."""
    for module in (builtins, io):
        monkeypatch.setattr(module, "open", open)  # to be put back
    there = place.folder / "there"
    there.mkdir()
    (there / "key.txt").write_text("n")
    monkeypatch.chdir(there)
    text = "import pathlib\nkey = open('key.txt').read()\nassert pathlib.Path('./key.txt').read_text() == key\n"
    app = place.app(text + ROWS + f"counts = rows.groupBy(key).count()\n{START}\n")
    (place.repository / "key.txt").write_text("k")
    for in_folder, key in ((False, "source-1.n"), (True, "source-1.k")):
        app.script = attrs.evolve(app.script, in_folder=in_folder)
        [stage] = place.plan(app).queries[0].stages
        assert str(stage.definition.keys[0]) == key


def test_spark_is_sent_a_version_s_own_copy(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rolled back version's workers had the newest file, or module, of this name."""
    for module in (builtins, io):
        monkeypatch.setattr(module, "open", open)  # to be put back
    (place.repository / "sent.txt").write_text("own")
    text = "spark.sparkContext.addFile('sent.txt')\nfrom pyspark import SparkFiles\n"
    app = place.app(ROWS + COUNTS + text + f"assert open(SparkFiles.get('sent.txt')).read() == 'own'\n{START}\n")
    app.script = attrs.evolve(app.script, in_folder=True)
    app.build(place.spark, {})  # Spark's own working folder has no such file


def test_a_script_may_change_its_working_folder(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then a relative name is another one's; a path through the working folder is the version's own."""
    for module in (builtins, io):
        monkeypatch.setattr(module, "open", open)  # to be put back
    there = place.folder / "there"
    for folder, key in ((place.folder, "none"), (there, "n"), (place.repository, "k")):
        folder.mkdir(exist_ok=True)
        (folder / "key.txt").write_text(key)
    monkeypatch.chdir(place.folder)
    for path, key in (("'key.txt'", "n"), ("f'{before}/key.txt'", "k")):
        text = f"import os\nbefore = os.getcwd()\nos.chdir('there')\nkey = open({path}).read()\n"
        app = place.app("NAMED = 'key.txt'\n" + text + ROWS + f"counts = rows.groupBy(key).count()\n{START}\n")
        app.script = attrs.evolve(app.script, in_folder=True)
        for _ in range(2):  # as a start without state is planned
            [stage] = place.plan(app).queries[0].stages
            assert str(stage.definition.keys[0]) == f"source-1.{key}"
        os.chdir(place.folder)


def test_a_loop_that_sleeps_for_good_ends_with_its_queries(place: Place) -> None:
    loop = "while True:\n    time.sleep(1)\n"
    app = place.app(
        ROWS
        + COUNTS
        + f"import time\n{START}\ntry:\n    {loop.replace(chr(10), chr(10) + '    ')}\nfinally:\n    {ENDED}"
    )
    app.build(place.spark, {})
    app.begin()
    began = time.monotonic()
    app.finish()
    assert place.ended.read_text() == "ended" and time.monotonic() - began < 20


def test_parameters_are_refused(place: Place) -> None:
    with pytest.raises(ApplicationError, match="takes arguments"):
        place.app(SHAPES["chained"][0]).build(place.spark, {"input": "x"})


def test_what_it_does_before_its_queries_start_is_told(place: Place) -> None:
    first = (
        "from pyspark.sql import SparkSession\n"
        "spark = SparkSession.builder.master('local[9]').config('spark.executor.memory', '3g')"
        ".config('spark.hadoop.fs.s3a.endpoint', 'x')"
        ".config('spark.sql.shuffle.partitions', '3').getOrCreate()\n"
        "import sys\nspark.range(3).write.mode('overwrite').parquet(sys.argv[2] + '-made')\n"
        "spark.sql('CREATE OR REPLACE TEMP VIEW v AS SELECT 1')\n"
        "rows = spark.readStream.schema('k string, n int').json(sys.argv[1])\n"
    )
    app = place.app(first + COUNTS + START)
    app.build(place.spark, {})
    assert place.spark.conf.get("spark.sql.shuffle.partitions") == "3"
    late, hadoop, writes = app.unread({})
    assert "spark.hadoop.fs.s3a.endpoint, which comes too late" in hadoop
    assert "spark.executor.memory" in late and "--conf spark.executor.memory=3g" in late
    assert f"writes to {place.ended}-made before its queries start" in writes
    app.finish()


def test_a_query_behind_the_wait_is_refused(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    """Where its text does not show it: nobody knows of it when the app is planned."""
    text = ROWS + COUNTS + f"q = {START}\nf = q.awaitTermination\nf()\ncounts.writeStream.format('noop').start()\n"
    app = place.app(text)
    app.build(place.spark, {})
    app.begin()
    app.finish()
    with pytest.raises(ApplicationError, match="starts a query behind the wait for another one"):
        app.check()  # as the driver does, which then fails
    assert "starts a query behind the wait for another one" in capsys.readouterr().err


# Spark's own examples, as its distribution has them, with their arguments; and why one does not work here.
EXAMPLES = {
    "structured_blockchain_admission_control": ([], ""),
    "structured_kafka_wordcount": (["localhost:9092", "subscribe", "words"], "Failed to find data source: kafka"),
    "structured_network_wordcount": (["localhost", "9999"], ""),
    "structured_network_wordcount_session_window": (["localhost", "9999"], ""),
    "structured_network_wordcount_windowed": (["localhost", "9999", "10", "5"], ""),
    "structured_sessionization": (["localhost", "9999"], "Spark will refuse to start it: .*session window"),
}
FOLDER = Path(pyspark.__file__).parent / "examples" / "src" / "main" / "python" / "sql" / "streaming"


def test_all_of_spark_s_examples_are_tried() -> None:
    there = {file.stem for file in FOLDER.glob("*.py")}
    assert there == {*EXAMPLES} or (pyspark.__version__ < "4.2" and there < {*EXAMPLES})


@pytest.mark.parametrize("name", EXAMPLES)
def test_spark_s_own_example_is_an_app_as_it_is(place: Place, name: str) -> None:
    arguments, why_not = EXAMPLES[name]
    if pyspark.__version__ < "4.2" and not (FOLDER / f"{name}.py").exists():
        pytest.skip(f"PySpark {pyspark.__version__} has no such example")
    script = Script(app="example", arguments=tuple(arguments))
    app = ScriptApp(FOLDER / f"{name}.py", script)
    if why_not:
        with pytest.raises(ApplicationError, match=why_not):
            place.plan(app)
        return
    plan = place.plan(app)
    again = place.plan(ScriptApp(FOLDER / f"{name}.py", script))
    assert len(plan.queries) == 1 and compare(plan, again, "itself").problems == []
