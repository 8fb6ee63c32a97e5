"""The sources of the app's modules as syntax trees, and what workers, which import a module, get from it.

The driver may have set what a module's source makes to something else (``helpers.configure(5)``, ``helpers.LIMIT = 5``,
a patch in a test's manner). Workers import the module afresh. So a value that is not just what one statement of the
source says counts twice: as it is here, and by the statements that make it.
"""

from __future__ import annotations

import ast
import copy
import enum
import functools
import importlib.machinery
import importlib.util
import logging
import sys
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ..owner import Owner, owner
from .settled import has_values_of, is_settled, lacks, registered_elsewhere

_MISSING = object()
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_DEFINITIONS = (*_FUNCTIONS, ast.ClassDef)
_IMPORTS = (ast.Import, ast.ImportFrom)


def absolute(name: str, level: int, namespace: dict[str, Any]) -> str:
    """The full name of a module that is imported somewhere."""
    if not level:
        return name
    package = namespace.get("__package__") or str(namespace.get("__name__", "")).rpartition(".")[0]
    try:
        return importlib.util.resolve_name("." * level + name, package)
    except ImportError:
        return name


def tree_of(name: str) -> ast.Module | None:
    """None for ``__main__``, whose functions and values are pickled, and where there is no source."""
    if name in ("__main__", "__mp_main__"):
        return None
    loader = getattr(sys.modules.get(name), "__loader__", None)
    try:
        source = loader.get_source(name)  # type: ignore[union-attr]
        return None if source is None else parsed(name, source)
    except Exception:  # no loader, no source, or not of this Python
        return None


@functools.lru_cache(maxsize=1000)
def parsed(name: str, source: str) -> ast.Module:
    return ast.parse(source)


def made(module: str, name: str, value: Any) -> Any:
    """What makes a module's member, where it may be something else than on a worker; None where it is what one
    statement says: a definition, an import, a literal."""
    tree = tree_of(module) if owner(module) is Owner.APP else None
    if tree is None:
        return None
    bound = outline_of(tree).bound.get(name, [])
    if any(statement not in tree.body for statement in bound):  # workers may take another branch of an if or a try
        return slice_of(module, name)
    if any(_is_definition(module, name, value, statement) for statement in bound):
        return None if all(_is_settled(module, statement) for statement in bound) else slice_of(module, name)
    if len(bound) == 1 and (_is_literal(bound[0], value) or _is_logger(bound[0], value, module)):
        return None
    return slice_of(module, name)


def _is_settled(module: str, statement: ast.stmt) -> bool:
    namespace, tree = vars(sys.modules[module]), tree_of(module)

    def is_made_alike(name: str) -> bool:
        bound, value = outline_of(tree).bound.get(name, []) if tree else [], namespace[name]
        if any(isinstance(s, _DEFINITIONS) or _is_definition(module, name, value, s) for s in bound):
            return True
        return not bound or (len(bound) == 1 and _is_literal(bound[0], value))

    return is_settled(statement, namespace, is_made_alike)


def dispatched_as_written(generic: Any) -> list[str]:
    """Of functools.singledispatch: what workers have registered in it and the driver has not."""
    return [plain_text(node) for node in registered_elsewhere(generic, tree_of, function_node)]


def pickled_as_written(value: Any) -> Any:
    """What makes a function or a class that is pickled by its name."""
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", "").partition(".")[0]
    held = sys.modules.get(module) if isinstance(module, str) and module not in ("__main__", "__mp_main__") else None
    return made(str(module), name, vars(held)[name]) if held is not None and name in vars(held) else None


def function_as_written(function: types.FunctionType) -> Any:
    """None where a function has the code and the defaults that its module's source gives it, else what makes it."""
    module = str(function.__globals__.get("__name__"))
    tree = tree_of(module) if vars(sys.modules.get(module, sys)) is function.__globals__ else None
    if tree is None or function.__code__.co_filename.startswith("<"):
        return None
    nodes = _codes(tree).get(function.__code__, _MISSING)
    if nodes is not _MISSING and ("<locals>" in function.__qualname__ or _has_defaults(nodes, function)):
        return None
    return slice_of(module, function.__qualname__.partition(".")[0])


