"""Text of others (an error, a log, a name in a file) before it reaches a terminal."""

from __future__ import annotations

import re

import click

# What a terminal obeys instead of showing it: control characters (ESC begins a sequence that sets titles, colours, or
# what a key types), and marks that turn the direction of text. Halves of surrogate pairs cannot be written at all.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str) -> str:
    """The text with each of these written out, e.g. ``\\x1b``."""
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape", "backslashreplace").decode(), text)


def echo(text: str = "", err: bool = False) -> None:
    """A line on standard output, or on standard error."""
    click.echo(printable(text), err=err)
