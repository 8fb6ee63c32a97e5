"""What drivers wrote down of their batches, against a plain list of those batches."""

from __future__ import annotations

import contextlib
import json
import random
import threading
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path

import attrs
import pytest

from airflow_provider_streamupdate.control.waiting import wait_for
from airflow_provider_streamupdate.core.difference.figures import KEPT, BatchFigures
from airflow_provider_streamupdate.core.errors import CorruptError, NewerFormatError, StorageError
from airflow_provider_streamupdate.core.history import history
from airflow_provider_streamupdate.core.history.history import (
    MINUTES,
    MONTHS,
    Minutes,
    Month,
    by_hour,
    driver_key,
    hour_of,
    minute_files,
    minute_of,
    month_files,
    of_driver,
    read_minutes,
    read_month,
    sum_up,
    with_hours,
    write_minutes,
)
from airflow_provider_streamupdate.core.history.span import Span, merged
from airflow_provider_streamupdate.core.registry.deployment import QueryStatus
from airflow_provider_streamupdate.core.storage import Folder
from airflow_provider_streamupdate.streaming.agent import recording
from airflow_provider_streamupdate.streaming.agent.recording import Recorder

BEGIN = datetime(2026, 11, 27, 10, 58, 3, tzinfo=timezone.utc)


class Clock:
    def __init__(self, now: datetime = BEGIN) -> None:
        self.now = now

    def __call__(self) -> datetime:
        return self.now

    def pass_(self, **time: float) -> None:
        self.now += timedelta(**time)


@attrs.define
class Query:
    """A query whose batches are known."""

    at: Clock
    batch: int = -1
    first: int | None = None
    ran: list[tuple[datetime, BatchFigures]] = attrs.field(factory=list)

    def run(self, rows: int, seconds: float, out: int | None = None) -> None:
        self.batch += 1
        self.first = self.batch if self.first is None else self.first
        self.ran.append((self.at.now, BatchFigures(batch=self.batch, rows_in=rows, rows_out=out, seconds=seconds)))

    def status(self, **more: object) -> QueryStatus:
        figures = tuple(f for _, f in self.ran[-KEPT:])
        made = QueryStatus(batch=self.batch, first_batch=self.first, figures=figures)
        return attrs.evolve(made, **more)


@pytest.fixture
def app(tmp_path: Path) -> Folder:
    return Folder.scratch(tmp_path / "app")


class Driver:
    """A driver with one query, whose batches are known."""

    def __init__(
        self,
        app: Folder,
        at: Clock | datetime = BEGIN,
        epoch: int = 1,
        deployment: str = "v1",
        query: Query | None = None,
    ) -> None:
        self.app = app
        self.at = at if isinstance(at, Clock) else Clock(at)
        self.query = query or Query(self.at)
        self.recorder = Recorder(app, deployment, epoch, self.at)

    def run(self, batches: int = 1, rows: int = 1, seconds: float = 0.1) -> None:
        for _ in range(batches):
            self.query.run(rows, seconds)

    def note(self, **more: object) -> None:
        self.recorder.note({"q": self.query.status(**more)})

    def end(self) -> list[Span]:
        self.recorder.write(over=True)
        return spans(self.app)


def spans(app: Folder, query: str = "q") -> list[Span]:
    """All that is there, by minutes."""
    found = [read_minutes(app, path) for _, path in minute_files(app)]
    return [span for minutes in found if minutes for span in minutes.spans.get(query, ())]


def only_month(app: Folder) -> Month:
    [(_, path)] = month_files(app)
    month = read_month(app, path)
    return month


