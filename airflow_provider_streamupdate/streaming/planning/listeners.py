"""Batch ids that a StreamingQueryListener of the app hands to a sink's function: by something that both know."""

from __future__ import annotations

import collections
import dis
import gc
import queue
import threading
import types
from collections.abc import Iterable, Iterator
from typing import Any

from pyspark.sql.streaming import StreamingQueryListener

from ..code.owner import Owner, owner
from .reach import codes, is_app_function, reached

# Names by which a listener is told of a batch, and those of methods that put something into an object.
_HEARS = frozenset({"progress", "batchId"})
_PUTS = frozenset(
    {"add", "append", "appendleft", "extend", "insert", "put", "put_nowait", "set", "setdefault", "update"}
)
# Names by which code changes whatever it is given, in ways that its instructions do not show.
_SETS = frozenset({"setattr", "__setattr__", "__setitem__", "setitem", "eval", "exec"})
# What can hold an id, besides objects, classes and modules of the app's.
_HOLDERS = (dict, list, set, bytearray, collections.deque, queue.Queue, queue.SimpleQueue, threading.local,
            types.SimpleNamespace)  # fmt: skip


def told_by_listener(read: Iterable[Any]) -> bool:
    """Return whether a listener changes something that a sink's function reads. A listener that only shows what it is
    told changes nothing that they share; what both send elsewhere is not looked at.

    read: all that the function reaches"""
    known = {id(value): value for value in read}
    places = {place for value in known.values() if is_app_function(value) for place in _places(value, "LOAD_")}
    for listener in _listeners():
        met = list(reached(listener))
        told = [value for value in met if is_app_function(value) and value.__name__ != "__init__"]
        if _HEARS.isdisjoint(name for each in told for code in codes(each.__code__) for name in code.co_names):
            continue
        own = {id(value) for kind in type(listener).__mro__ for value in vars(kind).values()}
        changed = {change for each in told for change in _changes(each, id(each) in own)}
        shared = [value for value in met if id(value) in known and _holds(value, changed)]
        if (
            id(listener) in known
            or any(not places.isdisjoint(_places(each, "STORE_")) for each in told)
            or (changed and shared)
        ):
            return True
    return False


def _listeners() -> Iterator[Any]:
    """Yield the app's listeners, registered or not: a query that starts later has them all."""
    kinds = [StreamingQueryListener]
    for kind in kinds:
        kinds += kind.__subclasses__()
        if owner(kind.__module__) is Owner.APP:
            yield from (value for value in gc.get_referrers(kind) if type(value) is kind)


def _places(function: types.FunctionType, operation: str) -> Iterator[Any]:
    """Yield the global variables, and the cells of variables around it, that a function loads or stores."""
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    for code in codes(function.__code__):
        for step in dis.get_instructions(code):
            if step.opname.startswith(operation) and step.opname.endswith(("_GLOBAL", "_NAME")):
                yield id(function.__globals__), step.argval
            elif step.opname.startswith(operation) and "DEREF" in step.opname and step.argval in cells:
                yield id(cells[step.argval])


_ATTRIBUTE, _ITEM = "an attribute", "an item"


def _changes(function: types.FunctionType, own: bool) -> Iterator[str]:
    """Yield what a function may change of an object: of the listener's `own` methods, of another one than itself."""
    for code in codes(function.__code__):
        if not _PUTS.isdisjoint(code.co_names):
            yield _ITEM
        if not _SETS.isdisjoint(code.co_names):
            yield from (_ATTRIBUTE, _ITEM)
        before, itself = None, 0  # itself: the listener lies below a value that is added to (self.count += 1)
        for step in dis.get_instructions(code):
            loads_itself = own and before is not None and _loads_first(before, code)
            if step.opname == "COPY" and loads_itself:
                itself += 1
            if step.opname == "STORE_SUBSCR":
                yield _ITEM
            elif step.opname == "STORE_ATTR" and before is not None and before.opname == "SWAP" and itself:
                itself -= 1
            elif step.opname == "STORE_ATTR" and not loads_itself:
                yield _ATTRIBUTE
            before = step


def _loads_first(step: dis.Instruction, code: types.CodeType) -> bool:
    """Return whether an instruction ends with loading the first parameter. Python 3.13 loads two variables in one."""
    loaded = step.argval[-1] if isinstance(step.argval, tuple) else step.argval
    return "LOAD_FAST" in step.opname and code.co_varnames[:1] == (loaded,)


def _holds(value: Any, changed: set[str]) -> bool:
    """Return whether a value may hold an id after such changes. A class or a module holds it as an attribute."""
    if isinstance(value, (type, types.ModuleType)):
        name = value.__name__ if isinstance(value, types.ModuleType) else value.__module__
        return _ATTRIBUTE in changed and owner(name) is Owner.APP
    return isinstance(value, _HOLDERS) or owner(type(value).__module__) is Owner.APP
