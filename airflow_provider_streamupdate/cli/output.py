"""What commands print on standard output: tables, facts, JSON."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

    from ..state.rehearsal import RehearsalReport
    from ..state.report import CompatibilityReport

_SECRET = re.compile(
    r"secret|password|passwd|token|credential|access[._-]?key|private[._-]?key|storage[._-]?options", re.IGNORECASE
)
_COLOURS = {
    "running": "green",
    "promoted": "green",
    "compatible": "green",
    "carried": "green",
    "went well": "green",
    "failed": "red",
    "lost": "red",
    "refused": "red",
    "not compatible": "red",
    "unreadable": "red",
    "damaged": "red",
    "rolled-back": "yellow",
    "ignored": "yellow",
    "standby": "yellow",
    "draining": "yellow",
    "suspended": "yellow",
}
NOTHING = "-"


def print_json(value: Any) -> None:
    """One JSON document."""
    from ..state.serde import to_dict

    click.echo(json.dumps(to_dict(value), indent=2, sort_keys=True, default=str))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[Any]], right: Iterable[str] = ()) -> None:
    """A table without lines, for people and for awk alike; the columns in `right` are aligned right. On a terminal that
    is too narrow cells are folded, never cut."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, justify="right" if column in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(_cell(value) for value in row))
    _print(table)


def print_facts(facts: Mapping[str, Any]) -> None:
    """Name and value, a line each; facts without a value are left out."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True, style="bold")
    table.add_column(overflow="fold")
    for name, value in facts.items():
        if value not in (None, ""):
            table.add_row(name, _cell(value))
    _print(table)


def _print(table: Table) -> None:
    from rich.console import Console

    if sys.stdout.isatty():
        Console(file=sys.stdout, highlight=False).print(table)
        return
    wide = Console(file=sys.stdout, width=10_000, highlight=False)  # nothing is cut or wrapped for a program
    with wide.capture() as captured:
        wide.print(table)
    for line in captured.get().splitlines():
        click.echo(line.rstrip())


def _cell(value: Any) -> Text:
    import rich.text  # as plain text: square brackets are no markup

    text = NOTHING if value is None or value == "" else str(value)
    return rich.text.Text(text, style=_COLOURS.get(text, ""))


def size(count: int) -> str:
    """Bytes for people, e.g. ``1.2 MB``."""
    from rich.filesize import decimal

    return decimal(count)


def moment(text: str | None) -> str | None:
    """A stored time, to the second, e.g. ``2026-11-21T03:20:48Z``."""
    from ..state import clock

    return None if text is None else clock.parse(text).strftime("%Y-%m-%dT%H:%M:%SZ")


def ago(text: str | None) -> str | None:
    """How long ago a stored time was, e.g. ``0.4 s``, ``3 min``."""
    from ..state import clock

    if text is None:
        return None
    seconds = max(clock.age(text), 0.0)
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit} ago"
    return f"{seconds:.1f} s ago" if seconds < 10 else f"{seconds:.0f} s ago"


def number(value: float | None) -> str | None:
    """A rate or a count: no decimals from 100 on."""
    if value is None:
        return None
    return f"{value:.0f}" if value >= 100 or value == int(value) else f"{value:.1f}"


def redacted(values: Mapping[str, str]) -> dict[str, str]:
    """Settings with the values of those hidden whose names speak of secrets."""
    return {key: "(hidden)" if _SECRET.search(key) else value for key, value in values.items()}


def report_document(report: CompatibilityReport | RehearsalReport) -> dict[str, Any]:
    """A report as JSON: all verdicts or figures, the outcome and what stands in the way."""
    from ..state.rehearsal import RehearsalReport
    from ..state.serde import to_dict

    if isinstance(report, RehearsalReport):
        compared = report_document(report.compatibility)
        told = {"passed": report.passed, "outcome": report.outcome, "problems": report.problems}
        return {**to_dict(report), "compatibility": compared, **told}
    return {**to_dict(report), "compatible": report.compatible, "problems": report.problems}