def test_every_batch_is_counted_once_in_its_minute(app: Folder) -> None:
    """Two hours of batches at random moments, looked at now and then, written whenever a minute has ended."""
    rng, driver = random.Random(7), Driver(app)
    at, mine, query = driver.at, driver.recorder, driver.query
    while at.now < BEGIN + timedelta(hours=2):
        for _ in range(rng.randrange(4)):
            query.run(rng.randrange(100), rng.random(), rng.choice([None, *range(0, 50)]))
        mine.note({"q": query.status()})
        at.pass_(seconds=rng.random() * 8)
        if rng.random() < 0.5:
            mine.write()
    mine.write(over=True)
    expected: dict[str, list[BatchFigures]] = {}
    for moment, figures in query.ran:
        expected.setdefault(minute_of(moment).isoformat(), []).append(figures)
    found = {span.at: span for span in spans(app) if span.batches}
    assert list(found) == list(expected)
    for minute, batches in expected.items():
        span, out = found[minute], [b.rows_out for b in batches if b.rows_out is not None]
        assert (span.batches, span.rows_in) == (len(batches), sum(b.rows_in or 0 for b in batches))
        assert span.rows_out == (sum(out) if len(out) == len(batches) else None) and span.timed == len(batches)
        assert span.seconds == pytest.approx(sum(b.seconds for b in batches))
        assert span.longest == max(b.seconds for b in batches)
    assert len({path for _, path in minute_files(app)}) == 3  # hours
    hours = [read_month(app, path) for _, path in month_files(app)]
    summed = [span for month in hours if month for span in month.spans[driver_key("v1", 1)]["q"]]
    ended = [figures for moment, figures in query.ran if hour_of(moment) < hour_of(at.now)]
    assert sum(span.batches for span in summed) == len(ended)
    assert sum(span.rows_in for span in summed) == sum(f.rows_in or 0 for f in ended)


def test_the_batches_of_a_driver_before_are_not_this_ones(app: Folder) -> None:
    driver = Driver(app)
    driver.run(5, rows=10, seconds=1.0)
    driver.query.first = None  # all of them are another driver's
    driver.note(first_batch=None)
    driver.query.first = 5
    driver.run(rows=3, seconds=0.5)
    driver.note()
    [span] = driver.end()
    assert (span.batches, span.rows_in, span.seconds) == (1, 3, 0.5)


def test_more_batches_than_are_kept_between_two_looks_are_still_counted(app: Folder) -> None:
    """Their rows are known of the last ones only."""
    driver = Driver(app)
    driver.run(KEPT + 20)
    driver.note()
    [span] = driver.end()
    assert (span.batches, span.timed, span.rows_in) == (KEPT + 20, KEPT, KEPT)


def test_ids_that_others_used_are_no_batches(app: Folder) -> None:
    driver = Driver(app)
    driver.run(11)
    driver.note()
    driver.recorder.skip({"q": 60})
    driver.query.batch = 60
    driver.run()
    driver.note()
    [span] = driver.end()
    assert (span.batches, span.timed) == (12, 12)


def test_rows_out_are_told_when_they_are_known_of_every_batch(app: Folder) -> None:
    driver = Driver(app)
    for minute in ((3, 4), (3, None), (None, 4), ()):
        for out in minute:
            driver.query.run(1, 0.1, out)
            driver.note()
        driver.note()
        driver.at.pass_(seconds=60)
    assert [span.rows_out for span in driver.end()] == [7, None, None, None]


def test_levels_are_those_at_the_end_of_the_minute(app: Folder) -> None:
    driver = Driver(app)
    for lag, rows in ((5.0, 1), (9.0, 2), (2.0, 3)):
        driver.run()
        watermark = (driver.at.now - timedelta(seconds=40)).isoformat()
        driver.note(lag=lag, state_rows={"s": rows}, state_bytes=rows * 10, watermark=watermark)
    [span] = driver.end()
    assert (span.lag, span.lag_most, span.state_rows, span.state_bytes) == (2.0, 9.0, {"s": 3}, 30)
    assert span.watermark_age == 40.0


@pytest.mark.parametrize("watermark", [None, "1970-01-01T00:00:00.000Z", "no time"])
def test_a_query_without_a_watermark_has_no_age_of_it(app: Folder, watermark: str | None) -> None:
    driver = Driver(app)
    driver.note(watermark=watermark)
    assert [span.watermark_age for span in driver.end()] == [None]


def hooked(folder: Folder, before: Callable[[str], object]) -> Folder:
    """The folder; `before` is told the name of each call."""

    class Hooked(Folder):
        def read(self, relative: str, first: int | None = None) -> bytes | None:
            before("read")
            return super().read(relative, first)

        def write(self, relative: str, data: bytes, lasting: bool = True) -> None:
            before("write")
            super().write(relative, data, lasting)

        def remove(self, relative: str) -> None:
            before("remove")
            super().remove(relative)

    return Hooked(folder.backend, folder.base)


