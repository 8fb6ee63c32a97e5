"""Values as DAG authors give them (native, JSON text from a rendered template, or blank) to plain typed ones.

A template renders to text unless the DAG asks for native objects, so every mapping, list, duration and
optional name is accepted as text too.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

import pendulum

from ..core.errors import InvalidInputError

BLANK = ("", "None", "none", "null")  # what an unset value becomes in a rendered template


def blank(value: Any) -> bool:
    """None, or what an unset value renders to."""
    return isinstance(value, str | None) and optional_text(value) is None


def optional_text(value: Any) -> str | None:
    """Text, or None for None and for what an unset value renders to."""
    if value is None:
        return None
    text = str(value).strip()
    return None if text in BLANK else text


def truth(value: Any, what: str) -> bool:
    """A boolean, or what one renders to as text; False for blank."""
    text = (optional_text(value) or "false").lower()
    if text not in ("true", "false"):
        raise InvalidInputError(f"{what} must be true or false, not {value!r}")
    return text == "true"


def text_map(value: Any, what: str) -> dict[str, str]:
    """A mapping, or JSON text of one, as text to text; booleans become ``true``/``false`` as Spark writes
    them.

    `what` names it in the InvalidInputError raised for anything else.
    """
    parsed = json_map(value, what)
    return {str(key): _scalar(item, f"{what} {key!r}") for key, item in parsed.items()}


def json_map(value: Any, what: str) -> dict[str, Any]:
    """A mapping, or JSON text of one, or blank."""
    if isinstance(value, Mapping):
        return dict(value)
    if (text := optional_text(value)) is None:
        return {}
    parsed = _json(text, what, 'a JSON object such as {"key": "value"}')
    if not isinstance(parsed, dict):
        raise InvalidInputError(f"{what} must be a JSON object, not {text!r}")
    return parsed


def text_list(value: Any, what: str) -> tuple[str, ...]:
    """A list, JSON text of one, or comma-separated text, as a tuple of non-blank texts."""
    if isinstance(value, str):
        text = value.strip()
        value = _json(text, what, "a JSON array") if text.startswith("[") else text.split(",")
    if value is None:
        return ()
    if isinstance(value, Mapping) or not isinstance(value, Iterable):
        raise InvalidInputError(f"{what} must be a list of texts, not {value!r}")
    texts = (optional_text(item) for item in value)
    return tuple(text for text in texts if text is not None)


def seconds(value: Any, what: str) -> float:
    """Seconds from a number, a timedelta (a pendulum Duration is one), ISO 8601 text (``PT5M``) or numeric
    text.
    """
    result = _seconds(value, what)
    if not 0 <= result < float("inf"):
        raise InvalidInputError(f"{what} must not be negative or endless, but is {value!r}")
    return result


def _seconds(value: Any, what: str) -> float:
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, bool):
        raise InvalidInputError(f"{what} must be a duration, not {value!r}")
    try:
        return float(value)
    except (TypeError, ValueError):
        pass
    wanted = f"{what} must be seconds, a timedelta or an ISO 8601 duration such as PT5M, not {value!r}"
    if not isinstance(value, str):
        raise InvalidInputError(wanted)
    try:
        parsed = pendulum.parse(value.strip())
    except ValueError as error:
        raise InvalidInputError(wanted) from error
    if not isinstance(parsed, pendulum.Duration):
        raise InvalidInputError(wanted)
    return parsed.total_seconds()


def _json(text: str, what: str, wanted: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise InvalidInputError(f"{what} must be {wanted}, but {text!r} does not parse: {error}") from error


def _scalar(value: Any, what: str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, int, float)):
        return str(value)
    raise InvalidInputError(f"{what} must be text, a number or a boolean, not {value!r}")
