"""Convert the values that DAG authors give (native, JSON text from a rendered template, or blank) to typed ones.

A template renders to text unless the DAG asks for native objects, so every mapping, list, duration and optional name
is also accepted as text. Errors do not quote mappings and lists: their values may be secrets.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import Any

import pendulum

from ..core.errors import InvalidInputError

BLANK = ("", "None", "none", "null")  # what an unset value becomes in a rendered template


def blank(value: Any) -> bool:
    """Return whether the value is None, or the text that an unset value renders to."""
    return isinstance(value, str | None) and optional_text(value) is None


def optional_text(value: Any) -> str | None:
    """Return the text; None for None and for the text that an unset value renders to."""
    if value is None:
        return None
    text = str(value).strip()
    return None if text in BLANK else text


def truth(value: Any, what: str) -> bool:
    """Return a boolean from a boolean or its rendered text; False for blank."""
    text = (optional_text(value) or "false").lower()
    if text not in ("true", "false"):
        raise InvalidInputError(f"{what} must be true or false, not {value!r}")
    return text == "true"


def text_map(value: Any, what: str) -> dict[str, str]:
    """Return a mapping of text to text, from a mapping or its JSON text.

    Booleans become ``true``/``false``, as in Spark. `what` names the value in the InvalidInputError for anything else.
    """
    parsed = json_map(value, what)
    return {str(key): _scalar(item, f"{what} {key!r}") for key, item in parsed.items()}


def json_map(value: Any, what: str) -> dict[str, Any]:
    """Return a mapping, from a mapping, its JSON text, or blank."""
    if isinstance(value, Mapping):
        return dict(value)
    if (text := optional_text(value)) is None:
        return {}
    parsed = _json(text, what, 'a JSON object such as {"key": "value"}')
    if not isinstance(parsed, dict):
        raise InvalidInputError(f"{what} must be a JSON object, not {_kind(parsed)}")
    return parsed


def text_list(value: Any, what: str) -> tuple[str, ...]:
    """Return a tuple of non-blank texts, from a list, its JSON text, or comma-separated text."""
    texts = (optional_text(item) for item in _items(value, what, lambda text: text.split(",")))
    return tuple(text for text in texts if text is not None)


def argument_list(value: Any, what: str) -> tuple[str, ...]:
    """Return a program's arguments as they are, from a list, its JSON text, or text as a shell reads it."""
    return tuple(_scalar(item, what) for item in _items(value, what, lambda text: _shell_words(text, what)))


def _shell_words(text: str, what: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:  # a quotation that does not end
        raise InvalidInputError(f"{what} cannot be read as a shell reads it ({error}); give a list of texts") from None


def _items(value: Any, what: str, split: Callable[[str], list[str]]) -> Iterable[Any]:
    if isinstance(value, str):
        text = value.strip()
        value = _json(text, what, "a JSON array") if text.startswith("[") else split(text)
    if isinstance(value, Mapping) or not isinstance(value, Iterable | None):
        raise InvalidInputError(f"{what} must be a list of texts, not {_kind(value)}")
    return value or ()


def seconds(value: Any, what: str) -> float:
    """Return seconds from a number, a timedelta (or pendulum Duration), ISO 8601 text (``PT5M``) or numeric text."""
    result = _seconds(value, what)
    if not 0 <= result < float("inf"):
        raise InvalidInputError(f"{what} must be a non-negative, finite duration, not {value!r}")
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
        raise InvalidInputError(f"{what} must be {wanted}, but what was given does not parse: {error}") from None


def _scalar(value: Any, what: str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, int, float)):
        return str(value)
    raise InvalidInputError(f"{what} must be text, a number or a boolean, not {_kind(value)}")


def _kind(value: Any) -> str:
    kind = "an object" if isinstance(value, Mapping) else "a list" if isinstance(value, list) else type(value).__name__
    return "nothing" if value is None else kind
