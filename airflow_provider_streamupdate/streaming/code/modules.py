"""Modules of the app's, as the driver has them: workers import them afresh (sources.py)."""

from __future__ import annotations

import importlib
import pkgutil
import sys
import types
from typing import Any

from .owner import MAIN, Owner, owner
from .sources import spec_of
from .walk import Walk

# What Python puts into a module's namespace.
MADE_BY_PYTHON = frozenset(
    {"__name__", "__doc__", "__file__", "__builtins__", "__loader__", "__spec__", "__package__", "__cached__",
     "__path__", "__annotations__", "__warningregistry__"}
)  # fmt: skip


def is_app_module(value: Any) -> bool:
    return isinstance(value, types.ModuleType) and owner(value.__name__) is Owner.APP


def namespace_owner(namespace: dict[str, Any]) -> str | None:
    """The app's module that a function's global variables are of; None where it is pickled with them."""
    name = namespace.get("__name__")
    held = sys.modules.get(name) if isinstance(name, str) and name not in MAIN else None
    return name if isinstance(held, types.ModuleType) and vars(held) is namespace else None


def import_module(name: str) -> types.ModuleType | None:
    """A module, imported as the function would do it."""
    if (held := sys.modules.get(name)) is not None:
        return held
    try:
        return importlib.import_module(name)
    except (Exception, SystemExit):  # whatever its statements raise: they raise it on a worker, too
        return None


def member(walk: Walk, module: types.ModuleType, name: str) -> tuple[Any, Any]:
    """A member of a module and what describes how it is found: in its namespace, as a module below it, or by its
    ``__getattr__`` (whose code then counts, too)."""
    members = vars(module)
    if name in members:
        return members[name], "member"
    if "__path__" in members and spec_of(f"{module.__name__}.{name}"):
        return import_module(f"{module.__name__}.{name}"), "module"
    if "__getattr__" not in members:
        return None, "no member"
    walk.members.add((module.__name__, "__getattr__"))
    how = walk.of(members["__getattr__"])
    try:
        return getattr(module, name), how
    except Exception as e:
        return None, (how, type(e).__name__)


def describe_module(walk: Walk, module: types.ModuleType) -> Any:
    """A module as a value: what is used of it is not known, so all counts."""
    walk.imported.add(module.__name__)
    walk.members.add((module.__name__, ""))
    walk.report.note_docs(module.__doc__)
    members = {
        name: v for name, v in vars(module).items() if name not in MADE_BY_PYTHON and not _is_below(module, name, v)
    }
    for found in pkgutil.iter_modules(vars(module).get("__path__") or ()):
        if found.name != "__main__":
            members[found.name] = import_module(f"{module.__name__}.{found.name}")
    return "module", walk.named(sorted(members.items(), key=lambda pair: pair[0]))


def _is_below(module: types.ModuleType, name: str, value: Any) -> bool:
    """Whether a member is a module of the package: which of them are loaded by now is chance."""
    return isinstance(value, types.ModuleType) and value.__name__ == f"{module.__name__}.{name}"
