"""A newcomer's week: seven versions of an app of orders, and mistakes; an oracle in plain Python has each number.

The app has three queries: revenue by customer, orders by hour and shop (append, with a watermark), and from version 3
on revenue by shop. Each step has the exit code and the words that a newcomer must see.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import random
import signal
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import attrs

from airflow_provider_streamupdate.core.processes.threads import repeating
from firsthour.failure import StepError
from firsthour.shell import Shell
from firsthour.table import Table

APP = "week-orders"
LIMIT = 600.0  # seconds for one thing that is waited for
HOUR = 3600
SHOPS = ("north", "south", "east")
CUSTOMERS = tuple(f"c{n:02}" for n in range(30))
ORDERS_PER_FILE = 50

PROGRAM = '''"""Orders of the week."""

import json
import os

from pyspark.sql import functions as F

from airflow_provider_streamupdate.streaming import StreamingApp, source, stage

app = StreamingApp("week-orders", require_names=True)
SCHEMA = "id long, customer string, shop string, amount long, at timestamp"
VERSION = 1


def orders(spark, params):
    spark.conf.set("spark.sql.shuffle.partitions", params.get("partitions", "2"))
    return source("orders", spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", "4").json(params["orders"]))


def to_files(folder):
    def write(batch, number):
        os.makedirs(folder, exist_ok=True)
        rows = [{**row.asDict(), "version": VERSION} for row in batch.collect()]
        path = os.path.join(folder, f"{number:06}.json")
        with open(path + ".part", "w") as file:
            file.writelines(json.dumps(row) + "\\n" for row in rows)
        os.replace(path + ".part", path)

    return write


@app.query("revenue", seen_batch="replaces")
def revenue(spark, params):
    known = orders(spark, params)
    by_customer = stage(
        "by_customer",
        known.groupBy("customer").agg(F.sum("amount").alias("revenue"), F.count("amount").alias("orders")),
    )
    return by_customer.writeStream.outputMode("update").foreachBatch(to_files(params["output"] + "/revenue"))


@app.query("hours", seen_batch="replaces")
def hours(spark, params):
    timed = orders(spark, params).withWatermark("at", "1 hour")
    hourly = stage("hourly", timed.groupBy(F.window("at", "1 hour"), "shop").agg(F.count("*").alias("orders")))
    rows = hourly.select(F.unix_seconds("window.start").alias("start"), "shop", "orders")
    return rows.writeStream.outputMode("append").foreachBatch(to_files(params["output"] + "/hours"))


if __name__ == "__main__":
    app.main()
'''
SHOPS_QUERY = """@app.query("shops", seen_batch="replaces")
def shops(spark, params):
    by_shop = stage("by_shop", orders(spark, params).groupBy("shop").agg(F.sum("amount").alias("revenue")))
    return by_shop.writeStream.outputMode("update").foreachBatch(to_files(params["output"] + "/shops"))


