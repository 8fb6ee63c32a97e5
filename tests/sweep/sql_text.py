"""SQL expressions as tokens: enough to change one literal, one name or one argument and leave the rest."""

from __future__ import annotations

import re

import attrs

_TOKEN = re.compile(
    r"""
    (?P<space>\s+)
  | (?P<typed>\b(?:DATE|TIMESTAMP|TIMESTAMP_NTZ|TIMESTAMP_LTZ|TIME)\s*'(?:[^'\\]|\\.|'')*')
  | (?P<binary>\bX\s*'[0-9A-Fa-f]*')
  | (?P<string>\b[rR]'[^']*'|\b[rR]"[^"]*"|'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.)*")
  | (?P<number>(?:\d+\.\d*|\.\d+|\d+)(?:[eE][+-]?\d+)?(?:BD|[LlDdFfSsYy])?\b)
  | (?P<name>[A-Za-z_][A-Za-z_0-9]*|`[^`]*`)
  | (?P<operator><=>|->|=>|>>>|>>|<<|<=|>=|<>|!=|==|\|\||::|[-+*/%=<>!&|^~.,()\[\]:?])
    """,
    re.VERBOSE | re.IGNORECASE | re.DOTALL,
)
LITERALS = frozenset({"number", "string", "typed", "binary"})


@attrs.frozen
class Token:
    kind: str
    text: str

    @property
    def literal(self) -> bool:
        return self.kind in LITERALS

    def is_name(self, *names: str) -> bool:
        return self.kind == "name" and self.text.upper() in names


def tokens(sql: str) -> tuple[Token, ...]:
    """All tokens but the white space. ValueError for a character that is none of Spark SQL's."""
    found, position = [], 0
    while position < len(sql):
        match = _TOKEN.match(sql, position)
        if match is None:
            raise ValueError(f"no token of Spark SQL at {sql[position : position + 20]!r}")
        kind = str(match.lastgroup)
        if kind == "string" and match.group().startswith("."):
            kind = "operator"
        if kind != "space":
            found.append(Token(kind, match.group()))
        position = match.end()
    return tuple(found)


def sql(parts: tuple[Token, ...]) -> str:
    """The text of tokens. A name and a parenthesis stay together, and so do the parts of ``a.b``."""
    text, last = "", ""
    for token in parts:
        glued = not text or token.text in "),.](" + "[" or last in ("(", ".", "[")
        if (
            token.text in "(["
            and last
            and re.match(r"(?:AND|OR|IN|NOT|WHEN|THEN|ELSE|AS|BY|LIKE|->|,|[-+*/=<>|]+)$", last, re.I)
        ):
            glued = False
        text += token.text if glued else f" {token.text}"
        last = token.text
    return text


def replaced(parts: tuple[Token, ...], position: int, text: str, length: int = 1) -> tuple[Token, ...]:
    """The tokens with those from `position` on replaced by the ones of `text`."""
    return parts[:position] + tokens(text) + parts[position + length :]


def calls(parts: tuple[Token, ...]) -> list[tuple[int, list[tuple[int, int]]]]:
    """Every call: the position of its name, and where each of its arguments begins and ends."""
    found = []
    for position in range(len(parts) - 1):
        if parts[position].kind == "name" and parts[position + 1].text == "(":
            found.append((position, arguments(parts, position + 1)))
    return found


def arguments(parts: tuple[Token, ...], opening: int) -> list[tuple[int, int]]:
    """Where each argument between a parenthesis and the one that closes it begins and ends."""
    depth, begin, found = 0, opening + 1, []
    for position in range(opening, len(parts)):
        text = parts[position].text if parts[position].kind == "operator" else ""
        if text in ("(", "["):
            depth += 1
        elif text in (")", "]"):
            depth -= 1
            if depth == 0:
                return [*found, (begin, position)] if position > begin else found
        elif text == "," and depth == 1:
            found.append((begin, position))
            begin = position + 1
    return found


def split(text: str) -> list[str]:
    """The parts of a list that commas separate, as written: those of a SELECT, for example."""
    parts = tokens(f"({text})")
    return [sql(parts[begin:end]) for begin, end in arguments(parts, 0)]
