"""Mask what is shown or sent: with Airflow's secrets masker, and credentials in addresses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk.log import redact

from ..core.address import without_credentials
from ..core.registry.hiding import Hiding

if TYPE_CHECKING:
    from ..core.registry.registry import AppRegistry
    from ..core.registry.update import UpdateRecord

DEPTH = 20  # the masker does not look deeper


def masked(value: Any) -> Any:
    """Return the same value with every secret replaced by ``***``."""
    return _addresses(redact(value, max_depth=DEPTH))


def reason_of(registry: AppRegistry, record: UpdateRecord) -> str | None:
    """Why an update ended so, as it may leave this machine. It may quote a log, and a log what an app was given."""
    if record.reason is None:
        return None
    return str(masked(Hiding.in_app(registry).text(record.reason)))


def _addresses(value: Any) -> Any:
    if isinstance(value, str):
        return without_credentials(value)
    if isinstance(value, dict):
        return {key: _addresses(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_addresses(item) for item in value]
    return value
