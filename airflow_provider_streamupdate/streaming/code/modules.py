"""Modules of the app's: their members, and what importing them does."""

from __future__ import annotations

import ast
import functools
import importlib
import importlib.util
import pkgutil
import sys
import types
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import attrs

from .on_import.harmless.statements import is_plain, names_of
from .on_import.quiet import is_not_run, loud_statements
from .on_import.reached import reached
from .on_import.source import absolute, at_import, made, tree_of
from .on_import.sourceless import digest_without_source, displaced, imported_without_source
from .owner import Owner, owner
from .report import Where
from .walk import Walk, digest

if TYPE_CHECKING:
    from collections.abc import Iterable

# What Python puts into a module's namespace.
MADE_BY_PYTHON = frozenset(
    {"__name__", "__doc__", "__file__", "__builtins__", "__loader__", "__spec__", "__package__", "__cached__",
     "__path__", "__annotations__", "__warningregistry__"}
)  # fmt: skip

# What the imports that describing makes have set in modules that were there before: workers have it, too, once the
# function has made them. (The literal that they have at first counts by the source.)
_SET_BY_IMPORTS: dict[Any, Any] = {}


@attrs.define(eq=False)
class Effect:
    """The statements of a module that do, or may do, something else than to give values to names.

    code: those that do, which is walked. text: what all of them reach, as it is written (reached.py), as a digest.
    packages: topmost modules of others that they take something from. places: which statements of the module they are
    """

    module: str
    code: types.CodeType | None
    text: str
    packages: tuple[str, ...] = ()
    places: frozenset[int] = frozenset()


def import_module(walk: Walk, name: str, where: Where) -> types.ModuleType | None:
    """A module of the app's, imported as the function would do it."""
    if (held := sys.modules.get(name)) is not None:
        return held
    before = {n: dict(vars(m)) for n, m in _modules_of_app()}
    try:
        module = importlib.import_module(name)
        _SET_BY_IMPORTS.update(_set_since(before))
        return module
    except (Exception, SystemExit) as e:  # whatever its statements raise
        walk.report.cannot(where, f"it cannot be imported here ({type(e).__name__}: {e})")
        return None


def _modules_of_app() -> list[tuple[str, types.ModuleType]]:
    loaded = [(n, m) for n, m in sys.modules.items() if isinstance(m, types.ModuleType) and n != "__main__"]
    return [(n, m) for n, m in loaded if owner(n) is Owner.APP]


def _set_since(before: dict[str, dict[str, Any]]) -> Iterator[tuple[tuple[str, str], Any]]:
    for name, module in _modules_of_app():
        for member, value in vars(module).items() if name in before else ():
            if before[name].get(member, value) is not value:
                yield (name, member), value


def member(walk: Walk, module: types.ModuleType, name: str, where: Where) -> tuple[Any, Any]:
    """A member of a module and what describes how it is found: in its namespace, as a module below it, or by its
    ``__getattr__`` (whose code then counts, too)."""
    members = vars(module)
    if name in members:
        if reason := set_since(module.__name__, name, members[name]):
            walk.report.cannot(where, reason)
        return members[name], ("member", source_of(module.__name__, name, members[name]))
    if "__path__" in members and _spec(f"{module.__name__}.{name}"):
        return import_module(walk, f"{module.__name__}.{name}", where), "module"
    if "__getattr__" not in members:
        return None, ("no member", made(module.__name__, name, None) or None)
    # Which names it asks for (it may import by computed names) shows in what it returns.
    apart = attrs.evolve(walk.report.apart(), unknown=set())
    how = digest(Walk(apart).all(members["__getattr__"], where))
    try:
        return getattr(module, name), how
    except Exception as e:
        walk.report.cannot(where, f"the module's __getattr__ fails ({type(e).__name__}: {e})")
        return None, how


