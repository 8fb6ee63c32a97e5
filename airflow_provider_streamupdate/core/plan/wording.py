"""The texts of expressions as people write them, for messages. The rules compare the exact texts
(expression.py); here what no author wrote is left out: digests, types of literals, usual settings."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

_BINARY = {
    "equalto": "=", "equalnullsafe": "<=>", "lessthan": "<", "lessthanorequal": "<=", "greaterthan": ">",
    "greaterthanorequal": ">=", "add": "+", "subtract": "-", "multiply": "*", "divide": "/", "remainder": "%",
    "like": "LIKE", "rlike": "RLIKE", "bitwiseand": "&", "bitwiseor": "|", "bitwisexor": "^",
}  # fmt: skip
_CALL = re.compile(r"([A-Za-z_]\w*|python#[0-9a-f]+)\(")
_NOISE = re.compile(r"#[0-9a-f]{8}$|(evalType|udfDeterministic|uses|timeZoneId|evalMode|ansiEnabled|failOnError)=")
_SET = re.compile(r"hset=\{(.*)\}$", re.DOTALL)
_MICROS = re.compile(r"(\d+):interval$")
_UNITS = ((86_400_000_000, "days"), (3_600_000_000, "hours"), (60_000_000, "minutes"), (1_000_000, "s"))
_PAIRS = {"(": ")", "[": "]", "{": "}"}


def worded(one: str, other: str) -> tuple[str, str]:
    """Two texts in words; as they are when words would not tell them apart."""
    made = words(one), words(other)
    return (one, other) if made[0] == made[1] else made


def words(text: str) -> str:
    """An expression, or a list of them, as SQL writes it, as far as it is known how. A text that is none stays."""
    if text.startswith("[") and text.endswith("]"):
        return "[" + ", ".join(words(part) for part in _parts(text[1:-1])) + "]"
    call = _CALL.match(text)
    end = -1 if call is None else _end(text, call.end() - 1)
    if 0 < end < len(text) and text[end:].startswith((".", " of (")):  # a field of what it gives, or what it is given
        return words(text[:end]) + text[end:]
    if call is None or end != len(text):
        return _literal(text)
    name, inner = call.group(1), text[call.end() : -1]
    parts = _parts(inner)
    given = [part for part in parts if not _NOISE.match(part)]
    if name.startswith("python#"):
        told = [part for part in given if not part.startswith("dataType=")]
        return f"Python function #{name[7:13]}({', '.join(map(words, told))})"
    if name in _BINARY and len(given) == 2:
        return f"{_operand(given[0])} {_BINARY[name]} {_operand(given[1])}"
    if (known := _KNOWN.get(name)) and (made := known(given)):
        return made
    shown = [words(part) for part in given]
    return text if shown == parts else f"{name}({', '.join(shown)})"


def _operand(text: str) -> str:
    """In brackets where it has operators of its own."""
    made = words(text)
    return f"({made})" if " " in made and not _closed(made) else made


def _closed(made: str) -> bool:
    call = _CALL.match(made)
    return (
        made.startswith("'")
        or (call is not None and _end(made, call.end() - 1) == len(made))
        or bool(re.fullmatch(r"\d+ \w+", made))
    )


def _literal(text: str) -> str:
    if (micros := _MICROS.match(text)) is None:
        return text.removesuffix(":interval") if re.fullmatch(r"-?\d+ \w+:interval", text) else text
    number = int(micros.group(1))
    for size, unit in _UNITS:
        if number % size == 0:
            return f"{number // size} {unit}"
    return f"{number} us"


def _joined(word: str) -> Callable[[list[str]], str | None]:
    return lambda given: f" {word} ".join(map(_operand, given)) if len(given) > 1 else None


def _after(word: str) -> Callable[[list[str]], str | None]:
    return lambda given: f"{_operand(given[0])} {word}" if len(given) == 1 else None


def _case(given: list[str]) -> str | None:
    if len(given) < 2:
        return None
    pairs = [f"WHEN {words(when)} THEN {words(then)}" for when, then in zip(given[::2], given[1::2], strict=False)]
    otherwise = [f"ELSE {words(given[-1])}"] if len(given) % 2 else []
    return " ".join(["CASE", *pairs, *otherwise, "END"])


def _in(given: list[str]) -> str | None:
    return f"{_operand(given[0])} IN ({', '.join(map(words, given[1:]))})" if len(given) > 1 else None


def _in_set(given: list[str]) -> str | None:
    held = _SET.match(given[1]) if len(given) == 2 else None
    return f"{_operand(given[0])} IN ({held.group(1)})" if held else None


def _cast(given: list[str]) -> str | None:
    if len(given) != 2 or not given[1].startswith("dataType="):
        return None
    kind = given[1].removeprefix("dataType=").strip("'")
    return f"CAST({words(given[0])} AS {kind})"


def _plus(given: list[str]) -> str | None:
    return f"{_operand(given[0])} + {words(given[1])}" if len(given) == 2 else None


_KNOWN: dict[str, Callable[[list[str]], str | None]] = {
    "and": _joined("AND"),
    "or": _joined("OR"),
    "not": lambda given: f"NOT {_operand(given[0])}" if len(given) == 1 else None,
    "isnull": _after("IS NULL"),
    "isnotnull": _after("IS NOT NULL"),
    "casewhen": _case,
    "if": _case,
    "in": _in,
    "inset": _in_set,
    "cast": _cast,
    "timestampaddinterval": _plus,
    "average": lambda given: f"avg({words(given[0])})" if len(given) == 1 else None,
    "unscaledvalue": lambda given: words(given[0]) if len(given) == 1 else None,  # of the optimizer (DecimalAggregates)
}


# A type of several parts, whose commas part no list.
_TYPES = re.compile(r"\b(?:struct|array|map)<[^()\[\]{}']*")  # up to its last ">"


def _parts(text: str) -> list[str]:
    """A list's elements: split at the commas that are in no brackets, no quotes and no type."""
    found, depth, quoted, begin = [], 0, False, 0
    inside = {at for kind in _TYPES.finditer(text) for at in range(kind.start(), text.rfind(">", *kind.span()) + 1)}
    for at, sign in enumerate(text):
        if sign == "'":
            quoted = not quoted
        elif quoted:
            continue
        elif sign in _PAIRS:
            depth += 1
        elif sign in _PAIRS.values():
            depth -= 1
        elif sign == "," and depth == 0 and at not in inside:
            found.append(text[begin:at].strip())
            begin = at + 1
    return [*found, text[begin:].strip()] if text.strip() else []


def _end(text: str, opening: int) -> int:
    """The position after the bracket that closes the one at `opening`; -1: none does."""
    depth, quoted = 0, False
    for at in range(opening, len(text)):
        sign = text[at]
        if sign == "'":
            quoted = not quoted
        elif quoted:
            continue
        elif sign in _PAIRS:
            depth += 1
        elif sign in _PAIRS.values():
            depth -= 1
            if depth == 0:
                return at + 1
    return -1


def once(reasons: Iterable[str], advice: str) -> str:
    """Reasons one after the other, each once; advice that several of them end with, at the end."""
    given = list(dict.fromkeys(reasons))
    plain = [reason.removesuffix(advice) for reason in given]
    told: list[str] = []
    for reason in plain:
        none, _, rest = reason.partition("no migration: ")
        head, colon, tail = rest.partition(": ")
        told.append(
            f"no migration: {tail}" if not none and colon and any(r.startswith(head) for r in plain) else reason
        )
    return "; ".join(dict.fromkeys(told)) + (advice if plain != given else "")
