"""Changes of an expression: each yields another text, which Spark may refuse. What a change does is not known here; it
is measured (`judge`)."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Iterable, Iterator

from tests.sweep.corpus import _UNITS, GREEDY, Expression, Function
from tests.sweep.sql_text import Token, arguments, calls, replaced, sql, tokens
from tests.sweep.table import COLUMNS, OF_TYPE

# fmt: off
_OPERATORS = {
    "<": ("<=", ">", "="), "<=": ("<", ">="), ">": (">=", "<", "<="), ">=": (">", "<="), "=": ("<=>", "<>", "<"),
    "==": ("<=>",), "<=>": ("=",), "<>": ("=",), "!=": ("=",), "+": ("-", "*"), "-": ("+",), "*": ("+", "/"),
    "/": ("*", "%", "DIV"), "%": ("/",), "&": ("|", "^"), "|": ("&", "^"), "^": ("&",), "<<": (">>", ">>>"),
    ">>": ("<<", ">>>"), ">>>": (">>",), "||": ("+",),
}
_WORDS = {
    "AND": ("OR",), "OR": ("AND",), "LIKE": ("ILIKE", "RLIKE"), "ILIKE": ("LIKE",), "RLIKE": ("LIKE",),
    "ANY": ("ALL",), "ALL": ("ANY",), "SOME": ("ALL",), "TRUE": ("FALSE",), "FALSE": ("TRUE",), "ASC": ("DESC",),
    "DESC": ("ASC", "DESC NULLS FIRST"), "FIRST": ("LAST",), "LEADING": ("TRAILING", "BOTH"), "BOTH": ("LEADING",),
    "TRAILING": ("LEADING",), "CAST": ("TRY_CAST",), "TRY_CAST": ("CAST",), "NULL": ("1", "'a'"), "NOT": ("",),
    "DISTINCT": ("",), "IGNORE": ("RESPECT",), "RESPECT": ("IGNORE",), "CUBE": ("ROLLUP",), "ROLLUP": ("CUBE",),
    "SYMMETRIC": ("ASYMMETRIC", ""), "DIV": ("/", "%"), "IF": ("nvl2",), "DOW": ("DAYOFWEEK_ISO", "DOY"),
    "UTF8_LCASE": ("UNICODE_CI", "UTF8_BINARY", "UNICODE"), "UNICODE_CI": ("UTF8_LCASE", "UNICODE", "UNICODE_AI"),
}
_TYPES = ("INT", "BIGINT", "TINYINT", "DOUBLE", "FLOAT", "STRING", "DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "BOOLEAN",
          "BINARY", "DECIMAL(10,2)", "DECIMAL(20,5)")
_ZONES = ("UTC", "Asia/Seoul", "America/New_York", "+05:30", "Europe/Berlin")
_UNIT_TEXTS = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND", "DOY", "MILLISECOND")
_FLAGS = {"true": "false", "false": "true", "PERMISSIVE": "FAILFAST", "FAILFAST": "PERMISSIVE"}
_FUNCTION_TWINS = (
    ("CAST", "TRY_CAST"), ("explode", "explode_outer"), ("posexplode", "posexplode_outer"), ("inline", "inline_outer"),
    ("max_by", "min_by"), ("max", "min"), ("first", "last"), ("first", "any_value"),
    ("percentile_cont", "percentile_disc"), ("collect_list", "collect_set"), ("var_pop", "var_samp"),
    ("stddev_pop", "stddev_samp"), ("covar_pop", "covar_samp"), ("exists", "forall"), ("leading", "trailing"),
    ("hash", "xxhash64"), ("ceil", "floor"), ("round", "bround"), ("left", "right"), ("ltrim", "rtrim"),
    ("lpad", "rpad"), ("add_months", "date_add"), ("to_utc_timestamp", "from_utc_timestamp"), ("next_day", "trunc"),
    ("sum", "avg"), ("count", "sum"), ("transform_keys", "transform_values"), ("array_union", "array_intersect"),
    ("array_except", "array_union"), ("regr_slope", "regr_intercept"), ("bit_and", "bit_or"), ("bit_or", "bit_xor"),
    ("bool_and", "bool_or"), ("window", "session_window"),
)
_COLUMNS = ("c_small", "c_unit", "c_str", "c_date", "c_ts", "c_ints", "c_bool", "c_dec3", "c_ci", "c_byte", "c_short",
            "c_float")  # of which a column of another type is taken
_LARGE = ("c_long", "c_double", "c_dec2")
_FIELDS = {"id": "age", "age": "id", "country": "region", "region": "country", "x": "y", "y": "x", "a": "b", "b": "a",
           "name": "id"}
_SCHEMA_TYPES = (("INT", "BIGINT"), ("INT", "STRING"), ("STRING", "INT"), ("DOUBLE", "FLOAT"), ("TIMESTAMP", "DATE"),
                 ("BIGINT", "INT"), ("DOUBLE", "STRING"))
_FORMATS = (("MM", "M"), ("dd", "d"), ("yyyy", "yy"), ("HH", "hh"), ("-", "/"), ("mm", "ss"), ("dd", "MM"))
# fmt: on


def mutants(seed: Expression, functions: Iterable[Function], of: random.Random, most: int) -> list[Expression]:
    """At most so many changed texts, each other than the seed's. The kinds of change are drawn in turn, so that no kind
    crowds another out."""
    if seed.sql.startswith("@"):
        head, parts = "@", tokens(seed.sql[1:].replace("{t}", "stream_table"))
    else:
        head, parts = "", tokens(seed.sql)
    made: dict[str, list[str]] = {}
    for change, new in _changes(parts, {f.name: f.group for f in functions}, of):
        text = head + (new if isinstance(new, str) else sql(new))
        text = text.replace("stream_table", "{t}") if head else text
        if text != seed.sql:
            made.setdefault(change, []).append(text)
    for texts in made.values():
        of.shuffle(texts)
    chosen: dict[str, str] = {}
    while len(chosen) < most and any(made.values()):
        for change, texts in made.items():
            if texts and len(chosen) < most:
                chosen.setdefault(texts.pop(), change)
    return [Expression(text, seed.function, seed.sql, change) for text, change in chosen.items()]


def _changes(
    parts: tuple[Token, ...], groups: dict[str, str], of: random.Random
) -> Iterator[tuple[str, tuple[Token, ...] | str]]:
    greedy = any(parts[p].text.lower() in GREEDY for p, _ in calls(parts))
    variables = _variables(parts)
    for i, token in enumerate(parts):
        following = parts[i + 1].text if i + 1 < len(parts) else ""
        if token.kind == "number":
            unit = bool(i + 1 < len(parts) and parts[i + 1].is_name(*_UNITS))
            for change, text in _numbers(token.text, greedy, unit):
                yield change, replaced(parts, i, text)
        elif token.kind == "string":
            for change, text in _strings(token.text, parts[i - 1].is_name("INTERVAL") if i else False):
                yield change, replaced(parts, i, text)
        elif token.kind == "typed":
            kind, value = token.text.split("'")[:2]
            yield "typed literal", replaced(parts, i, f"{kind}'{_other_digit(value)}'")
            yield "typed literal as text", replaced(parts, i, f"'{value}'")
        elif token.kind == "binary":
            yield "binary literal", replaced(parts, i, "X'0102'")
            yield "binary literal as text", replaced(parts, i, "'ab'")
        elif token.kind == "operator" and token.text in _OPERATORS:
            for other in _OPERATORS[token.text]:
                yield "operator", replaced(parts, i, other)
        elif token.kind == "name":
            yield from _names(parts, i, token, following, groups, variables, of, greedy)
    yield from _calls(parts, variables)
    yield from _cases(parts)
    text = sql(parts)
    if not text.lower().startswith(("select", "window", "session_window", "explode", "posexplode", "inline", "stack")):
        for wrap in ("CAST({} AS STRING)", "({}) COLLATE UTF8_LCASE", "coalesce({}, {})", "-({})", "({}).id"):
            yield "wrapped", wrap.format(text, text)


def _numbers(text: str, greedy: bool, unit: bool) -> Iterator[tuple[str, str]]:
    digits = re.match(r"[\d.]+(?:[eE][+-]?\d+)?", text)
    number, suffix = (digits.group(), text[digits.end() :]) if digits else (text, "")
    if "." in number or "e" in number.lower():
        for other in (f"{float(number) / 2:.6f}".rstrip("0") + "1", "0.25", "0.75"):
            yield "number", other + suffix
        yield "number's type", number + ("" if suffix else "D")
        yield "number's type", f"'{number}'"
    else:
        yield "number", f"{int(number) + 1}{suffix}"
        yield "number", f"{max(int(number) - 1, 0)}{suffix}"
        if unit:
            return
        if not greedy:
            yield "number", f"{int(number) * 10 + 3}{suffix}"
            yield "number", f"-{number}{suffix}"
        for kind in ("L", "D", "BD", ""):
            if kind != suffix:
                yield "number's type", number + kind
        yield "number's type", f"'{number}'"
        yield "number to column", "c_small"
    yield "number to NULL", "NULL"


def _strings(text: str, interval: bool) -> Iterator[tuple[str, str]]:
    prefix = text[: text.index(text[-1])]
    inner, quote = text[len(prefix) + 1 : -1], text[-1]

    def quoted(value: str) -> str:
        return f"{prefix}{quote}{value}{quote}"

    if any(c.isdigit() for c in inner):
        yield "string", quoted(_other_digit(inner))
    if interval:
        return
    if inner in _FLAGS:
        yield "flag", quoted(_FLAGS[inner])
    if ("/" in inner and re.fullmatch(r"[A-Z][A-Za-z]+/[A-Za-z_/]+", inner)) or inner in _ZONES:
        for zone in _ZONES:
            yield "time zone", quoted(zone)
    if re.fullmatch(r"[A-Z]{3,12}", inner):
        for unit in _UNIT_TEXTS:
            yield "unit", quoted(unit)
    if re.search(r"\b(INT|STRING|DOUBLE|BIGINT|ARRAY|TIMESTAMP|DATE)\b", inner, re.I):
        for old, new in _SCHEMA_TYPES:
            if re.search(rf"\b{old}\b", inner, re.I):
                yield "schema's type", quoted(re.sub(rf"\b{old}\b", new, inner, count=1, flags=re.I))
        yield "schema's name", quoted(re.sub(r"\b([a-z_]\w*)(?=:? [A-Z])", r"\1x", inner, count=1))
        fields = inner.split(", ")
        if len(fields) > 1 and "<" not in inner:
            yield "schema's order", quoted(", ".join(fields[::-1]))
            yield "schema's fields", quoted(", ".join(fields[:-1]))
    if re.search(r"yy|MM|dd|HH|mm", inner):
        for old, new in _FORMATS:
            if old in inner:
                yield "format", quoted(inner.replace(old, new, 1))
        yield "format", quoted("dd/MM/yyyy")
    if inner.startswith("$"):
        yield "path", quoted(inner + ".b")
        yield "path", quoted("$.b")
        yield "path", quoted("$[0]")
    if re.search(r"[\\^$.*+?()\[]", inner):
        yield "pattern", quoted("(?i)" + inner)
        yield "pattern", quoted(inner.replace("+", "*").replace("^", "").replace("\\\\d", "\\\\w"))
    if "%" in inner or "_" in inner:
        yield "pattern", quoted(inner.replace("%", "_", 1))
        yield "pattern", quoted(inner.replace("_", "%", 1))
    if re.fullmatch(r"[09SGL,.$MIPRDX9B]+", inner):
        yield "number format", quoted("9" + inner)
        yield "number format", quoted(inner.replace("9", "0"))
    yield "string", quoted(inner + "a")
    yield "string", quoted(inner[:-1])
    yield "string's case", quoted(inner.swapcase())
    yield "string", quoted("")
    yield "string", quoted("b")
    yield "string to NULL", "NULL"
    yield "string to column", "c_str"
    yield "string's type", f"binary({text})"


def _other_digit(text: str) -> str:
    found = [m.start() for m in re.finditer(r"\d", text)]
    if not found:
        return text
    at = found[-1]
    return text[:at] + str((int(text[at]) + 1) % 10) + text[at + 1 :]


def _variables(parts: tuple[Token, ...]) -> list[str]:
    """The parameters of lambda functions."""
    names: list[str] = []
    for i, token in enumerate(parts):
        if token.text != "->" or not i:
            continue
        j = i - 1
        while j >= 0 and (parts[j].kind == "name" or parts[j].text in ",)"):
            if parts[j].kind == "name":
                names.append(parts[j].text)
            j -= 1
    return list(dict.fromkeys(names))


def _names(
    parts: tuple[Token, ...],
    i: int,
    token: Token,
    following: str,
    groups: dict[str, str],
    variables: list[str],
    of: random.Random,
    greedy: bool,
) -> Iterator[tuple[str, tuple[Token, ...] | str]]:
    word, name = token.text.upper(), token.text
    for other in _WORDS.get(word, ()):
        if not (word == "FIRST" and following == "("):
            yield f"word {word}", replaced(parts, i, other)
    if name in COLUMNS:
        kind = COLUMNS[name][0]
        for other in OF_TYPE[kind]:
            if other != name and not (greedy and other in ("c_int", "c_int2")):
                yield "column", replaced(parts, i, other)
        others = [*_COLUMNS, *(() if greedy else _LARGE)]
        for other in of.sample(others, 5):
            if other != name:
                yield "column of another type", replaced(parts, i, other)
        if name == "c_user" and following != ".":
            for field in ("id", "age", "country", "region"):
                yield "struct field", replaced(parts, i, f"c_user.{field}")
        yield "column wrapped", replaced(parts, i, f"nullif({name}, {name})")
    elif i and parts[i - 1].text == ".":
        if name in _FIELDS:
            yield "struct field", replaced(parts, i, _FIELDS[name])
    elif name in variables and following != "->":
        for other in variables:
            if other != name:
                yield "lambda variable", replaced(parts, i, other)
        yield "lambda body", replaced(parts, i, f"({name} || {name})")
        yield "lambda body", replaced(parts, i, f"-{name}")
        yield "lambda body", replaced(parts, i, "c_small")
    elif i and parts[i - 1].is_name("AS") and word in {t.split("(")[0] for t in _TYPES}:
        length = arguments(parts, i + 1)[-1][1] + 1 - i if following == "(" else 1
        for other in _TYPES:
            if other != word:
                yield "cast's type", replaced(parts, i, other, length)
    elif following == "(" and name.lower() in groups:
        lower = name.lower()
        twins = [b if a.lower() == lower else a for a, b in _FUNCTION_TWINS if lower in (a.lower(), b.lower())]
        twins += [t for t in (f"try_{lower}", lower.removeprefix("try_"), f"{lower}_outer") if t in groups]
        stem = lower[: max(4, len(lower) * 2 // 3)]
        twins += [t for t in groups if t.startswith(stem)][:12]
        others = [f for f, g in groups.items() if g == groups[lower] and f.isidentifier() and f not in GREEDY]
        for other in dict.fromkeys(twins):
            if other != lower and other not in ("java_method", "reflect"):
                yield "twin function", replaced(parts, i, other)
        for other in of.sample(others, min(6, len(others))):
            if other != lower and other not in ("java_method", "reflect"):
                yield "function of the group", replaced(parts, i, other)


def _calls(parts: tuple[Token, ...], variables: list[str]) -> Iterator[tuple[str, tuple[Token, ...]]]:
    for position, given in calls(parts):
        name = parts[position].text.upper()
        if name in ("AS", "DECIMAL", "VARCHAR", "CHAR", "TIME"):
            continue
        if name == "IN" or (name in ("ANY", "ALL", "SOME")):
            # the one in the middle and the last, exchanged
            for begin, end in {given[len(given) // 2], given[-1]}:
                for other in ("-5", "'S%'", "12345", "'x'", "'a'"):
                    yield "list's value", parts[:begin] + tokens(other) + parts[end:]
            if len(given) > 1:
                yield "list's length", parts[: given[-2][1]] + parts[given[-1][1] :]
                (a, b), (c, d) = given[:2]
                yield "list's order", parts[:a] + parts[c:d] + parts[b:c] + parts[a:b] + parts[d:]
            continue
        for (a, b), (c, d) in itertools.pairwise(given):
            yield "arguments' order", parts[:a] + parts[c:d] + parts[b:c] + parts[a:b] + parts[d:]
        if len(given) > 1:
            yield "argument dropped", parts[: given[-2][1]] + parts[given[-1][1] :]
            yield "argument dropped", parts[: given[0][0]] + parts[given[1][0] :]
        if given:
            for more in ("1", "true", "'a'", "0.1", "map('mode', 'FAILFAST')"):
                yield "argument added", parts[: given[-1][1]] + tokens(f", {more}") + parts[given[-1][1] :]
            first = given[0]
            if not parts[first[0]].is_name("DISTINCT"):
                yield "distinct", parts[: first[0]] + tokens("DISTINCT") + parts[first[0] :]
            end = given[-1][1] + 1
            if end == len(parts):
                yield "nulls ignored", parts + tokens("IGNORE NULLS")
                yield "aggregate's filter", parts + tokens("FILTER (WHERE c_small > 1)")
                yield "aggregate's filter", parts + tokens("FILTER (WHERE c_small > 2)")
                yield "aggregate's filter", parts + tokens("FILTER (WHERE c_letter IN ('a', 'b'))")


def _cases(parts: tuple[Token, ...]) -> Iterator[tuple[str, tuple[Token, ...]]]:
    """The results of the first two branches of a CASE exchanged; ELSE left out."""
    then = [i for i, t in enumerate(parts) if t.is_name("THEN")]
    if len(then) > 1:
        (a, b) = then[0] + 1, then[1] + 1
        yield "branches", parts[:a] + parts[b : b + 1] + parts[a + 1 : b] + parts[a : a + 1] + parts[b + 1 :]
    for i, token in enumerate(parts):
        if token.is_name("ELSE"):
            yield "branch dropped", parts[:i] + parts[i + 2 :]
