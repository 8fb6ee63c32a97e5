"""The flights' files and the way they arrive."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from scripts.demolib.flights import write_days
from scripts.demolib.replay import Replay


def flights_csv(path: Path, *rows: tuple[str, ...]) -> Path:
    names = ("year", "month", "day", "dep_delay", "carrier", "flight", "origin", "minute", "time_hour")
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([names, *rows])
    return path


def test_a_file_a_new_york_day_sorted_by_utc_departure(tmp_path: Path):
    source = flights_csv(
        tmp_path / "flights.csv",
        ("2013", "1", "10", "4", "UA", "7", "EWR", "5", "2013-01-10T10:00:00Z"),
        ("2013", "1", "2", "-3", "B6", "1", "JFK", "59", "2013-01-03T04:00:00Z"),  # 23:59 in New York
        ("2013", "1", "2", "NA", "DL", "2", "LGA", "15", "2013-01-02T10:00:00Z"),
    )
    files = write_days(tmp_path / "days", source)
    assert [f.name for f in files] == ["flights-2013-01-02.json", "flights-2013-01-10.json"]
    assert [json.loads(line) for line in files[0].read_text().splitlines()] == [
        {
            "origin": "LGA",
            "carrier": "DL",
            "flight": 2,
            "scheduled": "2013-01-02T10:15:00Z",
            "dep_delay": None,
        },
        {"origin": "JFK", "carrier": "B6", "flight": 1, "scheduled": "2013-01-03T04:59:00Z", "dep_delay": -3},
    ]


def prepared(folder: Path, count: int) -> list[Path]:
    folder.mkdir()
    files = [folder / f"{number}.json" for number in range(count)]
    for file in files:
        file.write_text(f"{file.name}\n")
    return files


def test_files_arrive_complete_in_order_with_growing_times(tmp_path: Path):
    replay = Replay(prepared(tmp_path / "staged", 4), tmp_path / "in", gap=0.0)
    replay.start()
    replay.wait_for(4, timeout=30)
    arrived = sorted((tmp_path / "in").iterdir(), key=lambda f: f.stat().st_mtime_ns // 1_000_000)
    assert [f.read_text() for f in arrived] == ["0.json\n", "1.json\n", "2.json\n", "3.json\n"]
    assert len({f.stat().st_mtime_ns // 1_000_000 for f in arrived}) == 4
    assert replay.done


def test_nothing_arrives_after_stop(tmp_path: Path):
    replay = Replay(prepared(tmp_path / "staged", 3), tmp_path / "in", gap=600.0)
    replay.start()
    replay.wait_for(1, timeout=30)
    replay.stop()
    assert [f.name for f in (tmp_path / "in").iterdir()] == ["0.json"]
    assert not replay.done


def test_an_error_reaches_the_waiting(tmp_path: Path):
    files = prepared(tmp_path / "staged", 2)
    files[1].unlink()
    replay = Replay(files, tmp_path / "in", gap=0.0)
    replay.start()
    with pytest.raises(RuntimeError, match="ended after 1 files"):
        replay.wait_for(2, timeout=30)
