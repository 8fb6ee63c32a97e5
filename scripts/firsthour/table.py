"""The steps that were taken: how each ended, and how long it took."""

from __future__ import annotations

import time
from collections.abc import Callable

import attrs
import click

from firsthour.failure import Skipped

PASSED, FAILED, SKIPPED = "passed", "FAILED", "SKIPPED"


@attrs.frozen
class Row:
    title: str
    outcome: str
    seconds: float
    why: str = ""


@attrs.define
class Table:
    """rows: in the order in which the steps were taken."""

    rows: list[Row] = attrs.field(factory=list)

    def step(self, title: str, work: Callable[[], None]) -> None:
        """Do it and note it; what it raises goes on, but for Skipped."""
        click.echo(f"--- {title}")
        began, outcome, why = time.monotonic(), FAILED, ""
        try:
            work()
            outcome = PASSED
        except Skipped as skipped:
            outcome, why = SKIPPED, str(skipped)
        finally:
            seconds = time.monotonic() - began
            self.rows.append(Row(title, outcome, seconds, why))
            click.echo(f"    {outcome} after {seconds:.1f} s {why}".rstrip())

    def __str__(self) -> str:
        width = max((len(row.title) for row in self.rows), default=0)
        lines = [f"{row.title:{width}}  {row.seconds:7.1f} s  {row.outcome}  {row.why}".rstrip() for row in self.rows]
        total = sum(row.seconds for row in self.rows)
        return "\n".join([*lines, f"{'all of it':{width}}  {total:7.1f} s"])
