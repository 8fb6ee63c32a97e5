"""Which quiet statements (quiet.py) run nothing of the app's: it is known that they do nothing else.

`is_quiet` follows the calls that it sees. Python calls more by itself (operators, properties, ``__init_subclass__``,
``__set_name__``, metaclasses, factories of defaults ...), and what is handed on may be called (``sorted(key=g)``).
So here is the positive list: definitions, and expressions over values of Python's, of the platform's and of known
packages. A statement that is not in it counts by its text with all that it reaches by name (reached.py).
"""

from __future__ import annotations

import abc
import ast
import builtins
import dataclasses
import enum
import functools
import inspect
import os
import re
import sys
import types
import typing
from collections.abc import Iterable
from typing import Any

from ..owner import Owner, owner
from .quiet import QUIET_METHODS, QUIET_PACKAGES, is_not_run, is_quiet
from .source import absolute, function_node, hints_of, is_plain_hint, outline_of, tree_of

_MISSING = object()
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_DEFINITIONS = (*_FUNCTIONS, ast.ClassDef)
# What a value is made of, the worst part counts: Spark's and ours; Python's and known packages'; the app's (or what is
# not known), which must not be used by operators, calls, loops; what runs the app's code when it is made.
PLATFORM, HARMLESS, APP, DOUBT = range(4)
_IMMUTABLE = (type(None), bool, int, float, complex, str, bytes, type(Ellipsis), range, re.Pattern)
# Of these modules the decorators call no function that they are given.
_DECORATORS = frozenset({"functools", "_functools", "contextlib", "typing", "abc", "dataclasses", "enum", "types"})
_BUILTIN_DECORATORS = (property, staticmethod, classmethod)
# What keeps functions and instances that it is given, without a call.
_KEEP = frozenset(
    {("functools", "partial"), ("functools", "partialmethod"), ("functools", "cached_property"),
     ("dataclasses", "field"), ("collections", "defaultdict"), ("types", "SimpleNamespace"),
     ("types", "MappingProxyType"), ("typing", "cast"), ("typing", "NewType"), ("typing", "TypeVar"),
     ("attr._make", "attrib"), ("attr._next_gen", "field"), ("builtins", "property"), ("builtins", "staticmethod"),
     ("builtins", "classmethod"), ("pyspark.sql.udf", "udf"), ("pyspark.sql.functions.builtin", "udf"),
     ("pyspark.sql.functions.builtin", "udtf"), ("pyspark.sql.pandas.functions", "pandas_udf"),
     ("pyspark.sql.pandas.functions", "arrow_udf")}
)  # fmt: skip
_OF_ENUMS = (
    *("__init__", "__new__", "__new_member__", "__setattr__", "__set_name__"),
    *("_generate_next_value_", "_missing_"),
)


@functools.lru_cache(maxsize=200)
def loud_statements(module: str, tree: ast.Module) -> tuple[ast.stmt, ...]:
    return tuple(s for s in tree.body if not is_quiet(s, vars(sys.modules[module])))


def is_plain(statement: ast.stmt, names: Names) -> bool:
    """Of a quiet statement."""
    try:
        return names.statement(statement) < DOUBT
    except Exception:  # what is looked at may be of any kind; what is not understood is not plain
        return False


class Program:
    """What the names in the app's modules stand for."""

    def __init__(self) -> None:
        self._names: dict[str, Names | None] = {}
        self._owners: dict[str, Owner] = {}
        self.open: list[tuple[str, str]] = []  # names that are being looked at

    def names(self, module: str) -> Names | None:
        """None where there is no source."""
        if module not in self._names:
            tree = tree_of(module)
            self._names[module] = None if tree is None else Names(self, module, tree)
        return self._names[module]

    def owner(self, module: Any) -> Owner:
        name = module if isinstance(module, str) else "builtins"
        if name not in self._owners:
            self._owners[name] = owner(name)
        return self._owners[name]

    def kind_of(self, module: Any) -> int:
        """Of what a module holds that is not the app's."""
        whose = self.owner(module)
        if whose is Owner.PLATFORM:
            return PLATFORM
        return HARMLESS if whose is Owner.PYTHON or str(module).partition(".")[0] in QUIET_PACKAGES else APP

    def value(self, value: Any) -> int:
        if _is_immutable(value):
            return HARMLESS
        if isinstance(value, types.ModuleType):
            return self.kind_of(value.__name__)
        if isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType)):
            return self.kind_of(value.__module__ or "builtins")
        kind = self.kind_of(type(value).__module__)
        # What Python's own containers and wrappers hold may be the app's.
        return APP if self.owner(type(value).__module__) is Owner.PYTHON else kind


