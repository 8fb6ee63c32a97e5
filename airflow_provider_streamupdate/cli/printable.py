"""Make untrusted text (an error, a log, a name in a file) safe to print on a terminal."""

from __future__ import annotations

import re

import click

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
    """Print a line on standard output, or on standard error."""
    click.echo(printable(text), err=err)
