"""What may be shown of a document: by Airflow's secrets masker, and no password in an address."""

from __future__ import annotations

import re
from typing import Any

from airflow.sdk.log import redact

DEPTH = 20  # the masker leaves alone what lies deeper
_USER_INFO = re.compile(r"(?<=://)[^/\s@]+@")


def masked(value: Any) -> Any:
    """The same with every secret as ``***``."""
    return _addresses(redact(value, max_depth=DEPTH))


def _addresses(value: Any) -> Any:
    if isinstance(value, str):
        return _USER_INFO.sub("***@", value) if "://" in value else value
    if isinstance(value, dict):
        return {key: _addresses(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_addresses(item) for item in value]
    return value