def test_what_could_not_be_written_is_written_with_the_next_minute(app: Folder) -> None:
    failing = ["write"]

    def fails(call: str) -> None:
        if call in failing:
            raise StorageError("the storage does not answer")

    driver = Driver(hooked(app, fails))
    for _ in range(3):
        driver.run(rows=2)
        driver.note()
        driver.at.pass_(seconds=60)  # into the next hour
        with pytest.raises(StorageError):
            driver.recorder.write()
    failing.clear()
    driver.recorder.write()
    assert sum(span.rows_in for span in spans(app)) == 6
    assert len(minute_files(app)) == 2


def hour(at: datetime, rows: int, epoch: int = 1) -> Minutes:
    made = tuple(Span(at=(at + timedelta(minutes=m)).isoformat(), batches=1, rows_in=rows) for m in range(60))
    return Minutes(deployment="v1", epoch=epoch, spans={"q": made})


def hours(app: Folder) -> Iterator[Span]:
    for _, path in month_files(app):
        month = read_month(app, path)
        for queries in month.spans.values():
            yield from queries["q"]


def test_sums_are_the_same_however_often_and_in_whatever_order() -> None:
    at = datetime(2026, 11, 27, tzinfo=timezone.utc)
    ended = [hour(at + timedelta(hours=h), h, epoch) for h in range(5) for epoch in (1, 2)]
    whole = with_hours(Month(), ended)
    assert whole.spans["1-v1"]["q"][3].rows_in == 180
    rng = random.Random(3)
    for _ in range(20):
        mixed = ended + rng.sample(ended, 4)
        rng.shuffle(mixed)
        month = Month()
        while mixed:
            part, mixed = (
                mixed[: rng.randrange(1, 4)],
                mixed[rng.randrange(1, 4) :] if rng.random() < 0.3 else mixed[1:],
            )
            month = with_hours(month, part)
        month = with_hours(month, ended)
        assert month == whole
    # merged spans
    with pytest.raises(ValueError, match="no spans"):
        merged("2026-11-27T00:00:00+00:00", [])
    [one] = by_hour(hour(BEGIN.replace(minute=0, second=0), 2).spans["q"])
    assert (one.at, one.batches, one.rows_in, one.rows_out) == ("2026-11-27T10:00:00+00:00", 60, 120, None)


def test_what_is_damaged_is_given_up_and_what_is_newer_is_left(app: Folder) -> None:
    at = datetime(2026, 11, 27, tzinfo=timezone.utc)
    for number in range(3):
        write_minutes(app, at + timedelta(hours=number), hour(at + timedelta(hours=number), 1))
    app.write(f"{MINUTES}/20261127T01-1-v1.json", b"{")
    app.write(f"{MONTHS}/202611.json", b"nothing")
    sum_up(app, at + timedelta(hours=5))
    assert [span.at[11:13] for span in hours(app)] == ["00", "02"]
    newer = json.dumps({"format": 99, "format_since": "9.9"}).encode()
    app.write(f"{MONTHS}/202611.json", newer)
    sum_up(app, at + timedelta(hours=5))
    assert app.read(f"{MONTHS}/202611.json") == newer
    with pytest.raises(NewerFormatError):
        read_month(app, f"{MONTHS}/202611.json")


STRANGE = ["notes.txt", "20269927T01-1-v1.json", "-1-v1.json", "x", "20260101T01-1-v1.json~", "202601.json.bak"]
STRANGE += ["20260101T1-1-v1.json", "2026.json", "20260101T01.json", "202601-copy.json", "202601 (copy).json"]


@pytest.mark.parametrize("name", STRANGE)
def test_files_of_others_are_left_alone(app: Folder, name: str) -> None:
    app.write(f"{MINUTES}/{name}", b"mine")
    app.write(f"{MONTHS}/{name}", b"mine")
    assert (minute_files(app), month_files(app)) == ([], [])
    sum_up(app, BEGIN)
    assert app.read(f"{MINUTES}/{name}") == app.read(f"{MONTHS}/{name}") == b"mine"


