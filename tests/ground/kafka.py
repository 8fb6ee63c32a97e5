"""Kafka: a broker on this machine, and Spark's connector for sources and sinks. Its sink may write a message again, so
that what counts is what an idempotent consumer makes of its topics."""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition

from airflow_provider_streamupdate.control.waiting import wait_for
from airflow_provider_streamupdate.core.checkpoint.checkpoint import Checkpoint

from .daemon import LOGGING, daemon, free_port
from .records import PARTS, Record, Records, jars

QUERIES = ("once", "totals")
TOPICS = {"a": 3, "b": 2, "once": 2, "totals": 2}  # and their partitions
FIRST_OF_B = 1_000_000  # its records have ids of their own
AT_ONCE = 30  # records that version 1 reads in a batch
BEHIND = 6  # so many batches of them are there before it starts
PATIENCE = 900.0  # seconds, for two drivers that start beside a broker and a load
CLUSTER = "MkU3OEVBNTcwNTJENDM2Qg"  # any id
BROKER = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{broker},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{broker}
controller.listener.names=CONTROLLER
broker.session.timeout.ms=60000
auto.create.topics.enable=false
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
log.dirs={data}
"""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a broker (KRaft, one node) with the topics."""
    folder = tmp_path_factory.mktemp("broker")
    port, settings, logging = free_port(), folder / "server.properties", folder / "log4j.properties"
    settings.write_text(BROKER.format(broker=port, controller=free_port(), data=folder / "data"))
    logging.write_text(LOGGING)
    home = os.environ.get("JAVA_HOME")  # as scripts/env.sh found it
    program = f"{home}/bin/java" if home else "java"
    java = [program, "-Xmx512m", f"-Dlog4j.configuration={logging.as_uri()}", "-cp", f"{PARTS / 'kafka' / 'broker'}/*"]
    tool = [*java, "kafka.tools.StorageTool", "format", "--cluster-id", CLUSTER, "--config", str(settings)]
    with (folder / "format.log").open("wb") as log:
        subprocess.run(tool, check=True, stdout=log)
    with daemon([*java, "kafka.Kafka", str(settings)], folder / "broker.log", "Kafka Server started"):
        address = f"127.0.0.1:{port}"
        admin = KafkaAdminClient(bootstrap_servers=address)
        created = {name: {"num_partitions": n, "replication_factor": 1} for name, n in TOPICS.items()}
        admin.create_topics(created, wait_for_metadata=True)
        admin.close()
        yield address


class OnKafka(Records):
    """Topics that records come in by, and that they come out by."""

    source_file = Path(__file__).with_name("kafka_app.py")

    def __init__(self, folder: Path, broker: str) -> None:
        super().__init__(folder, QUERIES, {"spark.jars": jars("kafka")}, broker=broker, at_once=str(AT_ONCE))
        self.broker = broker
        self.producer = KafkaProducer(bootstrap_servers=broker)  # idempotent, and all replicas acknowledge
        self.sent: dict[str, list[Record]] = {"a": [], "b": []}
        self.topics = ["a"]  # those that the version reads

    def send(self, topic: str, count: int) -> None:
        """New records, and with them some that were there before: the newest and the very first."""
        sent = self.sent[topic]
        known = list(dict.fromkeys(sent))
        first = FIRST_OF_B * (topic == "b") + len(known)
        rows = [(n, f"k{n % 9}", n * 7) for n in range(first, first + count)] + known[:2] + known[-2:]
        for future in [self.producer.send(topic, line(row), key=row[1].encode()) for row in rows]:
            future.get(60)
        sent += rows

    def write(self) -> None:
        """The load."""
        for topic in self.sent:
            self.send(topic, 3)
        self.written += 1

    def wait_for_all(self) -> None:
        deployment = self.client.status(self.app).spec.deployment
        sent = {topic: len(self.sent[topic]) for topic in self.topics}
        for query in self.queries:
            wait_for(lambda q=query: self.read(deployment, q) == sent or None, f"the last record in {query}", PATIENCE)

    def read(self, deployment: str, query: str, batch: int | None = None) -> dict[str, int]:
        return read(Checkpoint(self.client.registry.app(self.app).checkpoint(deployment, query)), batch)

    def lag(self) -> float | None:
        """What the app's status tells of query `once`, when that is behind."""
        status = self.client.status(self.app).status
        query = status.queries.get("once") if status else None
        return query.lag or None if query else None

    def caught_up(self) -> bool | None:
        """What the app's status tells of all queries."""
        status = self.client.status(self.app).status
        return (status is not None and [q.lag for q in status.queries.values()] == [0, 0]) or None

    def messages(self, topic: str) -> list[tuple[str, dict[str, Any]]]:
        return [(message.key.decode(), json.loads(message.value)) for message in messages(self.broker, topic)]

    def check_once(self) -> None:
        """For the consumer a message with a key that it has seen, the place the record was read at, is the same one."""
        messages = self.messages("once")
        taken: dict[str, dict[str, Any]] = {}
        for key, value in messages:
            assert taken.setdefault(key, value) == value
        again = len(messages) - len(taken)
        print(f"\nonce: {again} messages came again")
        assert again
        self.records = [*dict.fromkeys(self.sent["a"]), *dict.fromkeys(self.sent["b"])]
        self.count_up("once", taken.values())
        versions = {topic: {v["version"] for key, v in taken.items() if key.startswith(topic)} for topic in self.sent}
        assert versions == {"a": {1, 2}, "b": {2}}

    def check_totals(self) -> None:
        """For the consumer a key's last message is what holds."""
        last = dict(self.messages("totals"))
        sent = [record for topic in self.topics for record in self.sent[topic]]
        expected = Counter(k for _, k, _ in sent)
        found = Counter({k: value["n"] for k, value in last.items()})
        lost, doubled = (expected - found).total(), (found - expected).total()
        print(f"\ntotals: {found.total()} records counted, {lost} lost, {doubled} doubled")
        assert (lost, doubled) == (0, 0), (expected, found)
        assert {k: value["s"] for k, value in last.items()} == {
            k: sum(a for _, of, a in sent if of == k) for k in expected
        }


