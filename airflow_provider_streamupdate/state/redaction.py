"""Settings as they may be shown: what speaks of a secret is hidden."""

from __future__ import annotations

import re
from collections.abc import Mapping

_SECRET = re.compile(
    r"secret|password|passwd|token|credential|access[._-]?key|private[._-]?key|storage[._-]?options", re.IGNORECASE
)


def redacted(values: Mapping[str, str]) -> dict[str, str]:
    """Settings with the values of those hidden whose names speak of secrets."""
    return {key: "(hidden)" if _SECRET.search(key) else value for key, value in values.items()}
