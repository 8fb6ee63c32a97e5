"""Records that go through the app of `standalone_app.py` on a cluster, whose version 2 moves state and migrates it."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from airflow_provider_streamupdate.core.storage import Folder

from .records import Record, Records

QUERIES = ("files", "totals")


class Migrated(Records):
    """Each file brings new records and some that were there before: of the file before, and the very first."""

    source_file = Path(__file__).with_name("standalone_app.py")

    def __init__(self, folder: Path, conf: dict[str, str], where: Folder | None = None) -> None:
        """where: the place of input and output; None: this machine's disk"""
        places = {} if where is None else {"input": f"{where.uri}/in", "output": f"{where.uri}/out"}
        super().__init__(folder, QUERIES, conf, **places)
        self.files: list[list[Record]] = []  # as they came
        self.where = where

    def bring(self, name: str, text: str) -> None:
        if self.where is None:
            super().bring(name, text)
        else:
            self.where.write(f"in/{name}", text.encode())

    def sinks(self) -> Folder:
        return super().sinks() if self.where is None else self.where.sub("out")

    def put_file(self, name: str, rows: list[Record]) -> None:
        self.files.append([*rows, *self.records[-self.new_in_file :], *self.records[:2]])
        super().put_file(name, self.files[-1])

    def check_totals(self, follows: bool = False) -> None:
        """The sum is of everything; the count that version 2 adds knows the rows since the snapshot it started from.

        follows: it started from an earlier batch, one for all keys, and followed the old version from there on
        """
        sink = self.sinks().sub("totals")
        files = [name for name in sink.files() if name.endswith(".json")]
        lines = [line for name in files for line in (sink.read(name) or b"").decode().splitlines()]
        last = {row["k"]: row for row in map(json.loads, lines)}
        cut = self.client.snapshot(self.app, "before-two").queries["totals"].batch + 1  # a file a batch
        wrong = {since: self._wrong(last, since) for since in (range(1, cut + 1) if follows else [cut])}
        least = min(wrong.values())
        print(f"\ntotals: {len(last)} keys, {least} wrong; counted since batch {min(wrong, key=wrong.__getitem__)}")
        assert 0 < cut < len(self.files) and least == 0

    def _wrong(self, last: dict[str, dict[str, Any]], since: int) -> int:
        """Keys whose last row is not what it must be, where rows are counted from that file on."""
        sums: Counter[str] = Counter()
        counts: Counter[str] = Counter()
        for number, rows in enumerate(self.files):
            for _, k, a in rows:
                sums[k] += a
                counts[k] += number >= since
        return sum(last.get(k) != {"k": k, "s": sums[k], "n": counts[k]} for k in sums.keys() | last.keys())
