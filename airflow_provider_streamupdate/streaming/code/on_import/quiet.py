"""Which statements of a module only assign names on import.

A call, a decorator or a class body may change something else: a context, an option, a registry, an environment
variable. A called function is looked up; it is quiet when it is known to be, or when it belongs to the app and its own
code is quiet.
"""

from __future__ import annotations

import ast
import builtins
import functools
import inspect
import os
import sys
import types
from typing import Any

from ..owner import Owner, owner
from .source import function_node

_MISSING = object()
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_IMPORTS = (ast.Import, ast.ImportFrom, ast.Pass)
# Modules of Python's whose functions only give what they return. Of all others the classes do.
_QUIET_MODULES = frozenset(
    {"re", "typing", "collections", "functools", "_functools", "itertools", "operator", "_operator", "math", "datetime",
     "fractions", "dataclasses", "enum", "pathlib", "posixpath", "ntpath", "genericpath", "string", "struct", "_struct",
     "uuid", "json", "zoneinfo", "types", "abc", "_abc", "contextvars", "textwrap", "copy", "statistics", "hashlib",
     "_hashlib", "base64", "heapq", "bisect", "contextlib", "inspect", "importlib.resources", "threading", "_thread",
     "time", "platform", "tempfile", "ast", "shutil", "io", "_io", "calendar", "unicodedata"}
)  # fmt: skip
_QUIET_FUNCTIONS = frozenset(
    {("logging", "getLogger"), ("os", "getenv"), ("os", "getcwd"), ("os", "fspath"), ("os", "fsencode"),
     ("os", "fsdecode"), ("posix", "fspath"), ("posix", "getcwd"), ("posix", "listdir"), ("posix", "getpid"),
     ("posix", "cpu_count")}
)  # fmt: skip
_LOUD_BUILTINS = frozenset({"exec", "eval", "__import__", "setattr", "delattr", "globals", "locals", "vars", "input"})
QUIET_PACKAGES = frozenset({"numpy", "pandas", "pyarrow", "attr", "attrs", "pytz", "dateutil"})
_LOUD_NAMES = ("set", "register", "seed", "install", "patch", "option", "configure", "enable", "disable", "add", "use")
# Whose instances' methods are known: @app.query("orders"), SCHEMA.fieldNames()
_INSTANCES = ("airflow_provider_streamupdate.", "pyspark.sql.types")
QUIET_METHODS = frozenset(
    {"format", "join", "split", "rsplit", "splitlines", "strip", "lstrip", "rstrip", "lower", "upper", "title",
     "replace",
     "partition", "rpartition", "startswith", "endswith", "removeprefix", "removesuffix", "items", "keys", "values",
     "get", "copy", "encode", "decode", "read", "readlines", "read_text", "read_bytes", "resolve",
     "absolute", "joinpath",
     "with_name", "with_suffix", "iterdir", "glob", "exists", "is_file", "as_posix", "expanduser", "count", "index",
     "find", "union", "intersection", "difference", "match", "search", "findall", "sub", "fullmatch", "zfill",
     "isoformat",
     "date", "astype", "sum", "mean", "to_dict", "tolist", "setter", "getter", "deleter", "maketrans", "fromkeys",
     "getvalue", "hexdigest", "digest", "total_seconds", "add", "alias", "cast",
     "getChild"}
)  # fmt: skip


@functools.lru_cache(maxsize=200)
def loud_statements(module: str, tree: ast.Module) -> tuple[ast.stmt, ...]:
    """Those of a module that are not quiet."""
    return tuple(s for s in tree.body if not is_quiet(s, vars(sys.modules[module])))


def is_quiet(statement: ast.stmt, namespace: dict[str, Any]) -> bool:
    return _Code(namespace, frozenset(), frozenset()).statement(statement)


def is_not_run(s: ast.If, namespace: dict[str, Any]) -> bool:
    test = ast.unparse(s.test)
    never = test in ("TYPE_CHECKING", "typing.TYPE_CHECKING") and namespace.get("TYPE_CHECKING") is not True
    return never or test == "__name__ == '__main__'"


