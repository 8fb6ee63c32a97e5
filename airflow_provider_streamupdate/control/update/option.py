"""How an option of an update is declared: once, with its field, for the command line, for DAGs and for the form."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from typing import Any

import attrs

# The groups of the form.
APPLICATION, STATE, STEPS, PARALLEL_ONLY = "The application", "Its state", "The steps", "With strategy parallel"


class Kind(enum.Enum):
    """What the values of an option are; each edge has a table of them."""

    NAME = enum.auto()
    NAMES = enum.auto()
    RENAMES = enum.auto()  # {"old": "new"}
    CHOICE = enum.auto()
    COUNT = enum.auto()
    SECONDS = enum.auto()
    SWITCH = enum.auto()


@attrs.frozen(kw_only=True)
class Option:
    """name, default: those of its field
    kind: what its values are; choices: with CHOICE, by name what each means, read when somebody looks
    help: what it does, in sentences that hold at every edge
    blank: what holds when it is not given, where its default does not say that
    examples: of values, as text
    flag: its name on the command line; "": it is not there
    metavar: for its value there; zero: the value may be 0 there
    argument: its name in DAGs, in the form and in releases
    title, section: in the form; no section: it is not there
    in_release: a release may hold it
    variable: of the environment, for another default
    """

    kind: Kind
    help: str
    name: str = ""
    default: Any = None
    choices: Callable[[], Mapping[str, str]] = dict
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
        """With all its names."""
        argument = self.argument or field
        title = self.title or argument.replace("_", " ").capitalize()
        flag = f"--{field.replace('_', '-')}" if self.flag is None else self.flag
        return attrs.evolve(self, name=field, argument=argument, title=title, flag=flag)

    def text(self, *more: str) -> str:
        """Its help, what can be chosen, and what an edge says besides."""
        chosen = (f"{name}: {meaning}." for name, meaning in self.choices().items())
        return " ".join(filter(None, (self.help, *chosen, *more)))


def option(kind: Kind, help: str, default: Any = None, **more: Any) -> Any:
    """A field of `UpdateOptions` that can be asked for."""
    return attrs.field(default=default, metadata={"option": Option(kind=kind, help=help, default=default, **more)})


def options_of(options: type) -> tuple[Option, ...]:
    """The options among the fields of a class, in their order, with all their names."""
    return tuple(f.metadata["option"].of(f.name) for f in attrs.fields(options) if "option" in f.metadata)