def class_as_written(made: type) -> Any:
    """The same for a class: its functions and its attributes."""
    top = made.__qualname__.partition(".")[0]
    tree = tree_of(made.__module__) if isinstance(made.__module__, str) else None
    if tree is None or "<locals>" in made.__qualname__:
        return None
    node: Any = tree
    for part in made.__qualname__.split("."):
        found = [n for n in ast.walk(node) if isinstance(n, ast.ClassDef) and n.name == part]
        if len(found) != 1:
            return slice_of(made.__module__, top)
        node = found[0]
    body: dict[str, list[ast.stmt]] = {}
    for statement in node.body:
        for name in _binds(statement):
            body.setdefault(name, []).append(statement)
    if lacks(made, body) or not all(_is_settled(made.__module__, s) for s in (node, *node.body)):
        return slice_of(made.__module__, top)
    if isinstance(made, enum.EnumMeta):
        if not has_values_of(made, body, _is_literal):
            return slice_of(made.__module__, top)
        body = {name: statements for name, statements in body.items() if name not in made.__members__}
    codes = _codes(tree)
    members = ((name, value) for name, value in vars(made).items() if not _is_made_by_python(name, value, body))
    if isinstance(made, enum.EnumMeta):  # the metaclass puts much into it
        members = ((name, value) for name, value in members if name in body)
    if all(_is_written(name, value, body.get(name, []), codes) for name, value in members):
        return None
    return slice_of(made.__module__, top)


def _is_made_by_python(name: str, value: Any, body: dict[str, Any]) -> bool:
    slots = (types.MemberDescriptorType, types.GetSetDescriptorType)
    return isinstance(value, slots) or (name.startswith("_") and name not in body and not _code_in(value))


def _is_written(name: str, value: Any, statements: list[ast.stmt], codes: dict[types.CodeType, Any]) -> bool:
    if isinstance(value, type):
        return any(isinstance(s, ast.ClassDef) for s in statements)
    code = _code_in(value)
    if code is not None:
        return code.co_filename.startswith("<") or (code in codes and code.co_name in (name, "<lambda>"))
    return len(statements) == 1 and _is_literal(statements[0], value)


def _code_in(value: Any) -> types.CodeType | None:
    """The code of a function, or of the one that something was made of: of a property, a wrapper, a cache."""
    for _ in range(20):
        if isinstance(value, types.FunctionType) and not hasattr(value, "__wrapped__"):
            return value.__code__
        inner = [getattr(value, n, None) for n in ("__wrapped__", "__func__", "fget", "func", "dispatcher")]
        value = next((v for v in inner if callable(v) or v.__class__ in (staticmethod, classmethod)), None)
        if value is None:
            return None
    return None


def _is_definition(module: str, name: str, value: Any, statement: ast.stmt) -> bool:
    if isinstance(statement, ast.ClassDef):
        return isinstance(value, type) and (value.__module__, value.__qualname__) == (module, name)
    if isinstance(statement, _FUNCTIONS):
        code = _code_in(value)
        tree = tree_of(module)
        node = _codes(tree).get(code) if tree and code else None
        return node is statement or getattr(node, "lineno", 0) == statement.lineno
    if isinstance(statement, ast.Import):
        return isinstance(value, types.ModuleType)
    if isinstance(statement, ast.ImportFrom):
        base = absolute(statement.module or "", statement.level, vars(sys.modules[module]))
        for alias in statement.names:
            if (alias.asname or alias.name) == name and base != module:
                held = vars(sys.modules[base]).get(alias.name, _MISSING) if base in sys.modules else _MISSING
                below = sys.modules.get(f"{base}.{alias.name}", _MISSING)
                return value is below or (value is held and made(base, alias.name, value) is None)
    return False


def _is_literal(statement: ast.stmt, value: Any) -> bool:
    if not isinstance(statement, (ast.Assign, ast.AnnAssign)) or statement.value is None:
        return False
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    if not all(isinstance(target, ast.Name) for target in targets):
        return False
    return _equals(statement.value, value)


def _is_logger(statement: ast.stmt, value: Any, module: str) -> bool:
    """Whether a logger is the one that is written: ``log = logging.getLogger(__name__)``"""
    if not isinstance(statement, ast.Assign) or not isinstance(value, logging.Logger):
        return False
    written = ast.unparse(statement.value).removeprefix("logging.")
    return written == f"getLogger({value.name!r})" or (written == "getLogger(__name__)" and value.name == module)


def _equals(node: ast.expr, value: Any) -> bool:
    try:
        literal = ast.literal_eval(node)
    except (ValueError, TypeError):  # it is computed
        return False
    return type(literal) is type(value) and repr(literal) == repr(value)


def _has_defaults(node: Any, function: types.FunctionType) -> bool:
    """Whether each default is one that is written."""
    given = node.args
    positional, named = given.defaults, [d for d in given.kw_defaults if d is not None]
    values, more = function.__defaults__ or (), function.__kwdefaults__ or {}
    if len(positional) != len(values) or len(named) != len(more):
        return False
    pairs = [*zip(positional, values, strict=True), *zip(named, more.values(), strict=True)]
    return all(_equals(written, value) for written, value in pairs)


