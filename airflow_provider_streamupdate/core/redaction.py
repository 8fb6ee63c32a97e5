"""Settings as they may be shown: what speaks of a secret is hidden."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

_SECRET = re.compile(
    r"secret|password|passwd|token|credential|access[._-]?key|private[._-]?key|account[._-]?key|fs\.azure\.sas|"
    r"passphrase|storage[._-]?options",
    re.IGNORECASE,
)


def redacted(values: Mapping[str, str]) -> dict[str, str]:
    """Settings with the values of those hidden whose names speak of secrets."""
    return {key: "(hidden)" if _SECRET.search(key) else value for key, value in values.items()}


SHORTEST = 4  # characters: to hide shorter values would hide half of a text, and keep nothing secret


def secret_values(*settings: Mapping[str, str]) -> Iterator[str]:
    """The values of those whose names speak of secrets, the longest first."""
    found = {value for values in settings for key, value in values.items() if _SECRET.search(key)}
    yield from sorted((value for value in found if len(value) >= SHORTEST), key=len, reverse=True)
