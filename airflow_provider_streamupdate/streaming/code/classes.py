"""Classes of the app's: bases, metaclass and members, those that decorators and metaclasses made included."""

from __future__ import annotations

import abc
import enum
import sys
import types
from collections.abc import Mapping
from typing import Any

from .functions import source_file
from .owner import MAIN
from .report import Level
from .walk import Walk

# Members that Python makes and that compute nothing: where they are kept, caches, texts, hints. (What hints do to a
# dataclass, a NamedTuple or a class of attrs is in members of its own.)
_NOT_CODE = frozenset(
    {"__module__", "__doc__", "__dict__", "__weakref__", "__qualname__", "__firstlineno__", "__static_attributes__",
     "__annotations__", "__annotate__", "__annotate_func__", "__annotations_cache__", "__abstractmethods__",
     "_abc_impl", "__parameters__", "__slotnames__", "_abc_registry"}
)  # fmt: skip
_OF_ENUMS = frozenset(
    {"_member_names_", "_member_map_", "_value2member_map_", "_unhashable_values_", "_hashable_values_",
     "_unhashable_values_map_", "_member_type_", "_value_repr_", "_new_member_", "_use_args_", "__new_member__"}
)  # fmt: skip


def describe_class(walk: Walk, made: type) -> Any:
    members = {k: v for k, v in vars(made).items() if k not in _NOT_CODE and not _is_slot(v)}
    hints = vars(made).get("__annotations__", {})
    file = getattr(sys.modules.get(made.__module__), "__file__", None)
    walk.report.note_docs(made.__doc__)
    walk.report.note(Level.TEXTS, source_file(file))
    if _is_loaded(made):
        walk.imported.add(made.__module__)
        walk.members.add((made.__module__, made.__qualname__.partition(".")[0]))
    special: Any = None
    if isinstance(made, enum.EnumMeta):
        own: Mapping[str, Any] = made.__members__
        special = [(name, _member_of_enum(walk, m)) for name, m in own.items()]
        members = {k: v for k, v in members.items() if k not in _OF_ENUMS and k not in own}
    return (
        "class",
        (made.__module__, made.__qualname__),
        walk.each(made.__bases__),
        walk.of(type(made)),
        walk.named(sorted(members.items(), key=lambda pair: pair[0])),
        special,
        walk.unordered(_registered(made)),
        walk.named(sorted(dict(hints).items(), key=lambda pair: pair[0])),
    )


def _registered(made: type) -> list[type]:
    """The classes that an abstract base class was told to take for its own (ABCMeta.register)."""
    if not isinstance(made, abc.ABCMeta):
        return []
    references = abc._get_dump(made)[0]  # type: ignore[attr-defined]
    return [found for reference in references if (found := reference()) is not None]


def _member_of_enum(walk: Walk, member: enum.Enum) -> Any:
    held = {k: v for k, v in vars(member).items() if k not in ("__objclass__", "_sort_order_", "_name_")}
    return walk.named(held.items())


def _is_slot(value: Any) -> bool:
    return isinstance(value, (types.MemberDescriptorType, types.GetSetDescriptorType))


def _is_loaded(made: type) -> bool:
    held = getattr(sys.modules.get(made.__module__), made.__qualname__.partition(".")[0], None)
    return held is not None and made.__module__ not in MAIN
