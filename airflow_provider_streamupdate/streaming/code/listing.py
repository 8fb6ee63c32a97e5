"""The instructions of a code object, without what computes nothing (lines, files, docstrings, caches), as plain data
(`form`) and in what they name (`uses`). For Python 3.10 to 3.13.

What a name stands for is not told here: `Step.value` holds names, variables and what is imported, as the instructions
have them (functions.py finds out).
"""

from __future__ import annotations

import dis
import itertools
import re
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import attrs


def names_in(text: str) -> frozenset[str]:
    """The names that a text lists, with spaces between."""
    return frozenset(text.split())


_WORD = re.compile(r"[^\W\d]\w*")
_SKIPPED = names_in("CACHE EXTENDED_ARG NOP RESUME MAKE_CELL COPY_FREE_VARS PRECALL PUSH_NULL LOAD_CLOSURE")
_ATTRIBUTES = ("LOAD_ATTR", "LOAD_METHOD")
_GLOBALS = names_in(
    "LOAD_GLOBAL STORE_GLOBAL DELETE_GLOBAL LOAD_NAME LOAD_CLASSDEREF LOAD_FROM_DICT_OR_GLOBALS LOAD_FROM_DICT_OR_DEREF"
)
_MADE_BY_PYTHON = names_in("__module__ __qualname__ __doc__ __firstlineno__ __static_attributes__")
# CO_VARARGS, CO_VARKEYWORDS, CO_GENERATOR, CO_COROUTINE, CO_ITERABLE_COROUTINE, CO_ASYNC_GENERATOR (inspect)
_FLAGS = 0x4 | 0x8 | 0x20 | 0x80 | 0x100 | 0x200


@attrs.define(eq=False)
class Variable:
    """A local variable of one code object; the closures below share it."""

    name: str


@attrs.frozen
class Import:
    """The result of IMPORT_NAME: a module, or with `top` the topmost package of a dotted name."""

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


def _kept(code: types.CodeType) -> tuple[list[dis.Instruction], dict[int, int]]:
    """The instructions that count, and the index of each offset among them."""
    cells = {*code.co_cellvars, *code.co_freevars}
    kept: list[dis.Instruction] = []
    positions: dict[int, int] = {}
    for each in (each for i in dis.get_instructions(code) for each in _single(i, code.co_consts)):
        positions.setdefault(each.offset, len(kept))
        is_closure = each.opname == "LOAD_FAST" and each.argval in cells and sys.version_info >= (3, 13)
        if each.opname not in _SKIPPED and not is_closure:
            kept.append(each)
    positions[len(code.co_code)] = len(kept)
    return kept, positions


def _single(i: dis.Instruction, constants: tuple[Any, ...]) -> Iterator[dis.Instruction]:
    """An instruction; those that do two things with variables (Python 3.13) as two."""
    if isinstance(i.argval, tuple) and i.opname.count("_FAST") == 2:
        for part, name in zip(i.opname.replace("_FAST", "").split("_"), i.argval, strict=True):
            yield i._replace(opname=f"{part}_FAST", opcode=dis.opmap[f"{part}_FAST"], argval=name)
    elif i.opcode in dis.hasconst and i.arg is not None:
        # dis gives the value of LOAD_CONST alone (measured: KW_NAMES and RETURN_CONST are "unknown")
        yield i._replace(argval=constants[i.arg])
    else:
        yield i


def _steps(scope: dict[str, Variable], kept: list[dis.Instruction], positions: dict[int, int]) -> Iterator[Step]:
    path: Path | None = None  # the module that an import works on
    for index, i in enumerate(kept):
        op, value, after = i.opname, i.argval, kept[index + 1] if index + 1 < len(kept) else i
        if i.opcode in dis.hasjrel or i.opcode in dis.hasjabs:
            yield Step(op, "jump", positions[value])
        elif isinstance(value, types.CodeType):
            yield Step(op, "code", read(value, scope))
        elif i.opcode in dis.hasconst:
            of_python = after.opname == "STORE_NAME" and after.argval in _MADE_BY_PYTHON
            is_name = of_python or after.opname == "MAKE_FUNCTION"  # below Python 3.11
            yield Step(op, "number", None) if is_name else Step(op, "constant", value)
        elif op == "IMPORT_NAME":
            level, names = kept[index - 2].argval, kept[index - 1].argval
            path = Path(Import(value, level or 0, top=not names))
            yield Step(op, "import", path.root, tuple(names or ()))
        elif op == "IMPORT_FROM" and path is not None:
            part = attrs.evolve(path, attributes=(*path.attributes, value))
            path = path if after.opname.startswith("STORE_") else part
            yield Step(op, "imported", part, (value,))
        elif i.opcode in dis.haslocal or i.opcode in dis.hasfree:
            yield Step(op, "variable", scope[value], _attributes(kept, index))
        elif op in _GLOBALS:
            yield Step(op, "global", value, _attributes(kept, index))
        elif i.opcode in dis.hasname:
            yield Step(op, "name", "" if op == "STORE_NAME" and value in _MADE_BY_PYTHON else value)
        else:
            yield Step(op, "number", i.arg)


def _attributes(kept: list[dis.Instruction], index: int) -> tuple[str, ...]:
    read = itertools.takewhile(lambda i: i.opname in _ATTRIBUTES, itertools.islice(kept, index + 1, None))
    return tuple(i.argval for i in read)