@pytest.mark.parametrize("name", ["20261127T00-1-v1 (copy).json", "20261127T00-2-v1.json", "20261127T00-v1.json"])
def test_a_copy_is_not_counted(app: Folder, name: str) -> None:
    at = datetime(2026, 11, 27, tzinfo=timezone.utc)
    write_minutes(app, at, hour(at, 1))
    [(_, path)] = minute_files(app)
    app.write(f"{MINUTES}/{name}", app.read(path) or b"")
    with pytest.raises(CorruptError, match="driver 1-v1; remove the file"):
        read_minutes(app, f"{MINUTES}/{name}")
    sum_up(app, at + timedelta(hours=30))
    assert [span.rows_in for span in hours(app)] == [60]


@pytest.mark.parametrize(
    ("entry", "left"),
    [(f"{MINUTES}/20261101T01-1-v1.json", ["01T01", "01T02"]), (f"{MONTHS}/202610.json", ["31T22", "01T02"])],
)
def test_an_entry_that_cannot_be_read_stops_no_other(
    app: Folder, monkeypatch: pytest.MonkeyPatch, entry: str, left: list[str]
) -> None:
    monkeypatch.setattr(history, "MINUTES_KEPT", timedelta(hours=1))
    at = datetime(2026, 10, 31, 22, tzinfo=timezone.utc)
    for number in (0, 2, 3, 4):
        write_minutes(app, at + timedelta(hours=number), hour(at + timedelta(hours=number), 1))
    app.remove(entry)
    Path(app.path(entry)).mkdir(parents=True)
    sum_up(app, at + timedelta(hours=50))
    assert [moment.strftime("%dT%H") for moment, _ in minute_files(app)] == left
    month = read_month(app, f"{MONTHS}/202611.json")
    summed = [span.at[8:13] for span in month.spans["1-v1"]["q"]]
    assert summed == [h for h in ("01T00", "01T01", "01T02") if f"202611{h}" not in entry]


def test_hours_that_are_not_yet_take_no_room_of_those_that_have_passed(app: Folder) -> None:
    """A clock was a year ahead for two days and made three months, too. Of those as much is kept as of the others."""
    now = datetime(2026, 11, 27, 12, tzinfo=timezone.utc)
    for begin, count in ((now - timedelta(hours=30), 30), (now + timedelta(days=400), 48)):
        for number in range(count):
            at = begin + timedelta(hours=number)
            write_minutes(app, at, Minutes(deployment="v1", epoch=1, spans={"q": hour(at, 1).spans["q"][:1]}))
    for month in ("202608", "202609", "202610", *(f"2028{n:02}" for n in range(1, 8))):
        app.write(f"{MONTHS}/{month}.json", b"{}")
    sum_up(app, now)
    kept = [at for at, _ in minute_files(app)]
    assert [at for at in kept if at < now] == [now - timedelta(hours=n) for n in range(26, 0, -1)]
    assert len(kept) == 52
    names = [path[-11:-5] for _, path in month_files(app)]
    assert names == ["202608", "202609", "202610", "202611", *(f"2028{n:02}" for n in range(3, 8))]