@functools.lru_cache(maxsize=200)
def _codes(tree: ast.Module) -> dict[types.CodeType, Any]:
    """The code objects that a module's source gives, with their definitions."""
    nodes: dict[tuple[str, int], ast.AST] = {}
    for node in ast.walk(tree):
        if isinstance(node, _FUNCTIONS):
            nodes[node.name, min([node.lineno, *(d.lineno for d in node.decorator_list)])] = node
        elif isinstance(node, ast.Lambda):
            nodes["<lambda>", node.lineno] = node
    found: dict[types.CodeType, Any] = {}
    inside = [compile(tree, "<source>", "exec", dont_inherit=True)]
    while inside:
        code = inside.pop()
        if definition := nodes.get((code.co_name, code.co_firstlineno)):
            found[code] = definition
        inside += [c for c in code.co_consts if isinstance(c, types.CodeType)]
    return found


def function_node(function: types.FunctionType) -> Any:
    """Where a function is defined in its module's source."""
    tree = tree_of(str(function.__globals__.get("__name__")))
    return None if tree is None else _codes(tree).get(function.__code__)


class _Outline:
    """The statements of a module that run on import, by the names that they bind and touch."""

    def __init__(self, tree: ast.Module) -> None:
        self.bound: dict[str, list[ast.stmt]] = {}
        for statement in at_import(tree.body):
            for name in _binds(statement):
                self.bound.setdefault(name, []).append(statement)
        self._defined = {n: [s for s in found if isinstance(s, _DEFINITIONS)] for n, found in self.bound.items()}
        self.statements = [(s, frozenset(self._bound_in(s)), self._touched(s)) for s in tree.body]
        self.starred = [s for s in at_import(tree.body) if isinstance(s, ast.ImportFrom) and s.names[0].name == "*"]

    def is_data(self, name: str) -> bool:
        return not all(isinstance(s, (*_DEFINITIONS, *_IMPORTS)) for s in self.bound.get(name, ()))

    def _bound_in(self, statement: ast.stmt) -> Iterator[str]:
        for each in at_import([statement]):
            yield from _binds(each)
        for node in _now(statement):
            if isinstance(node, (ast.Attribute, ast.Subscript)) and not isinstance(node.ctx, ast.Load):
                yield from (n.id for n in ast.walk(node.value) if isinstance(n, ast.Name))
            elif isinstance(node, ast.Call):  # setattr(C, ...), register(C)
                yield from (a.id for a in node.args if isinstance(a, ast.Name))

    def _touched(self, statement: ast.stmt) -> frozenset[str]:
        """The names it uses when it runs, with those that the functions it uses use."""
        found = {n.id for n in _now(statement) if isinstance(n, ast.Name)} | set(_binds(statement))
        todo = [name for name in found if not isinstance(statement, _DEFINITIONS) or name != statement.name]
        while todo:
            for definition in self._defined.get(todo.pop(), ()):
                new = {n.id for n in ast.walk(definition) if isinstance(n, ast.Name)} - found
                found |= new
                todo += new
        return frozenset(found)


@functools.lru_cache(maxsize=200)
def outline_of(tree: ast.Module) -> _Outline:
    return _Outline(tree)


def slice_of(module: str, name: str) -> list[Any]:
    """The statements that make a module's member, in all modules of the app, as they are written but for docstrings
    and hints."""
    found: dict[tuple[str, int], str] = {}
    todo, done = [(module, name)], set()
    while todo:
        module, name = asked = todo.pop()
        tree = source_tree(module) if asked not in done else None
        done.add(asked)
        if tree is None:
            continue
        outline = outline_of(tree)
        if not name:  # all of it
            todo += [(module, each) for each in outline.bound]
        starred = not outline.bound.get(name)
        for number, (statement, bound, touched) in enumerate(outline.statements):
            is_meant = name in (touched if outline.is_data(name) else bound) or (
                starred and statement in outline.starred
            )
            if not is_meant and name:
                continue
            if (module, number) not in found:
                found[module, number] = plain_text(statement)
                todo += [(module, n.id) for n in ast.walk(statement) if isinstance(n, ast.Name) and n.id != name]
                todo += _from(module, statement, name if len(bound) > 1 else "")
    # in their order; their numbers would count what stands above them
    return [(module, text) for (module, _), text in sorted(found.items())]


def _from(module: str, statement: ast.stmt, name: str) -> Iterator[tuple[str, str]]:
    """What an import takes from other modules."""
    for node in ast.walk(statement):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = absolute(node.module or "", node.level, namespace_of(module))
            for alias in node.names:
                below = f"{base}.{alias.name}"
                yield (below, "") if below in sys.modules else (base, "" if alias.name == "*" else alias.name)


