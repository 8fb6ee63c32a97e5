"""Every regular expression of the package takes time linear in its text: a parameter, an error, a log, a plan or a file
name of somebody else must not freeze Airflow's API server, which holds the GIL while it matches."""

from __future__ import annotations

import ast
import functools
import importlib
import itertools
import random
import re
import re._constants as c
import re._parser as parser
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

import airflow_provider_streamupdate
from airflow_provider_streamupdate.core.address import without_credentials
from airflow_provider_streamupdate.core.redaction import hide, secret_values

PACKAGE = Path(airflow_provider_streamupdate.__file__).parent
LENGTHS = (1_500, 6_000, 24_000, 96_000)
SLOW = 3  # times the baseline's time: such an input is tried again with the next length
TIMES = 40  # a quadratic pattern takes some thousand times the baseline's time for the last length
ANCHORED = {"match", "fullmatch"}
METHODS = ANCHORED | {"search", "sub", "split", "findall", "finditer"}


@attrs.frozen
class Used:
    """A pattern and how it is used: at the start of a text only, or anywhere in it."""

    where: str
    pattern: re.Pattern[str]
    anchored: bool

    def run(self, text: str) -> None:
        if self.anchored:
            self.pattern.match(text)
            self.pattern.fullmatch(text)
        else:
            for _ in self.pattern.finditer(text):
                pass


def used_patterns() -> Iterator[Used]:
    for path in sorted(PACKAGE.rglob("*.py")):
        if "www" in path.parts:
            continue
        tree, where = ast.parse(path.read_text()), str(path.relative_to(PACKAGE))
        calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute)]
        methods: dict[str, set[str]] = {}
        for call in calls:
            assert isinstance(call.func, ast.Attribute)
            if call.func.attr in METHODS:
                methods.setdefault(ast.unparse(call.func.value).split(".")[-1], set()).add(call.func.attr)
        module = None
        for name, expression in _compiled(tree):
            module = module or _imported(path)
            # pyspark is in another environment; what its modules compile is a text in the code
            pattern = getattr(module, name) if module else eval(expression, {"re": re})
            if isinstance(pattern, re.Pattern) and isinstance(pattern.pattern, str):
                yield Used(f"{where}:{name}", pattern, methods.get(name, {"search"}) <= ANCHORED)
        for call in calls:
            assert isinstance(call.func, ast.Attribute)
            given = call.args[0] if call.args else None
            text = given.value if isinstance(given, ast.Constant) else None
            if ast.unparse(call.func.value) == "re" and call.func.attr in METHODS and isinstance(text, str):
                pattern = re.compile(text, re.MULTILINE if "MULTILINE" in ast.unparse(call) else 0)
                yield Used(f"{where}:{call.lineno}", pattern, call.func.attr in ANCHORED)


