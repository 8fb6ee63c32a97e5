"""What a function can reach of the app's: the objects, classes, modules and functions that its code names."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from typing import Any

from ..code.owner import Owner, owner


def reached(*start: Any) -> Iterator[Any]:
    """Yield functions or objects with all that they reach, as far as it is the app's: by global variables, closures,
    defaults, the modules that are imported, and in the objects, classes and modules among them."""
    todo: list[Any] = [*start]
    met: set[int] = set()
    while todo:
        value = todo.pop()
        if id(value) in met:
            continue
        met.add(id(value))
        yield value
        if is_app_function(value):
            names = {name for code in codes(value.__code__) for name in code.co_names}
            cells = [cell.cell_contents for cell in value.__closure__ or () if _is_filled(cell)]
            found = [value.__globals__[name] for name in names if name in value.__globals__]
            found += [sys.modules[name] for name in names if name in sys.modules]  # imported inside it, perhaps
            modules = [module for module in found if _is_apps(module)]
            held = [vars(module).get(name) for module in modules for name in names]
            if "getattr" in names:  # by a name that is data
                held += [member for module in modules for member in vars(module).values()]
            todo += [*cells, *(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values(), *found, *held]
            todo += vars(value).values()
        elif isinstance(value, type) and owner(value.__module__) is Owner.APP:
            todo += [*vars(value).values(), *value.__mro__]
        elif isinstance(value, (list, tuple, set, frozenset)):
            todo += value
        elif isinstance(value, dict):
            todo += value.values()
        elif not isinstance(value, (type, types.ModuleType)):
            inner = [getattr(value, n, None) for n in ("__func__", "__self__", "__wrapped__", "func", "fget")]
            todo += [each for each in inner if each is not None]
            todo.append(type(value))
            if owner(type(value).__module__) is Owner.APP:
                todo += vars(value).values() if hasattr(value, "__dict__") else ()


def is_app_function(value: Any) -> bool:
    """Return whether it is a function of the app's."""
    return isinstance(value, types.FunctionType) and owner(value.__module__) is Owner.APP


def _is_apps(value: Any) -> bool:
    return isinstance(value, types.ModuleType) and owner(value.__name__) is Owner.APP


def _is_filled(cell: types.CellType) -> bool:
    try:
        return cell.cell_contents is not cell
    except ValueError:
        return False


def codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """Yield a function's code with that of the functions in it."""
    yield code
    for each in code.co_consts:
        if isinstance(each, types.CodeType):
            yield from codes(each)
