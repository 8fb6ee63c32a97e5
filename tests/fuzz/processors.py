"""The state functions of the fuzz's specs. Python workers cannot import test modules: they get this one by value."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

import pandas as pd
from pyspark import cloudpickle
from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor

cloudpickle.register_pickle_by_value(sys.modules[__name__])


class Count(StatefulProcessor):
    """Counts a key's rows, in a value."""

    def __init__(self, step: int) -> None:
        self.step = step

    def init(self, handle) -> None:
        self.count = handle.getValueState("count", "n long")

    def handleInputRows(self, key, rows, timers) -> Iterator[Row]:
        yield Row(k=key[0], n=self.more(self.step * sum(1 for _ in rows)))

    def more(self, n: int) -> int:
        n += self.count.get()[0] if self.count.exists() else 0
        self.count.update((n,))
        return n

    def close(self) -> None:
        pass


class CountInPandas(Count):
    def handleInputRows(self, key, rows, timers) -> Iterator[pd.DataFrame]:
        yield pd.DataFrame({"k": [key[0]], "n": [self.more(self.step * sum(len(frame) for frame in rows))]})


class CountInList(Count):
    """What each batch added."""

    def init(self, handle) -> None:
        self.added = handle.getListState("added", "n long")

    def more(self, n: int) -> int:
        self.added.appendValue((n,))
        return sum(value[0] for value in self.added.get())


class CountInMap(Count):
    def init(self, handle) -> None:
        self.counts = handle.getMapState("counts", "what string", "n long")

    def more(self, n: int) -> int:
        n += self.counts.getValue(("rows",))[0] if self.counts.containsKey(("rows",)) else 0
        self.counts.updateValue(("rows",), (n,))
        return n


PROCESSORS = {"value": Count, "pandas": CountInPandas, "list": CountInList, "map": CountInMap}


class Ring(Count):
    """Tells of a key once, by an event-time timer `after` minutes (and a half) after its first row."""

    def __init__(self, after: int) -> None:
        super().__init__(1)
        self.after = after

    def init(self, handle) -> None:
        super().init(handle)
        self.handle = handle

    def handleInputRows(self, key, rows, timers) -> Iterator[Row]:
        rows = list(rows)
        if not self.count.exists():
            first = min(row.ts for row in rows)
            self.handle.registerTimer(int(first.timestamp() * 1000) + self.after * 60_000 + 30_000)
        self.more(len(rows))
        return iter(())

    def handleExpiredTimer(self, key, timerValues, expiredTimerInfo) -> Iterator[Row]:
        yield Row(k=key[0], n=self.count.get()[0])


def counting(step: int) -> Callable:
    """For applyInPandasWithState."""

    def count(key, frames, state) -> Iterator[pd.DataFrame]:
        n = (state.get[0] if state.exists else 0) + step * sum(len(frame) for frame in frames)
        state.update((n,))
        yield pd.DataFrame({"k": [key[0]], "n": [n]})

    return count