def set_since(module: str, name: str, value: Any) -> str | None:
    """Why a module's constant is not what it is on a worker: workers import the module and have what is written there,
    whatever the driver has set it to. None where it is, or where no one literal is written."""
    tree = tree_of(module)
    if tree is None:
        return None
    written = [n for n in ast.walk(tree) if isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Store)]
    for statement in tree.body if len(written) == 1 else ():
        targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
        if written != targets or not isinstance(statement, (ast.Assign, ast.AnnAssign)) or statement.value is None:
            continue
        try:
            literal = ast.literal_eval(statement.value)
        except ValueError:  # it is computed
            return None
        if _is_filled(tree, name, value, literal) or _SET_BY_IMPORTS.get((module, name), _SET_BY_IMPORTS) is value:
            return None
        if type(literal) is not type(value) or repr(literal) != repr(value):
            return f"the driver has set it to {value!r}, and workers, which import {module}, have {literal!r}"
    return None


def filled(module: str, name: str, value: Any) -> str | None:
    """Of a list, dict or set that is written as a literal and was filled since by statements of its module (a registry
    of functions): the digest of the source of the module and of the app's modules that it imports. What workers have
    in it these say, whatever the driver has put into it besides. None for all other values."""
    tree = tree_of(module) if isinstance(value, (list, dict, set)) else None
    if tree is None or not _looks_filled(tree, name, value):
        return None
    found: dict[str, None] = {}
    _imports(module, found)
    return digest([(each, ast.dump(source)) for each in found if (source := tree_of(each)) is not None])


def source_of(module: str, name: str, value: Any) -> Any:
    """What of the source says what a worker has in a module's member, besides the value that it has here."""
    return filled(module, name, value) or made(module, name, value)


def _looks_filled(tree: ast.Module, name: str, value: Any) -> bool:
    for statement in tree.body:
        if isinstance(statement, (ast.Assign, ast.AnnAssign)) and statement.value is not None:
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            if [getattr(t, "id", None) for t in _flat(targets)].count(name):
                try:
                    literal = ast.literal_eval(statement.value)
                except ValueError:  # it is computed
                    return _is_read(tree, name)
                alone = all(isinstance(target, ast.Name) for target in targets)
                return _is_filled(tree, name, value, literal) if alone else _is_read(tree, name)
    return False


def _flat(targets: Iterable[ast.expr]) -> Iterator[ast.expr]:
    for target in targets:
        if isinstance(target, (ast.Tuple, ast.List)):
            yield from _flat(target.elts)
        else:
            yield target


def _is_filled(tree: ast.Module, name: str, value: Any, literal: Any) -> bool:
    """Whether a container differs from its literal, and its module may have put into it what it holds."""
    differs = type(literal) is not type(value) or repr(literal) != repr(value)
    return differs and type(literal) is type(value) and isinstance(value, (list, dict, set)) and _is_read(tree, name)


def _is_read(tree: ast.Module, name: str) -> bool:
    return any(isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load) for n in ast.walk(tree))


def describe_module(walk: Walk, module: types.ModuleType, where: Where) -> Any:
    """A module as a value: what is used of it is not known, so all counts."""
    from .functions import imported

    walk.report.note_text(module.__doc__)
    members = {
        name: value
        for name, value in vars(module).items()
        if name not in MADE_BY_PYTHON and not _below(module, name, value)
    }
    for found in pkgutil.iter_modules(vars(module).get("__path__") or ()):
        if found.name != "__main__":
            members[found.name] = import_module(walk, f"{module.__name__}.{found.name}", where)
    described = [
        (name, source_of(module.__name__, name, value), walk.of(value, where.part(f".{name}")))
        for name, value in sorted(members.items())
    ]
    return "module", described, imported(walk, vars(module))


def _below(module: types.ModuleType, name: str, value: Any) -> bool:
    """Whether a member is a module of the package: which of them are loaded by now is chance."""
    return isinstance(value, types.ModuleType) and value.__name__ == f"{module.__name__}.{name}"