class Names:
    """The statements of one module, and what its names stand for."""

    def __init__(self, program: Program, module: str, tree: ast.Module) -> None:
        self.program = program
        self.module = module
        self.tree = tree
        self.namespace = vars(sys.modules[module])
        self.bound = outline_of(tree).bound
        self._declared = {name for n in ast.walk(tree) if isinstance(n, ast.Global) for name in n.names}
        self._kinds: dict[str, int] = {}
        self._inner: list[dict[str, int]] = []  # names of class bodies and comprehensions
        self._classes: list[type] = []
        self._texts = any(
            isinstance(s, ast.ImportFrom) and s.module == "__future__" and any(a.name == "annotations" for a in s.names)
            for s in tree.body
        )

    @functools.cached_property
    def _touched_loudly(self) -> frozenset[str]:
        """The names that statements use which may fill them."""
        loud = {id(s) for s in loud_statements(self.module, self.tree)}
        return frozenset().union(*(touched for s, _, touched in outline_of(self.tree).statements if id(s) in loud))

    # names

    def kind_of_name(self, name: str) -> int:
        asked, open = (self.module, name), self.program.open
        if asked in open:  # of what is computed from itself (X = X + 1) the rest decides
            return PLATFORM if open[-1] == asked else APP
        if name not in self._kinds:
            inner, self._inner, classes, self._classes = self._inner, [], self._classes, []
            open.append(asked)
            self._kinds[name] = min(self._kind_of_name(name), APP)
            open.pop()
            self._inner, self._classes = inner, classes
        return self._kinds[name]

    def _kind_of_name(self, name: str) -> int:
        bound = self.bound.get(name, ())
        held = self.namespace.get(name, _MISSING)
        if not bound:
            if held is _MISSING:
                return HARMLESS if hasattr(builtins, name) else APP
            return self.program.value(held)
        if name in self._declared:  # a function may have set it to anything
            return APP
        if len(bound) == 1 and _is_immutable(held):
            return HARMLESS
        kind = max(self._bound(statement, name) for statement in bound)
        if kind < APP and not isinstance(held, types.ModuleType) and name in self._touched_loudly:
            return APP
        return kind

    def _bound(self, statement: ast.stmt, name: str) -> int:
        if isinstance(statement, ast.Import):
            return max(self.program.kind_of(alias.name) for alias in statement.names)
        if isinstance(statement, ast.ImportFrom):
            base = absolute(statement.module or "", statement.level, self.namespace)
            if self.program.owner(base) is not Owner.APP:
                return self.program.kind_of(base)
            other = self.program.names(base) if base in sys.modules else None
            asked = [a.name for a in statement.names if (a.asname or a.name) == name]
            if other is None or not asked or f"{base}.{asked[0]}" in sys.modules:
                return APP
            return other.kind_of_name(asked[0])
        if isinstance(statement, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
            return self.kind(statement.value) if statement.value else PLATFORM
        if isinstance(statement, ast.For):
            return self.kind(statement.iter)
        if isinstance(statement, ast.With):
            return max(self.kind(item.context_expr) for item in statement.items)
        return APP

    def live(self, node: ast.expr) -> Any:
        """What an expression gives, where that is one thing and nothing runs to find it."""
        if isinstance(node, ast.Name):
            if any(node.id in names for names in self._inner):
                return _MISSING
            return self._live_name(node.id)
        if isinstance(node, ast.Attribute):
            base = self.live(node.value)
            return _MISSING if base is _MISSING else self._member(base, node.attr)
        return _MISSING

    def _live_name(self, name: str) -> Any:
        bound = self.bound.get(name, ())
        several = len(bound) > 1 and not all(isinstance(s, (ast.Import, ast.ImportFrom)) for s in bound)
        if several or name in self._declared:
            return _MISSING
        return self.namespace.get(name, _MISSING if bound else getattr(builtins, name, _MISSING))

    def _member(self, base: Any, name: str) -> Any:
        if isinstance(base, types.ModuleType):
            if self.program.owner(base.__name__) is not Owner.APP:
                return getattr(base, name, _MISSING)
            if (names := self.program.names(base.__name__)) is not None and name in names.bound:
                return names._live_name(name)
            return sys.modules.get(f"{base.__name__}.{name}", vars(base).get(name, _MISSING))
        if base is os.environ:
            return getattr(base, name, _MISSING)
        whose = self.program.owner(type(base).__module__)
        if isinstance(base, enum.EnumMeta) and name in base.__members__:
            return base.__members__[name] if whose is Owner.PYTHON else _MISSING
        if isinstance(base, enum.Enum) and name in ("value", "name"):
            return _MISSING if self._apps(type(base), (name,)) else base.__dict__.get(f"_{name}_", _MISSING)
        if isinstance(base, type) and self.program.owner(base.__module__) is not Owner.APP:
            return getattr(base, name, _MISSING)
        if isinstance(base, type) and whose is not Owner.PYTHON:  # a metaclass may give anything
            return _MISSING
        if whose in (Owner.APP, Owner.PLATFORM) or isinstance(base, type):
            if self._apps(type(base), ("__getattribute__",)):
                return _MISSING
            found = inspect.getattr_static(base, name, _MISSING)
            is_found = hasattr(type(found), "__get__") and not isinstance(found, types.FunctionType)
            return _MISSING if is_found else found
        return _MISSING

    def _apps(self, made: type, members: Iterable[str]) -> bool:
        """Whether a class has one of these members from a class of the app's or of an installed package."""
        own = [c for c in made.__mro__ if self.program.owner(c.__module__) in (Owner.APP, Owner.PACKAGE)]
        for name in members:
            for c in own:
                held = vars(c).get(name, _MISSING)
                held = getattr(held, "__func__", held)
                home = getattr(held, "__module__", None)
                if held is not _MISSING and (home is None or self.program.owner(home) is not Owner.PYTHON):
                    return True
        return False

    # statements

    def statement(self, s: ast.stmt) -> int:
        if isinstance(s, (ast.Import, ast.Pass, ast.Global)):
            return HARMLESS
        if isinstance(s, ast.ImportFrom):
            return DOUBT if any(self._is_made_on_import(s, alias.name) for alias in s.names) else HARMLESS
        if isinstance(s, ast.Expr):
            return self._call_arguments(s.value) if isinstance(s.value, ast.Call) else self.kind(s.value)
        if isinstance(s, _FUNCTIONS):
            return self._function(s)
        if isinstance(s, ast.ClassDef):
            return self._class(s)
        if isinstance(s, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
            return self._assigned(s)
        if isinstance(s, ast.If):
            if is_not_run(s, self.namespace):
                return self._all(s.orelse)
            return max(self._used(s.test), self._all([*s.body, *s.orelse]))
        if isinstance(s, ast.Try):
            handled = [each for handler in s.handlers for each in handler.body]
            caught = [self.kind(handler.type) for handler in s.handlers if handler.type]
            return max([*caught, self._all([*s.body, *handled, *s.orelse, *s.finalbody])])
        if isinstance(s, ast.For):
            return max(self._used(s.iter), self._all([*s.body, *s.orelse]))
        if isinstance(s, ast.With):
            return max(*(self._used(item.context_expr) for item in s.items), self._all(s.body))
        if isinstance(s, ast.Assert):
            return self._used(s.test)
        return DOUBT

    def _all(self, body: Iterable[ast.stmt]) -> int:
        return max((self.statement(s) for s in body), default=HARMLESS)

    def _is_made_on_import(self, s: ast.ImportFrom, name: str) -> bool:
        """Whether a module's ``__getattr__`` gives what is imported from it."""
        base = absolute(s.module or "", s.level, self.namespace)
        if self.program.owner(base) is not Owner.APP or "__getattr__" not in vars(sys.modules.get(base, sys)):
            return False
        other = self.program.names(base)
        return name != "*" and (other is None or name not in other.bound) and f"{base}.{name}" not in sys.modules

    def _call_arguments(self, node: ast.Call) -> int:
        """Of ``sys.path.insert(...)``."""
        return max((self._used(a) for a in (*node.args, *(k.value for k in node.keywords))), default=HARMLESS)

    def _assigned(self, s: Any) -> int:
        targets = s.targets if isinstance(s, ast.Assign) else [s.target]
        kind = self.kind(s.value) if s.value is not None else HARMLESS
        if isinstance(s, ast.AnnAssign):
            kind = max(kind, self._hint(s.annotation))
        if isinstance(s, ast.AugAssign):
            kind = max(kind, self._changed(s.target) if isinstance(s.target, ast.Name) else DOUBT)
        for target in targets:
            if isinstance(target, ast.Name):
                self._keep(target.id, kind)
            elif kind >= APP or not isinstance(target, (ast.Tuple, ast.List)):  # taken apart, or put into something
                return DOUBT
            else:
                for n in ast.walk(target):
                    if isinstance(n, ast.Name):
                        self._keep(n.id, kind)
        return kind

    def _keep(self, name: str, kind: int) -> None:
        if self._inner:
            self._inner[-1][name] = max(kind, self._inner[-1].get(name, PLATFORM))

    def _changed(self, target: ast.Name) -> int:
        """``NAME += ...`` changes a list in place, which may be another's: ``FILTERS = warnings.filters``."""
        if self._inner:
            return self._inner[-1].get(target.id, DOUBT)
        made = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp, ast.Constant, ast.Tuple)
        values = [getattr(s, "value", None) for s in self.bound.get(target.id, ()) if not isinstance(s, ast.AugAssign)]
        if _is_immutable(self.namespace.get(target.id, _MISSING)) or all(isinstance(v, made) for v in values):
            return HARMLESS if self.kind_of_name(target.id) < APP else DOUBT
        return DOUBT

    def _hint(self, node: ast.expr | None) -> int:
        return HARMLESS if node is None or self._texts else self.kind(node)

    def _function(self, s: Any) -> int:
        a = s.args
        hints = [self._hint(hint) for hint in hints_of(s)]
        defaults = [self.kind(d) for d in (*a.defaults, *a.kw_defaults) if d is not None]
        self._keep(s.name, APP)
        return max([*hints, *defaults, *(self._decorator(d) for d in s.decorator_list), APP])

    def _class(self, s: ast.ClassDef) -> int:
        holder = vars(self._classes[-1]) if self._classes else self.namespace
        made = holder.get(s.name)
        self._keep(s.name, APP)
        bound = [b for b in self.bound.get(s.name, ()) if isinstance(b, _DEFINITIONS)]
        if not isinstance(made, type) or (not self._classes and len(bound) != 1) or not self._is_plain_class(made):
            return DOUBT
        kinds = [*map(self._decorator, s.decorator_list), *(self.kind(k.value) for k in s.keywords)]
        if max((*kinds, *map(self._base, s.bases)), default=APP) >= DOUBT:
            return DOUBT
        self._inner.append({})
        self._classes.append(made)
        kind = self._all(s.body)
        self._inner.pop()
        self._classes.pop()
        return max(kind, APP)

    def _base(self, node: ast.expr) -> int:
        """An instance in place of a base class has ``__mro_entries__`` called."""
        if isinstance(node, (ast.Name, ast.Attribute)):
            held = self.live(node)
            if not isinstance(held, type) and self.program.value(held) >= APP:
                return DOUBT if held is _MISSING or type(held).__module__ != "typing" else APP
            return APP
        kind = self.kind(node)
        return DOUBT if kind == APP and isinstance(node, ast.Call) else kind

    def _is_plain_class(self, made: type) -> bool:
        """Whether making a class (and reading its members) calls nothing of the app's or of a package's."""
        if self.program.owner(made.__module__) is not Owner.APP or not self._is_plain_kind(type(made)):
            return False
        for c in made.__mro__[1:]:
            if self.program.owner(c.__module__) in (Owner.APP, Owner.PACKAGE) and "__init_subclass__" in vars(c):
                return False
        if isinstance(made, enum.EnumMeta) and self._apps(made, _OF_ENUMS):
            return False
        if "__attrs_init_subclass__" in dir(made):
            return False
        own = (c for c in made.__mro__ if self.program.owner(c.__module__) in (Owner.APP, Owner.PACKAGE))
        return not any(self._is_descriptor(v) for c in own for v in vars(c).values())

    def _is_plain_kind(self, meta: type) -> bool:
        return meta in (type, abc.ABCMeta, enum.EnumMeta) or self.program.owner(meta.__module__) in (
            Owner.PYTHON,
            Owner.PLATFORM,
        )

    def _decorator(self, node: ast.expr) -> int:
        made = isinstance(node, ast.Call)
        func = node.func if isinstance(node, ast.Call) else node
        most = self._given(node) if isinstance(node, ast.Call) else PLATFORM
        if most >= DOUBT:
            return DOUBT
        if isinstance(func, ast.Attribute) and isinstance(func.value, ast.Name):
            holder = self._held_by_class(func.value.id)
            if func.attr in ("setter", "getter", "deleter") and type(holder) is property:
                return APP
            if func.attr == "register" and isinstance(holder, functools.singledispatchmethod):
                return APP
        target = self.live(func)
        home, name = _home(target)
        if isinstance(func, ast.Attribute) and func.attr == "register" and target is _MISSING:
            generic = self.live(func.value)
            if isinstance(generic, types.FunctionType) and hasattr(generic, "registry"):
                return APP if self.program.owner(generic.__module__) is Owner.APP else DOUBT
        if target is _MISSING:
            return DOUBT
        whose = self.program.owner(home)
        if whose is Owner.PLATFORM:
            return APP
        if whose is Owner.APP:
            is_known = isinstance(target, types.FunctionType) and not target.__closure__
            wraps = is_known and only_wraps(function_node(target), 2 if made else 1, target.__globals__)
            return APP if wraps else DOUBT
        if whose is Owner.PYTHON:
            if home == "builtins":
                return APP if target in _BUILTIN_DECORATORS else DOUBT
            return APP if home in _DECORATORS and (most < APP or (home, name) in _KEEP) else DOUBT
        return APP if home.partition(".")[0] in QUIET_PACKAGES and most < APP else DOUBT

    def _held_by_class(self, name: str) -> Any:
        made = self._classes[-1] if self._classes else None
        return vars(made).get(name) if made is not None and name in self._inner[-1] else None

    # expressions

    def kind(self, node: ast.AST) -> int:
        """What an expression gives; DOUBT where it may run the app's code."""
        if isinstance(node, ast.Constant):
            return HARMLESS
        if isinstance(node, ast.Name):
            for names in reversed(self._inner):
                if node.id in names:
                    return min(names[node.id], APP)
            return self.kind_of_name(node.id)
        if isinstance(node, (ast.Tuple, ast.List)):
            return self._most(node.elts)
        if isinstance(node, ast.Set):
            return max((self._key(e) for e in node.elts), default=HARMLESS)
        if isinstance(node, ast.Dict):
            keys = [
                self._unpacked(v) if k is None else self._key(k) for k, v in zip(node.keys, node.values, strict=True)
            ]
            return max(self._most(node.values), *keys, HARMLESS)
        if isinstance(node, ast.Attribute):
            return self._attribute(node)
        if isinstance(node, ast.Call):
            return self._call(node)
        if isinstance(node, ast.Subscript):
            return self._subscript(node)
        if isinstance(node, ast.Lambda):
            defaults = [self.kind(d) for d in (*node.args.defaults, *node.args.kw_defaults) if d is not None]
            return max([*defaults, APP])
        if isinstance(node, ast.BinOp):
            if self._is_union(node):
                return APP
            return max(self._used(node.left), self._used(node.right))
        if isinstance(node, ast.Compare):
            if all(isinstance(op, (ast.Is, ast.IsNot)) for op in node.ops):
                return min(self._most([node.left, *node.comparators]), DOUBT)
            return max(self._used(node.left), *map(self._used, node.comparators))
        if isinstance(node, ast.BoolOp):
            return max(map(self._used, node.values))
        if isinstance(node, ast.UnaryOp):
            return self._used(node.operand)
        if isinstance(node, ast.IfExp):
            return max(self._used(node.test), self.kind(node.body), self.kind(node.orelse))
        if isinstance(node, (ast.Starred, ast.FormattedValue)):
            inner = [node.format_spec] if isinstance(node, ast.FormattedValue) and node.format_spec else []
            return max(map(self._used, (node.value, *inner)))
        if isinstance(node, ast.JoinedStr):
            return self._most(node.values)
        if isinstance(node, ast.NamedExpr):
            kind = self.kind(node.value)
            self._keep(node.target.id, kind)
            return kind
        if isinstance(node, (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)):
            return self._comprehension(node)
        if isinstance(node, ast.Slice):
            return max((self._used(n) for n in (node.lower, node.upper, node.step) if n), default=HARMLESS)
        return DOUBT

    def _most(self, nodes: Iterable[ast.expr]) -> int:
        return max(map(self.kind, nodes), default=HARMLESS)

    def _used(self, node: ast.expr) -> int:
        """By an operator, a loop, a condition: the app's own may be called by it."""
        kind = self.kind(node)
        return DOUBT if kind == APP else kind

    def _key(self, node: ast.expr) -> int:
        """What is hashed."""
        kind = self.kind(node)
        if kind == APP:
            held = self.live(node)
            known = isinstance(held, types.FunctionType) or (isinstance(held, type) and self._is_plain_kind(type(held)))
            if isinstance(held, enum.Enum):
                known = not self._apps(type(held), ("__hash__", "__eq__"))
            return APP if known else DOUBT
        return kind

    def _unpacked(self, node: ast.expr) -> int:
        kind = self.kind(node)
        known = isinstance(node, ast.Dict) or type(self.live(node)) is dict
        return DOUBT if kind == APP and not known else kind

    def _attribute(self, node: ast.Attribute) -> int:
        base = self.kind(node.value)
        if base != APP:
            return base
        held = self.live(node)
        if held is _MISSING:
            return DOUBT
        owned = self.live(node.value)
        if isinstance(owned, types.ModuleType) and self.program.owner(owned.__name__) is Owner.APP:
            names = self.program.names(owned.__name__)
            if names is not None and node.attr in names.bound:
                return names.kind_of_name(node.attr)
        return self.program.value(held)

    def _subscript(self, node: ast.Subscript) -> int:
        base, item = self.kind(node.value), self.kind(node.slice)
        if max(base, item) >= DOUBT:
            return DOUBT
        held = self.live(node.value)
        if isinstance(held, type) and self.program.owner(held.__module__) is Owner.APP:  # Base[int]
            own = self._apps(held, ("__class_getitem__",)) or not self._is_plain_kind(type(held))
            return DOUBT if own else APP
        if base == APP:
            return DOUBT
        typed = isinstance(held, type) or type(held).__module__ == "typing"  # list[Order], Optional[Order]
        return DOUBT if item == APP and not typed else max(base, item)

    def _is_union(self, node: ast.expr) -> bool:
        """``Order | None``"""
        if isinstance(node, ast.BinOp):
            return isinstance(node.op, ast.BitOr) and self._is_union(node.left) and self._is_union(node.right)
        if isinstance(node, ast.Constant):
            return node.value is None
        held = self.live(node.value if isinstance(node, ast.Subscript) else node)
        is_type = (isinstance(held, type) and self._is_plain_kind(type(held))) or type(held).__module__ == "typing"
        return is_type and self.kind(node) < DOUBT

    def _comprehension(self, node: Any) -> int:
        self._inner.append({})
        kinds = []
        for part in node.generators:
            kinds.append(self._used(part.iter))
            for n in ast.walk(part.target):
                if isinstance(n, ast.Name):
                    self._keep(n.id, kinds[-1])
            kinds += map(self._used, part.ifs)
        parts = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        hashed = isinstance(node, (ast.DictComp, ast.SetComp))
        kinds += [self._key(parts[0]) if hashed else self.kind(parts[0]), self._most(parts[1:])]
        self._inner.pop()
        return max(kinds)

    def _call(self, node: ast.Call) -> int:
        target = self.live(node.func)
        given = node.args
        most = self._given(node)
        if most >= DOUBT:
            return DOUBT
        if target is _MISSING:
            if not isinstance(node.func, ast.Attribute) or most >= APP:
                return DOUBT
            base = self.kind(node.func.value)
            if base == PLATFORM or (base == HARMLESS and node.func.attr in QUIET_METHODS and node.func.attr != "add"):
                return base
            return DOUBT
        home, name = _home(target)
        whose = self.program.owner(home)
        if whose is Owner.APP:
            return APP if isinstance(target, type) and self._makes_plainly(target, most) else DOUBT
        kind = self.program.kind_of(home)
        if max(kind, self.kind(node.func)) >= APP or not _is_called_alone(target):
            return DOUBT
        if most < APP:
            return kind
        keeps = (home, name) in _KEEP or (target is dict and not node.args)
        return APP if keeps or (target in (list, tuple) and isinstance(given[0], (ast.List, ast.Tuple))) else DOUBT

    def _given(self, node: ast.Call) -> int:
        """The arguments of a call."""
        named = [self.kind(k.value) if k.arg else self._unpacked(k.value) for k in node.keywords]
        return max([*map(self.kind, node.args), *named], default=PLATFORM)

    def _makes_plainly(self, made: type, most: int) -> bool:
        """Whether an instance of the app's class is made without code of the app's."""
        if type(made) not in (type, abc.ABCMeta) or self._apps(made, ("__post_init__", "__setattr__", "__del__")):
            return False
        own = [c for c in made.__mro__ if c.__module__ != "builtins"]
        functions = [
            getattr(vars(c)[n], "__func__", vars(c)[n]) for c in own for n in ("__init__", "__new__") if n in vars(c)
        ]
        # those that dataclass and namedtuple make
        if not all(isinstance(f, types.FunctionType) and f.__code__.co_filename == "<string>" for f in functions):
            return False
        if any(self._is_descriptor(v) for c in own for v in vars(c).values()):
            return False
        if dataclasses.is_dataclass(made):
            made_by = [f.default_factory for f in dataclasses.fields(made)]
            return all(f is dataclasses.MISSING or self.program.value(f) < APP for f in made_by)
        return _is_named_tuple(made) or (most < APP and not functions)

    def _is_descriptor(self, value: Any) -> bool:
        kind = type(value)
        called = any(hasattr(kind, name) for name in ("__get__", "__set__", "__set_name__"))
        return called and self.program.owner(kind.__module__) in (Owner.APP, Owner.PACKAGE)


def _is_called_alone(target: Any) -> bool:
    """Whether what is called is a function or a class, not one bound to an instance, which may hold anything."""
    if isinstance(target, (types.BuiltinFunctionType, types.MethodType)):
        holder = target.__self__
        return holder is None or holder is os.environ or isinstance(holder, (types.ModuleType, type))
    if isinstance(target, (type, types.FunctionType)):
        return True
    return type(target).__module__.partition(".")[0] in QUIET_PACKAGES  # a ufunc


def only_wraps(node: Any, times: int, namespace: dict[str, Any]) -> bool:
    """Whether a decorator does nothing but to return a function that it holds (times: 2 for one that is called with
    arguments first), or what it is given."""
    if not isinstance(node, _FUNCTIONS) or (node.decorator_list and times > 1):
        return False
    inner = {s.name: s for s in node.body if isinstance(s, _FUNCTIONS)}
    given = {a.arg for a in node.args.args}
    for s in node.body:
        if isinstance(s, _FUNCTIONS):
            known = all(isinstance(d, ast.Call) and _is_wraps(d.func, namespace) for d in s.decorator_list)
            if not known or s.args.defaults or any(s.args.kw_defaults) or not all(map(is_plain_hint, hints_of(s))):
                return False
        elif isinstance(s, ast.Return):
            if not isinstance(s.value, ast.Name) or s.value.id not in {*inner, *(given if times == 1 else ())}:
                return False
            if times > 1 and not only_wraps(inner[s.value.id], times - 1, namespace):
                return False
        elif not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant)):
            return False
    return True


def _is_wraps(node: ast.expr, namespace: dict[str, Any]) -> bool:
    if isinstance(node, ast.Attribute):
        return node.attr == "wraps" and isinstance(node.value, ast.Name) and namespace.get(node.value.id) is functools
    return isinstance(node, ast.Name) and namespace.get(node.id) is functools.wraps


def _home(target: Any) -> tuple[str, str]:
    home = getattr(target, "__module__", None) or getattr(type(target), "__module__", None)
    return home if isinstance(home, str) else "builtins", str(getattr(target, "__name__", ""))


def _is_immutable(value: Any) -> bool:
    if type(value) in (tuple, frozenset):
        return all(map(_is_immutable, value))
    if type(value).__module__ in ("datetime", "decimal", "fractions", "uuid", "pathlib", "zoneinfo"):
        return True
    return type(value) in _IMMUTABLE or (isinstance(value, enum.Enum) and type(value).__module__ in _ENUMS)


_ENUMS = frozenset({"re", "enum", "http", "signal", "socket", "ssl"})


def _is_named_tuple(made: type) -> bool:
    return (
        issubclass(made, tuple) and hasattr(made, "_fields") and made.__bases__ in ((tuple,), (tuple, typing.Generic))
    )
