"""What an update takes over from the running version: the parameters and options that were not given."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from ...core.errors import InvalidInputError
from ...core.registry.application import Application
from ...core.registry.deployment import DeploymentSpec
from ...core.registry.registry import AppRegistry
from ..drivers.launch_files import local_application
from ..operations.context import Context
from ..operations.settings_diff import settings_diff
from .options import UpdateOptions
from .preflight import known_app

_PARTS = {"": "params", "conf": "conf", "env": "env_vars"}
_OPTIONS = {"master": None, "py-files": (), "files": ()}  # with the value of one that is not given


def resolve(
    context: Context, options: UpdateOptions, app: str | None = None, deployment: str | None = None
) -> UpdateOptions:
    """Return the options with everything that the running version has and that was neither given nor unset.

    Options that inherit nothing (`reset`) and an app that is not known are returned as they are.

    app: its name; None: taken from the file, where it is a literal
    deployment: the new deployment of the update that is continued; None: found by its digest
    """
    name = app or known_app(context, options.application)
    if options.reset or name is None or name not in context.registry.apps():
        return options
    registry = context.registry.existing(name)
    record = registry.update(deployment) if deployment is not None else registry.update_under_way()
    if record is not None and record.old is not None:  # an earlier try was planned with what ran then
        found = _inherited(registry, record.old, options, again=True)
        if deployment is not None or found.application.digest() == record.digest:
            return found
    current = registry.current_id()
    return options if current is None else _inherited(registry, current, options)


def _inherited(registry: AppRegistry, base: str, options: UpdateOptions, again: bool = False) -> UpdateOptions:
    application = inherit(local_application(registry, base), options.application)
    application = without(application, options, f"deployment {base} of {registry.name}", again)
    return attrs.evolve(options, application=application, unset=(), reset=True)


def inherit(running: Application, given: Application) -> Application:
    """Return the given application with what only the running one has."""
    return attrs.evolve(
        given,
        py_files=given.py_files or running.py_files,
        files=given.files or running.files,
        params={**running.params, **given.params},
        conf={**running.conf, **given.conf},
        env_vars={**running.env_vars, **given.env_vars},
        master=given.master or running.master,
    )


def without(application: Application, options: UpdateOptions, whose: str, again: bool) -> Application:
    """Return the application without what is unset. InvalidInputError for what it does not have, unless `again`: an
    earlier try may have removed it."""
    given = options.application
    for entry in options.unset:
        part, _, name = entry.rpartition("=")
        value: Any
        if part == "option" and name in _OPTIONS:
            field = name.replace("-", "_")
            there, value = bool(getattr(application, field)), _OPTIONS[name]
            contradicts = bool(getattr(given, field))
        elif part in _PARTS:
            field = _PARTS[part]
            values: Mapping[str, str] = getattr(application, field)
            there, contradicts = name in values, name in getattr(given, field)
            value = {key: text for key, text in values.items() if key != name}
        else:
            raise InvalidInputError(
                f"unset={entry!r} is not understood: write NAME for a parameter, conf=KEY, env=NAME, or "
                f"option={'|'.join(_OPTIONS)}"
            )
        if contradicts:
            raise InvalidInputError(f"{entry} is both set and unset; leave one of the two out")
        if not there and not again:
            known = ", ".join(sorted(_names(application))) or "nothing"
            raise InvalidInputError(f"unset={entry!r}: {whose} has no such value (it has: {known}); correct the name")
        changed: dict[str, Any] = {field: value}
        application = attrs.evolve(application, **changed)
    return application


def _names(application: Application) -> Iterator[str]:
    """Yield what can be unset."""
    for part, field in _PARTS.items():
        yield from (f"{part}={name}" if part else name for name in getattr(application, field))
    yield from (f"option={name}" for name in _OPTIONS if getattr(application, name.replace("-", "_")))


def setting_changes(old: DeploymentSpec, application: Application) -> list[str]:
    """Return a line for each parameter and setting that differs from a deployment's, and one for what is taken over."""
    changes = settings_diff(old, attrs.evolve(old, application=application))
    lines = [f"{_WORDS.get(c.part, c.part)} {c.key}: {_shown(c.before)} -> {_shown(c.after)}" for c in changes]
    others = "the other parameters and settings" if changes else "parameters and settings"
    return [*lines, f"{others} are those of {old.deployment}"]


_WORDS = {"parameters": "parameter", "environment": "environment variable", "application": "option"}


def _shown(value: str | None) -> str:
    return "not given" if value is None else value or "''"
