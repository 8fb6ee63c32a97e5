"""A plan's document, as it may be shown. A plan itself is compared with others, and hides what it always has."""

from __future__ import annotations

from typing import Any

from ..address import without_credentials
from ..redaction import redacted

_SETTINGS = ("options", "given", "hadoop")  # with names of the app's choice


def shown_plan(document: Any) -> Any:
    """Return the document, or a part of it, without the values of options and settings whose names suggest a secret,
    and without the credentials in addresses."""
    if isinstance(document, str):
        return without_credentials(document)
    if isinstance(document, (list, tuple)):
        return [shown_plan(part) for part in document]
    if not isinstance(document, dict):
        return document
    made = {key: shown_plan(value) for key, value in document.items()}
    return {k: redacted(v) if k in _SETTINGS and isinstance(v, dict) else v for k, v in made.items()}