def _handlers(code: types.CodeType, positions: dict[int, int]) -> Iterator[tuple[Any, ...]]:
    for entry in getattr(dis.Bytecode(code), "exception_entries", ()):
        start, end, target = (positions[min(o for o in positions if o >= e)] for e in entry[:3])
        if start < end:
            yield start, end, target, entry.depth, entry.lasti


def form(
    listing: Listing,
    numbers: dict[Variable, int],
    number_of: Callable[[str], Any] | None = None,
    bound: frozenset[Variable] | None = None,
) -> Any:
    """Equal forms compute the same, where equal names stand for equal values. Local variables are numbered; the names
    count of those that may have no value when they are read, since the error has them.

    numbers: of the variables, filled in the order in which they are met. number_of: replaces names of globals. bound:
    the variables around it that have values; None where the function exists, and so do they
    """
    for variable in listing.arguments:
        numbers.setdefault(variable, len(numbers))
    steps: list[Any] = []
    for step, known in zip(listing.steps, _bound(listing, bound), strict=True):
        value: Any = step.value
        if step.kind == "code":
            value = form(value, numbers, number_of, known)
        elif step.kind == "constant":
            value = constant(value)
        elif step.kind == "variable":
            is_sure = step.value in known or step.op.startswith("STORE_")
            value = numbers.setdefault(value, len(numbers)), "" if is_sure else value.name
        elif step.kind == "global" and number_of is not None:
            value = number_of(value)
        elif step.kind in ("import", "imported"):
            value = (value.name, value.level, value.top) if step.kind == "import" else None, step.attributes
        steps.append((step.op, value))
    code = listing.code
    shape = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags & _FLAGS)
    return code.co_name, [v.name for v in listing.arguments], shape, steps, listing.handlers


def _bound(listing: Listing, around: frozenset[Variable] | None) -> list[frozenset[Variable]]:
    """Return the variables that surely have values, for each step: they were stored above, where no jump and no error
    leads past."""
    passes = [(index, s.value) for index, s in enumerate(listing.steps) if s.kind == "jump" and s.value > index]
    passes += [(start - 1, target) for start, _, target, *_ in listing.handlers]
    deleted = {s.value for s in listing.steps if s.kind == "variable" and s.op.startswith(("DELETE_", "LOAD_FAST_AND"))}
    always = frozenset((*listing.arguments, *(listing.free if around is None else around & set(listing.free))))
    until: dict[Variable, int] = {}
    found: list[frozenset[Variable]] = []
    for index, step in enumerate(listing.steps):
        found.append((always | {v for v, end in until.items() if index < end}) - deleted)
        if step.kind == "variable" and step.op.startswith("STORE_"):
            end = min((end for start, end in passes if start < index < end), default=len(listing.steps))
            until[step.value] = max(end, until.get(step.value, 0))
    return found


def constant(value: Any) -> Any:
    """A constant as it is written in each process."""
    if isinstance(value, tuple):
        return "tuple", [constant(v) for v in value]
    if isinstance(value, frozenset):
        return "set", sorted(repr(constant(v)) for v in value)
    return type(value).__name__, written(value)


def written(value: Any) -> str:
    """repr(), which refuses numbers of more than 4300 digits."""
    return hex(value) if type(value) is int and value.bit_length() > 1000 else repr(value)


@attrs.frozen
class Uses:
    """Names, modules and texts that the code of a listing uses, with the functions inside it."""

    names: dict[tuple[str, tuple[str, ...]], None]  # with the attributes read of them
    imports: dict[Path, None]  # with the attributes read of them
    modules: dict[Import, tuple[str, ...]]  # all that it imports, with the names that it takes
    attributes: dict[str, None]  # of whatever object
    texts: dict[str, None]  # constants

    def words(self) -> Iterator[str]:
        """The names in the texts."""
        for text in self.texts:
            yield from _WORD.findall(text)


def uses(listing: Listing) -> Uses:
    found = Uses({}, {}, {}, {}, {})
    _add_uses(listing, listing.sources, found)
    return found


def _add_uses(listing: Listing, sources: Mapping[Variable, list[Path]], found: Uses) -> None:
    for step, after in zip(listing.steps, (*listing.steps[1:], Step("", "", None)), strict=True):
        # or what follows says what is used of it
        is_value = after.kind not in ("variable", "imported") and after.op != "POP_TOP"
        if step.kind == "code":
            _add_uses(step.value, sources, found)
        elif step.kind == "constant":
            found.texts.update(dict.fromkeys(_texts(step.value)))
        elif step.kind == "global":
            found.names[step.value, step.attributes] = None
        elif step.kind == "name" and (step.op, step.value) != ("STORE_ATTR", "__doc__"):  # which reads none
            found.attributes[str(step.value)] = None
        elif step.kind == "import":
            found.modules[step.value] = (*found.modules.get(step.value, ()), *step.attributes)
            if is_value and not step.attributes:
                found.imports[Path(step.value)] = None
        elif step.kind == "imported" and is_value:
            found.imports[step.value] = None
        elif step.kind == "variable" and step.op.startswith("LOAD_"):
            for path in sources.get(step.value, ()):
                found.imports[Path(path.root, (*path.attributes, *step.attributes))] = None


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    for inner in value if isinstance(value, (tuple, frozenset)) else ():
        yield from _texts(inner)
