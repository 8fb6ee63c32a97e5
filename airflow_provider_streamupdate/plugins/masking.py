"""Mask a document before it is shown: with Airflow's secrets masker, and credentials in URLs."""

from __future__ import annotations

import re
from typing import Any

from airflow.sdk.log import redact

DEPTH = 20  # the masker does not look deeper
_USER_INFO = re.compile(r"(?<=://)[^/\s@]+@")


def masked(value: Any) -> Any:
    """Return the same value with every secret replaced by ``***``."""
    return _addresses(redact(value, max_depth=DEPTH))


def _addresses(value: Any) -> Any:
    if isinstance(value, str):
        return _USER_INFO.sub("***@", value) if "://" in value else value
    if isinstance(value, dict):
        return {key: _addresses(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_addresses(item) for item in value]
    return value