def test_a_sum_that_is_cut_anywhere_is_made_up_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every call to the storage is the last one once; then the next driver sums up."""
    left = [0]

    def cut(_: str) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise StorageError("cut")

    monkeypatch.setattr(history, "MINUTES_KEPT", timedelta(hours=2))
    at = datetime(2026, 10, 31, 22, tzinfo=timezone.utc)
    now = at + timedelta(hours=40)
    for call in range(60):
        folder = Folder.scratch(tmp_path / str(call))
        for number in range(5):  # of two months
            write_minutes(folder, at + timedelta(hours=number), hour(at + timedelta(hours=number), number))
        left[0] = call
        with contextlib.suppress(StorageError):  # a file that cannot be read is left to the next
            sum_up(hooked(folder, cut), now)
        if left[0] >= 0:
            break
        sum_up(folder, now)
        assert [span.rows_in for span in hours(folder)] == [60 * n for n in range(5)]
        assert len(minute_files(folder)) == 2
    assert 10 < call < 59


@pytest.mark.parametrize("key", ["", "3", "3-", "x-v1", "nonsense"])
def test_a_key_that_names_no_driver_is_damage_of_its_month(app: Folder, key: str) -> None:
    with pytest.raises(ValueError):
        of_driver(key)
    app.write(f"{MONTHS}/202611.json", json.dumps({"spans": {key: {}}}).encode())
    with pytest.raises(CorruptError):
        read_month(app, f"{MONTHS}/202611.json")


@pytest.mark.parametrize("back", [10, 61, 3700])
def test_a_clock_that_is_set_back_loses_nothing(app: Folder, back: int) -> None:
    """Over a minute, an hour, more: before and after the hour was written and forgotten."""
    driver = Driver(app, datetime(2026, 11, 27, 10, 30, tzinfo=timezone.utc))
    for step in range(1200):
        driver.run()
        driver.note()
        driver.recorder.write()
        driver.at.pass_(seconds=5 if step != 362 else -back)  # soon after 11:00
    assert sum(span.batches for span in driver.end()) == len(driver.query.ran)
    sum_up(app, driver.at.now + timedelta(hours=2))
    assert sum(span.rows_in for span in hours(app)) == len(driver.query.ran)


def test_nothing_that_goes_wrong_ends_the_writing(app: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "LOOK_SECONDS", 0.01)

    def broken(*_: object) -> None:
        raise RuntimeError("a fault of our own")

    monkeypatch.setattr(recording, "sum_up", broken)
    driver = Driver(app)
    with driver.recorder.writing():
        for _ in range(3):
            driver.run()
            driver.note()
            driver.at.pass_(seconds=60)
            wait_for(lambda: len(spans(app)) == len(driver.query.ran) or None, "the minute", 20, 0.01)
    driver.recorder.wait_written()
    assert driver.recorder._thread is not None and not driver.recorder._thread.is_alive()


def test_the_end_waits_for_no_storage(app: Folder) -> None:
    """The block ends at once, and the driver waits a moment at most."""
    go = threading.Event()
    driver = Driver(hooked(app, lambda call: call == "read" and go.wait(60)))
    driver.run()
    driver.note()
    began = time.monotonic()
    with driver.recorder.writing():
        pass
    assert time.monotonic() - began < 1.0
    driver.recorder.wait_written(0.1)
    assert time.monotonic() - began < 2.0
    go.set()
    driver.recorder.wait_written(30)
    assert len(spans(app)) == 1


def test_minutes_that_were_not_summed_up_are_kept(app: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a month, or of a driver, that a newer version wrote."""
    monkeypatch.setattr(history, "MINUTES_KEPT", timedelta(hours=1))
    newer = json.dumps({"format": 99, "format_since": "9.9"}).encode()
    at = datetime(2026, 11, 1, tzinfo=timezone.utc)
    for number in range(4):
        write_minutes(app, at + timedelta(hours=number), hour(at + timedelta(hours=number), 1))
    other = f"{MINUTES}/20261101T00-7-v9.json"
    app.write(other, newer)
    sum_up(app, at + timedelta(hours=9))
    assert len(list(hours(app))) == 4 and [path for _, path in minute_files(app)] == [other, minute_files(app)[-1][1]]
    app.write(f"{MONTHS}/202611.json", newer)
    write_minutes(app, at, hour(at, 1))
    sum_up(app, at + timedelta(hours=9))
    assert len(minute_files(app)) == 3


def test_the_longest_deployment_id_has_a_history_of_its_own(app: Folder) -> None:
    names = ["x" * 199 + end for end in "ab"]
    for name in names:
        driver = Driver(app, epoch=1_000_000, deployment=name)
        driver.run()
        driver.note()
        driver.end()
    assert {minutes.deployment for _, path in minute_files(app) if (minutes := read_minutes(app, path))} == set(names)
    sum_up(app, BEGIN + timedelta(hours=1))
    assert set(only_month(app).spans) == {driver_key(name, 1_000_000) for name in names}
