"""The instructions of a code object, without what computes nothing: lines, files, docstrings, caches. For Python 3.10
to 3.13.

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

_SKIPPED = frozenset(
    {"CACHE", "EXTENDED_ARG", "NOP", "RESUME", "MAKE_CELL", "COPY_FREE_VARS", "PRECALL", "PUSH_NULL", "LOAD_CLOSURE"}
)
_ATTRIBUTES = ("LOAD_ATTR", "LOAD_METHOD")
_GLOBALS = frozenset(
    {"LOAD_GLOBAL", "STORE_GLOBAL", "DELETE_GLOBAL", "LOAD_NAME", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_GLOBALS",
     "LOAD_FROM_DICT_OR_DEREF"}
)  # fmt: skip
_MADE_BY_PYTHON = frozenset({"__module__", "__qualname__", "__doc__", "__firstlineno__", "__static_attributes__"})
# CO_VARARGS, CO_VARKEYWORDS, CO_GENERATOR, CO_COROUTINE, CO_ITERABLE_COROUTINE, CO_ASYNC_GENERATOR (inspect)
_FLAGS = 0x4 | 0x8 | 0x20 | 0x80 | 0x100 | 0x200


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
    """An instruction."""

    op: str
    # What `value` is: constant, code (a Listing), variable, global, name, import (an Import), imported (a Path), jump
    # (the index of a step), or number (nothing but an argument)
    kind: str
    value: Any
    attributes: tuple[str, ...] = ()  # those that the next steps read of what this one loads, or that are imported


@attrs.frozen
class Listing:
    """One code object."""

    code: types.CodeType
    arguments: tuple[Variable, ...]
    steps: tuple[Step, ...]
    handlers: tuple[tuple[Any, ...], ...]  # the exception table of Python 3.11 and newer
    free: tuple[Variable, ...]
    sources: dict[Variable, list[Path]]  # the imports that local variables hold, in the code objects below as well

    @property
    def shape(self) -> tuple[int, ...]:
        code = self.code
        return code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags & _FLAGS


def read(code: types.CodeType, outer: Mapping[str, Variable] | None = None) -> Listing:
    """outer: the variables around it, by name"""
    scope = {name: Variable(name) for name in (*code.co_varnames, *code.co_cellvars)}
    free = tuple((outer or {}).get(name) or Variable(name) for name in code.co_freevars)
    scope.update(zip(code.co_freevars, free, strict=True))
    kept, positions = _kept(code)
    steps = list(_steps(scope, kept, positions))
    sources: dict[Variable, list[Path]] = {}
    for step, after in itertools.pairwise(steps):
        path = Path(step.value) if step.kind == "import" else step.value
        if step.kind in ("import", "imported") and path and after.op.startswith("STORE_") and after.kind == "variable":
            sources.setdefault(after.value, []).append(path)
        for variable, paths in step.value.sources.items() if step.kind == "code" else ():
            sources.setdefault(variable, []).extend(paths)
    count = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & 4) + bool(code.co_flags & 8)
    arguments = tuple(scope[name] for name in code.co_varnames[:count])
    return Listing(code, arguments, tuple(steps), tuple(_handlers(code, positions)), free, sources)


@attrs.frozen
class _Raw:
    op: str
    arg: int | None
    argval: Any
    opcode: int
    offset: int


def _kept(code: types.CodeType) -> tuple[list[_Raw], dict[int, int]]:
    """The instructions that count, and the index of each offset among them."""
    cells = {*code.co_cellvars, *code.co_freevars}
    kept: list[_Raw] = []
    positions: dict[int, int] = {}
    for raw in (raw for i in dis.get_instructions(code) for raw in _single(i, code.co_consts)):
        positions.setdefault(raw.offset, len(kept))
        is_closure = raw.op == "LOAD_FAST" and raw.argval in cells and sys.version_info >= (3, 13)
        if raw.op not in _SKIPPED and not is_closure:
            kept.append(raw)
    positions[len(code.co_code)] = len(kept)
    return kept, positions


def _single(i: dis.Instruction, constants: tuple[Any, ...]) -> Iterator[_Raw]:
    """An instruction; those that do two things with variables (Python 3.13) as two."""
    if isinstance(i.argval, tuple) and i.opname.count("_FAST") == 2:
        ops = [f"{part}_FAST" for part in i.opname.replace("_FAST", "").split("_")]
        for op, name in zip(ops, i.argval, strict=True):
            yield _Raw(op, 0, name, dis.opmap[op], i.offset)
    else:
        # dis gives the value of LOAD_CONST alone (measured: KW_NAMES and RETURN_CONST are "unknown")
        value = constants[i.arg] if i.opcode in dis.hasconst and i.arg is not None else i.argval
        yield _Raw(i.opname, i.arg, value, i.opcode, i.offset)


def _steps(scope: dict[str, Variable], kept: list[_Raw], positions: dict[int, int]) -> Iterator[Step]:
    path: Path | None = None  # the module that an import works on
    for index, raw in enumerate(kept):
        after = kept[index + 1] if index + 1 < len(kept) else raw
        if raw.opcode in dis.hasjrel or raw.opcode in dis.hasjabs:
            yield Step(raw.op, "jump", positions[raw.argval])
        elif isinstance(raw.argval, types.CodeType):
            yield Step(raw.op, "code", read(raw.argval, scope))
        elif raw.opcode in dis.hasconst:
            of_python = after.op == "STORE_NAME" and after.argval in _MADE_BY_PYTHON
            is_name = of_python or after.op == "MAKE_FUNCTION"  # below Python 3.11
            yield Step(raw.op, "number", None) if is_name else Step(raw.op, "constant", raw.argval)
        elif raw.op == "IMPORT_NAME":
            level, names = kept[index - 2].argval, kept[index - 1].argval
            path = Path(Import(raw.argval, level or 0, top=not names))
            yield Step(raw.op, "import", path.root, tuple(names or ()))
        elif raw.op == "IMPORT_FROM" and path is not None:
            part = attrs.evolve(path, attributes=(*path.attributes, raw.argval))
            path = path if after.op.startswith("STORE_") else part
            yield Step(raw.op, "imported", part, (raw.argval,))
        elif raw.opcode in dis.haslocal or raw.opcode in dis.hasfree:
            yield Step(raw.op, "variable", scope[raw.argval], _attributes(kept, index))
        elif raw.op in _GLOBALS:
            yield Step(raw.op, "global", raw.argval, _attributes(kept, index))
        elif raw.opcode in dis.hasname:
            is_made = raw.op == "STORE_NAME" and raw.argval in _MADE_BY_PYTHON
            yield Step(raw.op, "name", "" if is_made else raw.argval)
        else:
            yield Step(raw.op, "number", raw.arg)


def _attributes(kept: list[_Raw], index: int) -> tuple[str, ...]:
    read = itertools.takewhile(lambda raw: raw.op in _ATTRIBUTES, kept[index + 1 :])
    return tuple(raw.argval for raw in read)


def _handlers(code: types.CodeType, positions: dict[int, int]) -> Iterator[tuple[Any, ...]]:
    for entry in getattr(dis.Bytecode(code), "exception_entries", ()):
        start, end, target = (positions[min(o for o in positions if o >= e)] for e in entry[:3])
        if start < end:
            yield start, end, target, entry.depth, entry.lasti
