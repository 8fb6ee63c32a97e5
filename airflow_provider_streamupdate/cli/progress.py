"""Progress of long work on standard error: a spinner on a terminal, a line a step otherwise."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

from .failure import INTERRUPTED, Failure
from .settings import Settings


@contextmanager
def progress(first: str, interrupted: str) -> Iterator[Callable[[str], None]]:
    """Show `first`, then every line the block reports. `interrupted`: what Ctrl-C leaves behind and what to do next."""
    try:
        if sys.stderr.isatty():
            with _spinner(first) as report:
                yield report
        else:
            click.echo(first, err=True)
            yield lambda line: click.echo(line, err=True)
    except KeyboardInterrupt as error:
        raise Failure(f"interrupted; {interrupted}", "Interrupted", INTERRUPTED) from error


@contextmanager
def _spinner(first: str) -> Iterator[Callable[[str], None]]:
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    console = Console(stderr=True, highlight=False)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as shown:
        task = shown.add_task(escape(first), total=None)

        def report(line: str) -> None:
            console.print(line, markup=False)
            shown.update(task, description=escape(line.split("\n", 1)[0]))

        console.print(first, markup=False)
        yield report


def note(settings: Settings, line: str) -> None:
    """Say what was done, on standard output; not with --json, whose document says it."""
    if not settings.as_json:
        click.echo(line)
