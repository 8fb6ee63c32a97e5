"""Public scripts, unchanged: twelve are apps, go on from themselves, and are changed as a team would.

They run where STREAMUPDATE_PUBLIC_REPOSITORIES has clones of their repositories (public_scripts.py): their code is not
ours to keep here. Two more are no apps, and told why: one starts its queries one after the other, and one has its
configuration above its folder, which does not go along.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from public_scripts import Public, World, encoded, verdicts, world  # noqa: F401

from airflow_provider_streamupdate.core.errors import ApplicationError
from airflow_provider_streamupdate.core.registry.application import Application, Script

LEARNING: dict[str, Any] = {
    "repository": "LearningJournal/Spark-Streaming-In-Python",
    "commit": "13fdefae019848cc83c93aaaa3ba4e17af09bfae",
    "licence": "MIT",
}
WORKSHOP: dict[str, Any] = {
    "repository": "PacktWorkshops/The-Spark-Workshop",
    "commit": "f5b052b67d3aaf805eb48c9958c0dcfd237cc841",
    "licence": "MIT",
}
# A module that this machine has not: it hands a class its arguments, out of a file.
GIN = "def configurable(kind):\n    return kind\n\n\ndef parse_config_file(path):\n    open(path).close()\n"
TAXI = (
    "[database]\ndatabase=d\npassword=p\nuser=u\nhost=h\n[kafka]\nhost=k\nport=1\ntopic=taxi\n"
    "[email]\nto_email=x@y\nfrom_email=x@y\nfrom_password=p\n"
)
POST = """import json as texts
import os
import uuid


def post(url, json):
    os.makedirs("{folder}/posted", exist_ok=True)
    with open("{folder}/posted/" + uuid.uuid4().hex, "w") as file:
        texts.dump(json, file)