def effects(walk: Walk, name: str) -> tuple[Effect, ...]:
    """What importing a module of the app's does, with the packages around it and the app's modules that it imports, in
    that order. Nothing for ``__main__``, whose functions are pickled by value."""
    if name not in walk.on_import:
        found: dict[str, None] = {}
        _imports(name, found)
        made = {module: effect for module in found if (effect := _effect(module))}
        for module in found:
            if reason := displaced(module):
                walk.report.cannot(Where(name=f"module {module}"), reason)
        walk.on_import[name] = (*made.values(), *([_order(name, made)] if len(made) > 1 else ()))
    return walk.on_import[name]


def _order(name: str, effects: dict[str, Effect]) -> Effect:
    """In which order the effects of modules that import each other come: each may set what another has set."""
    order: list[tuple[str, int]] = []
    seen: set[str] = set()

    def run(module: str) -> None:
        for outer in _with_packages(module):
            tree = tree_of(outer) if outer not in seen and outer in sys.modules else None
            seen.add(outer)
            for number, statement in enumerate(tree.body if tree and owner(outer) is Owner.APP else ()):
                if outer in effects and number in effects[outer].places:
                    order.append((outer, number))
                for inner in _imported_by(outer, [statement]):
                    run(inner)

    run(name)
    # by their number among themselves: where other statements lie says nothing
    ranks = {place: rank for rank, place in enumerate(sorted(order))}
    return Effect(name, None, digest([ranks[place] for place in order]))


def _with_packages(name: str) -> list[str]:
    parts = name.split(".")
    return [".".join(parts[: i + 1]) for i in range(len(parts))]


def _imports(name: str, found: dict[str, None]) -> None:
    for each in _with_packages(name):
        if each in found or each not in sys.modules or owner(each) is not Owner.APP or each == "__main__":
            continue
        found[each] = None
        tree = tree_of(each)
        for inner in _imported_by(each, tree.body) if tree else imported_without_source(each):
            _imports(inner, found)


def _imported_by(name: str, body: Iterable[ast.stmt]) -> Iterator[str]:
    """The modules that statements of a module import when they run."""
    namespace = vars(sys.modules[name])
    for statement in _running(body, namespace):
        if isinstance(statement, ast.Import):
            yield from (alias.name for alias in statement.names)
        elif isinstance(statement, ast.ImportFrom):
            base = absolute(statement.module or "", statement.level, namespace)
            yield base
            every = getattr(sys.modules.get(base), "__all__", ()) if statement.names[0].name == "*" else ()
            yield from (f"{base}.{asked}" for asked in (*(alias.name for alias in statement.names), *every))


def _running(body: Iterable[ast.stmt], namespace: dict[str, Any]) -> Iterator[ast.stmt]:
    """The statements that run on import, those of class bodies as well."""
    for statement in at_import(body, lambda s: is_not_run(s, namespace)):
        yield statement
        if isinstance(statement, ast.ClassDef):
            yield from _running(statement.body, namespace)


def _effect(name: str) -> Effect | None:
    if (tree := tree_of(name)) is not None:
        return _compiled(name, tree)
    all_of_it = digest_without_source(name)
    return None if all_of_it is None else Effect(name, None, all_of_it)


@functools.lru_cache(maxsize=1000)
def _compiled(name: str, tree: ast.Module) -> Effect | None:
    loud = loud_statements(name, tree)
    surely, names = set(map(id, loud)), names_of(name)
    kept = {
        number: s for number, s in enumerate(tree.body) if id(s) in surely or names is None or not is_plain(s, names)
    }
    if not kept:
        return None
    code = compile(ast.Module(list(loud), []), f"<{name}>", "exec", dont_inherit=True) if loud else None
    found = reached(name, kept.values())
    return Effect(name, code, digest(found.texts), found.packages, frozenset(kept))


def _spec(name: str) -> Any:
    try:
        return importlib.util.find_spec(name)
    except (ImportError, ValueError, AttributeError):
        return None
