"""When a query is idle, by real queries."""

from __future__ import annotations

from bench import Bench, row
from followed_pair import wait_for

from airflow_provider_streamupdate.streaming.engine.queries import RunningQueries
from airflow_provider_streamupdate.streaming.planning.author import Declarations
from airflow_provider_streamupdate.streaming.planning.planner import plan_app


def test_a_query_stays_idle_while_it_looks_for_data_and_until_it_finds_some(bench: Bench, spark) -> None:
    """Eleven queries without input, each of which looks for data most of the time, were hardly ever seen idle together:
    an update waited 52 s for that, and more of them would have been rolled back."""
    names = [f"q{n}" for n in range(4)]
    writers = {name: bench.source().writeStream.format("noop") for name in names}
    checkpoints = {name: bench.registry.checkpoint("d", name) for name in names}
    queries = RunningQueries(spark, writers, checkpoints, plan_app(spark, Declarations("bench"), writers))

    def idle() -> list[bool]:
        return [status.idle for status in queries.progress().values()]

    queries.start()
    try:
        wait_for(lambda: all(idle()), "all to be idle", 60)
        assert [idle() for _ in range(50)] == [[True] * 4] * 50
        bench.write([row("k", 1)])
        wait_for(lambda: not any(idle()), "the row to be found", 60)
        wait_for(lambda: all(idle()), "all to be idle again", 60)
        assert set(queries.committed().values()) == {0}
    finally:
        queries.stop()
    assert idle() == [False] * 4
