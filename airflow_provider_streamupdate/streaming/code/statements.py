"""Which statements of a module only give values to names, and run nothing of the app's when the module is imported.

Names are judged by their owner: what Python, Spark and this provider make of plain values is harmless, a name of the
app's or of an installed package may stand for anything. What is not understood is not harmless.
"""

from __future__ import annotations

import ast
import builtins
import enum
import functools
import sys
import types
from typing import Any

from .listing import names_in
from .owner import Owner, owner
from .sources import DEFINITIONS, FUNCTIONS, Sources, Statement, absolute, hints_of, is_plain

_OTHERS = (Owner.PYTHON, Owner.PLATFORM)
# Of these modules decorators call nothing that they are given.
_DECORATE = names_in("abc attr attrs contextlib dataclasses enum functools typing")
# Functions, and modules whose classes do, that give a value and do nothing else.
_FUNCTIONS_GIVE = names_in(
    "re.compile logging.getLogger os.getenv collections.namedtuple dataclasses.field typing.cast attr._make.attrib "
    "attr._next_gen.field _thread.allocate_lock posixpath.join posixpath.dirname posixpath.abspath builtins.len "
    "builtins.max builtins.min builtins.round builtins.sorted builtins.sum"
)
_CLASSES_GIVE = names_in(
    "builtins collections contextvars datetime decimal enum fractions ipaddress itertools logging operator pathlib re "
    "string struct _struct threading _thread types typing uuid zoneinfo"
)
# What Python calls of a class by itself when another one is made of it, or when it stands in a hint.
_HOOKS = ("__init_subclass__", "__attrs_init_subclass__", "__class_getitem__", "__mro_entries__")
_CALLED = (type, types.FunctionType, types.BuiltinFunctionType)
_OPERATORS = (ast.UnaryOp, ast.BinOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.JoinedStr, ast.FormattedValue, ast.Slice)


def loud_statements(sources: Sources, module: str) -> list[Statement]:
    """The statements of a module that may do something else than to give values to names."""
    if module not in sources.loud:
        judge = _Judge(sources, module)
        source = sources.of(module)
        sources.loud[module] = [s for s in source.statements if not judge.only_binds(s.node)] if source else []
    return sources.loud[module]


