"""Take ways on that a check offers: the suggested renames (``--accept suggested``), or what a person chooses
(``--interactive``)."""

from __future__ import annotations

import functools
import shlex
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import attrs
import click

from .messages import echo
from .settings import Settings

if TYPE_CHECKING:
    from ..control.operations.check import CheckOptions
    from ..control.update.options import UpdateOptions
    from ..core.compatibility.report import CompatibilityReport
    from ..core.compatibility.verdict import Remedy, ReportItem

_O = TypeVar("_O", "CheckOptions", "UpdateOptions")
ARGUMENTS = "streamupdate.arguments"  # in a context's meta: what the command line was
SUGGESTED = "suggested"


def at_terminal() -> bool:
    """Return whether a person can be asked."""
    return sys.stdin.isatty() and sys.stderr.isatty()


@attrs.define
class Acceptance:
    """The ways on that are taken without being named."""

    suggested: bool = False
    interactive: bool = False
    _seen: set[str] = attrs.field(init=False, factory=set)  # problems that were answered, by thing and name

    def check(self, options: _O, check: Callable[[_O], CompatibilityReport]) -> tuple[_O, CompatibilityReport]:
        """Check until there is nothing more to take. Return the options with what was taken, and the last report."""
        taken: list[Remedy] = []
        report = check(options)
        while ways := list(self._choose(report)):
            taken += ways
            for way in ways:
                echo(f"taken: {_flag(way)}", err=True)
            options = _with_ways(options, ways)
            report = check(options)
        if taken:
            echo(f"the same without asking: {_command(taken)}", err=True)
        return options, report

    def _choose(self, report: CompatibilityReport) -> Iterator[Remedy]:
        ways = (item.suggestion for item in report.items if item.blocks)
        targets = Counter(_target(way) for way in ways if way is not None)
        for item in report.items:
            if item.blocks and (key := f"{item.thing} {item.name}") not in self._seen:
                self._seen.add(key)
                way = _ask(item) if self.interactive else item.suggestion if self.suggested else None
                several = way is not None and targets[_target(way)] > 1  # which of them it continues is not known
                if way is not None and way.option is not None and (self.interactive or not several):
                    yield way


def _target(way: Remedy) -> tuple[str, str]:
    """Return the query and the new name of a rename."""
    old, _, new = str(way.value).partition("=")
    return old.rpartition("/")[0], new


def accept_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a command to get an `acceptance`; None where neither option is given."""

    @click.option(
        "--accept",
        type=click.Choice((SUGGESTED,), case_sensitive=False),
        help="Take the renames that the check suggests because the plans show them to be right. Never a loss.",
    )
    @click.option("--interactive", is_flag=True, help="Ask for each problem which way on to take.")
    @functools.wraps(function)
    def wrapper(*args: Any, accept: str | None, interactive: bool, **given: Any) -> Any:
        if interactive and accept:
            raise click.UsageError("--accept and --interactive exclude each other")
        as_json = click.get_current_context().ensure_object(Settings).as_json
        if interactive and (as_json or not at_terminal()):
            raise click.UsageError(f"--interactive needs a terminal, and no --json; give --accept {SUGGESTED} instead")
        acceptance = Acceptance(suggested=bool(accept), interactive=interactive) if accept or interactive else None
        return function(*args, acceptance=acceptance, **given)

    return wrapper


def _ask(item: ReportItem) -> Remedy | None:
    """Ask for one way after the other; None: for none of them."""
    from ..core.compatibility.verdict import REASON

    echo(f"\n{item.thing} {item.name}: {item.reason}", err=True)
    if item.is_dead_end:
        echo(item.next_steps[-1], err=True)
    for way in item.ways_on:
        if click.confirm(f"{way.fate}: {way.text}?", default=False, err=True):
            if way.value is not None and way.value.endswith(REASON):
                because = click.prompt("the reason, for the report", err=True)
                return attrs.evolve(way, value=f"{way.value.removesuffix(REASON)}={because}")
            return way
    return None


def _with_ways(options: _O, ways: list[Remedy]) -> _O:
    from ..core.compatibility.verdict import AGREE, RENAME

    pairs = (str(way.value).partition("=") for way in ways if way.option == RENAME)
    renames = {**(options.renames or {}), **{old: new for old, _, new in pairs}}
    agree = (*options.agree, *(str(way.value) for way in ways if way.option == AGREE))
    return attrs.evolve(options, renames=renames, agree=agree)


def _flag(way: Remedy) -> str:
    return f"{way.option} {shlex.quote(str(way.value))}"


def _command(ways: list[Remedy]) -> str:
    context = click.get_current_context()
    words = [word for word in context.meta[ARGUMENTS] if word not in ("--interactive", f"--accept={SUGGESTED}")]
    if "--accept" in words:
        del words[(place := words.index("--accept")) : place + 2]
    return " ".join([context.find_root().info_name or "", shlex.join(words), *map(_flag, ways)])
