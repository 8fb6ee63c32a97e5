"""What the forms of the DAGs suggest."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from airflow.configuration import conf
from airflow.sdk import Param

from .control.update.option import Kind, Option
from .control.update.options import OPTIONS
from .core.errors import InvalidInputError
from .core.names import check_keys, check_name
from .core.secret_names import NAME
from .hooks.errors import airflow_errors
from .hooks.settings import DEFAULT_CONN_ID
from .hooks.update_options import blank_text


def suggested_apps() -> dict[str, Any]:
    """Return the names in ``[streamupdate] apps`` as a Param's suggestions; any other name may be entered.

    They are a setting because Airflow parses a DAG's file every half minute and before each task: read from the root,
    they would cost a request each time, and a root that hangs would take the DAG away.
    """
    names = [name.strip() for name in conf.get("streamupdate", "apps", fallback="").split(",")]
    known = [name for name in dict.fromkeys(names) if name and _usable(name)]
    return {"examples": known} if known else {}


WHERE = "Which deployment, and where"  # the second group of the forms for one app


def app_param(which: str) -> Param:
    """Return the field for an app's name. which: the app that is asked for"""
    description = f"Name of {which}. The page Streams and `streamupdate list` show the names."
    return Param(type="string", minLength=1, **suggested_apps(), title="App", description=description)


def deployment_param(description: str) -> Param:
    """Return the field for a deployment's id, which may be empty."""
    return Param(None, type=["null", "string"], section=WHERE, title="Deployment id", description=description)


def connection_param(section: str = WHERE, whose: str = "app") -> Param:
    """Return the field for the connection."""
    description = f"The Stream Update connection of the {whose}."
    return Param(DEFAULT_CONN_ID, type="string", section=section, title="Connection", description=description)


def no_secrets() -> dict[str, Any]:
    """Return the schema by which a Param that is a JSON object refuses secrets in the clear.

    A value under a name that suggests a secret must refer to a connection or a variable. Airflow checks this before it
    stores a run's conf, which viewers can read.
    """
    reference = r"^((\{\{ *(conn|var)\.[^{}]*\}\}[\s:@/]{0,3})+|true|false|\d{0,3})$"
    return {
        "patternProperties": {
            _SECRET_NAME: {"type": ["null", "boolean", "number", "string"], "pattern": reference, "maximum": 999}
        }
    }


# Names of what is a secret itself, and not of where it is, or how it is used (spark.kubernetes.driver.secretKeyRef.X).
_USES = (
    "provider|location|type|enabled|path|file|url|class|mechanism|mode|column|count|size|length|limit|seconds|ms|interval|"
    "timeout|ttl"
)
_SECRET_NAME = rf"^(?!(?i:.*(secretKeyRef|\.secrets\.|({_USES})s?$)))(?=[\s\S]*?{NAME.pattern})"
SECRETS_BY_NAME = (
    "Give a secret as {{ conn.ID.password }} or {{ var.value.NAME }}: the task reads it, and the run's conf, which "
    "every viewer can read, does not hold it."
)


def refuse_unknown_conf(context: Any) -> None:
    """Fail a task of a run whose conf has a key that the DAG declares no param for: a misspelt one would be ignored.

    Give it as `pre_execute` to the tasks, or in a DAG's `default_args`. Airflow itself takes any key.
    """
    declared = context["dag"].params
    with airflow_errors(context):
        if declared:  # a DAG without params may read any key of its conf
            check_keys(context["dag_run"].conf or {}, declared, f"DAG {context['dag'].dag_id}")


def update_params() -> dict[str, Param]:
    """Return the options of an update as Params, by the name of their argument."""
    return {option.argument: _param(option) for option in OPTIONS if option.section}


def update_templates() -> dict[str, str]:
    """Return the arguments of `stream_update` that take what was entered there."""
    as_json = {option.argument: " | tojson" for option in OPTIONS if option.kind in (Kind.NAMES, Kind.RENAMES)}
    return {name: f"{{{{ params.{name}{as_json.get(name, '')} }}}}" for name in update_params()}


# By kind: the default, the schema's type with what else it takes, and what is said of a value.
_KINDS: dict[Kind, Callable[[Option], tuple[Any, dict[str, Any], str]]] = {
    Kind.NAME: lambda option: (None, {"type": ["null", "string"]}, ""),
    Kind.NAMES: lambda option: (
        [],
        {"type": ["null", "array"], "items": {"type": "string"}},
        f"Enter one per line, for example {option.examples[0]}.",
    ),
    Kind.RENAMES: lambda option: (
        {},
        {"type": ["null", "object"]},
        f"A JSON object, for example {option.examples[0]}.",
    ),
    Kind.CHOICE: lambda option: (option.default, {"type": "string", "enum": list(option.choices)}, ""),
    Kind.COUNT: lambda option: (option.default, {"type": "integer", "minimum": 0}, f"0: {option.blank}."),
    Kind.SECONDS: lambda option: (
        None if option.default is None or option.variable else _iso(option.default),
        {"type": ["null", "string"], "examples": list(option.examples)},
        "Seconds or an ISO 8601 duration.",
    ),
    Kind.SWITCH: lambda option: (option.default, {"type": "boolean"}, ""),
}


def _param(option: Option) -> Param:
    default, schema, of_value = _KINDS[option.kind](option)
    description = option.text(of_value, blank_text(option, "Empty") if "null" in schema["type"] else "")
    return Param(default, description, section=option.section, title=option.title, **schema)


def _iso(seconds: float) -> str:
    return f"PT{seconds:g}S" if seconds % 60 else f"PT{seconds / 60:g}M"


def _usable(name: str) -> bool:
    """Return whether an app can have this name. Otherwise warn, which Airflow shows beside the DAGs."""
    try:
        check_name("app", name)
    except InvalidInputError as error:
        warnings.warn(f"[streamupdate] apps: {error}", stacklevel=3)
        return False
    return True
