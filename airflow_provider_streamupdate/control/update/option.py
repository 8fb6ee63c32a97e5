"""Declare an option of an update once, with its field, for the command line, for DAGs and for the form."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any

import attrs

# The groups of the form.
APPLICATION, STATE, STEPS = "The application", "Its state", "The steps"
PARALLEL_ONLY, FOLLOW_ONLY = "With strategy parallel", "With strategy follow"


class Kind(enum.Enum):
    """The kind of an option's values. The command line, DAGs and the form each map kinds to their own types."""

    NAME = enum.auto()
    NAMES = enum.auto()
    RENAMES = enum.auto()  # {"old": "new"}
    CHOICE = enum.auto()
    COUNT = enum.auto()
    SECONDS = enum.auto()
    SWITCH = enum.auto()


@attrs.frozen(kw_only=True)
class Option:
    """An option of an update, as the command line, DAGs and the form show it.

    name, default: those of its field
    kind: what its values are; choices: with CHOICE, the meaning of each value by name
    help: what it does, in sentences that are true on the command line, in DAGs and in the form
    blank: what applies when it is not given, where the default does not say so
    examples: of values, as text
    flag: its name on the command line; "": not available there
    metavar: for its value on the command line; zero: the value may be 0 there
    argument: its name in DAGs, in the form and in releases
    title, section: in the form; no section: not available there
    in_release: a release may contain it
    variable: the environment variable that sets another default
    """

    kind: Kind
    help: str
    name: str = ""
    default: Any = None
    choices: Mapping[str, str] = attrs.field(factory=dict)
    blank: str = ""
    examples: tuple[str, ...] = ()
    flag: str | None = None
    metavar: str = "NAME"
    zero: bool = False
    argument: str = ""
    title: str = ""
    section: str | None = None
    in_release: bool = True
    variable: str | None = None

    def of(self, field: str) -> Option:
        """Return the option of this field, with all names filled in."""
        argument = self.argument or field
        title = self.title or argument.replace("_", " ").capitalize()
        flag = f"--{field.replace('_', '-')}" if self.flag is None else self.flag
        return attrs.evolve(self, name=field, argument=argument, title=title, flag=flag)

    def text(self, *more: str) -> str:
        """Return its help, the choices, and what the caller adds."""
        chosen = (f"{name}: {meaning}." for name, meaning in self.choices.items())
        return " ".join(filter(None, (self.help, *chosen, *more)))


def option(kind: Kind, help: str, default: Any = None, **more: Any) -> Any:
    """Return a field of `UpdateOptions` that users can set."""
    return attrs.field(default=default, metadata={"option": Option(kind=kind, help=help, default=default, **more)})


def options_of(options: type) -> tuple[Option, ...]:
    """Return the options among the fields of a class, in their order, with all names filled in."""
    return tuple(f.metadata["option"].of(f.name) for f in attrs.fields(options) if "option" in f.metadata)
