"""What fsspec needs to reach the root. It may hold secrets, so it goes to a driver in its environment: command lines
are seen by `ps` and written to logs."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from ..errors import InvalidInputError

VARIABLE = "STREAMUPDATE_STORAGE_OPTIONS"


def from_environment(environment: Mapping[str, str] = os.environ) -> dict[str, Any]:
    """The options in VARIABLE, a JSON object; none when it is not set. InvalidInputError, which does not show them."""
    text = environment.get(VARIABLE)
    if not text:
        return {}
    try:
        options = json.loads(text)
    except ValueError as error:
        raise InvalidInputError(f"{VARIABLE} is not valid JSON ({error}); set it to a JSON object") from error
    if not isinstance(options, dict):
        raise InvalidInputError(f"{VARIABLE} holds JSON, but not an object; set it to one, such as {{}}")
    return options


def to_environment(options: Mapping[str, Any]) -> dict[str, str]:
    """The variable that hands the options on."""
    return {VARIABLE: json.dumps(dict(options))}
