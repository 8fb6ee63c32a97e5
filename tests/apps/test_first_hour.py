"""make first-hour: its commands are those of docs/getting-started.md, and what it finds wrong is wrong."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "scripts"))

from firsthour import page  # noqa: E402
from firsthour.orders import Orders  # noqa: E402
from firsthour.week import Orders as WeekOrders  # noqa: E402

from airflow_provider_streamupdate.cli import main as streamupdate  # noqa: E402

STEPS = page.steps()


def test_every_command_and_option_of_the_section_exists() -> None:
    seen = set()
    for line in (c.line for step in STEPS for c in step.commands if c.line.startswith("streamupdate ")):
        words = shlex.split(line.partition(" -- ")[0])  # what is behind it is the script's
        known = {o for p in streamupdate.commands[words[1]].params if isinstance(p, click.Option) for o in p.opts}
        assert {w for w in words if w.startswith("--")} <= known, line
        seen.add(words[1])
    assert {"init-dags", "doctor", "submit", "update", "restart", "list", "status", "cancel"} <= seen


class Written(Orders):
    """With an output that this test makes."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / "in", folder / "out")
        self.arrived.mkdir()
        self.found: list[dict[str, int | str]] = []
        self.sums: dict[str, list[int]] = {}

    def lines(self) -> list[dict[str, int | str]]:
        return self.found

    def totals(self) -> dict[str, list[int]]:
        return self.sums

    def make_right(self) -> None:
        self.found = [{**order._asdict(), "version": 2} for order in self.all()]
        for order in self.all():
            if order.amount > 0 or order.id in self.counted:
                amount, number = self.sums.get(order.shop, [0, 0])
                self.sums[order.shop] = [amount + order.amount, number + 1]


@pytest.fixture
def written(tmp_path: Path) -> Iterator[Written]:
    made = Written(tmp_path)
    made.write(2, returned=True)
    made.counted_by_version_1()
    made.write(2, returned=True)
    made.make_right()
    assert made.problems() == []
    return made


def test_what_is_lost_doubled_or_wrong_is_found(written: Written) -> None:
    lost = written.found.pop()
    assert written.problems() == [f"lost: Order(id={lost['id']}, shop={lost['shop']!r}, amount={lost['amount']})"]
    written.found += [lost, written.found[0]]
    [told] = written.problems()
    assert told.startswith("doubled or made up: Order(id=1,")
    written.found.pop()
    written.sums["north"][1] += 1
    assert len(written.problems()) == 1
    written.sums = {}
    assert len(written.problems()) == 3


def test_returned_orders_count_for_version_1_alone(written: Written) -> None:
    assert len([o for o in written.all() if o.amount < 0]) == 4 and len(written.counted) == 6
    written.counted = set()
    assert [told.split()[5] for told in written.problems()] == ["north"]


def test_the_lines_of_the_version_that_was_taken_back_are_left_out(written: Written) -> None:
    written.found += [{**order._asdict(), "version": 3} for order in written.all()]
    assert written.problems() == []
    assert len(written.problems(taken_back=0)) == len(written.all())


@pytest.fixture
def week(tmp_path: Path) -> WeekOrders:
    """Orders of which all that may be written was written right; version 1 has counted the first returned ones."""
    made = WeekOrders(tmp_path / "in", tmp_path / "out")
    made.arrived.mkdir()
    made.write(6, returned=True)
    made.counted_by_version_1()
    made.write(4, returned=True)
    write_right(made)
    assert made.problems(shops=True, mean=True) == []
    return made


def write_right(orders: WeekOrders) -> None:
    customers, hours, shops = {}, {}, {}
    last = max(order.at for order in orders.all)
    for o in orders.all:
        shops[o.shop] = shops.get(o.shop, 0) + o.amount
        if o.at // 3600 * 3600 + 7200 <= last:
            hours[o.at // 3600 * 3600, o.shop] = hours.get((o.at // 3600 * 3600, o.shop), 0) + 1
        if o.amount > 0 or o.id in orders.counted_returned:
            revenue, count = customers.get(o.customer, (0, 0))
            customers[o.customer] = (revenue + o.amount, count + 1)
    rows = {
        "revenue": [{"customer": c, "total": r, "orders": n, "mean": r / n} for c, (r, n) in customers.items()],
        "hours": [{"start": start, "shop": shop, "orders": n} for (start, shop), n in hours.items()],
        "shops": [{"shop": shop, "revenue": r} for shop, r in shops.items()],
    }
    for query, found in rows.items():
        (orders.out / query).mkdir(parents=True)
        (orders.out / query / "000000.json").write_text("".join(json.dumps(row) + "\n" for row in found))


@pytest.mark.parametrize(
    ("query", "change", "told"),
    [
        ("revenue", {"total": 1}, "revenue and orders of"),
        ("revenue", {"orders": 1}, "revenue and orders of"),
        ("revenue", {"mean": 1.5}, "the mean of"),
        ("hours", {"orders": 1}, "the orders of hour and shop"),
        ("shops", {"revenue": 1}, "the revenue by shop"),
    ],
)
def test_a_wrong_number_of_the_week_is_found(week: WeekOrders, query: str, change: dict[str, Any], told: str) -> None:
    file = week.out / query / "000000.json"
    first, *others = file.read_text().splitlines()
    file.write_text("\n".join([json.dumps({**json.loads(first), **change}), *others]))
    [problem] = week.problems(shops=True, mean=True)
    assert problem.startswith(told)


def test_an_hour_of_the_week_that_is_lost_doubled_or_too_early_is_found(week: WeekOrders) -> None:
    file = week.out / "hours" / "000000.json"
    text = file.read_text()
    early = json.dumps({"start": 1_800_000_000, "shop": "north", "orders": 1})
    for changed in (text.split("\n", 1)[1], text + text.splitlines()[0], text + early):
        file.write_text(changed)
        assert len(week.problems()) == 1