class _Judge:
    def __init__(self, sources: Sources, module: str) -> None:
        self._module = module
        self._namespace = vars(sys.modules[module]) if module in sys.modules else {}
        source = sources.of(module)
        self._bound = source.bound if source is not None else {}
        futures = (s.node for s in self._bound.get("annotations", ()))
        self._has_texts_as_hints = any(isinstance(f, ast.ImportFrom) and f.module == "__future__" for f in futures)

    def only_binds(self, s: ast.stmt | None) -> bool:
        try:
            return self._only_binds(s)
        except Exception:  # what is looked at may be of any kind, and refer to itself
            return False

    def _only_binds(self, s: ast.stmt | None) -> bool:
        if isinstance(s, (ast.Import, ast.ImportFrom, ast.Pass)):
            return True
        if isinstance(s, ast.Expr):
            return isinstance(s.value, ast.Constant)
        if isinstance(s, FUNCTIONS):
            defaults = all(self._is_value(d, True) for d in (*s.args.defaults, *s.args.kw_defaults))
            known = defaults and all(map(self._is_hint, hints_of(s))) and all(map(self._is_decorator, s.decorator_list))
            return known and s.name != "__getattr__"  # which `from` calls
        if isinstance(s, ast.ClassDef):
            return self._class(s)
        if isinstance(s, ast.If):  # for type checkers, or in the app's own file
            for_types = ast.unparse(s.test).endswith("TYPE_CHECKING") and self._object(s.test) is False
            ran = [] if for_types or ast.unparse(s.test) == "__name__ == '__main__'" else s.body
            return (not ran or self._is_value(s.test)) and all(map(self._only_binds, [*ran, *s.orelse]))
        if isinstance(s, ast.Try):
            bodies = [*s.body, *(each for h in s.handlers for each in h.body), *s.orelse, *s.finalbody]
            return all(self._is_value(h.type) for h in s.handlers) and all(map(self._only_binds, bodies))
        return s is not None and self._assigns(s, True)

    def _object(self, node: ast.expr | None, own: bool = False) -> Any:
        """Return what a name of others stands for, or its attribute; with `own` also a definition of the app's. None
        where it is not known."""
        if isinstance(node, ast.Attribute):
            holder = self._object(node.value)
            return getattr(holder, node.attr, None) if isinstance(holder, (types.ModuleType, type)) else None
        binders = self._bound.get(node.id, []) if isinstance(node, ast.Name) else []
        if not isinstance(node, ast.Name) or len(binders) > 1 or (not binders and "*" in self._bound):
            return None
        if not binders:
            return getattr(builtins, node.id, None)
        binder, base = binders[0].node, ""
        if isinstance(binder, ast.Import):
            base = next(a.name for a in binder.names if node.id in (a.asname, a.name.partition(".")[0]))
        elif isinstance(binder, ast.ImportFrom):
            base = absolute(binder.module or "", binder.level, self._module)
        is_known = owner(base) is not Owner.APP if base else own and isinstance(binder, DEFINITIONS)
        return self._namespace.get(node.id) if is_known or (own and base) else None

    def _assigned_value(self, node: ast.expr) -> ast.expr | None:
        """The expression that is assigned to a name, once."""
        binders = self._bound.get(node.id, []) if isinstance(node, ast.Name) else []
        return _value_of(binders[0].node) if len(binders) == 1 else None

    def _assigns(self, s: ast.stmt, kept: bool) -> bool:
        hinted = not isinstance(s, ast.AnnAssign) or self._is_hint(s.annotation)
        value = _value_of(s)
        return hinted and value is not None and self._is_value(value, kept)

    def _is_value(self, node: ast.expr | None, kept: bool = False) -> bool:
        """Whether an expression gives a value of Python's, of Spark's or of this provider's, and calls no other code.

        kept: whether the value is only kept, so that it may be, or hold, anything that has a name
        """
        if node is None or isinstance(node, ast.Constant) or (kept and isinstance(node, ast.Name)):
            return True
        if isinstance(node, (ast.Tuple, ast.List)):
            return all(self._is_value(each, kept) for each in node.elts)
        if isinstance(node, ast.Dict):
            return all(k and self._is_value(k) for k in node.keys) and all(self._is_value(v, kept) for v in node.values)
        if isinstance(node, ast.Lambda):
            return kept and all(self._is_value(d, True) for d in (*node.args.defaults, *node.args.kw_defaults))
        if isinstance(node, ast.Call):
            of_text = isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Constant)
            return (of_text or _gives_value(self._object(node.func))) and self._are_values(node)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Call):
            return self._is_value(node.value)  # Path(__file__).parent
        if isinstance(node, (ast.Name, ast.Attribute)):
            if (given := self._assigned_value(node)) is not None:
                return self._is_value(given)
            found = self._object(node)
            is_value = not isinstance(found, _CALLED[1:]) and _owner_of(found) in _OTHERS
            is_file = isinstance(node, ast.Name) and node.id in ("__name__", "__file__")
            return is_file or (found is not None and (kept or is_value))
        known = isinstance(node, (ast.Set, ast.Subscript, *_OPERATORS))
        return known and all(self._is_value(n) for n in ast.iter_child_nodes(node) if isinstance(n, ast.expr))

    def _are_values(self, node: ast.Call) -> bool:
        """The arguments of a call."""
        return all(map(self._is_value, (*node.args, *(k.value for k in node.keywords if k.arg)))) and all(
            k.arg for k in node.keywords
        )

    def _is_hint(self, hint: ast.expr) -> bool:
        """Whether a hint calls nothing of the app's: it is not computed, or names classes with Python's metaclasses."""
        names = [n for n in ast.walk(hint) if isinstance(n, ast.Name)]
        return self._has_texts_as_hints or (is_plain(hint) and all(map(self._is_in_hint, names)))

    def _is_in_hint(self, name: ast.Name) -> bool:
        if (given := self._assigned_value(name)) is not None:
            return self._is_value(given) or self._is_hint(given)
        found = self._object(name, own=True)
        return found is not None and (_owner_of(found) is not Owner.APP or _is_plain_class(found))

    def _is_decorator(self, node: ast.expr) -> bool:
        func = node.func if isinstance(node, ast.Call) else node
        if isinstance(node, ast.Call) and not self._are_values(node):
            return False
        if isinstance(func, ast.Attribute) and isinstance(func.value, ast.Name):
            if func.attr in ("setter", "getter", "deleter") and func.value.id not in self._bound:
                return True  # of a property in the same class
            if isinstance(given := self._assigned_value(func.value), ast.Call):  # @app.query("orders")
                return _owner_of(self._object(given.func)) is Owner.PLATFORM
        found = self._object(func)
        if not isinstance(found, _CALLED) or found is functools.partial:
            return False  # a method is one of an instance, or registers something with a class
        home = str(found.__module__).partition(".")[0]
        known = found in (property, staticmethod, classmethod) or home in _DECORATE
        return known or _owner_of(found) is Owner.PLATFORM

    def _class(self, s: ast.ClassDef) -> bool:
        bases = [self._object(b.value if isinstance(b, ast.Subscript) else b, own=True) for b in s.bases]
        values = [k.value for k in s.keywords] + [b.slice for b in s.bases if isinstance(b, ast.Subscript)]
        is_others = all(base is not None and _owner_of(base) in _OTHERS for base in bases)
        makes_members = any(isinstance(base, type) and issubclass(base, enum.Enum) for base in bases)
        if not is_others and (s.keywords or makes_members or not all(map(_is_plain_class, bases))):
            return False
        if makes_members and any(isinstance(f, FUNCTIONS) and f.name.startswith("_") for f in s.body):
            return False
        inside = (*DEFINITIONS, ast.Expr, ast.Pass)
        others = [each for each in s.body if not isinstance(each, inside) or not self._only_binds(each)]
        known = all(self._assigns(each, False) or self._keeps_type(each) for each in others)
        return known and all(map(self._is_value, values)) and all(map(self._is_decorator, s.decorator_list))

    def _keeps_type(self, s: ast.stmt) -> bool:
        """Whether a class gets the type of Spark's that its instances have: ``__UDT__ = PointType()``"""
        value = s.value if isinstance(s, ast.Assign) and ast.unparse(s).startswith("__UDT__ = ") else None
        made = self._object(value.func, own=True) if isinstance(value, ast.Call) and not value.args else None
        own = [c for c in made.__mro__ if _owner_of(c) is not Owner.PLATFORM] if isinstance(made, type) else []
        return own == [made, object] and _is_plain_class(made) and "__init__" not in vars(made)


