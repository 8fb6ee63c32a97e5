"""The instructions of a code object, without what computes nothing: lines, files, docstrings, names of local variables,
type hints, caches. Python 3.10 to 3.13.

What a name stands for is not told here: `Step.value` holds names, variables and what is imported, as the instructions
have them (functions.py finds out).
"""

from __future__ import annotations

import dis
import itertools
import sys
import types
from collections.abc import Iterator, Mapping
from typing import Any

import attrs

_SKIPPED = frozenset({"CACHE", "EXTENDED_ARG", "NOP", "RESUME", "MAKE_CELL", "COPY_FREE_VARS", "PRECALL", "PUSH_NULL"})
_ATTRIBUTES = frozenset({"LOAD_ATTR", "LOAD_METHOD"})
_GLOBALS = frozenset({"LOAD_GLOBAL", "STORE_GLOBAL", "DELETE_GLOBAL"})
_IN_CLASSES = frozenset({"LOAD_NAME", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_GLOBALS", "LOAD_FROM_DICT_OR_DEREF"})
_MADE_BY_PYTHON = frozenset({"__module__", "__qualname__", "__doc__", "__firstlineno__", "__static_attributes__"})
# CO_VARARGS, CO_VARKEYWORDS, CO_GENERATOR, CO_COROUTINE, CO_ITERABLE_COROUTINE, CO_ASYNC_GENERATOR (inspect)
_FLAGS = 0x4 | 0x8 | 0x20 | 0x80 | 0x100 | 0x200
_HINTS = 4  # MAKE_FUNCTION's and SET_FUNCTION_ATTRIBUTE's flag


@attrs.define(eq=False)
class Variable:
    """A local variable of one code object; the closures below share it."""

    name: str


@attrs.frozen
class Import:
    """What IMPORT_NAME leaves: a module, or with `top` the topmost package of a dotted name."""

    name: str
    level: int
    top: bool


@attrs.frozen
class Path:
    """Something and attributes of it: ``a.b.f``."""

    root: Import
    attributes: tuple[str, ...] = ()


@attrs.frozen
class Step:
    """kind: what `value` is: constant, code (a Listing), variable, global, name, import (an Import), imported (a Path),
    jump (the index of a step), hint (a dropped type hint), function name, or number (nothing but an argument).
    attributes: those that the next steps read of what this one loads
    is_called: whether what they are read of, or the last of them, is called, and nothing else is done with it
    """

    op: str
    kind: str
    value: Any
    attributes: tuple[str, ...] = ()
    is_called: bool = False


@attrs.frozen
class Listing:
    """One code object. sources: the imports each local variable may hold, those of the code objects below included"""

    code: types.CodeType
    arguments: tuple[Variable, ...]
    shape: tuple[int, ...]
    steps: tuple[Step, ...]
    handlers: tuple[tuple[Any, ...], ...]
    free: tuple[Variable, ...]
    sources: dict[Variable, list[Path]]


def read(code: types.CodeType, outer: Mapping[str, Variable] | None = None) -> Listing:
    """outer: the variables around it, by name"""
    scope = {name: Variable(name) for name in (*code.co_varnames, *code.co_cellvars)}
    free = tuple((outer or {}).get(name) or Variable(name) for name in code.co_freevars)
    scope.update(zip(code.co_freevars, free, strict=True))
    kept, positions, dropped = _kept(code)
    steps = list(_steps(code, scope, kept, positions))
    sources = _sources(steps)
    for step in steps:
        if step.kind == "code":
            for variable, paths in step.value.sources.items():
                sources.setdefault(variable, []).extend(paths)
    count = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & 4) + bool(code.co_flags & 8)
    return Listing(
        code,
        tuple(scope[name] for name in code.co_varnames[:count]),
        (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags & _FLAGS),
        (*(Step("", "hint", hint) for hint in dropped), *steps),
        tuple(_handlers(code, positions)),
        free,
        sources,
    )


@attrs.frozen
class _Raw:
    op: str
    arg: int | None
    argval: Any
    opcode: int
    offset: int


def _kept(code: types.CodeType) -> tuple[list[_Raw], dict[int, int], list[Any]]:
    """The instructions that count, the index of each offset among them, and what type hints loaded."""
    every = [raw for i in dis.get_instructions(code) for raw in _single(i, code.co_consts)]
    hints = _hints(every)
    cells = {*code.co_cellvars, *code.co_freevars}
    kept: list[_Raw] = []
    positions: dict[int, int] = {}
    for index, raw in enumerate(every):
        positions.setdefault(raw.offset, len(kept))
        if raw.op in _SKIPPED or raw.op == "LOAD_CLOSURE" or index in hints:
            continue
        if raw.op == "LOAD_FAST" and raw.argval in cells and sys.version_info >= (3, 13):
            continue  # what LOAD_CLOSURE was
        kept.append(raw)
    positions[len(code.co_code)] = len(kept)
    return kept, positions, [repr(every[i].argval) for i in sorted(hints)]


def _single(i: dis.Instruction, constants: tuple[Any, ...]) -> Iterator[_Raw]:
    """An instruction; those that do two things with variables (Python 3.13) as two."""
    if isinstance(i.argval, tuple) and "_FAST_" in i.opname and i.opname.count("_FAST") == 2:
        ops = [f"{part}_FAST" for part in i.opname.replace("_FAST", "").split("_")]
        for op, name in zip(ops, i.argval, strict=True):
            yield _Raw(op, 0, name, dis.opmap[op], i.offset)
    else:
        # dis gives the value of LOAD_CONST alone (measured: KW_NAMES and RETURN_CONST are "unknown")
        value = constants[i.arg] if i.opcode in dis.hasconst and i.arg is not None else i.argval
        yield _Raw(i.opname, i.arg, value, i.opcode, i.offset)


def _hints(every: list[_Raw]) -> set[int]:
    """Where type hints of inner functions are computed. Kept when they hold a jump."""
    found: set[int] = set()
    for index, raw in enumerate(every):
        if raw.op != "MAKE_FUNCTION":
            continue
        flags = raw.arg or 0
        after = index + 1
        while after < len(every) and every[after].op == "SET_FUNCTION_ATTRIBUTE":  # from Python 3.13 on
            flags |= every[after].arg or 0
            after += 1
        if not flags & _HINTS:
            continue
        end = _pushed(every, index)  # the code object; below Python 3.11 its name is on top
        if end is not None and sys.version_info < (3, 11):
            end = _pushed(every, end)
        if end is not None and flags & 8:  # its closure
            end = _pushed(every, end)
        start = None if end is None else _pushed(every, end)
        if start is None or end is None:
            continue
        found.update(range(start, end))
        if flags != raw.arg:
            found.update(i for i in range(index + 1, after) if every[i].arg == _HINTS)
        else:
            every[index] = attrs.evolve(raw, arg=flags & ~_HINTS)
    return found


def _pushed(every: list[_Raw], end: int) -> int | None:
    """Where the instructions begin that push what is on top of the stack before `end`."""
    height = 0
    for index in range(end - 1, -1, -1):
        raw = every[index]
        if raw.opcode in dis.hasjrel or raw.opcode in dis.hasjabs:
            return None
        height += dis.stack_effect(raw.opcode, raw.arg if raw.opcode >= dis.HAVE_ARGUMENT else None)
        if height == 1 and raw.op not in ("CACHE", "EXTENDED_ARG"):
            return index
        if height > 1:
            return None
    return None


def _steps(
    code: types.CodeType, scope: dict[str, Variable], kept: list[_Raw], positions: dict[int, int]
) -> Iterator[Step]:
    stack: list[Path] = []  # the module that an import works on
    for index, raw in enumerate(kept):
        following = kept[index + 1] if index + 1 < len(kept) else None
        if raw.opcode in dis.hasjrel or raw.opcode in dis.hasjabs:
            yield Step(raw.op, "jump", positions[raw.argval])
        elif raw.opcode in dis.hasconst:
            yield _constant(raw, following, scope)
        elif raw.op == "IMPORT_NAME":
            level, names = kept[index - 2].argval, kept[index - 1].argval
            module = Import(raw.argval, level or 0, top=not names)
            stack = [Path(module)]
            yield Step(raw.op, "import", module, tuple(names or ()))
        elif raw.op == "IMPORT_FROM":
            part = attrs.evolve(stack[-1], attributes=(*stack[-1].attributes, raw.argval)) if stack else None
            if part is not None and following is not None and not following.op.startswith("STORE_"):
                stack = [part]
            yield Step(raw.op, "imported", part, (raw.argval,))
        elif raw.opcode in dis.haslocal or raw.opcode in dis.hasfree:
            yield Step(raw.op, "variable", scope[raw.argval], _attributes(kept, index))
        elif raw.op in _GLOBALS or raw.op in _IN_CLASSES:
            attributes = _attributes(kept, index)
            yield Step(raw.op, "global", raw.argval, attributes, _is_called(kept[index + len(attributes)]))
        elif raw.op == "STORE_NAME" and raw.argval in _MADE_BY_PYTHON:
            yield Step(raw.op, "name", "")
        elif raw.opcode in dis.hasname:
            yield Step(raw.op, "name", raw.argval)
        else:
            yield Step(raw.op, "number", raw.arg)


def _constant(raw: _Raw, following: _Raw | None, scope: dict[str, Variable]) -> Step:
    if isinstance(raw.argval, types.CodeType):
        return Step(raw.op, "code", read(raw.argval, scope))
    if following is not None and following.op == "MAKE_FUNCTION":  # its name, below Python 3.11
        return Step(raw.op, "function name", raw.argval)
    if following is not None and following.op == "STORE_NAME" and following.argval in _MADE_BY_PYTHON:
        return Step(raw.op, "function name" if following.argval == "__qualname__" else "hint", raw.argval)
    return Step(raw.op, "constant", raw.argval)


def _attributes(kept: list[_Raw], index: int) -> tuple[str, ...]:
    found = []
    for raw in kept[index + 1 :]:
        if raw.op not in _ATTRIBUTES:
            break
        found.append(raw.argval)
    return tuple(found)


def _is_called(last: _Raw) -> bool:
    """Whether the instruction loads what is called by a later one (below Python 3.11 only methods tell)."""
    told = {"LOAD_GLOBAL"} if sys.version_info < (3, 12) else {"LOAD_GLOBAL", "LOAD_ATTR"}
    return last.op == "LOAD_METHOD" or (sys.version_info >= (3, 11) and last.op in told and bool((last.arg or 0) & 1))


def _sources(steps: list[Step]) -> dict[Variable, list[Path]]:
    """What imports are stored in: pairs of IMPORT_NAME or IMPORT_FROM and the store behind it."""
    found: dict[Variable, list[Path]] = {}
    for step, after in itertools.pairwise(steps):
        path = Path(step.value) if step.kind == "import" else step.value
        if step.kind in ("import", "imported") and path and after.op.startswith("STORE_") and after.kind == "variable":
            found.setdefault(after.value, []).append(path)
    return found


def _handlers(code: types.CodeType, positions: dict[int, int]) -> Iterator[tuple[Any, ...]]:
    """The exception table of Python 3.11 and newer."""
    for entry in getattr(dis.Bytecode(code), "exception_entries", ()):
        start, end = _next(positions, entry.start), _next(positions, entry.end)
        if start < end:
            yield start, end, _next(positions, entry.target), entry.depth, entry.lasti


def _next(positions: dict[int, int], offset: int) -> int:
    return positions[min(o for o in positions if o >= offset)]
