"""The orders that arrive, and what the app must have made of them, in plain Python."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urlparse

SHOPS = ("north", "south", "east")


class Order(NamedTuple):
    id: int
    shop: str
    amount: int


class Orders:
    """Those in the folder `arrived`; `out`: where the app writes to. Version 1 counts returned ones (amounts below 0),
    later versions do not."""

    def __init__(self, arrived: Path, out: Path) -> None:
        self.arrived, self.out = arrived, out
        self.counted: set[int] = set()  # by their ids, what version 1 is to process, returned or not

    def write(self, files: int, returned: bool = False) -> None:
        """So many files of three orders more; with `returned`, one of each file is."""
        for _ in range(files):
            number = len(list(self.arrived.glob("*.json"))) + 1
            first = max((order.id for order in self.all()), default=0) + 1
            orders = [Order(first + n, shop, 10 * number + n) for n, shop in enumerate(SHOPS)]
            if returned:
                orders[0] = orders[0]._replace(amount=-number)
            temporary = self.arrived / f".{number:04}.part"
            temporary.write_text("".join(json.dumps(order._asdict()) + "\n" for order in orders))
            os.rename(temporary, self.arrived / f"{number:04}.json")  # Spark sees it whole, or not at all

    def all(self) -> list[Order]:
        lines = (line for file in sorted(self.arrived.glob("*.json")) for line in file.read_text().splitlines())
        return [Order(**json.loads(line)) for line in lines]

    def counted_by_version_1(self) -> None:
        """The returned orders that have arrived must come into its sums."""
        self.counted |= {order.id for order in self.all()}

    def problems(self, taken_back: int = 3) -> list[str]:
        """What is wrong in the output; empty when nothing is. `taken_back`: the version that was rolled back, whose
        lines the file sink keeps (docs/guides/roll-back.md); they are left out, as the guide says."""
        lines = [line for line in self.lines() if line["version"] != taken_back]
        return [*self._lines(lines), *self._totals()]

    def _lines(self, lines: list[dict[str, Any]]) -> Iterator[str]:
        expected = Counter(self.all())
        found = Counter(Order(line["id"], line["shop"], line["amount"]) for line in lines)
        yield from (f"lost: {order}" for order in (expected - found).elements())
        yield from (f"doubled or made up: {order}" for order in (found - expected).elements())

    def _totals(self) -> Iterator[str]:
        expected: dict[str, list[int]] = {}
        for order in self.all():
            if order.amount > 0 or order.id in self.counted:
                total = expected.setdefault(order.shop, [0, 0])
                total[0] += order.amount
                total[1] += 1
        found = self.totals()
        for shop in sorted(expected.keys() | found.keys()):
            if found.get(shop) != expected.get(shop):
                yield f"the sum and number of {shop} are {found.get(shop)} and not {expected.get(shop)}"

    def lines(self) -> list[dict[str, Any]]:
        """What the file sink has committed: the files that its log names, each `added` once."""
        log = self.out / "lines" / "_spark_metadata"
        found: dict[str, Path] = {}
        for batch in log.glob("[0-9]*"):
            for entry in map(json.loads, batch.read_text().splitlines()[1:]):
                found[entry["path"]] = Path(unquote(urlparse(entry["path"]).path))
        return [json.loads(line) for file in found.values() for line in file.read_text().splitlines()]

    def totals(self) -> dict[str, list[int]]:
        """The last line of each shop, in the order of the batches."""
        last: dict[str, list[int]] = {}
        for file in sorted((self.out / "totals").glob("*.json")):
            for row in map(json.loads, file.read_text().splitlines()):
                last[row["shop"]] = [row["amount"], row["orders"]]
        return last
