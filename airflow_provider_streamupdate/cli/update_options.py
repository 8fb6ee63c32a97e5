"""The options of an update on the command line, generated from their declarations."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from ..control.update.option import Kind, Option
from ..control.update.options import OPTIONS, UpdateOptions
from .application import application_argument, pairs
from .option_types import Duration

if TYPE_CHECKING:
    from ..core.registry.application import Application


_KINDS: dict[Kind, Callable[[Option], dict[str, Any]]] = {
    Kind.NAME: lambda option: {"metavar": option.metavar},
    Kind.NAMES: lambda option: {"metavar": option.metavar, "multiple": True},
    Kind.RENAMES: lambda option: {
        "metavar": "OLD=NEW",
        "type": pairs,
        "multiple": True,
        "callback": lambda ctx, param, given: dict(given),
    },
    Kind.CHOICE: lambda option: {"type": click.Choice(tuple(option.choices))},
    Kind.COUNT: lambda option: {"metavar": "K", "type": click.IntRange(min=1)},
    Kind.SECONDS: lambda option: {"type": Duration(option.zero)},
    Kind.SWITCH: lambda option: {"is_flag": True},
}


def option_named(name: str, *more: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return this option of an update, for any command. `more`: sentences added to its help."""
    option = next(option for option in OPTIONS if option.name == name)
    attributes = _KINDS[option.kind](option)
    if option.blank:
        more = (*more, f"Without it: {option.blank}.")
    elif option.default:
        attributes |= {"default": str(option.default).removesuffix(".0"), "show_default": True}
    if attributes.get("multiple"):
        more = (*more, "Repeatable.")
    attributes |= {"help": option.text(*more), "envvar": option.variable}
    return click.option(str(option.flag), name, **attributes)


def update_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a command to get `options` in place of the options of an application and of an update."""
    shown = [option.name for option in OPTIONS if option.flag]

    @functools.wraps(function)
    def wrapper(*args: Any, application: Application, **given: Any) -> Any:
        asked = {name: value for name in shown if (value := given.pop(name)) is not None}
        asked["traceparent"] = os.environ.get("TRACEPARENT")  # as OpenTelemetry hands on a trace to a command
        return function(*args, options=UpdateOptions(application=application, **asked), **given)

    options = [application_argument, *map(option_named, shown)]
    return functools.reduce(lambda made, option: option(made), reversed(options), wrapper)
