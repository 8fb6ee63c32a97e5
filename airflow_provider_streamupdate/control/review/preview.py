"""What an update will change, as Markdown for the person who approves it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import attrs

from ...core.registry.application import Application
from ...core.registry.registry import AppRegistry
from ..operations.settings_diff import Changed, as_of, settings_diff
from .code import CodeDiff, compare_code, stored_files

LINES = 200  # of code that is shown; the update's page has all of it


def preview_changes(registry: AppRegistry, old: str, application: Application) -> str:
    """Return what differs between the deployment `old` and the application, in parameters, settings and code."""
    spec = as_of(registry, registry.spec(old), None)
    settings = settings_diff(spec, attrs.evolve(spec, application=application))
    code = compare_code(
        (stored_files(registry, old), spec.application), (_read_here, application), (old, "the new version")
    )
    return "\n".join([*_settings(settings, old), "", *_code(code, old)])


def _read_here(path: str, most: int) -> bytes | None:
    try:
        with Path(path).open("rb") as file:
            return file.read(most)
    except FileNotFoundError:
        return None


def _settings(changes: tuple[Changed, ...], old: str) -> Iterator[str]:
    if not changes:
        yield f"Parameters, configuration and environment are those of {old}."
        return
    yield f"Parameters, configuration and environment that differ from {old}:"
    yield ""
    yield "| part | key | before | after |"
    yield "|---|---|---|---|"
    for change in changes:
        cells = (change.part, change.key, change.before, change.after)
        yield "| " + " | ".join("" if c is None else re.sub(r"\s", " ", c).replace("|", "\\|") for c in cells) + " |"


def _code(code: CodeDiff, old: str) -> Iterator[str]:
    left = LINES
    yield f"Code that differs from {old}:" if code.files or code.notes else f"The code is that of {old}."
    for file in code.files:
        counted = f", +{file.added} -{file.removed}" if file.added is not None else ""
        yield ""
        yield f"`{file.name}`{counted}{f': {file.note}' if file.note else ''}"
        shown, left = file.lines[:left], max(left - len(file.lines), 0)
        if shown:
            longest = max((len(run) for line in shown for run in re.findall("`+", line)), default=0)
            fence = "`" * max(3, longest + 1)
            yield from ("", f"{fence}diff", *shown, fence)
        if len(shown) < len(file.lines):
            yield f"{len(file.lines) - len(shown)} more lines are not shown"
    yield from (f"- {note}" for note in code.notes)