"""

TAXI_QUERIES = (  # its checkpoints' names
    *("full_table_data", "abnormal_duration", "abnormal_fee", "avg_revenue", "trip_count", "trip_count_by_borough"),
)
SCRIPTS = {
    "windows with a watermark": Public(
        **LEARNING,
        script="10-WatermarkDemo/WatermarkDemo.py",
        files=("10-WatermarkDemo/lib",),
        change=('"15 minute"', '"30 minute"'),
        verdict="asked",
    ),
    "outer join of streams": Public(
        **LEARNING,
        script="14-StreamingOuterJoinDemo/StreamingOuterJoinDemo.py",
        files=("14-StreamingOuterJoinDemo/lib",),
        change=("interval 15 minute", "interval 20 minute"),
        verdict="asked",
    ),
    "two queries": Public(
        **LEARNING,
        script="05-MultiQueryDemo/MultiQueryDemo.py",
        files=("05-MultiQueryDemo/lib",),
        change=("TotalAmount * 0.2", "TotalAmount * 0.3"),
    ),
    "words once": Public(
        **WORKSHOP,
        script="Chapter12/structured_streaming/StreamingDeduplication.py",
        change=(".dropDuplicates()", """.where("word <> ''").dropDuplicates()"""),
    ),
    "join of streams, counted": Public(
        **WORKSHOP,
        script="Chapter12/structured_streaming/StreamStreamJoins.py",
        change=("interval 1 hour", "interval 2 hours"),
        verdict="asked",
    ),
    "words, with a configuration": Public(
        repository="SRVivek1/pyspark-streaming-examples",
        commit="2a24f847bbdfa96e1272fd4ccd56bf63c77fcad2",
        licence="Apache-2.0",
        script="kafka_source/aws_emr_ec2_kafka_complete_mode_2.py",
        files=("application.yml",),
        beside={".secrets": "AWS_ACCESS: {ACCESS_KEY: a, SECRET_KEY: b}\n"},
        why_not="FileNotFoundError",  # its configuration lies above its folder
    ),
    "words of a socket": Public(
        repository="PacktPublishing/PySpark-Cookbook",
        commit="35e26fbfc9c8d1497aa2c64c389ea068da642c01",
        licence="MIT",
        script="Chapter07/structured_streaming_word_count.py",
        change=("words.groupBy", """words.where("word <> ''").groupBy"""),
    ),
    "transactions": Public(
        repository="aws-samples/emr-serverless-samples",
        commit="7bedf21e9cbe238c08e87164522a75143ab63ca0",
        licence="MIT-0",
        script="examples/pyspark/streaming/Kinesis_data_stream/transactions.py",
        arguments=("transactions", "{folder}/checkpoint"),
        change=("count >= 5", "count >= 3"),
    ),
    "hashtags": Public(
        repository="gyan42/spark-streaming-playground",
        commit="147ef9cbc31b7aed242663dee36143ebf0e8043f",
        licence="Apache-2.0",
        script="src/ssp/spark/streaming/analytics/trending_hashtags_main.py",
        files=(
            "config/default_ssp_config.gin",
            "src/ssp/__init__.py",
            "src/ssp/logger",
            "src/ssp/spark/__init__.py",
            "src/ssp/spark/streaming/__init__.py",
            "src/ssp/spark/streaming/common",
            "src/ssp/spark/streaming/analytics/trending_hashtags.py",
        ),
        beside={"src/ssp/spark/streaming/analytics/__init__.py": "", "src/gin.py": GIN},
        path="src",
        seen_batch={"query-1": "replaces"},
        changed="src/ssp/spark/streaming/analytics/trending_hashtags.py",
        change=('"#" in word', 'word.startswith("#")'),
        verdict="asked",
    ),
    "taxis": Public(
        repository="lnynhi02/Stream-Processing-Pipeline",
        commit="16a02706f59df1cfd02b7244024c33babd6a3d89",
        licence="Apache-2.0",
        script="src/spark_streaming.py",
        files=("src/utils.py", "data/taxi_zone_lookup.csv"),
        beside={"config/config.ini": TAXI},
        seen_batch=dict.fromkeys(TAXI_QUERIES, "adds"),
        change=("> 120", "> 90"),
    ),
    "coins": Public(
        repository="vietdoo/realtime-trending-coin-volumes-binance",
        commit="d7463ccffc6cd90f593d064eb79bc2bf6cac105c",
        licence="Apache-2.0",
        script="spark/streaming.py",
        beside={"spark/config.py": "FLASK_PORT = 80\n", "spark/requests.py": POST},
        change=('"total_volume"', '"volume"'),
    ),
    "attention": Public(
        repository="cssaritama/KAIROSKOP-A-Collective-Attention-Observatory",
        commit="696a6993b5240d2eaa6a5408619b313b1e0796fc",
        licence="MIT",
        script="spark/streaming_job.py",
        files=("spark/enrichment.py", "spark/schemas.py"),
        replaced=(("gs://{GCS_BUCKET}", "{folder}/gcs"),),
        changed="spark/enrichment.py",
        change=("0.75,", "0.5,"),
    ),
    "words, with arguments": Public(
        repository="oracle-samples/oracle-dataflow-samples",
        commit="1c4a71860236ed46f43b069d71607ee0f267b456",
        licence="UPL-1.0",
        script="python/structured_streaming_kafka_word_count/StructuredKafkaWordCount.py",
        arguments=("--bootstrap-server", "localhost", "--checkpoint-location", "{folder}/checkpoint",
                   "--output-location", "{folder}/out/words", "--raw-stream", "lines"),
        change=(".format('csv')", ".format('json')"),
        verdict="refused",
    ),
    "one query after the other": Public(
        repository="delta-io/delta",
        commit="bb1057f4367f555b01e299fd1690d85aafc0ac4c",
        licence="Apache-2.0",
        script="examples/python/streaming.py",
        why_not="behind the wait",
    ),
}  # fmt: skip


def row_of(name: str, there: World) -> tuple[str, ...]:
    """Return a script's row of the table: lines to change, the verdict of itself and of its change, and why."""
    public = SCRIPTS[name]
    lines = str(len(public.replaced))
    try:
        Application(file=str(there.file), script=Script(app="public")).check()
    except ApplicationError as error:
        return name, lines, "no app", "", str(error).rpartition("/")[2]
    itself, change, report = verdicts(there)
    if report is None:
        return name, lines, "no app", "", itself
    return name, lines, itself, change, "; ".join(report.problems)