def _compiled(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield each name of a module that is given a pattern, and the expression that makes it."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and "re.compile" in ast.unparse(node.value):
            target, value = node.targets[0], node.value
            if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
                yield from ((ast.unparse(n), ast.unparse(v)) for n, v in zip(target.elts, value.elts, strict=True))
            else:
                yield ast.unparse(target), ast.unparse(value)


def _imported(path: Path) -> Any:
    name = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


PATTERNS = list(used_patterns())


def pieces(pattern: re.Pattern[str]) -> list[str]:
    """Return short texts made of what the pattern looks for: an example of each of its parts."""
    found: dict[str, None] = dict.fromkeys(("a", "0", " ", "\\"))
    _collect(parser.parse(pattern.pattern, pattern.flags & ~re.DEBUG), found)
    return [piece for piece in found if piece][-40:]


def _collect(tree: Any, found: dict[str, None]) -> str:
    """Return an example of the tree, and note those of its parts."""
    made = ""
    for op, argument in tree:
        example = ""
        if op is c.LITERAL:
            example = chr(argument)
        elif op is c.NOT_LITERAL:
            example = "b" if argument == ord("a") else "a"
        elif op is c.ANY:
            example = "a"
        elif op is c.IN:
            example = _member(argument)
        elif op is c.SUBPATTERN:
            example = _collect(argument[3], found)
        elif op in (c.MAX_REPEAT, c.MIN_REPEAT):
            example = _collect(argument[2], found) * max(argument[0], 1 if argument[1] else 0)
        elif op is c.BRANCH:
            examples = [_collect(branch, found) for branch in argument[1]]
            example = examples[0]
        elif op in (c.ASSERT, c.ASSERT_NOT):
            _collect(argument[1], found)
        elif op is c.GROUPREF_EXISTS:
            example = _collect(argument[1], found)
        made += example
        found.update(dict.fromkeys((example[:40], made[:60])))
    return made


def _member(items: Any) -> str:
    negated = items[0][0] is c.NEGATE
    excluded: set[str] = set()
    for op, argument in items[1:] if negated else items:
        if op is c.LITERAL:
            excluded.add(chr(argument))
        elif op is c.RANGE:
            excluded.add(chr(argument[0]))
        elif op is c.CATEGORY:
            excluded.add({c.CATEGORY_DIGIT: "0", c.CATEGORY_SPACE: " ", c.CATEGORY_WORD: "a"}.get(argument, "-"))
    if not negated:
        return sorted(excluded)[0]
    return next(char for char in "ab-0 :" if char not in excluded)


def worst_inputs(pattern: re.Pattern[str]) -> Iterator[Callable[[int], str]]:
    """Yield texts of any length that repeat the pattern's parts, alone and two by two, behind a whole example or not,
    with an end that does not match."""
    parts, drawn = pieces(pattern), random.Random(repr(pattern.pattern))
    pairs = ["".join(pair) for pair in itertools.permutations(parts, 2)]
    for pump in (*parts, *drawn.sample(pairs, min(len(pairs), 60))):
        for before in ("", parts[-1]):
            yield lambda length, before=before, pump=pump: before + pump * (length // len(pump)) + "\0"


def seconds(run: Callable[[str], Any], text: str) -> float:
    began = time.thread_time()
    run(text)
    return time.thread_time() - began


_ONE_CHARACTER = re.compile(r"\w|\W")


@functools.cache
def baseline(length: int) -> float:
    """Return the time of a pattern that matches each character once."""
    return min(seconds(lambda text: _ONE_CHARACTER.sub("x", text), "a" * length) for _ in range(3))


def test_they_are_found() -> None:
    assert len(PATTERNS) > 60 and {u.anchored for u in PATTERNS} == {True, False}


@pytest.mark.parametrize("used", PATTERNS, ids=lambda used: used.where)
def test_a_pattern_takes_linear_time(used: Used) -> None:
    for text in worst_inputs(used.pattern):
        for length in LENGTHS:
            spent, linear = seconds(used.run, text(length)), baseline(length)
            assert spent < max(TIMES * linear, 0.02), (
                f"{used.pattern.pattern!r}: {spent:.3f} s for {text(60)!r}, {length} long"
            )
            if spent < SLOW * linear:
                break


WORST = ("s3a://u:p,", "h://a:80/", "x://a@", "x://", "a", "?a=", "@", "`", "'\\", '"', "abfs://c@x,", "\\", "&sig=")
WORST += (
    "password=",
    'token="',
    "{'pwd':",
    "-----BEGIN PRIVATE KEY-----",
    "eyJaaaaaaaa-",
    "hun",
    '\\"',
    "(token,",
    "a.-b",
)
VALUES = secret_values({"password": 'hun"ter2', "token": " \n\\\\x"})


@pytest.mark.parametrize("piece", WORST)
def test_a_megabyte_takes_linear_time_and_no_depth(piece: str) -> None:
    """A parameter of 115 KB took 11 s, and one of 800 addresses ended in a RecursionError."""
    for function in (without_credentials, lambda text: hide(text, VALUES)):
        tenth, whole = (seconds(function, piece * (n // len(piece))) for n in (100_000, 1_000_000))
        assert whole < max(40 * tenth, 1.0), f"{function.__name__}: {tenth:.3f} s, then {whole:.3f} s"
