"""Mask what is shown or sent: with Airflow's secrets masker, and with this package's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk.log import redact

from ..core.address import without_credentials
from ..core.redaction import each_text, hide
from ..core.registry.hiding import Hiding

if TYPE_CHECKING:
    from ..core.registry.registry import AppRegistry
    from ..core.registry.update import UpdateRecord

DEPTH = 20  # the masker does not look deeper
LONGEST = 20_000  # characters of a text that are shown, and that a request spends time on


def masked(value: Any) -> Any:
    """Return the same value with every secret hidden, and with long texts cut."""
    return each_text(redact(value, max_depth=DEPTH), _hidden)


def masked_code(value: Any) -> Any:
    """Return the same value without known secrets and without credentials in addresses.

    Code is full of names that suggest a secret; hiding the text behind them would hide the differences.
    """
    return each_text(redact(value, max_depth=DEPTH), without_credentials)


def reason_of(registry: AppRegistry, record: UpdateRecord) -> str | None:
    """Return why an update ended, without secrets. The reason may quote a log, and a log the app's parameters."""
    if record.reason is None:
        return None
    return str(masked(Hiding.in_app(registry).text(record.reason)))


def _hidden(text: str) -> str:
    if len(text) <= LONGEST:
        return hide(text)
    shown = hide(text[: 2 * LONGEST])  # it may end within a secret: that part is not shown
    return f"{shown[: max(0, len(shown) - LONGEST)]} ... (cut)"
