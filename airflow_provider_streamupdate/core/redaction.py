"""Texts and settings as they may be shown: without secrets, however they are written.

Hidden are the values that were declared under names that suggest a secret, in all their spellings (escaped, quoted for
an address, as JSON, in base64), what a text itself gives under such a name (`password=`, `"token": ""`, `Bearer`),
known forms of keys, and the credentials in addresses. All that is shown passes here. Each function takes time linear in
its text.
"""

from __future__ import annotations

import base64
import html
import json
import re
import sys
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, TypeVar
from urllib.parse import quote

from . import address
from .address import Span, credential_spans, replace_spans
from .errors import CUT
from .secret_names import HIDDEN, is_secret

T = TypeVar("T")
SHORTEST = 4  # characters: to hide shorter values would hide half of a text, and keep nothing secret
CUTS = 20  # marks of a cut that are looked at in a text
LONGEST_CUT = 8_192  # characters of the beginning of a secret that are looked for there
SHORTEST_LINE = 8  # the same for a line of a value that has several: a text may come line by line
_WORDS_OF_ALL_TEXTS = ("true", "false", "none", "null")  # `...token.enabled=true` makes no secret of each "true"

_QUOTE = r"\\{0,15}[\"']"  # JSON within JSON has backslashes before its quotes
_OF_PAIR = rf"\s{{0,8}},\s{{0,8}}(?:{_QUOTE}value{_QUOTE}\s{{0,8}}:\s{{0,8}})?"
_IS = rf"(?P<is>\s{{0,8}}(?:=>|->|[=:>])\s{{0,8}}|{_OF_PAIR}|(?(dash)\s{{1,8}}|\s{{1,8}}(?=[\"'])))"
_OPEN = rf"(?:[bBuUrRfF]{{1,2}}(?={_QUOTE}))?(?P<open>{_QUOTE})?"
_NAMED = re.compile(rf"(?<![\w.-])(?P<dash>-)?(?P<name>[\w.-]{{1,300}})(?P<close>{_QUOTE})?{_IS}{_OPEN}")
_BARE = re.compile(r"(?:[^\s&;\"'\\<]|\\+(?![\"'\\]))+")
_BRACKETS = re.compile(r"[\[\](){}]")
_PAIRS = {"[": 1, "(": 1, "{": 1, "]": -1, ")": -1, "}": -1}
# After Airflow's masker, Spark's spark.redaction.regex and the detectors of detect-secrets.
_KEYS = re.compile(
    r"(?<![\w-])(?:(?:AKIA|ASIA|ABIA|ACCA)[0-9A-Z]{16}|gh[pousr]_\w{20,255}|github_pat_\w{20,255}|glpat-[\w-]{20,255}|"
    r"xox[abeoprs]-[\w-]{10,255}|[sr]k_(?:live|test)_\w{16,255}|AIza[\w-]{35}|dapi[0-9a-f]{32}|hf_[A-Za-z0-9]{30,255}|"
    r"SG\.[\w-]{16,64}\.[\w-]{16,64}|eyJ[\w-]{8,8192}\.[\w-]{8,8192}(?:\.[\w-]{0,8192})?)|"
    r"-----BEGIN[A-Z ]{0,40} PRIVATE KEY[A-Z ]{0,9}-----(?:[^-]|-(?!----))*(?:-----END[A-Z ]{0,60}-----)?"
)
_BEARER = re.compile(
    r"\b(?:bearer|negotiate|basic(?=\s{1,8}[A-Za-z0-9+/]*[0-9=]))\s{1,8}(?P<key>[^\s\"'\\,;]{4,})", re.I
)


def hide(text: str, values: Iterable[str] = ()) -> str:
    """Return the text with each of the values hidden, in all its spellings, and with all that looks like a secret."""
    text = address.without_credentials(without(text, values))
    return replace_spans(text, _secret_spans(text), HIDDEN)


