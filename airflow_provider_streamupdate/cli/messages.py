"""Texts and errors of commands, safe to print on a terminal: they may quote a log, an error or a name in a file."""

from __future__ import annotations

import re
from typing import Any

import click

from ..core.redaction import hide

# Characters that a terminal obeys instead of showing: control characters (ESC begins a sequence that sets titles,
# colours, or what a key types), and marks that change the direction of text. Halves of surrogate pairs cannot be
# written at all.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str) -> str:
    """Return the text with each of these characters escaped, e.g. ``\\x1b``."""
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape", "backslashreplace").decode(), text)


def one_line(text: str) -> str:
    """Return the text printable, and on one line: a name may have several, which would look like what follows it."""
    return printable(text).replace("\n", "\\n")


def echo(text: str = "", err: bool = False) -> None:
    """Print a line on standard output, or on standard error: there it may quote an address or an error."""
    click.echo(printable(hide(text) if err else text), err=err)


# Exit codes: the request failed; wrong usage or unreadable input; Ctrl-C, as in shells.
FAILED, USAGE, INTERRUPTED = 1, 2, 130


class Failure(click.ClickException):
    """An error that ends the command."""

    def __init__(self, message: str, kind: str, code: int, details: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.kind = kind  # the error's type in --json output
        self.code = code  # the exit code
        self.details = details or {}  # more fields of the JSON document

    def format_message(self) -> str:
        return printable(self.message)

    @classmethod
    def of(cls, error: Exception, code: int = FAILED) -> Failure:
        """Return the failure for an error of this package; an IncompatibleError's report goes into the details."""
        details = {}
        if (report := getattr(error, "report", None)) is not None:
            from ..control.report_data import report_data

            details["report"] = report_data(report)
        return cls(str(error), type(error).__name__, code, details)
