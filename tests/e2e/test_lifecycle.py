"""The life of an app through the command line, with real drivers: one scenario, because every driver start costs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from airflow_provider_streamupdate.control.waiting import wait_for
from airflow_provider_streamupdate.core.errors import (
    ApplicationError,
    DriverError,
)
from airflow_provider_streamupdate.core.formats import files_of


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_an_app_is_updated_rolled_back_and_cancelled(ground, write_app) -> None:
    v1, v2 = (str(ground.application(v).file) for v in ("v1", "v2"))
    ground.feed()
    submitted = ground.json("submit", v1, "--deployment", "one", *ground.params)
    assert submitted["deployment"] == "one"
    ground.wait_for_batches(3)

    # A snapshot of the running app, without stopping it.
    ground.cli("save-snapshot", ground.app, "live")
    assert ground.client.snapshot(ground.app, "live").kind == "live"
    assert len(ground.drivers()) == 1

    # A version that does not fit is refused, and nothing is stopped.
    (driver,) = ground.drivers()
    incompatible = write_app('.select("room", ', '.select(F.upper("room").alias("room"), ')
    message = ground.cli("update", str(incompatible), "--deployment", "bad", *ground.params, code=1)
    assert "keys changed: room -> upper(room)" in message
    assert "one keeps running" in message
    assert ground.client.registry.app(ground.app).update("bad").outcome == "refused"
    table = json.loads(ground.cli("check", v2, "--json", *ground.params, *ground.agreed))
    assert table["compatible"] is True
    assert ground.drivers() == [driver]
    done = ground.batch()
    ground.wait_for_batches(done + 2)

    record = ground.json("update", v2, "--deployment", "two", *ground.params, *ground.agreed)
    assert record["outcome"] == "promoted"
    assert 0 < record["pause_seconds"] < 300
    assert len(ground.drivers()) == 1
    ground.settle()
    ground.check_answer("before-two")
    assert ground.cli("verify-snapshot", ground.app, "before-two")

    # Back to version 1 where it was stopped: what it emits again replaces what version 2 had emitted, batch by batch
    # (it may take more files at once, so more have to come until it has replaced them all).
    seen = ground.batch()
    back = ground.json("rollback", ground.app)
    assert back["running"]["deployment"] == "one"
    ground.feed()
    wait_for(lambda: ground.batch() > seen or None, "version 1 to replace version 2's batches", 200)
    ground.settle()
    ground.check_answer(None)

    ground.cli("cancel", ground.app, "--drain")
    assert ground.client.status(ground.app).state == "cancelled"
    assert ground.drivers() == []
    message = ground.cli("save-snapshot", ground.app, "late", code=1)
    assert "is not running" in message

    # All that was left is of a kind that the table of formats knows, and says its version.
    app = ground.root / ground.app
    for path in (str(p.relative_to(app)) for p in app.rglob("*") if p.is_file()):
        kinds = files_of(path)
        assert len(kinds) == 1, (path, kinds)
        if kinds[0].format:
            found = [json.loads(line) for line in _documents(app / path)]
            assert {each["format"] for each in found} == {kinds[0].format.version}, path


def _documents(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines() if path.suffix == ".jsonl" else [path.read_bytes()]


@pytest.mark.timeout(300)
def test_a_driver_that_dies_at_start_shows_its_last_words(ground, write_app) -> None:
    dying = write_app(
        'if __name__ == "__main__":',
        "import sys\n\nif 'run' in sys.argv:\n    raise OSError('no luck today')\nif True:",
    )
    with pytest.raises(DriverError, match="no luck today"):
        ground.client.submit(ground.application(dying), "one", app=ground.app)
    assert ground.drivers() == []


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_file_that_defines_no_app_or_another_app(ground, write_app, tmp_path) -> None:
    empty = tmp_path / "empty.py"
    empty.write_text("print('hello')\n")
    with pytest.raises(ApplicationError, match="defines no StreamingApp"):
        ground.client.plan(ground.application(empty))
    other = write_app('StreamingApp("motion-alarm"', 'StreamingApp("another"')
    with pytest.raises(DriverError, match="defines app another, not motion-alarm"):
        ground.client.submit(ground.application(other), "one", app=ground.app)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_suspend_keeps_the_driver_and_resume_goes_on(ground) -> None:
    ground.feed()
    ground.client.submit(ground.application("v1"), "one", app=ground.app)
    ground.wait_for_batches(2)
    (driver,) = ground.drivers()
    ground.cli("suspend", ground.app)
    at = ground.batch()
    ground.write()
    assert ground.client.status(ground.app).state == "suspended"
    ground.cli("resume", ground.app)
    ground.settle()
    assert ground.drivers() == [driver]
    # Spark commits a batch a moment before the driver's status tells of it.
    wait_for(lambda: ground.batch() > at or None, "the batch after the suspension", 60)
    ground.check_answer(None)
