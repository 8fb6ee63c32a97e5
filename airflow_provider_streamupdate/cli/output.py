"""What commands print on standard output: tables, facts, JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from ..core.errors import StreamUpdateError
from .messages import FAILED, USAGE, Failure, echo, printable
from .settings import Settings

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

    from ..control.report_data import Report
    from ..core.registry.deployment import DriverState

_COLOURS = {
    "running": "green",
    "promoted": "green",
    "compatible": "green",
    "carried": "green",
    "went well": "green",
    "failed": "red",
    "lost": "red",
    "silent": "yellow",
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
    """Print one JSON document."""
    from ..core.serde import to_dict

    click.echo(json.dumps(to_dict(value), indent=2, sort_keys=True, default=str))


def print_result(settings: Settings, document: Any, *lines: str) -> None:
    """Print what a command has done: as lines for people, or with --json as a document."""
    if settings.as_json:
        print_json(document)
        return
    for line in lines:
        echo(line)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[Any]], right: Iterable[str] = ()) -> None:
    """Print a table without lines, readable for people and for awk.

    The columns in `right` are aligned right. On a narrow terminal, cells are folded, never cut.
    """
    lines = [tuple(columns), *(tuple(map(_text, row)) for row in rows)]
    if sys.stdout.isatty() or any("\n" in cell for line in lines for cell in line):
        from rich.table import Table

        table = Table(box=None, pad_edge=False, header_style="bold")
        for column in columns:
            table.add_column(column, justify="right" if column in right else "left", overflow="fold")
        for line in lines[1:]:
            table.add_row(*map(_cell, line))
        return _print(table)
    # For a program: the same without rich, which takes a second for a thousand lines.
    widths = [max(map(_width, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        spaces = [" " * (width - _width(cell)) for cell, width in zip(line, widths, strict=True)]
        padded = [s + c if name in right else c + s for c, s, name in zip(line, spaces, columns, strict=True)]
        click.echo("  ".join(padded).rstrip())
    return None


def _width(text: str) -> int:
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def print_facts(facts: Mapping[str, Any]) -> None:
    """Print one line of name and value per fact; facts without a value are left out."""
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


def _text(value: Any) -> str:
    return NOTHING if value is None or value == "" else printable(str(value))


def _cell(value: Any) -> Text:
    """Return a cell as plain text: square brackets are no markup."""
    import rich.text

    text = _text(value)
    return rich.text.Text(text, style=_COLOURS.get(text, ""))


def size(count: int) -> str:
    """Return a number of bytes for people, e.g. ``1.2 MB``."""
    from rich.filesize import decimal

    return decimal(count)


def moment(text: str | None) -> str | None:
    """Return a stored time, to the second, e.g. ``2026-11-21T03:20:48Z``."""
    from ..core import clock

    return None if text is None else clock.parse(text).strftime("%Y-%m-%dT%H:%M:%SZ")


def ago(text: str | None) -> str | None:
    """Return how long ago a stored time was, e.g. ``0.4 s ago``, ``3 min ago``."""
    from ..core import clock

    if text is None:
        return None
    seconds = max(clock.age(text), 0.0)
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit} ago"
    return f"{seconds:.1f} s ago" if seconds < 10 else f"{seconds:.0f} s ago"


def heartbeat_age(state: DriverState, text: str | None) -> str | None:
    """Return the age of the last heartbeat, by this machine's clock; for a silent or lost driver "silent for ..."."""
    from ..core.registry.deployment import LOST, SILENT

    age = ago(text)
    return f"silent for {age.removesuffix(' ago')}" if age and state in (SILENT, LOST) else age


def number(value: float | None) -> str | None:
    """Return a rate or a count as text; without decimals from 100 on."""
    if value is None:
        return None
    return f"{value:.0f}" if value >= 100 or value == int(value) else f"{value:.1f}"


def batch_text(batch: int) -> str:
    """Return the number of a query's last batch as text; before its first one it is -1."""
    return "none" if batch < 0 else str(batch)


def batches_text(batches: Mapping[str, int]) -> str:
    """Return the last batch of each query as text, with its name where there are several."""
    texts = {name: batch_text(batch) for name, batch in sorted(batches.items())}
    return ", ".join(texts.values() if len(texts) == 1 else (f"{name} {text}" for name, text in texts.items()))


markdown_option = click.option("--markdown", is_flag=True, help="Print the report as Markdown.")


def end_with_report(
    settings: Settings,
    markdown: bool,
    make: Callable[[], Report],
    show: Callable[[Any], None],
    failures: tuple[type[StreamUpdateError], ...] = (),
) -> None:
    """Print the report that `make` returns: as JSON, as Markdown, or for people with `show`. End with its verdict.

    An error of `make` leaves no verdict (exit code 2), but one of `failures` is a verdict (1).
    """
    if markdown and settings.as_json:
        raise click.UsageError("--markdown and --json exclude each other")
    try:
        report = make()
    except StreamUpdateError as error:
        raise Failure.of(error, FAILED if isinstance(error, failures) else USAGE) from error
    from ..control.report_data import report_data

    data = report_data(report)
    if settings.as_json:
        print_json(data)
    elif markdown:
        echo(report.to_markdown().rstrip("\n"))
    else:
        show(report)
    click.get_current_context().exit(0 if data.get("compatible", data.get("passed")) else FAILED)
