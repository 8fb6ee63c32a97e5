"""The demo's first act: a plain script is submitted, a line of it changed, and updated, by the command line."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from demolib.oracle import read_rows

JOB = Path(__file__).resolve().parents[2] / "spark_apps" / "carriers" / "job.py"
APP = "carriers"
CHANGE = ('flights.groupBy("carrier")', 'flights.where("dep_delay > 15").groupBy("carrier")')


class ScriptAct:
    """The script in the folder `work`, under a root there.

    days: files of flights; the first half is there for the first version, the others for the second
    say: is told each command; wait: until a condition holds, for what
    """

    def __init__(
        self, work: Path, spark_submit: Path, say: Callable[[str], None], wait: Callable[[Callable[[], Any], str], Any]
    ) -> None:
        self.say, self.wait = say, wait
        self.root, self.input, self.output = work / "streams", work / "in", work / "out"
        self.job = work / "job.py"
        self.environment = {
            **os.environ,
            "STREAMUPDATE_ROOT": str(self.root),
            "STREAMUPDATE_SPARK_SUBMIT": str(spark_submit),
        }

    def run(self, days: list[Path]) -> Counter[str]:
        """Return the counts, which are right; the wait ends with an error where they do not become so."""
        self.input.mkdir(parents=True)
        self.job.write_text(JOB.read_text())
        half = len(days) // 2
        for_first, for_second = days[:half], days[half:]
        self._arrive(for_first)
        self._streamupdate(
            *("submit", str(self.job), "--app", APP, "--seen-batch", "carriers=replaces", "--master", "local[2]"),
            *("--", str(self.input), str(self.output)),
        )
        expected = Counter(row["carrier"] for row in rows_of(for_first))
        self.wait(lambda: self._counts() == expected, f"version 1's counts of {half} days")
        self.say(f"in {self.job.name}: {' -> '.join(CHANGE)}")
        self.job.write_text(self.job.read_text().replace(*CHANGE))
        self._streamupdate("update", str(self.job), "--app", APP)
        self._arrive(for_second)
        expected += Counter(row["carrier"] for row in rows_of(for_second) if (row["dep_delay"] or 0) > 15)
        self.wait(lambda: self._counts() == expected, f"version 2's counts of {len(for_second)} days more")
        self._streamupdate("cancel", APP)
        return expected

    def end(self) -> None:
        """End what still runs."""
        if self.root.exists():
            self._streamupdate("cancel", APP, check=False)

    def _arrive(self, days: Iterable[Path]) -> None:
        for day in days:
            (self.input / f".{day.name}").write_bytes(day.read_bytes())
            (self.input / f".{day.name}").rename(self.input / day.name)

    def _counts(self) -> dict[str, int]:
        """Return the last count of each carrier; none while a file is being written."""
        files = sorted(self.output.glob("*.json"))
        try:
            return {row["carrier"]: row["count"] for file in files for row in json.loads(file.read_text())}
        except ValueError:
            return {}

    def _streamupdate(self, *words: str, check: bool = True) -> None:
        self.say(f"$ streamupdate {shlex.join(words)}")
        command = [str(Path(sys.executable).with_name("streamupdate")), *words]
        subprocess.run(command, env=self.environment, check=check, stderr=subprocess.DEVNULL, timeout=400)


def rows_of(days: Iterable[Path]) -> Iterator[dict[str, Any]]:
    """Yield the flights of files."""
    for day in days:
        yield from read_rows(day.parent, [day.name])
