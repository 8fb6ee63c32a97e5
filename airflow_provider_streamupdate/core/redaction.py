"""Settings as they may be shown: the values of secrets are hidden."""

from __future__ import annotations

import re
from collections.abc import Mapping

_SECRET = re.compile(
    r"secret|password|passwd|token|credential|access[._-]?key|private[._-]?key|account[._-]?key|fs\.azure\.sas|"
    r"passphrase|storage[._-]?options",
    re.IGNORECASE,
)
HIDDEN = "(hidden)"
SHORTEST_LINE = 12  # the same for a line of a value that has several: a text may come line by line
SHORTEST = 4  # characters: to hide shorter values would hide half of a text, and keep nothing secret


def redacted(values: Mapping[str, str]) -> dict[str, str]:
    """Return the settings, with the values hidden of those whose names suggest a secret."""
    return {key: HIDDEN if _SECRET.search(key) else value for key, value in values.items()}


def without_secrets(text: str, *settings: Mapping[str, str]) -> str:
    """Return the text without the values of settings whose names suggest a secret."""
    found = {value for values in settings for key, value in values.items() if _SECRET.search(key)}
    found |= {line for value in found for line in value.splitlines() if len(line) >= SHORTEST_LINE}
    for value in sorted((value for value in found if len(value) >= SHORTEST), key=len, reverse=True):
        text = text.replace(value, HIDDEN)
    return text
