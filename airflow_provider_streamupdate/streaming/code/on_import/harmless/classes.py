"""Which classes are made, and make their instances, without code of the app's."""

from __future__ import annotations

import abc
import dataclasses
import enum
import types
import typing
from collections.abc import Iterable
from typing import Any

from ...owner import Owner
from .kinds import APP, MISSING, Owners

_OF_ENUMS = (
    *("__init__", "__new__", "__new_member__", "__setattr__", "__set_name__"),
    *("_generate_next_value_", "_missing_"),
)


def has_own(owners: Owners, made: type, members: Iterable[str]) -> bool:
    """Whether a class has one of these members from a class of the app's or of an installed package."""
    own = [c for c in made.__mro__ if owners.owner(c.__module__) in (Owner.APP, Owner.PACKAGE)]
    for name in members:
        for c in own:
            held = vars(c).get(name, MISSING)
            held = getattr(held, "__func__", held)
            home = getattr(held, "__module__", None)
            if held is not MISSING and (home is None or owners.owner(home) is not Owner.PYTHON):
                return True
    return False


def is_plain_kind(owners: Owners, meta: type) -> bool:
    """Of a metaclass."""
    return meta in (type, abc.ABCMeta, enum.EnumMeta) or owners.owner(meta.__module__) in (
        Owner.PYTHON,
        Owner.PLATFORM,
    )


def is_plain_class(owners: Owners, made: type) -> bool:
    """Whether making a class (and reading its members) calls nothing of the app's or of a package's."""
    if owners.owner(made.__module__) is not Owner.APP or not is_plain_kind(owners, type(made)):
        return False
    for c in made.__mro__[1:]:
        if owners.owner(c.__module__) in (Owner.APP, Owner.PACKAGE) and "__init_subclass__" in vars(c):
            return False
    if isinstance(made, enum.EnumMeta) and has_own(owners, made, _OF_ENUMS):
        return False
    if "__attrs_init_subclass__" in dir(made):
        return False
    own = (c for c in made.__mro__ if owners.owner(c.__module__) in (Owner.APP, Owner.PACKAGE))
    return not any(_is_descriptor(owners, v) for c in own for v in vars(c).values())


def makes_plainly(owners: Owners, made: type, most: int) -> bool:
    """Whether an instance of the app's class is made without code of the app's. most: the worst of what it is given"""
    if type(made) not in (type, abc.ABCMeta) or has_own(owners, made, ("__post_init__", "__setattr__", "__del__")):
        return False
    own = [c for c in made.__mro__ if c.__module__ != "builtins"]
    functions = [
        getattr(vars(c)[n], "__func__", vars(c)[n]) for c in own for n in ("__init__", "__new__") if n in vars(c)
    ]
    # those that dataclass and namedtuple make
    if not all(isinstance(f, types.FunctionType) and f.__code__.co_filename == "<string>" for f in functions):
        return False
    if any(_is_descriptor(owners, v) for c in own for v in vars(c).values()):
        return False
    if dataclasses.is_dataclass(made):
        made_by = [f.default_factory for f in dataclasses.fields(made)]
        return all(f is dataclasses.MISSING or owners.value(f) < APP for f in made_by)
    return _is_named_tuple(made) or (most < APP and not functions)


def _is_descriptor(owners: Owners, value: Any) -> bool:
    kind = type(value)
    called = any(hasattr(kind, name) for name in ("__get__", "__set__", "__set_name__"))
    return called and owners.owner(kind.__module__) in (Owner.APP, Owner.PACKAGE)


def _is_named_tuple(made: type) -> bool:
    return (
        issubclass(made, tuple) and hasattr(made, "_fields") and made.__bases__ in ((tuple,), (tuple, typing.Generic))
    )
