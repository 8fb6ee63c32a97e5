"""What of a script cannot work where a driver runs its queries, as far as its text shows it."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping

from ..errors import ApplicationError

_STARTS = ("start", "toTable")
# A sleep, or a loop while a query is active, is a wait, too (scripts/run.py).
_WAITS = ("awaitTermination", "awaitAnyTermination", "processAllAvailable", "sleep")
_ADVICE = "start all queries before the first awaitTermination(), and leave it to streamupdate to start them again"


def check_no_script(modules: Mapping[str, ast.Module]) -> None:
    """Raise ApplicationError for a script that was not given as one: its driver, one that only plans as well, would
    start its queries itself, with its own checkpoint and sinks.

    modules: the file, and those of its folder that it imports
    """
    if any(_defines_app(tree) for tree in modules.values()):
        return
    for file, tree in modules.items():
        nodes = [*ast.walk(tree)]
        if any(isinstance(node, ast.Attribute) and node.attr == "writeStream" for node in nodes):
            for node in nodes:  # of a variable, too
                if isinstance(node, ast.Call) and getattr(node.func, "attr", "") in _STARTS:
                    raise ApplicationError(
                        f"{file}:{node.lineno} starts a query, and the file defines no StreamingApp: if it is a plain "
                        "script, name its app (--app NAME, its arguments behind --; in operators app and "
                        "application_args)"
                    )


def check_script(file: str, tree: ast.Module) -> None:
    """Raise ApplicationError, with the line and what to write, for a query that is started when another one has ended:
    nobody knows of it when the app is planned. And for a file that defines a StreamingApp."""
    if _defines_app(tree):
        raise ApplicationError(
            f"{file} defines a StreamingApp, which is no plain script: leave out --app and arguments"
        )
    for node in ast.walk(tree):
        if isinstance(node, (ast.While, ast.For)) and (started := _first(node, _starts)) and _first(node, _waits):
            raise ApplicationError(
                f"{file}:{started.lineno} starts a query in a loop that waits for it, so that each round starts "
                f"another one: {_ADVICE}"
            )
        for body in _bodies(node):
            wait = _first_wait(body)
            later = [s for statement in body[wait + 1 :] if (s := _first(statement, _starts))]
            if later:
                line = body[wait].lineno
                raise ApplicationError(
                    f"{file}:{later[0].lineno} starts a query behind the wait in line {line}: {_ADVICE}"
                )
    functions = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        if isinstance(call.func, ast.Attribute) and call.func.attr == "foreachBatch" and call.args:
            given = call.args[0]
            function = functions.get(given.id) if isinstance(given, ast.Name) else given
            if function is not None and (started := _first(function, _starts)):
                raise ApplicationError(
                    f"{file}:{started.lineno} starts a query inside a foreachBatch function: write the batch with "
                    "df.write, or start the query beside the other ones"
                )


def _defines_app(tree: ast.Module) -> bool:
    return any(getattr(node, "id", getattr(node, "name", "")) == "StreamingApp" for node in ast.walk(tree))


def _bodies(node: ast.AST) -> Iterator[list[ast.stmt]]:
    for name in ("body", "orelse", "finalbody"):
        value = getattr(node, name, None)
        if isinstance(value, list):
            yield value


def _first_wait(body: list[ast.stmt]) -> int:
    """Return the number of the first statement that waits for a query; the last one's where none does. A sleep is no
    wait before a query was started; what is in a branch may not be reached, and the run tells."""
    start = next((n for n, statement in enumerate(body) if _first(statement, _starts)), len(body))
    return next((n for n, statement in enumerate(body) if _surely_waits(statement, n >= start)), len(body) - 1)


def _surely_waits(statement: ast.stmt, started: bool) -> bool:
    """started: whether a query was started before it, so that a sleep, and a loop that looks at one, are waits"""
    if isinstance(statement, ast.If):
        return False
    looks = isinstance(statement, ast.While) and any(
        getattr(node, "attr", "") == "isActive" for node in ast.walk(statement.test)
    )
    return (started and looks) or _first(statement, _waits if started else _waits_for_one) is not None


def _first(node: ast.AST, of: Callable[[ast.expr], bool]) -> ast.expr | None:
    """Return the first expression of a kind in a statement, but for those in functions that it only defines."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) and of is not _starts:
        return None
    for inner in ast.walk(node):
        if isinstance(inner, ast.expr) and of(inner):
            return inner
    return None


def _starts(call: ast.expr) -> bool:
    """Return whether a call starts a query: one of a chain that begins at ``writeStream``."""
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or call.func.attr not in _STARTS:
        return False
    return any(isinstance(each, ast.Attribute) and each.attr == "writeStream" for each in ast.walk(call.func))


def _waits(node: ast.expr) -> bool:
    """Return whether an expression waits, for a query or by a sleep."""
    return getattr(node, "attr", getattr(node, "id", "")) in _WAITS


def _waits_for_one(node: ast.expr) -> bool:
    """Return whether an expression waits for a query."""
    return _waits(node) and getattr(node, "attr", getattr(node, "id", "")) != "sleep"
