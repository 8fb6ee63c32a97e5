"""Flights for the example apps, and what the apps write about them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any


def flight(at: str, delay: float | None = 10.0, origin: str = "JFK") -> dict[str, Any]:
    """A flight. at: its scheduled departure; delay: in minutes, None for a cancelled one"""
    return {"origin": origin, "carrier": "B6", "flight": 725, "scheduled": at, "dep_delay": delay}


def write(folder: str, name: str, flights: list[dict[str, Any]]) -> None:
    """A file of flights, there as a whole or not at all."""
    os.makedirs(folder, exist_ok=True)
    hidden = Path(folder, f".{name}")
    hidden.write_text("".join(f"{json.dumps(each)}\n" for each in flights))
    hidden.rename(Path(folder, f"{name}.json"))


def windows(output: str, stage: str = "daily") -> dict[tuple[str, str], tuple[int, float | None]]:
    """Flights and delay by window and origin, as the app has written them; a window that is there twice is an error."""
    found: dict[tuple[str, str], tuple[int, float | None]] = {}
    for file in sorted(Path(output, "windows").glob("batch=*.json")):
        for row in map(json.loads, file.read_text().splitlines()):
            if row["stage"] == stage:
                key = row["start"], row["origin"]
                assert key not in found, f"{key} was written twice"
                found[key] = row["flights"], row["delay"]
    return found