def read(checkpoint: Checkpoint, batch: int | None = None) -> dict[str, int]:
    """How many messages of each topic a query has read up to a batch (default: the last that is committed)."""
    if batch is None:
        batch = checkpoint.committed_batch()
    offsets = checkpoint.offsets(batch).sources if batch is not None else ()
    topics = [json.loads(offset) for offset in offsets if offset != "-"]
    return {topic: sum(partitions.values()) for each in topics for topic, partitions in each.items()}


def messages(broker: str, topic: str) -> list[Any]:
    """All of a topic, by partition in their order."""
    partitions = [TopicPartition(topic, number) for number in range(TOPICS[topic])]
    consumer = KafkaConsumer(bootstrap_servers=broker, group_id=None, auto_offset_reset="earliest")
    consumer.assign(partitions)
    ends = consumer.end_offsets(partitions)
    found: list[Any] = []

    def all_read() -> bool | None:
        found.extend(message for batch in consumer.poll(1000).values() for message in batch)
        return all(consumer.position(partition) >= ends[partition] for partition in partitions) or None

    wait_for(all_read, f"the end of topic {topic}", 100)
    consumer.close()
    return found


def line(record: Record) -> bytes:
    return json.dumps(dict(zip(("id", "k", "a"), record, strict=True))).encode()


@pytest.fixture
def ground(broker: str, tmp_path: Path) -> Iterator[OnKafka]:
    made = OnKafka(tmp_path, broker)
    yield made
    made.end()
    made.producer.close()


@pytest.mark.timeout(2400)
def test_updates_that_add_a_topic_or_repeat_a_batch_lose_and_double_nothing(ground: OnKafka) -> None:
    begin_behind(ground)
    add_a_topic_under_load(ground)
    ground.settle()
    die_after_a_batch(ground)
    ground.settle()
    ground.check_once()
    ground.check_totals()
    wait_for(ground.caught_up, "a lag of nothing", PATIENCE)


def begin_behind(ground: OnKafka) -> None:
    """Version 1 starts with much to read, and its status tells how much that is."""
    ground.send("a", BEHIND * AT_ONCE)
    ground.client.submit(ground.of_version(1), "one", app=ground.app, timeout=PATIENCE)
    lag = wait_for(ground.lag, "a lag", PATIENCE)
    checkpoint = Checkpoint(ground.client.registry.app(ground.app).checkpoint("one", "once"))
    batches = range((checkpoint.logged_batch() or 0) + 1)
    print(f"\nlag of version 1: {lag:.0f} records")
    assert lag in [len(ground.sent["a"]) - ground.read("one", "once", batch)["a"] for batch in batches]


def add_a_topic_under_load(ground: OnKafka) -> None:
    """Version 2, which reads more at once, takes over while records go on coming."""
    ground.send("b", 2 * AT_ONCE)
    ground.feed()
    ground.given["at_once"] = str(100 * AT_ONCE)
    ground.update(submit_timeout=PATIENCE)
    ground.topics.append("b")


def die_after_a_batch(ground: OnKafka) -> None:
    """The driver dies when it is to end with a snapshot. Its last batch is in the sink and in no commit log: the next
    deployment sends it again."""
    app, client = ground.app, ground.client
    for process in ground.drivers("two"):
        process.suspend()
    client.begin_snapshot(app, "before-three", cancel=True)
    client.drivers(app).kill("two")
    last = {}
    for query in QUERIES:  # what a driver writes next after its sink, and would not have written yet
        folder = client.registry.app(app).checkpoint("two", query)
        last[query] = Checkpoint(folder).committed_batch()
        folder.remove(f"commits/{last[query]}")
    ground.feed()
    snapshot = wait_for(lambda: client.poll_snapshot(app, "before-three", cancel=True), "the snapshot", PATIENCE)
    assert {name: query.in_flight for name, query in snapshot.queries.items()} == last
    client.submit(ground.of_version(2), "three", snapshot="before-three", app=app, timeout=PATIENCE)
