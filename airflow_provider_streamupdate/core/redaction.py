"""Texts and settings as they may be shown: without secrets, however they are written.

Hidden are the values that were declared under names that suggest a secret, in all their spellings (escaped, quoted for
an address, as JSON, in base64), what a text itself gives under such a name (`password=`, `"token": ""`, `Bearer`),
known forms of keys, and the credentials in addresses. All that is shown passes here. Each function takes time linear in
its text.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import TypeVar

from . import address
from .address import Span, credential_spans, replace_spans
from .secret_names import HIDDEN, is_secret

T = TypeVar("T")
SHORTEST = 4  # characters: to hide shorter values would hide half of a text, and keep nothing secret
SHORTEST_LINE = 8  # the same for a line of a value that has several: a text may come line by line
LONGEST = 300  # of a value that is looked for in all spellings; of a longer one, its lines are
_WORDS_OF_ALL_TEXTS = ("true", "false", "none", "null")  # `...token.enabled=true` makes no secret of each "true"

_QUOTE = r"\\{0,15}[\"']"  # JSON within JSON has backslashes before its quotes
_OF_PAIR = rf"\s{{0,8}},\s{{0,8}}(?:{_QUOTE}value{_QUOTE}\s{{0,8}}:\s{{0,8}})?"
_IS = rf"(?P<is>\s{{0,8}}(?:=>|->|[=:>])\s{{0,8}}|{_OF_PAIR}|(?(dash)\s{{1,8}}|(?!)))"
_NAMED = re.compile(rf"(?<![\w.-])(?P<dash>-)?(?P<name>[\w.-]{{1,300}})(?P<close>{_QUOTE})?{_IS}(?P<open>{_QUOTE})?")
_BARE = re.compile(r"(?:[^\s&;\"'\\<]|\\+(?![\"'\\]))+")
_BRACKETS = re.compile(r"[\[\](){}]")
_PAIRS = {"[": 1, "(": 1, "{": 1, "]": -1, ")": -1, "}": -1}
# After Airflow's masker, Spark's spark.redaction.regex and the detectors of detect-secrets.
_KEYS = re.compile(
    r"(?<![\w-])(?:(?:AKIA|ASIA|ABIA|ACCA)[0-9A-Z]{16}|gh[pousr]_\w{20,255}|github_pat_\w{20,255}|glpat-[\w-]{20,255}|"
    r"xox[abeoprs]-[\w-]{10,255}|[sr]k_(?:live|test)_\w{16,255}|AIza[\w-]{35}|dapi[0-9a-f]{32}|hf_[A-Za-z0-9]{30,255}|"
    r"SG\.[\w-]{16,64}\.[\w-]{16,64}|eyJ[\w-]{8,8192}\.[\w-]{8,8192}(?:\.[\w-]{0,8192})?)|"
    r"-----BEGIN[A-Z ]{0,40} PRIVATE KEY[A-Z ]{0,9}-----[^-]*(?:-----END[A-Z ]{0,60}-----)?"
)
_BEARER = re.compile(
    r"\b(?:bearer|negotiate|basic(?=\s{1,8}[A-Za-z0-9+/]*[0-9=]))\s{1,8}(?P<key>[^\s\"'\\,;]{4,})", re.I
)


def hide(text: str, values: Iterable[str] = ()) -> str:
    """Return the text with each of the values hidden, in all its spellings, and with all that looks like a secret."""
    text = address.without_credentials(without(text, values))
    return replace_spans(text, _secret_spans(text), HIDDEN)


def redacted(values: Mapping[str, T]) -> dict[str, T | str]:
    """Return the settings, with the values hidden of those whose names suggest a secret, and in other values what looks
    like one."""
    return {
        key: HIDDEN if is_secret(key) else hide(value) if isinstance(value, str) else value
        for key, value in values.items()
    }


def secret_values(*settings: Mapping[str, str]) -> tuple[str, ...]:
    """Return what is to be hidden in a text of the settings whose names suggest a secret, the longest first: with their
    lines, and what looks like a secret within any setting (the password of a JAAS configuration)."""
    found = {value.strip() for values in settings for key, value in values.items() if is_secret(key)}
    for value in [value for values in settings for value in values.values()]:
        found |= {value[slice(*span)] for span in (*_secret_spans(value), *credential_spans(value))}
    found |= {part for value in found for part in value.split(":", 1) if len(part) >= SHORTEST_LINE}
    lines = (line.strip() for value in found for line in re.split(r"\n|\\n", value))
    found |= {line for line in lines if len(line) >= SHORTEST_LINE}
    shown = (v for v in found if len(v) >= SHORTEST and v.lower() not in _WORDS_OF_ALL_TEXTS)
    return tuple(sorted(shown, key=lambda value: (-len(value), value)))


def without_secrets(text: str, *settings: Mapping[str, str]) -> str:
    """Return the text without the values of settings whose names suggest a secret."""
    return without(text, secret_values(*settings))


def without(text: str, values: Iterable[str]) -> str:
    """Return the text with each of the values hidden, however it is written."""
    for value in values:
        text = text.replace(value, HIDDEN)
        for form in _in_base64(value):
            text = text.replace(form, HIDDEN)
        runs = _runs(value)
        if runs != [value] and len(value) <= LONGEST and all(run in text for run in runs):
            text = _in_all_spellings(value).sub(HIDDEN, text)
    return text


def _secret_spans(text: str) -> list[Span]:
    """Return where the text itself says that something is a secret, or where something has the form of a key."""
    keys = [found.span() for found in _KEYS.finditer(text)]
    return [*keys, *(found.span("key") for found in _BEARER.finditer(text)), *_named_spans(text)]


def _named_spans(text: str) -> Iterator[Span]:
    """Yield where the values of names that suggest a secret are: ``name=value``, ``"name": "value"``, ``--name value``,
    ``("name", "value")``, ``<name>value<``, within JSON that is itself a text of JSON, too."""
    at = 0
    while found := _NAMED.search(text, at):
        at = found.end("is")
        sign = found["is"].strip()
        if not is_secret(found["name"]) or not _gives(text, found, sign[:1]):
            continue
        start = found.end()
        end = _value_end(text, start, found["open"], to_end_of_line=found["name"].lower().endswith("authorization"))
        at = max(at, end)
        if found["is"] == ": " and not found["open"] and text[start:end].isalpha() and text[end : end + 1] == " ":
            continue  # a sentence about what has that name, "tokens: its keys changed"
        if end > start and not text.startswith((HIDDEN, address.HIDDEN), start):
            yield start, end


def _gives(text: str, found: re.Match[str], sign: str) -> bool:
    """Return whether the value of a name follows: after a comma it does so in a pair, and after `>` in XML."""
    before = text[max(0, found.start() - 20) : found.start()].rstrip("\\\"'")[-1:]
    if sign == ",":
        named = found["is"].rstrip().endswith(":")
        return named or before == "(" or bool(found["dash"])
    return sign != ">" or (before == "<" and found["is"] == ">")


def _value_end(text: str, start: int, opened: str | None, to_end_of_line: bool) -> int:
    """Return where a value ends: at the quote that closes it, at the bracket that does, or with the word."""
    line = text.find("\n", start)
    line = len(text) if line < 0 else line
    if opened is not None:
        quote, depth, at = opened[-1], len(opened) - 1, start
        while (at := text.find(quote, at)) >= 0:
            escapes = text[max(start, at - depth - 1) : at]
            if len(escapes) - len(escapes.rstrip("\\")) <= depth:
                return at - (len(escapes) - len(escapes.rstrip("\\")))
            at += 1
        return line
    if to_end_of_line:
        return line
    if text[start : start + 1] in ("{", "[", "("):
        depth = 0
        for bracket in _BRACKETS.finditer(text, start):
            depth += _PAIRS[bracket[0]]
            if depth == 0:
                return bracket.end()
        return len(text)
    word = _BARE.match(text, start)
    return start + len(word[0].rstrip(",.)}]:")) if word else start


def _runs(value: str) -> list[str]:
    """Return the letters and digits of a value that no spelling changes."""
    return re.findall(r"[A-Za-z0-9]+", value)


@lru_cache(maxsize=1024)
def _in_base64(value: str) -> tuple[str, ...]:
    """Return what base64 makes of a value, alone or within a longer text (``user:password``)."""
    data = value.encode(errors="surrogatepass")
    if len(data) < SHORTEST_LINE or len(data) > 100_000:
        return ()
    found = {
        encode(bytes(before) + data)[-(-before * 8 // 6) : (before + len(data)) * 8 // 6].decode()
        for before in range(3)
        for encode in (base64.b64encode, base64.urlsafe_b64encode)
    }
    return tuple(sorted(found))


@lru_cache(maxsize=1024)
def _in_all_spellings(value: str) -> re.Pattern[str]:
    """Return a pattern of a value as repr(), JSON (within JSON), URLs, HTML and bytes have it."""
    parts = re.findall(r"[A-Za-z0-9]+|\s+|.", value, re.DOTALL)
    return re.compile("".join(part if part[0].isascii() and part.isalnum() else _escaped(part) for part in parts))


def _escaped(part: str) -> str:
    if part.isspace():
        return r"(?:\s|\\{1,16}(?:[nrt]|u00[02][9ad0]|x[02][9ad0])|(?i:%(?:25){0,3}(?:0[9ad]|20))|&#\d{1,3};|\+){1,64}"
    code, octets = ord(part), part.encode(errors="surrogatepass")
    units = part.encode("utf-16-be", errors="surrogatepass").hex()
    forms = [
        rf"\\{{0,16}}{re.escape(part)}",
        "".join(rf"\\{{1,16}}u{units[i : i + 4]}" for i in range(0, len(units), 4)),
        "".join(rf"%(?:25){{0,3}}{octet:02x}" for octet in octets),
        "".join(rf"\\{{1,16}}x{octet:02x}" for octet in octets),
        rf"\\{{1,16}}(?:x{code:02x}|U{code:08x})",
        rf"&(?:amp;){{0,2}}(?:#{code}|#x{code:x}|#0{code}|#x0{code:x}|{_ENTITIES.get(part, '(?!)')});",
    ]
    return f"(?:{forms[0]}|(?i:{'|'.join(forms[1:])}))"


_ENTITIES = {"&": "amp", "<": "lt", ">": "gt", '"': "quot", "'": "apos"}