def _value_of(s: ast.stmt | None) -> ast.expr | None:
    """Return what a statement gives to names; None where it does something else, or takes a value apart."""
    targets = s.targets if isinstance(s, ast.Assign) else [s.target] if isinstance(s, ast.AnnAssign) else [None]
    parts = [e for t in targets for e in (t.elts if isinstance(t, (ast.Tuple, ast.List)) else [t])]
    value = getattr(s, "value", None) or ast.Constant(None)
    taken_apart = len(parts) > len(targets) and not isinstance(value, (ast.Tuple, ast.List))
    return value if all(isinstance(part, ast.Name) for part in parts) and not taken_apart else None


def _owner_of(found: Any) -> Owner:
    home = found.__name__ if isinstance(found, types.ModuleType) else getattr(found, "__module__", None)
    return owner(home if isinstance(home, str) else type(found).__module__)


def _is_plain_class(found: Any) -> bool:
    """Whether Python runs nothing of the app's or of a package's when a class is made of one, or stands in a hint."""
    if not isinstance(found, type):
        return found is not None and _owner_of(found) in _OTHERS  # typing.NamedTuple
    own = [c for c in found.__mro__ if _owner_of(c) not in _OTHERS]
    return _owner_of(type(found)) in _OTHERS and not any(hook in vars(c) for c in own for hook in _HOOKS)


def _gives_value(found: Any) -> bool:
    """Whether a function or class only gives a value when it is called with values."""
    home, name = str(getattr(found, "__module__", None)), str(getattr(found, "__name__", None))
    known = f"{home}.{name}" in _FUNCTIONS_GIVE or (isinstance(found, type) and home in _CLASSES_GIVE)
    return known or (isinstance(found, _CALLED) and _owner_of(found) is Owner.PLATFORM)