if __name__"""
# What each version changes in the text of the one before it.
CHANGES: dict[str, tuple[tuple[str, str], ...]] = {
    "v2": (("known = orders(spark, params)\n", 'known = orders(spark, params).where("amount > 0")\n'),),
    "v3": (("if __name__", SHOPS_QUERY),),
    "v4": (('alias("revenue"), F.count', 'alias("total"), F.count'),),
    "v5": (
        ('F.count("amount").alias("orders"))', 'F.count("amount").alias("orders"), F.avg("amount").alias("mean"))'),
    ),
    "v6": (('known.groupBy("customer")', 'known.groupBy(F.upper("customer").alias("customer"))'),),
    "v7": (("        rows = [", '        raise ValueError("version 7 cannot write")\n        rows = ['),),
}
BASES = {"v6": "v5", "v7": "v5"}  # the others follow the one before


def programs() -> dict[str, str]:
    """Return the text of each version."""
    made = {"v1": PROGRAM}
    for number, (version, changes) in enumerate(CHANGES.items(), 1):
        text = made[BASES.get(version, f"v{number}")]
        for old, new in changes:
            if text.count(old) != 1:
                raise StepError(f"version {version} cannot be made: {old!r} is there {text.count(old)} times")
            text = text.replace(old, new)
        made[version] = text.replace(f"VERSION = {BASES.get(version, f'v{number}')[1:]}", f"VERSION = {version[1:]}")
    return made


@attrs.frozen
class Order:
    """at: seconds since 1970"""

    id: int
    customer: str
    shop: str
    amount: int
    at: int


class Orders:
    """The orders that arrive, and what the app must have made of them.

    counted_returned: the ids of returned orders (amounts below 0) that version 1 has counted
    """

    def __init__(self, arrived: Path, out: Path) -> None:
        self.arrived, self.out = arrived, out
        self.all: list[Order] = []
        self.counted_returned: set[int] = set()
        self._random = random.Random(45)
        self._files = 0

    def write(self, files: int, returned: bool = False) -> None:
        """Write so many files of orders; with `returned`, some of them are. Time goes on by half an hour a file."""
        for _ in range(files):
            begin = 1_700_000_000 + self._files * HOUR // 2
            made = [self._order(len(self.all) + n, begin + n * 30, returned) for n in range(ORDERS_PER_FILE)]
            self.all += made
            lines = (json.dumps({**attrs.asdict(o), "at": _iso(o.at)}) + "\n" for o in made)
            hidden = self.arrived / f".{self._files:05}.part"
            hidden.write_text("".join(lines))
            os.rename(hidden, self.arrived / f"{self._files:05}.json")
            self._files += 1

    def _order(self, number: int, at: int, returned: bool) -> Order:
        amount = self._random.randint(1, 500)
        if returned and self._random.random() < 0.2:
            amount = -amount
        customer, shop = self._random.choice(CUSTOMERS), self._random.choice(SHOPS)
        return Order(number, customer, shop, amount, at)

    def counted_by_version_1(self) -> None:
        """Note that the returned orders that have arrived are in its sums."""
        self.counted_returned |= {order.id for order in self.all if order.amount < 0}

    def problems(self, shops: bool = False, mean: bool = False) -> list[str]:
        """Return what is wrong in the output; empty when nothing is. shops, mean: what versions 3, 5 added"""
        return [*self._revenue(mean), *self._hours(), *(self._shops() if shops else ())]

    def _revenue(self, mean: bool) -> Iterator[str]:
        expected: dict[str, list[int]] = defaultdict(lambda: [0, 0])
        for order in self.all:
            if order.amount > 0 or order.id in self.counted_returned:
                expected[order.customer][0] += order.amount
                expected[order.customer][1] += 1
        found = {row["customer"]: row for row in self._rows("revenue")}
        for customer in sorted(expected.keys() | found.keys()):
            row, (revenue, count) = found.get(customer, {}), expected.get(customer, (0, 0))
            if (row.get("total", row.get("revenue")), row.get("orders")) != (revenue, count):
                yield f"revenue and orders of {customer} are {row} and not {revenue}, {count}"
            elif mean and count and not math.isclose(row.get("mean") or 0.0, revenue / count, rel_tol=1e-12):
                yield f"the mean of {customer} is {row.get('mean')} and not {revenue / count}"

    def _hours(self) -> Iterator[str]:
        """Those that are closed: the watermark is an hour behind the last order."""
        expected: dict[tuple[int, str], int] = defaultdict(int)
        for order in self.all:
            expected[order.at // HOUR * HOUR, order.shop] += 1
        watermark = max((order.at for order in self.all), default=0) - HOUR
        found: dict[tuple[int, str], list[int]] = defaultdict(list)
        for row in self._rows("hours"):
            found[row["start"], row["shop"]].append(row["orders"])
        for key in sorted(expected.keys() | found.keys()):
            due = [expected[key]] if key[0] + HOUR <= watermark else []
            if found.get(key, []) != due:
                yield f"the orders of hour and shop {key} are {found.get(key, [])} and not {due}"

    def _shops(self) -> Iterator[str]:
        expected: dict[str, int] = defaultdict(int)
        for order in self.all:
            expected[order.shop] += order.amount
        found = {row["shop"]: row["revenue"] for row in self._rows("shops")}
        if found != dict(expected):
            yield f"the revenue by shop is {found} and not {dict(expected)}"

    def _rows(self, query: str) -> Iterator[dict[str, Any]]:
        """Yield what a query wrote, in the order of its batches."""
        for file in sorted((self.out / query).glob("*.json")):
            yield from map(json.loads, file.read_text().splitlines())


class Week:
    """The days, in the folder `week` of the shell's, with its `streamupdate` and Spark."""

    def __init__(self, shell: Shell, table: Table) -> None:
        self.shell, self.table = shell, table
        self.folder = shell.cwd / "week"
        self.orders = Orders(self.folder / "in", self.folder / "out")
        self.settings = f"--set orders={self.orders.arrived} --set output={self.orders.out}"
        self.expect: Callable[[], list[str]] = self.orders.problems

    def run(self) -> None:
        """Run all days; StepError at the first that fails."""
        for title, day in (
            ("Monday: an app, and mistakes", self.monday),
            ("Tuesday: a filter", self.tuesday),
            ("Wednesday: a new query with a stage", self.wednesday),
            ("Thursday: a renamed column, and back", self.thursday),
            ("Friday: an added mean; a wrong key is refused", self.friday),
            ("Saturday: a version that fails is rolled back", self.saturday),
            ("Sunday: kill -9, and more partitions", self.sunday),
        ):
            self.table.step(title, day)

    def monday(self) -> None:
        self.orders.arrived.mkdir(parents=True)
        for version, text in programs().items():
            (self.folder / f"{version}.py").write_text(text)
        self.say("submit week", 2, "is a folder; give the path of the .py file that defines the app (it holds v1.py")
        self.say("list --root ''", 2, "it is empty; give a value, or leave the option out")
        self.say(f"submit week/v1.py --set order={self.orders.arrived} --deployment v1", 1, "which was not set")
        self.orders.write(4, returned=True)
        self.orders.counted_by_version_1()
        self.say(f"submit week/v1.py {self.settings} --deployment v1", 0, "runs as deployment v1")
        self.settle()
        self.say(f"status {APP}", 0, "running")

    def tuesday(self) -> None:
        self.orders.write(3, returned=True)
        self.orders.counted_by_version_1()
        self.settle()
        self.say(f"check week/v2.py {self.settings}", 0, "compatible")
        self.update("v2")
        self.orders.write(3, returned=True)
        self.settle()
        self.say(f"output {APP}", 0, "revenue")

    def wednesday(self) -> None:
        self.update("v3")
        self.expect = partial(self.orders.problems, shops=True)
        self.orders.write(3, returned=True)
        self.settle()

    def thursday(self) -> None:
        self.update("v4")
        self.orders.write(3, returned=True)
        self.settle()
        self.say(f"rollback {APP}", 0, "runs as deployment v3 again")
        self.remove_taken_back("v4", 4)
        self.orders.write(2, returned=True)
        self.settle()
        self.update("v4", "v4-again")
        self.settle()

    def friday(self) -> None:
        self.update("v5")
        self.orders.write(6, returned=True)
        self.expect = partial(self.orders.problems, shops=True, mean=True)
        self.settle()
        self.say(f"check week/v6.py {self.settings}", 1, "by_customer")
        self.orders.write(2)
        self.say(f"update week/v6.py {self.settings} --deployment v6", 1, "nothing was stopped or changed")
        self.settle()

    def saturday(self) -> None:
        with self.orders_arriving():  # it fails at the first batch with rows
            self.say(f"update week/v7.py {self.settings} --deployment v7", 1, "version 7 cannot write")
        self.orders.write(2, returned=True)
        self.settle()
        self.say(f"status {APP}", 0, "v5")

    def sunday(self) -> None:
        status = json.loads(self.say(f"status {APP} --json"))
        os.kill(status["status"]["pid"], signal.SIGKILL)
        self.orders.write(2, returned=True)
        self.wait("the driver to count as dead", lambda: self._state() in ("lost", "failed"))
        self.say(f"restart {APP}", 0, "runs as deployment v5")
        self.settle()
        self.update("v5", "v5-wide", "--set partitions=4")
        self.orders.write(4, returned=True)
        self.settle()
        self.say(f"cancel {APP}")
        if wrong := self.expect():
            raise StepError("\n".join(wrong[:20]))

    @contextlib.contextmanager
    def orders_arriving(self) -> Iterator[None]:
        """Write a file of orders every five seconds meanwhile."""
        with repeating(5.0, partial(self.orders.write, 1)):
            yield

    def update(self, version: str, deployment: str = "", more: str = "") -> None:
        """Update while orders arrive that both versions treat alike."""
        self.orders.write(2)
        deployment = deployment or version
        command = f"update week/{version}.py {self.settings} {more} --deployment {deployment}"
        self.say(command, 0, f"{APP} runs as deployment {deployment}, in place of")
        self.settle()

    def remove_taken_back(self, deployment: str, version: int) -> None:
        """Remove the batches of a version that was rolled back and that the older one has not replaced, as the guide to
        rolling back says."""
        for written in json.loads(self.say(f"output {APP} --deployment {deployment} --json")):
            for batch in written["batches"]:
                file = self.orders.out / written["query"] / f"{batch['batch']:06}.json"
                lines = file.read_text().splitlines() if file.exists() else []
                if any(json.loads(line)["version"] == version for line in lines):
                    file.unlink()

    def say(self, command: str, code: int = 0, words: str = "") -> str:
        return self.shell.run(f"streamupdate {command}", code, words, LIMIT)

    def settle(self) -> None:
        """Wait until the output is what the oracle says of all orders; StepError with what is wrong."""
        try:
            self.wait("the output to be right", lambda: not self.expect())
        except TimeoutError as error:
            wrong = "\n".join(self.expect()[:20])
            raise StepError(f"{error}:\n{wrong}\n{self.shell.run(f'streamupdate log {APP}')}") from error

    def _state(self) -> str:
        return str(json.loads(self.say(f"status {APP} --json"))["state"])

    def wait(self, what: str, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + LIMIT
        while not condition():
            if time.monotonic() > deadline:
                raise TimeoutError(f"after {LIMIT:.0f} s still waiting for {what}")
            time.sleep(0.5)


def _iso(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
