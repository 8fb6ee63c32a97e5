"""Make the options of an update from the values that DAG authors give."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypedDict

import attrs

from ..control.update.option import Kind, Option
from ..control.update.options import OPTIONS, UpdateOptions
from ..core.errors import InvalidInputError
from ..core.names import check_keys
from ..core.registry.application import Application, Script
from .references import resolve_references
from .settings import Settings
from .templated_values import argument_list, blank, optional_text, seconds, text_list, text_map, truth

APPLICATION_FIELDS = (
    *("application", "py_files", "files", "app_params", "conf", "env_vars", "application_args", "seen_batch"),
)

_MAPS = ("app_params", "conf", "env_vars", "seen_batch")


class UpdateArguments(TypedDict, total=False):
    """The arguments of `update_dag.stream_update` for an application and its update (control/update/options.py).

    For type checkers.
    """

    py_files: Any
    files: Any
    app_params: Any
    conf: Any
    env_vars: Any
    application_args: Any
    seen_batch: Any
    deployment_id: Any
    unset: Any
    reset: Any
    from_snapshot: Any
    agree: Any
    renames: Any
    strategy: Any
    rehearse: Any
    check_only: Any
    run_beside: Any
    catch_up_timeout: Any
    max_slower: Any
    max_rows_changed: Any
    max_state_changed: Any
    diff: Any
    diff_tolerance: Any
    verify_for: Any
    slo: Any
    drain_timeout: Any
    submit_timeout: Any


def count(value: Any, what: str) -> int:
    """Return a whole number from a number or text; 0 for blank."""
    text = optional_text(value) or "0"
    try:
        return int(text)
    except ValueError as error:
        raise InvalidInputError(f"{what} must be a whole number, not {text!r}") from error


_READ: dict[Kind, Callable[[Any, str], Any]] = {
    Kind.NAME: lambda value, what: optional_text(value),
    Kind.NAMES: text_list,
    Kind.RENAMES: text_map,
    Kind.CHOICE: lambda value, what: optional_text(value),
    Kind.COUNT: count,
    Kind.SECONDS: seconds,
    Kind.SWITCH: truth,
}


def update_options(
    given: Mapping[str, Any], settings: Settings, asked_by: str, traceparent: str | None = None, app: Any = None
) -> UpdateOptions:
    """Return the update's options. Blank values get the connection's setting, or the default.

    InvalidInputError for an invalid value, ApplicationError for an application that cannot be read.
    """
    check_names(given)
    return UpdateOptions(
        application=application_from(given.get("application"), given, app),
        asked_by=asked_by,
        traceparent=traceparent,
        **{o.name: _value(o, given.get(o.argument), o.argument, settings) for o in OPTIONS},
    )


def blank_text(option: Option, blank: str) -> str:
    """Return the sentence on a blank value, which begins with `blank`; empty where the option's default says it."""
    meaning = f"{option.default:g} s, or environment variable {option.variable}" if option.variable else option.blank
    if option.name in attrs.fields_dict(Settings):
        meaning = "the connection's"
    return f"{blank}: {meaning}." if meaning else ""


UPDATE_ARGUMENTS = (*APPLICATION_FIELDS, *(option.argument for option in OPTIONS))


def check_names(given: Iterable[str]) -> None:
    """Raise InvalidInputError for the name of an option that an update does not have."""
    check_keys(given, UPDATE_ARGUMENTS, "an update")


def verify_for(value: Any, what: str) -> float:
    """Return the value of option `verify_for`, given under another name."""
    [option] = [option for option in OPTIONS if option.name == "verify_for"]
    return float(_value(option, value, what, None))


def _value(option: Option, value: Any, what: str, settings: Settings | None) -> Any:
    if blank(value) and option.variable:
        value, what = os.environ.get(option.variable), option.variable
    return getattr(settings, option.name, option.default) if blank(value) else _READ[option.kind](value, what)


def application_from(application: Any, given: Mapping[str, Any], app: Any = None) -> Application:
    """Return an Application from the values that DAG authors give, which may refer to connections and variables; see
    ApplicationOperator.

    given: the values of APPLICATION_FIELDS, some of them; app: the app's name, which a script needs
    """
    maps = {name: resolve_references(text_map(given.get(name), name), name) for name in _MAPS}
    script = None
    if not blank(given.get("application_args")):
        texts = enumerate(argument_list(given["application_args"], "application_args"))
        arguments = resolve_references({str(n): text for n, text in texts}, "application_args")
        script = Script(
            app=optional_text(app) or "",
            arguments=tuple(arguments.values()),
            seen_batch=maps["seen_batch"],
            folder=os.getcwd(),  # of its relative paths, as SparkSubmitOperator's
        )
    return Application(
        file=optional_text(application) or "",
        script=script,
        py_files=text_list(given.get("py_files"), "py_files"),
        files=text_list(given.get("files"), "files"),
        params=maps["app_params"],
        conf=maps["conf"],
        env_vars=maps["env_vars"],
    )
