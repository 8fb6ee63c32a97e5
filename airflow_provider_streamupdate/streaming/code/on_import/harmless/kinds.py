"""What values are made of, as far as it is told by whose their modules are."""

from __future__ import annotations

import enum
import re
import types
from typing import Any

from ...owner import Owner, owner
from ..quiet import QUIET_PACKAGES

MISSING = object()
# What a value is made of, the worst part counts: Spark's and ours; Python's and known packages'; the app's (or what is
# not known), which must not be used by operators, calls, loops; what runs the app's code when it is made.
PLATFORM, HARMLESS, APP, DOUBT = range(4)
_IMMUTABLE = (type(None), bool, int, float, complex, str, bytes, type(Ellipsis), range, re.Pattern)
_ENUMS = frozenset({"re", "enum", "http", "signal", "socket", "ssl"})


class Owners:
    """Whose modules are, each looked up once, and what is in them."""

    def __init__(self) -> None:
        self._owners: dict[str, Owner] = {}

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
        if is_immutable(value):
            return HARMLESS
        if isinstance(value, types.ModuleType):
            return self.kind_of(value.__name__)
        if isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType)):
            return self.kind_of(value.__module__ or "builtins")
        kind = self.kind_of(type(value).__module__)
        # What Python's own containers and wrappers hold may be the app's.
        return APP if self.owner(type(value).__module__) is Owner.PYTHON else kind


def is_immutable(value: Any) -> bool:
    if type(value) in (tuple, frozenset):
        return all(map(is_immutable, value))
    if type(value).__module__ in ("datetime", "decimal", "fractions", "uuid", "pathlib", "zoneinfo"):
        return True
    return type(value) in _IMMUTABLE or (isinstance(value, enum.Enum) and type(value).__module__ in _ENUMS)


def home_of(target: Any) -> tuple[str, str]:
    """The module that a function or a class (or an instance's class) is from, and its name there."""
    home = getattr(target, "__module__", None) or getattr(type(target), "__module__", None)
    return home if isinstance(home, str) else "builtins", str(getattr(target, "__name__", ""))
