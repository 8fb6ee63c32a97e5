"""Classes of the app's: bases, metaclass and members, those that decorators and metaclasses made included."""

from __future__ import annotations

import abc
import dataclasses
import enum
import sys
import types
from collections.abc import Mapping
from typing import Any

from .functions import imported
from .listing.texts import source_file
from .on_import.source import class_as_written
from .report import Where
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


def describe_class(walk: Walk, made: type, where: Where) -> Any:
    user = Where(f"class {made.__qualname__}")
    if "." not in made.__qualname__:
        user = Where(f"class {made.__qualname__} in {made.__module__}")
    members = {k: v for k, v in vars(made).items() if k not in _NOT_CODE and not _is_slot(v)}
    hints = vars(made).get("__annotations__", {})
    walk.report.note_text((made.__doc__, list(vars(made))))
    walk.report.note_said(made.__module__, made.__qualname__)
    walk.report.note_source(source_file(getattr(sys.modules.get(made.__module__), "__file__", None)))
    if isinstance(hints, dict):
        walk.report.note_hints(hints, vars(sys.modules.get(made.__module__, sys)), user)
    walk.report.note_module(made.__module__)
    walk.report.note_order(list(members))
    special: Any = None
    if isinstance(made, enum.EnumMeta):
        own: Mapping[str, Any] = made.__members__
        special = [(name, _member_of_enum(walk, m, user.part(f".{name}"))) for name, m in own.items()]
        members = {k: v for k, v in members.items() if k not in _OF_ENUMS and k not in own}
    return (
        "class",
        made.__name__,
        [walk.of(base, where.part("'s base")) for base in made.__bases__],
        walk.of(type(made), where.part("'s metaclass")),
        [(name, walk.of(value, user.part(f".{name}"))) for name, value in sorted(members.items())],
        special,
        walk.unordered(_registered(made), where.part("'s registered classes")),
        imported(walk, vars(sys.modules[made.__module__])) if _is_loaded(made) else [],
        class_as_written(made) if _is_loaded(made) else None,
    )


def _registered(made: type) -> list[type]:
    """The classes that an abstract base class was told to take for its own (ABCMeta.register)."""
    if not isinstance(made, abc.ABCMeta):
        return []
    references = abc._get_dump(made)[0]  # type: ignore[attr-defined]
    return [found for reference in references if (found := reference()) is not None]


def _member_of_enum(walk: Walk, member: enum.Enum, where: Where) -> Any:
    held = {k: v for k, v in vars(member).items() if k not in ("__objclass__", "_sort_order_", "_name_")}
    return [(name, walk.of(value, where)) for name, value in held.items()]


def describe_field(walk: Walk, field: dataclasses.Field[Any], where: Where) -> Any:
    """A field of a dataclass. Its type is a hint; what it says about the kind of the field is kept apart."""
    walk.report.note_hints({str(field.name): field.type}, {}, where)
    kind = getattr(getattr(field, "_field_type", None), "name", None)
    parts = ("default", "default_factory", "init", "repr", "hash", "compare", "metadata", "kw_only")
    return "field", field.name, kind, [walk.of(getattr(field, part, None), where.part(f".{part}")) for part in parts]


def _is_slot(value: Any) -> bool:
    return isinstance(value, (types.MemberDescriptorType, types.GetSetDescriptorType))


def _is_loaded(made: type) -> bool:
    return getattr(sys.modules.get(made.__module__), made.__qualname__.partition(".")[0], None) is not None
