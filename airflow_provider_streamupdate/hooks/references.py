"""References to Airflow's connections and variables in a form's values, so that no run's conf holds a secret.

They look like Airflow's templates, but nothing else is rendered: a form's input is not code.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from airflow.exceptions import AirflowException, AirflowNotFoundException
from airflow.sdk import Connection, Variable
from airflow.sdk.exceptions import AirflowRuntimeError
from airflow.sdk.log import mask_secret

from ..core.errors import InvalidInputError
from ..core.redaction import redacted

_BEGIN = re.compile(r"\{\{-?\s{0,9}(?:conn|var)\b")
_REFERENCE = re.compile(
    r"\{\{ {0,9}(?:"
    r"conn\.(?P<conn>[\w-]{1,200})\.(?P<field>login|password|host|port|schema|extra_dejson\.(?P<extra>[\w-]{1,200}))"
    r"|var\.(?P<kind>value|json)\.(?P<var>[\w-]{1,200})(?:\.(?P<key>[\w-]{1,200}))?"
    r") {0,9}\}\}"
)


def resolve_references(values: Mapping[str, str], what: str) -> dict[str, str]:
    """Return the values with their references resolved. Airflow masks the resolved secrets from now on.

    InvalidInputError for a reference that cannot be read.
    """
    return {key: _resolve(value, f"{what} {key!r}") for key, value in values.items()}


def _resolve(text: str, what: str) -> str:
    if len(_BEGIN.findall(text)) != len(_REFERENCE.findall(text)):
        raise InvalidInputError(
            f"{what} holds a reference that is not understood: write {{{{ conn.ID.password }}}} (or login, host, port, "
            "schema, extra_dejson.KEY), {{ var.value.NAME }} or {{ var.json.NAME.KEY }}"
        )
    return _REFERENCE.sub(lambda found: (_of_connection if found["conn"] else _of_variable)(found, what), text)


def _of_connection(found: re.Match[str], what: str) -> str:
    connection = _read(lambda: Connection.get(found["conn"]), f"{what}: connection {found['conn']}")
    key = found["extra"]
    value = connection.extra_dejson.get(key) if key else getattr(connection, found["field"])
    return _secret(value, f"{what}: connection {found['conn']} has no {found['field']}")


def _of_variable(found: re.Match[str], what: str) -> str:
    name, key = found["var"], found["key"]
    as_json = found["kind"] == "json"
    value = _read(lambda: Variable.get(name, deserialize_json=as_json), f"{what}: variable {name}")
    if key:
        value = value.get(key) if as_json and isinstance(value, Mapping) else None
    return _secret(value, f"{what}: variable {name} has no text{f' {key}' if key else ''}")


def _read(ask: Any, what: str) -> Any:
    try:
        return ask()
    except (AirflowException, AirflowNotFoundException, AirflowRuntimeError, KeyError, ValueError) as error:
        raise InvalidInputError(
            f"{what} cannot be read: {type(error).__name__}; create or correct it in Admin"
        ) from error


def _secret(value: Any, missing: str) -> str:
    if value is None or isinstance(value, (Mapping, list)):
        raise InvalidInputError(missing)
    mask_secret(str(value))
    return str(value)


def secrets_in_conf(conf: Mapping[str, Any] | None) -> Iterator[str]:
    """Yield what of a DAG run's conf looks like a secret: every viewer can read it through Airflow's API."""
    for name, value in (conf or {}).items():
        for key, item in value.items() if isinstance(value, Mapping) else ((None, value),):
            text = item if isinstance(item, str) else json.dumps(item, default=str)
            setting = {str(name if key is None else key): text}
            if item is None or isinstance(item, bool) or _BEGIN.search(text) or redacted(setting) == setting:
                continue
            yield name if key is None else f"{name} {key!r}"