class _Code:
    """local: the names of the function's or class's own. open: the functions that are being looked at"""

    def __init__(self, namespace: dict[str, Any], local: frozenset[str], open: frozenset[int]) -> None:
        self.namespace = namespace
        self.local = local
        self.open = open

    def statement(self, s: ast.stmt) -> bool:
        if isinstance(s, _IMPORTS):
            return True
        if isinstance(s, ast.Expr) and ast.unparse(s).startswith("sys.path."):
            return all(map(self.quiet, ast.iter_child_nodes(s.value)))
        if isinstance(s, _DEFINITIONS):
            return self._definition(s)
        if isinstance(s, ast.Expr):
            return isinstance(s.value, ast.Constant) or (bool(self.local) and self.quiet(s.value))
        if isinstance(s, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
            targets = s.targets if isinstance(s, ast.Assign) else [s.target]
            return all(map(self._target, targets)) and (s.value is None or self.quiet(s.value))
        if isinstance(s, ast.If):
            if is_not_run(s, self.namespace):
                return self._all(s.orelse)
            return self.quiet(s.test) and self._all([*s.body, *s.orelse])
        if isinstance(s, ast.Try):
            handled = [each for handler in s.handlers for each in handler.body]
            return self._all([*s.body, *handled, *s.orelse, *s.finalbody])
        if isinstance(s, (ast.For, ast.AsyncFor)):
            return self._target(s.target) and self.quiet(s.iter) and self._all([*s.body, *s.orelse])
        if isinstance(s, ast.While):
            return self.quiet(s.test) and self._all([*s.body, *s.orelse])
        if isinstance(s, ast.With):
            return all(
                self.quiet(item.context_expr) and self._opens(item.context_expr) for item in s.items
            ) and self._all(s.body)
        if isinstance(s, ast.Assert):
            return self.quiet(s.test)
        if self.local and isinstance(s, (ast.Return, ast.Raise, ast.Break, ast.Continue, ast.Nonlocal)):
            return all(self.quiet(each) for each in ast.iter_child_nodes(s))
        return isinstance(s, ast.Global) and not self.local

    def quiet(self, node: ast.AST) -> bool:
        if isinstance(node, ast.Lambda):
            return all(self.quiet(d) for d in (*node.args.defaults, *node.args.kw_defaults) if d)
        if isinstance(node, ast.Call) and not self._call(node):
            return False
        return all(self.quiet(each) for each in ast.iter_child_nodes(node))

    def _all(self, body: list[ast.stmt]) -> bool:
        return all(map(self.statement, body))

    def _target(self, target: ast.expr) -> bool:
        if isinstance(target, (ast.Tuple, ast.List)):
            return all(map(self._target, target.elts))
        if isinstance(target, ast.Starred):
            return self._target(target.value)
        if isinstance(target, (ast.Attribute, ast.Subscript)):
            root = target.value
            while isinstance(root, (ast.Attribute, ast.Subscript)):
                root = root.value
            return isinstance(root, ast.Name) and root.id in self.local
        return isinstance(target, ast.Name)

    def _opens(self, node: ast.expr) -> bool:
        """Whether what a with statement enters is a file."""
        return isinstance(node, ast.Call) and (
            self._find(node.func) is open or ast.unparse(node.func).endswith(".open")
        )

    def _definition(self, s: Any) -> bool:
        if not all(map(self._decorator, s.decorator_list)):
            return False
        if not isinstance(s, ast.ClassDef):
            return all(self.quiet(d) for d in (*s.args.defaults, *s.args.kw_defaults) if d)
        own = {n.id for n in ast.walk(s) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)}
        own |= {n.name for n in s.body if isinstance(n, _DEFINITIONS)}
        inside = _Code(self.namespace, self.local | (own - set(self.namespace)), self.open)
        if not all(self.quiet(each) for each in (*s.bases, *(k.value for k in s.keywords))):
            return False
        return all(
            not isinstance(each, ast.Expr) or isinstance(each.value, ast.Constant) for each in s.body
        ) and inside._all([each for each in s.body if not isinstance(each, ast.Expr)])

    def _decorator(self, node: ast.expr) -> bool:
        if not self.quiet(node):
            return False
        made = isinstance(node, ast.Call)
        target = self._find(node.func if isinstance(node, ast.Call) else node)
        if target is functools.partial:  # what it calls is not known
            return False
        return self._is_quiet(target, node.func if isinstance(node, ast.Call) else node, made)

    def _call(self, node: ast.Call) -> bool:
        return self._is_quiet(self._find(node.func), node.func)

    def _find(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Name):
            if node.id in self.local:
                return _MISSING
            return self.namespace.get(node.id, getattr(builtins, node.id, _MISSING))
        if isinstance(node, ast.Attribute):
            base = self._find(node.value)
            if isinstance(base, (types.ModuleType, type)) or base is os.environ or hasattr(base, "registry"):
                return getattr(base, node.attr, _MISSING)
            if type(base).__module__.startswith(_INSTANCES):
                return inspect.getattr_static(type(base), node.attr, _MISSING)
        return _MISSING

    def _is_quiet(self, target: Any, node: ast.expr, twice: bool = False) -> bool:
        """twice: what it returns is called, too"""
        if target is _MISSING:
            return isinstance(node, ast.Attribute) and (node.attr in QUIET_METHODS or self._is_local(node.value))
        name = str(getattr(target, "__name__", ""))
        home = str(getattr(target, "__module__", None) or getattr(type(target), "__module__", ""))
        whose = owner(home)
        if whose is Owner.APP:
            return self._is_quiet_app(target, twice)
        if isinstance(target, (types.BuiltinMethodType, types.MethodType)) and not isinstance(
            target.__self__, types.ModuleType
        ):
            if isinstance(target.__self__, type):  # a class method: fromtimestamp, fromkeys
                return name != "register"
            return name in ("get", "items", "keys", "values", "copy")
        if isinstance(target, type) or whose is Owner.PLATFORM:
            return True
        if home == "builtins":
            return name not in _LOUD_BUILTINS
        if whose is Owner.PYTHON:
            return (
                home.partition(".")[0] in _QUIET_MODULES or home in _QUIET_MODULES or (home, name) in _QUIET_FUNCTIONS
            )
        said = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
        return (
            home.partition(".")[0] in QUIET_PACKAGES
            and not (name or "set").startswith(_LOUD_NAMES)
            and (not said.startswith(_LOUD_NAMES))
        )

    def _is_local(self, node: ast.expr) -> bool:
        while isinstance(node, (ast.Attribute, ast.Subscript)):
            node = node.value
        return isinstance(node, ast.Name) and node.id in self.local

    def _is_quiet_app(self, target: Any, twice: bool) -> bool:
        if isinstance(target, type):
            made = (vars(c).get(n) for c in target.__mro__ for n in ("__init__", "__new__", "__post_init__"))
            functions = [f for f in made if isinstance(f, types.FunctionType) and owner(f.__module__) is Owner.APP]
            return all(f.__code__.co_filename.startswith("<") or self._is_quiet_app(f, False) for f in functions)
        target = getattr(target, "__func__", target)
        node = function_node(target) if isinstance(target, types.FunctionType) else None
        if node is None:
            return False
        if id(node) in self.open:
            return True
        return self._body(node, target.__globals__, frozenset(), twice)

    def _body(self, node: Any, namespace: dict[str, Any], outer: frozenset[str], twice: bool) -> bool:
        a = node.args
        local = {x.arg for x in (*a.posonlyargs, *a.args, *a.kwonlyargs, a.vararg, a.kwarg) if x is not None} | {"__x"}
        local |= {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)}
        inner = [n for n in ast.walk(node) if isinstance(n, _DEFINITIONS) and n is not node]
        local |= {n.name for n in inner}
        inside = _Code(namespace, frozenset(local) | outer, self.open | {id(node)})
        if isinstance(node, ast.Lambda):
            return inside.quiet(node.body)
        if any(isinstance(s, ast.Global) for s in ast.walk(node)) or not inside._all(node.body):
            return False
        functions = [n for n in node.body if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))]
        return not twice or all(inside._body(n, namespace, inside.local, False) for n in functions)