def each_text(value: Any, change: Callable[[str], str]) -> Any:
    """Return plain data with each of its texts changed."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {key: each_text(item, change) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [each_text(item, change) for item in value]
    return value


def redacted(values: Mapping[str, T], secrets: Iterable[str] = ()) -> dict[str, T | str]:
    """Return the settings, with the values hidden of those whose names suggest a secret, and in other values what looks
    like one, and each of the `secrets`."""
    secrets = tuple(secrets)
    return {
        key: HIDDEN if is_secret(key) else hide(value, secrets) if isinstance(value, str) else value
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


def without(text: str, values: Iterable[str]) -> str:
    """Return the text with each of the values hidden, however it is written."""
    values = tuple(values)
    forms = tuple(form for value in values for form in _in_base64(value))
    spans = [*_spelled_spans(text, (*values, *forms)), *_wrapped_spans(text, forms)]
    text = replace_spans(text, spans, HIDDEN)
    for value in values:
        text = text.replace(value, HIDDEN)
    return text


def _spelled_spans(text: str, values: tuple[str, ...]) -> Iterator[Span]:
    """Yield where the text has one of the values as repr(), JSON (within JSON), a shell, SQL, URLs, HTML or bytes write
    it: the value and the text are read alike, then one is looked for in the other."""
    read, passes = _read(text) if values else ("", [])
    cuts = _cuts(read)
    for value in map(_read_value, values):
        if len(value) >= SHORTEST:
            for span in (*_places(read, value), *_cut_places(read, value, cuts)):
                yield _before(span, passes)


def _wrapped_spans(text: str, forms: tuple[str, ...]) -> Iterator[Span]:
    """Yield where one of these texts of base64 is broken into lines."""
    if not forms or not _LINE_END.search(text):
        return
    unwrapped = _Pass(text, _LINE_END, lambda found: "")
    for form in forms:
        for span in _places(unwrapped.text, form):
            yield _before(span, [unwrapped])


def _places(text: str, value: str) -> Iterator[Span]:
    at = text.find(value)
    while at >= 0:
        yield at, at + len(value)
        at = text.find(value, at + len(value))


def _cuts(text: str) -> list[int]:
    """Return where a text was cut: at its end, and before the marks of a cut, the last ones."""
    found, at = [len(text)], len(text)
    while len(found) < CUTS and (at := text.rfind(CUT, 0, at)) >= 0:
        found.append(at)
    return found


def _cut_places(text: str, value: str, cuts: Iterable[int]) -> Iterator[Span]:
    """Yield where the text was cut within the value: what is left is a beginning of it."""
    for end in cuts if value[:SHORTEST].strip(CUT) else ():
        at = max(0, end - min(len(value) - 1, LONGEST_CUT))
        while (at := text.find(value[:SHORTEST], at, end)) >= 0:
            if value.startswith(text[at:end]):
                yield at, end
                break
            at += 1


def _before(span: Span, passes: list[_Pass]) -> Span:
    """Return where a place of the text that the last pass made was before the first one."""
    start, end = span
    for each in reversed(passes):
        start, end = each.before(start), each.before(end - 1, last=True)
    return start, end


def _secret_spans(text: str) -> list[Span]:
    """Return where the text itself says that something is a secret, or where something has the form of a key."""
    keys = [found.span() for found in _KEYS.finditer(text)]
    return [*keys, *(found.span("key") for found in _BEARER.finditer(text)), *_named_spans(text)]


def _named_spans(text: str) -> Iterator[Span]:
    """Yield where the values of names that suggest a secret are: ``name=value``, ``"name": "value"``, ``--name value``,
    ``("name", "value")``, ``<name>value<``, ``OPTIONS (name 'value')``, within JSON that is itself a text of JSON,
    too."""
    at = line = 0
    while found := _NAMED.search(text, at):
        at = found.end("is")
        sign = found["is"].strip()
        if not is_secret(found["name"]) or not _gives(text, found, sign[:1]):
            continue
        start = found.end()
        if line < start:  # not for each value: the text may be a single line
            line = text.find("\n", start)
            line = len(text) if line < 0 else line
        of_line = found["name"].lower().endswith("authorization")
        end = _value_end(text, start, line, found["open"], to_end_of_line=of_line)
        at = max(at, end)
        if found["is"] == ": " and not found["open"] and text[start:end].isalpha() and text[end : end + 1] == " ":
            continue  # a sentence about what has that name, "tokens: its keys changed"
        if end > start and not text.startswith((HIDDEN, address.HIDDEN), start):
            yield start, end


def _gives(text: str, found: re.Match[str], sign: str) -> bool:
    """Return whether the value of a name follows: after a comma it does so in a pair, after `>` in XML, and after
    nothing as an option of SQL."""
    before = text[max(0, found.start() - 20) : found.start()].rstrip("\\\"'")[-1:]
    if not sign:
        return bool(found["dash"]) or text[max(0, found.start() - 20) : found.start()].rstrip()[-1:] in ("(", ",")
    if sign == ",":
        named = found["is"].rstrip().endswith(":")
        return named or before == "(" or bool(found["dash"])
    return sign != ">" or (before == "<" and found["is"] == ">")


def _value_end(text: str, start: int, line: int, opened: str | None, to_end_of_line: bool) -> int:
    """Return where a value ends: at the quote that closes it, at the bracket that does, or with the word.

    line: where its line ends
    """
    if opened is not None:
        quote, depth = opened[-1], len(opened) - 1
        at = start + 2 * text.startswith(2 * quote, start)  # of three quotes
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


@lru_cache(maxsize=1024)
def _in_base64(value: str) -> tuple[str, ...]:
    """Return what base64 makes of a value, plain or quoted for JSON or an address, alone or within a longer text
    (``user:password``)."""
    data = value.encode(errors="surrogatepass")
    if len(data) < SHORTEST_LINE or len(data) > 100_000:
        return ()
    quoted = (json.dumps(value)[1:-1].encode(), quote(data, safe="").encode())
    found = {
        encode(bytes(before) + spelled)[-(-before * 8 // 6) : (before + len(spelled)) * 8 // 6].decode()
        for spelled in {data, *quoted}
        for before in range(3)
        for encode in (base64.b64encode, base64.urlsafe_b64encode)
    }
    return tuple(sorted(found))


_HEX = "[0-9a-fA-F]"
_NO_ASCII = re.compile(r"[^\x00-\x7f]+")
_ESCAPES = re.compile(
    rf"(?P<units>(?:\\+u{_HEX}{{4}})+)|\\+U(?P<long>000{_HEX}{{5}})|(?P<octets>(?:\\+x{_HEX}{{2}})+)|"
    rf"(?P<space>\\+[nrt])|(?P<slashes>\\+)|%(?:25)*(?P<percent>{_HEX}{{2}})|&(?:amp;)*(?P<entity>#?\w{{1,8}};)"
)
_LINE_END = re.compile(r"(?:[\r\n]|\\{1,8}[rn])[ \t]{0,8}")
_SIGNS = re.compile(r"[\s+\"']+")  # one space where any is; quotes alone are nothing, since some spellings double them
_LAYERS = 3  # JSON in HTML in a URL


@lru_cache(maxsize=1024)
def _read_value(value: str) -> str:
    return _read(value)[0].strip()


def _read(text: str) -> tuple[str, list[_Pass]]:
    """Return the text without the escapes of all spellings, its other characters as the octets of UTF-8; and the passes
    that led from one to the other."""
    passes = [_Pass(text, _NO_ASCII, lambda found: _octets(found[0]))]
    for _ in range(_LAYERS):
        passes.append(_Pass(passes[-1].text, _ESCAPES, _unescaped))
        if passes[-1].text == passes[-2].text:
            break
    passes.append(_Pass(passes[-1].text, _SIGNS, lambda found: " " if found[0].strip("\"'") else ""))
    return passes[-1].text, passes


class _Pass:
    """A text in which something was replaced, and where each part of it was before."""

    def __init__(self, text: str, pattern: re.Pattern[str], by: Callable[[re.Match[str]], str]) -> None:
        self._now, self._before = [0], [(0, 0)]  # where a part begins now; where it began and, if replaced, ended
        made, length, done = list[str](), 0, 0
        for found in pattern.finditer(text):
            new = by(found)
            made += text[done : found.start()], new
            length += found.start() - done
            self._now += length, length + len(new)
            self._before += found.span(), (found.end(), 0)
            length, done = length + len(new), found.end()
        self.text = "".join((*made, text[done:]))

    def before(self, at: int, last: bool = False) -> int:
        """Return where the character at a place began before, or with `last` where it ended."""
        part = bisect_right(self._now, at) - 1
        start, end = self._before[part]
        if end:
            return end if last else start
        return start + at - self._now[part] + last


def _octets(text: str) -> str:
    return text.encode(errors="surrogatepass").decode("latin-1")


def _unescaped(found: re.Match[str]) -> str:
    """Return what an escape stands for; one of backslashes alone stands for nothing."""
    kind = str(found.lastgroup)
    data = found[kind]
    if kind in ("space", "slashes"):
        return data.lstrip("\\") and " "
    if kind == "entity":
        return _octets(html.unescape(f"&{data}"))
    if kind == "percent":
        return chr(int(data, 16))
    if kind == "long":
        return _octets(chr(int(data, 16))) if int(data, 16) <= sys.maxunicode else found[0]
    raw = bytes.fromhex(re.sub(r"[\\ux]", "", data))
    if kind == "units":
        return _octets(raw.decode("utf-16-be", errors="surrogatepass"))
    try:
        return _octets(raw.decode())
    except UnicodeDecodeError:
        return _octets(raw.decode("latin-1"))
