"""What an update takes over from the running version: the parameters and options that were not given."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from ...core.errors import InvalidInputError
from ...core.registry.application import Application, Script
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
    if name is None or name not in context.registry.apps():
        return options
    registry = context.registry.existing(name)
    if options.reset:
        return _where_it_runs(registry, options)
    record = registry.update(deployment) if deployment is not None else registry.update_under_way()
    if record is not None and record.old is not None:  # an earlier try was planned with what ran then
        found = _inherited(registry, record.old, options, again=True)
        if deployment is not None or found.application.digest() == record.digest:
            return found
    current = registry.current_id()
    return options if current is None else _inherited(registry, current, options)


def _where_it_runs(registry: AppRegistry, options: UpdateOptions) -> UpdateOptions:
    """Return the options with the working directory of the running version's script: an option sets none."""
    current, given = registry.current_id(), options.application.script
    running = registry.spec(current).application.script if current and given else None
    if running is None or given is None or not running.folder:
        return options
    script = attrs.evolve(given, folder=running.folder, in_folder=running.in_folder)
    return attrs.evolve(options, application=attrs.evolve(options.application, script=script))


def _inherited(registry: AppRegistry, base: str, options: UpdateOptions, again: bool = False) -> UpdateOptions:
    application = inherit(local_application(registry, base), options.application)
    application = without(application, options, f"deployment {base} of {registry.name}", again)
    return attrs.evolve(options, application=application, unset=(), reset=True)


def inherit(running: Application, given: Application) -> Application:
    """Return the given application with what only the running one has."""
    return attrs.evolve(
        given,
        script=given.script and _script(running.script, given.script),
        py_files=given.py_files or running.py_files,
        files=given.files or running.files,
        params=given.params if given.script else {**running.params, **given.params},
        conf={**running.conf, **given.conf},
        env_vars={**running.env_vars, **given.env_vars},
        master=given.master or running.master,
    )


def _script(running: Script | None, given: Script) -> Script:
    if running is None:
        return given
    seen_batch = {**running.seen_batch, **given.seen_batch}
    made = attrs.evolve(given, arguments=given.arguments or running.arguments, seen_batch=seen_batch)
    # Relative paths stay where they are, wherever an update is made, and mean the script's own files if they did.
    return attrs.evolve(made, folder=running.folder, in_folder=running.in_folder) if running.folder else made


def without(application: Application, options: UpdateOptions, whose: str, again: bool) -> Application:
    """Return the application without what is unset. InvalidInputError for what it does not have, unless `again`: an
    earlier try may have removed it."""
    for entry in options.unset:
        part, _, name = entry.rpartition("=")
        if part not in (*_PARTS, "option"):
            raise InvalidInputError(
                f"unset={entry!r} is not understood: write NAME for a parameter, conf=KEY, env=NAME, or "
                f"option={'|'.join(_OPTIONS)}"
            )
        if name in _values(options.application, part):
            raise InvalidInputError(f"{entry} is both set and unset; leave one of the two out")
        values, changed = _values(application, part), dict[str, Any]()
        if part == "option" and name in values:
            changed = {name.replace("-", "_"): _OPTIONS[name]}
        elif name in values:
            changed = {_PARTS[part]: {key: value for key, value in values.items() if key != name}}
        elif not again:
            names = (f"{p}={n}" if p else n for p in (*_PARTS, "option") for n in _values(application, p))
            known = ", ".join(sorted(names)) or "nothing"
            raise InvalidInputError(f"unset={entry!r}: {whose} has no such value (it has: {known}); correct the name")
        application = attrs.evolve(application, **changed)
    return application


def _values(application: Application, part: str) -> Mapping[str, Any]:
    """Return what an application has of a part, and can be unset, by name."""
    if part == "option":
        values = {name: getattr(application, name.replace("-", "_")) for name in _OPTIONS}
        return {name: value for name, value in values.items() if value}
    named: Mapping[str, str] = getattr(application, _PARTS[part])
    return named


def setting_changes(old: DeploymentSpec, application: Application) -> list[str]:
    """Return a line for each parameter and setting that differs from a deployment's, and one for what is taken over."""
    changes = settings_diff(old, attrs.evolve(old, application=application))
    lines = [f"{_WORDS.get(c.part, c.part)} {c.key}: {_shown(c.before)} -> {_shown(c.after)}" for c in changes]
    others = "the other parameters and settings" if changes else "parameters and settings"
    return [*lines, f"{others} are those of {old.deployment}"]


_WORDS = {"parameters": "parameter", "environment": "environment variable", "application": "option"}


def _shown(value: str | None) -> str:
    return "not given" if value is None else value or "''"
