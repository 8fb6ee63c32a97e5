"""What the output must be, from the input alone: every record counted once, by one writer at a time."""

from __future__ import annotations

import json
from pathlib import Path

import attrs

from airflow_provider_streamupdate.core.registry.registry import AppRegistry

from .turns import turns

CLOCK_SECONDS = 0.05  # a file's time is that of the system's last tick


@attrs.frozen(kw_only=True)
class Answer:
    """lost, duplicated: records, or whole batches. writers: what was written by a driver that was not to write."""

    lost: int = 0
    duplicated: int = 0
    problems: tuple[str, ...] = ()


class Oracle:
    """Of one sink. Looks at what was written since the last look, and at the join to what was there before.

    first: the first batch that the sink gets: of a version that began beside another one, the one after its snapshot
    """

    def __init__(self, registry: AppRegistry, output: Path, keys: tuple[str, ...], first: int = 0) -> None:
        self.registry = registry
        self.output = output
        self.keys = keys
        self.first = first
        self._seen: dict[int, int] = {}  # batch -> its file's time when it was looked at
        self._journal = 0  # bytes looked at
        self._last: int | None = None  # the batch of the last write
        self._version: str | None = None  # who wrote it

    def batches(self) -> list[int]:
        """The batches that the sink has, in order."""
        return sorted(int(p.stem) for p in self.output.glob("*.json") if p.stem.isdigit())

    def read(self) -> int:
        """How many records of each key have come out, at least."""
        batches = self.batches()
        return min((row[4] for row in self._rows(batches[-1])), default=-1) + 1 if batches else 0

    def check(self, written: int, went_back: bool = False, version: str | None = None) -> Answer:
        """written: records of each key that must be there
        went_back: whether batches were allowed to be computed again, by the version before
        version: that wrote last; None: it does not matter
        """
        problems: list[str] = []
        if not self.batches():
            return Answer(lost=written, problems=(f"{self.output} has no batch",) if written else ())
        lost, duplicated = self._check_batches(written, problems)
        duplicated += self._check_journal(went_back, problems)
        if version is not None and self._version != version:
            problems.append(f"version {self._version} wrote last, instead of {version}")
        return Answer(lost=lost, duplicated=duplicated, problems=tuple(problems))

    def _check_batches(self, written: int, problems: list[str]) -> tuple[int, int]:
        lost = duplicated = 0
        batches = self.batches()
        if missing := sorted(set(range(self.first, batches[-1] + 1)) - set(batches)):
            lost += len(missing)
            problems.append(f"the sink never got batches {missing}")
        if early := [batch for batch in batches if batch < self.first]:
            duplicated += len(early)
            problems.append(f"the sink got batches {early}, which are another version's")
        times = {batch: (self.output / f"{batch}.json").stat().st_mtime_ns for batch in batches}
        changed = [batch for batch in batches if self._seen.get(batch) != times[batch]]
        self._seen = times
        before: dict[str, int] = {}
        if changed and (earlier := [b for b in batches if b < changed[0]]):
            before = {row[0]: row[4] for row in self._rows(earlier[-1])}
        for batch in (b for b in batches if changed and b >= changed[0]):
            rows = {row[0]: row[1:] for row in self._rows(batch)}
            for key in self.keys:
                if key not in rows:
                    lost += 1
                    problems.append(f"batch {batch} has nothing of key {key}")
                    continue
                count, total, squares, last = rows[key]
                expected = last + 1
                lost += max(expected - count, 0)
                duplicated += max(count - expected, 0)
                if (total, squares) != (last * expected // 2, last * expected * (2 * last + 1) // 6):
                    if count == expected:
                        lost, duplicated = lost + 1, duplicated + 1
                    problems.append(f"batch {batch}, key {key}: {count} of {expected} records, sums {total}, {squares}")
                if last <= before.get(key, -1):
                    duplicated += 1
                    problems.append(f"batch {batch}, key {key}: record {last} came after {before[key]}")
                before[key] = last
        for key in self.keys:
            if before.get(key, written) + 1 < written:
                lost += written - before[key] - 1
                problems.append(f"key {key} ends with record {before[key]} of {written}")
        return lost, duplicated

    def _check_journal(self, went_back: bool, problems: list[str]) -> int:
        """Each write within an epoch of the driver that made it, and each batch after the one before."""
        duplicated = 0
        text = (self.output / "journal.jsonl").read_bytes()
        lines = [json.loads(line) for line in text[self._journal :].splitlines()]
        self._journal = len(text)
        own = turns(self.registry, str(self.output))
        for line in lines:
            self._version = line["version"]
            if not any(turn.allows(line["pid"], line["at"], CLOCK_SECONDS) for turn in own):
                duplicated += 1
                problems.append(f"process {line['pid']} wrote batch {line['batch']} in an epoch that was not its own")
            if line["what"] != "begins":
                continue
            batch, last = line["batch"], self._last
            if last is not None and not (last <= batch <= last + 1) and not (went_back and batch <= last):
                duplicated += 1
                problems.append(f"batch {batch} came after batch {last}")
            self._last = batch
        return duplicated

    def _rows(self, batch: int) -> list[list]:
        return json.loads((self.output / f"{batch}.json").read_text())