@pytest.mark.slow
@pytest.mark.parametrize("name", SCRIPTS)
def test_a_public_script_is_an_app_as_it_is(
    world: Callable[..., World],  # noqa: F811
    name: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    public = SCRIPTS[name]
    row = row_of(name, world(public))
    with capsys.disabled():
        print("\n| " + " | ".join(row)[:400] + " |")
    if public.why_not:
        assert row[2] == "no app" and public.why_not in row[4]
    else:
        assert row[2:4] == ("carried", public.verdict)


def at(minute: int) -> str:
    return f"2026-01-01 {10 + minute // 60:02d}:{minute % 60:02d}:00"


def window(minute: int, size: int) -> str:
    return at(minute - minute % size)


class Update:
    """A script over some files, itself over more, its change over more still: one row of `rows` is a file.

    agree: to what the change asks
    """

    def __init__(
        self, there: World, write: Callable[[Any], None], files: list[Any], agree: tuple[str, ...] = ()
    ) -> None:
        third = len(files) // 3
        snapshot = None
        for n, part in enumerate((files[:third], files[third : 2 * third], files[2 * third :])):
            for file in part:
                write(file)
            if n == 2:
                there.make_change()
            snapshot = there.run(snapshot, agree if n == 2 else ())
            self.old = files[: 2 * third]
            self.new = files[2 * third :]


@pytest.mark.slow
def test_windows_with_a_watermark_run(world: Callable[..., World]) -> None:  # noqa: F811
    there = world(SCRIPTS["windows with a watermark"])
    minutes = [*range(0, 52, 2), 5]  # the last one adds to a window that was two
    trades = [(minute, "BUY" if minute % 3 else "SELL", minute + 1) for minute in minutes]

    def write(some: list[tuple[int, str, int]]) -> None:
        there.say("trades", [{"CreatedTime": at(m), "Type": t, "Amount": a, "BrokerCode": "b"} for m, t, a in some])

    Update(there, write, [trades[n : n + 3] for n in range(0, 27, 3)], ("query-1/aggregate-1",))
    expected: Counter[tuple[str, str]] = Counter()
    for minute, kind, amount in trades:
        expected[window(minute, 30), kind] += amount
    last = {
        str(row["start"]): (row["TotalBuy"], row["TotalSell"])
        for row in there.rows()
        if str(row["end"] - row["start"]) == "0:30:00"
    }
    assert last == {start: (expected[start, "BUY"], expected[start, "SELL"]) for start in (at(0), at(30))}


@pytest.mark.slow
def test_an_outer_join_of_streams_runs(world: Callable[..., World]) -> None:  # noqa: F811
    there = world(SCRIPTS["outer join of streams"])

    def write(minute: int) -> None:  # each third is never clicked; clicks come in the next file
        there.say("impressions", [{"ImpressionID": str(minute), "CreatedTime": at(minute), "Campaigner": "c"}])
        before = minute - 10
        there.say("clicks", [{"ImpressionID": str(before if before % 3 else -1), "CreatedTime": at(minute)}])

    minutes = [*range(0, 110, 10), 400]
    agree = ("query-1/join-1:same=a longer range, for clicks from now on",)
    Update(there, write, minutes, agree)
    rows = {(row["ImpressionID"], row["ClickID"]) for row in there.rows()}
    clicked = {str(m) for m in minutes[:-2] if m % 3}
    assert rows == {(m, m) for m in clicked} | {(str(m), None) for m in minutes[:-1] if str(m) not in clicked}


@pytest.mark.slow
def test_two_queries_run(world: Callable[..., World]) -> None:  # noqa: F811
    there = world(SCRIPTS["two queries"])

    def write(number: int) -> None:
        items = [{"ItemCode": f"{number}-{n}", "ItemPrice": 1.5, "ItemQty": n} for n in range(number % 3)]
        there.say(
            "invoices", [{"InvoiceNumber": str(number), "TotalAmount": 100.0 * number, "InvoiceLineItems": items}]
        )

    done = Update(there, write, list(range(9)))
    sent = {row["key"]: json.loads(row["value"]) for row in files_of(there, "out/kafka")}
    points = {n: 20.0 * n for n in done.old} | {n: 30.0 * n for n in done.new}
    assert {int(n): round(value["EarnedLoyaltyPoints"], 6) for n, value in sent.items()} == points
    lines = sorted(row["ItemCode"] for row in files_of(there, "repository/output"))
    assert lines == sorted(f"{number}-{n}" for number in range(9) for n in range(number % 3))


def files_of(there: World, folder: str) -> list[dict[str, Any]]:
    return [row.asDict() for row in there.spark.read.json(str(there.folder / folder)).collect()]


@pytest.mark.slow
def test_words_once_run(world: Callable[..., World]) -> None:  # noqa: F811
    there = world(SCRIPTS["words once"])
    lines = ["a b b", "c  a", "a d", "e", "b f", "a", "g  a", "h b", "i"]
    Update(there, lambda line: there.write("socket", [{"value": line}]), lines)
    words = {word for n, line in enumerate(lines) for word in line.split(" ")}  # the empty one came before the change
    assert {(row["word"], row["count"]) for row in there.last()} == {(word, 1) for word in words}


@pytest.mark.slow
def test_words_of_a_socket_run(world: Callable[..., World]) -> None:  # noqa: F811
    there = world(SCRIPTS["words of a socket"])
    lines = ["a b b", "c  a", "a d", "e", "b f", "a", "g  a", "h b", "i"]
    done = Update(there, lambda line: there.write("socket", [{"value": line}]), lines)
    counts = Counter(word for line in done.old for word in line.split(" "))
    counts += Counter(word for line in done.new for word in line.split(" ") if word)
    assert {row["word"]: row["count"] for row in there.last()} == dict(counts)


@pytest.mark.slow
def test_transactions_run(world: Callable[..., World]) -> None:  # noqa: F811
    there = world(SCRIPTS["transactions"])

    def write(file: list[tuple[str, int]]) -> None:
        known = {"streamName": "transactions", "partitionKey": "p", "sequenceNumber": "1"}
        values = [{"transactionId": "t", "amount": 1.0, "transactionTime": at(m), "cardHolderId": c} for c, m in file]
        there.write("transactions", [{**known, "data": encoded(value)} for value in values])

    files = [[("x", 0), ("x", 1), ("y", 0)]] * 2 + [[("x", 0), ("z", 2)]] * 2 + [[("y", 1), ("z", 3), ("w", 4)]] * 2
    Update(there, write, files)
    last = {(row["cardHolderId"], str(row["start"])): row["count"] for row in there.rows()}
    # x had its fifth before the change; y, of both versions, and z have four; w has two
    assert last == {("x", at(0)): 6, ("y", at(0)): 4, ("z", at(2)): 4}


@pytest.mark.slow
def test_hashtags_run(world: Callable[..., World]) -> None:  # noqa: F811
    there = world(SCRIPTS["hashtags"])
    texts = ["#a b", "c#d", "no", "#a #e", "x#y", "#e", "f#g", "#a", "h"]
    agree = ("query-1/aggregate-1:same=tags from now on", "query-1:python.imports")
    done = Update(there, lambda text: there.say("mix_tweets_topic", [{"id_str": "1", "text": text}]), texts, agree)

    def tags(text: str, is_tag: Callable[[str], bool]) -> list[str]:
        return [word for word in text.split(" ") if is_tag(word)] or ["no tags"]

    counts = Counter(tag for text in done.old for tag in tags(text, lambda word: "#" in word))
    counts += Counter(tag for text in done.new for tag in tags(text, lambda word: word.startswith("#")))
    assert {row["hashtag"]: row["count"] for row in there.tables["trending_hashtags"]} == dict(counts)


@pytest.mark.slow
def test_taxis_run(world: Callable[..., World], monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    there = world(SCRIPTS["taxis"])
    monkeypatch.setattr("smtplib.SMTP", Mail)

    def write(number: int) -> None:
        ends = {"tpep_pickup_datetime": at(20 * number), "tpep_dropoff_datetime": at(20 * number + 25 * (number % 5))}
        money = dict.fromkeys(("extra", "mta_tax", "tip_amount", "tolls_amount", "improvement_surcharge"), "1")
        fare = {"fare_amount": "10", "Airport_fee": "0", "total_amount": "15", "payment_type": str(1 + number % 2)}
        there.say("taxi", [{"VendorID": "1", "PULocationID": str(2 + number % 2), **ends, **money, **fare}])

    done = Update(there, write, [*range(15), 35])
    long = [n for n in (*done.old, *done.new) if 25 * (n % 5) < 1 or 25 * (n % 5) > (120 if n in done.old else 90)]
    assert len(there.tables["abnormal_duration"]) == len(long)
    assert len(there.tables["yellow_tripdata"]) == 16 and there.tables["abnormal_fee"] == []
    trips = Counter(window(20 * n, 60)[11:] for n in range(15))
    assert {row["start_time"]: row["total_trip"] for row in there.tables["trip_count_per_hour"]} == dict(trips)
    boroughs = Counter((window(20 * n, 60)[11:], ("Queens", "Bronx")[n % 2]) for n in range(15))
    found = {(row["start_time"], row["borough"]): row["total_trip"] for row in there.tables["trip_count_by_borough"]}
    assert found == dict(boroughs)
    assert {row["total_amount"] for row in there.tables["avg_revenue_per_hour"]} == {15.0}


class Mail:
    def __init__(self, *where: Any) -> None:
        """Send nothing."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *what: None


@pytest.mark.slow
def test_coins_run(world: Callable[..., World]) -> None:  # noqa: F811
    there = world(SCRIPTS["coins"])
    soon = int((datetime.now(UTC) + timedelta(hours=1)).timestamp())
    coins = [("btc", 1.0), ("eth", 2.0), ("btc", 4.0), ("ada", 8.0), ("eth", 16.0), ("btc", 32.0)]

    def write(coin: tuple[str, float]) -> None:
        there.say("coin", [{"name": coin[0], "timestart": soon, "volume": coin[1]}])

    Update(there, write, coins)
    posted = [json.loads(file.read_text()) for file in (there.folder / "posted").iterdir()]
    sums: Counter[str] = Counter()
    expected = []
    for n, (name, volume) in enumerate(coins):
        sums[name] += volume
        expected += [{"name": k, "volume" if n >= 4 else "total_volume": v} for k, v in sums.items()]
    assert sorted(map(str, posted)) == sorted(map(str, expected))


@pytest.mark.slow
def test_attention_runs(world: Callable[..., World]) -> None:  # noqa: F811
    there = world(SCRIPTS["attention"])

    def write(number: int) -> None:
        known = {"event_timestamp": "2026-01-01T10:00:00", "topic_category": "science", "medium_type": "x"}
        event = {**known, "event_id": str(number), "source": "gdelt", "signal_strength": 0.4}
        there.say("wiki_pageviews,wiki_changes,gdelt_events,arxiv_papers", [event])

    done = Update(there, write, list(range(6)))
    strength = {str(n): 0.3 for n in done.old} | {str(n): 0.2 for n in done.new}
    sinks = there.spark.read.parquet(str(there.folder / "gcs/attention_events")).collect()
    assert {row["event_id"]: round(row["signal_strength"], 6) for row in sinks} == strength
    sent = {row["event_id"]: round(row["signal_strength"], 6) for row in files_of(there, "out/bigquery")}
    assert sent == strength
