"""An error with the exit code of the command."""

from __future__ import annotations

from typing import Any

import click

from .printable import printable

# Exit codes: the request failed; wrong usage or unreadable input; Ctrl-C, as in shells.
FAILED, USAGE, INTERRUPTED = 1, 2, 130


class Failure(click.ClickException):
    """An error that ends the command.

    code: the exit code; kind: the error's type in --json output; details: more fields of the JSON document
    """

    def __init__(self, message: str, kind: str, code: int, details: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.code = code
        self.details = details or {}

    def format_message(self) -> str:
        return printable(self.message)

    @classmethod
    def of(cls, error: Exception, code: int = FAILED) -> Failure:
        """Return the failure for an error of this package; an IncompatibleError's report goes into the details."""
        details = {}
        if (report := getattr(error, "report", None)) is not None:
            from .output import report_document

            details["report"] = report_document(report)
        return cls(str(error), type(error).__name__, code, details)
