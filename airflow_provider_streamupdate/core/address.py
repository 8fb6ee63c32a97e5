"""Addresses, alone or within a text, as they may be shown: without user, password and signature."""

from __future__ import annotations

import re
from collections.abc import Iterator

from .secret_names import is_secret

HIDDEN = "***"
CONTAINERS = ("abfs", "abfss", "wasb", "wasbs")  # container@account: what is before the @ is a place, and no user
_STORES = ("s3", "s3a", "s3n", "gs", "gcs")  # a bucket has no port
_WORD = re.compile(r"\S+")
_SCHEME = re.compile(r"(?<![\w+.-])([\w+.-]+)://")
_BEFORE_COLON = re.compile(r"[^/@:]*:")
_PORT = re.compile(r"\d{1,5}[/?#]")
_GIVEN = re.compile(r"(?:[?&;#]|%3f|%26)(?P<name>[^\s=?&;#/%]{1,80})=(?P<value>[^\s&;#]+)", re.IGNORECASE)
_SIGNATURE = re.compile(r"(^|[^a-z])sig(nature)?$", re.IGNORECASE)
Span = tuple[int, int]


def without_credentials(text: str) -> str:
    """Return the text with `***` for the user and the password of each address in it, and for what is given with it
    under a name that suggests a secret. What cannot be told from a password is hidden, too."""
    return replace_spans(text, credential_spans(text), HIDDEN)


def credential_spans(text: str) -> list[Span]:
    """Return where the text holds credentials of addresses. Takes time linear in the text, whatever it holds."""
    found = list[Span]()
    if "://" in text:
        for word in _WORD.finditer(text):
            found += _users(text, *word.span())
    given = ((m["name"], m.span("value")) for m in _GIVEN.finditer(text))
    return found + [span for name, span in given if is_secret(name) or _SIGNATURE.search(name)]


def _users(text: str, start: int, end: int) -> Iterator[Span]:
    """Yield where a word holds what is between a scheme and its `@`. A password may hold an @ and slashes of its own:
    after a colon all is hidden up to the last @."""
    last = text.rfind("@", start, end)
    while (scheme := _SCHEME.search(text, start, end)) and (start := scheme.end()) <= last:
        name, colon = scheme[1].lower(), _BEFORE_COLON.match(text, start, end)
        if colon and colon.end() <= last:
            if name not in _STORES and _PORT.match(text, colon.end(), end):
                continue  # host:port/path; another address may follow in the same word
            yield start, last
            return
        slash = text.find("/", start, end)
        at = text.rfind("@", start, end if slash < 0 else slash)
        if at >= 0:
            if name not in CONTAINERS or ":" in text[start:at]:
                yield start, at
            start = at + 1


def replace_spans(text: str, spans: list[Span], by: str) -> str:
    """Return the text with `by` in place of each span; spans that overlap or touch are one."""
    made, done = list[str](), 0
    for start, end in sorted(spans):
        if start > done or not made:
            made += text[done:start], by
        done = max(done, end)
    return "".join((*made, text[done:]))