def at_import(body: Iterable[ast.stmt], is_skipped: Callable[[ast.If], bool] | None = None) -> Iterator[ast.stmt]:
    """The statements that run on import, those inside if, try, for, while and with as well. is_skipped: whether the
    body of an if is not run"""
    for statement in body:
        yield statement
        if not isinstance(statement, _DEFINITIONS):
            skipped = is_skipped is not None and isinstance(statement, ast.If) and is_skipped(statement)
            for field in ("orelse",) if skipped else ("body", "orelse", "finalbody"):
                yield from at_import(getattr(statement, field, ()), is_skipped)
            for handler in getattr(statement, "handlers", ()):
                yield from at_import(handler.body, is_skipped)
            for case in getattr(statement, "cases", ()):
                yield from at_import(case.body, is_skipped)


def _binds(statement: ast.stmt) -> Iterator[str]:
    """The names that a statement itself binds, without the statements in it."""
    if isinstance(statement, _DEFINITIONS):
        yield statement.name
    elif isinstance(statement, _IMPORTS):
        yield from (a.asname or a.name.partition(".")[0] for a in statement.names)
    else:
        for node in _now(statement):
            if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
                yield node.id


def _now(node: ast.AST) -> Iterator[ast.AST]:
    """A statement's nodes that are computed when it runs: not the bodies of functions."""
    yield node
    if isinstance(node, (ast.Lambda, *_FUNCTIONS)):
        inner: list[Any] = [*getattr(node, "decorator_list", ()), *node.args.defaults, *node.args.kw_defaults]
    else:
        inner = list(ast.iter_child_nodes(node))
    for each in inner:
        if each is not None:
            yield from _now(each)


@functools.lru_cache(maxsize=5000)
def plain_text(statement: ast.stmt) -> str:
    """A statement as it is written, without docstrings and the hints of functions, but for hints that compute."""
    changed = copy.deepcopy(statement)
    for node in ast.walk(changed):
        if isinstance(node, _DEFINITIONS):
            if ast.get_docstring(node, clean=False) is not None:
                node.body = node.body[1:] or [ast.Pass()]
            if not isinstance(node, ast.ClassDef) and node.returns and is_plain_hint(node.returns):
                node.returns = None
        elif isinstance(node, ast.arg) and node.annotation and is_plain_hint(node.annotation):
            node.annotation = None
    return ast.dump(changed)


_OF_HINTS = (ast.Name, ast.Attribute, ast.Subscript, ast.Tuple, ast.List, ast.BinOp, ast.BitOr, ast.expr_context)


def is_plain_hint(hint: ast.expr) -> bool:
    """Whether a hint is one by its looks: ``dict[str, Order] | None``."""
    return all(
        isinstance(n, _OF_HINTS) or (isinstance(n, ast.Constant) and not isinstance(n.value, (int, float)))
        for n in ast.walk(hint)
    )


def hints_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.expr]:
    a = function.args
    every = (*a.posonlyargs, *a.args, *a.kwonlyargs, a.vararg, a.kwarg)
    hints = [x.annotation for x in every if x is not None] + [function.returns]
    return [hint for hint in hints if hint is not None]


def namespace_of(module: str) -> dict[str, Any]:
    """What relative imports start from."""
    held = sys.modules.get(module)
    if held is not None:
        return vars(held)
    spec = spec_of(module)
    is_package = spec is not None and spec.submodule_search_locations is not None
    return {"__package__": module if is_package else module.rpartition(".")[0], "__name__": module}


def source_tree(module: str) -> ast.Module | None:
    """The source of a module of the app's, imported or not. Imports nothing."""
    if owner(module) is not Owner.APP:
        return None
    if module in sys.modules:
        return tree_of(module)
    spec = spec_of(module)
    try:
        return parsed(module, spec.loader.get_source(module))  # type: ignore[union-attr]
    except Exception:  # no such module, no source, or not of this Python
        return None


def is_there(module: str) -> bool:
    """Whether a module is found, imported or not. Imports nothing."""
    return module in sys.modules or module in sys.builtin_module_names or spec_of(module) is not None


def spec_of(module: str) -> importlib.machinery.ModuleSpec | None:
    """find_spec, which would import the packages around it."""
    spec: importlib.machinery.ModuleSpec | None = None
    parts = module.split(".")
    for i in range(len(parts)):
        path = None if spec is None else spec.submodule_search_locations
        if i and path is None:
            return None
        try:
            spec = importlib.machinery.PathFinder.find_spec(".".join(parts[: i + 1]), path)
        except (ImportError, ValueError, AttributeError):
            return None
        if spec is None:
            return None
    return spec
