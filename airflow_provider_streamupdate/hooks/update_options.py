"""What an update is asked for, from values as DAG authors give them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..control.update.options import UpdateOptions
from ..core.errors import InvalidInputError
from ..core.registry.update import DEFAULT_STRATEGY
from .application import APPLICATION_FIELDS, application_from
from .settings import Settings
from .templated_values import optional_seconds, optional_text, text_list, text_map, truth, verify_for

# By name, as `update_dag.stream_update` has them, beside those of an application.
UPDATE_FIELDS = (
    "deployment_id",
    "from_snapshot",
    "agree",
    "renames",
    "strategy",
    "rehearse",
    "run_beside",
    "catch_up_timeout",
    "drain_timeout",
    "submit_timeout",
    "verify_for",
    "check_only",
)


def update_options(given: Mapping[str, Any], settings: Settings, asked_by: str) -> UpdateOptions:
    """InvalidInputError for what cannot be meant, ApplicationError for an application that cannot be read; blank values
    are those of the connection, or the usual ones."""
    unknown = sorted(set(given) - {*APPLICATION_FIELDS, *UPDATE_FIELDS})
    if unknown:
        raise InvalidInputError(f"an update has no option {', '.join(unknown)}; it has {', '.join(UPDATE_FIELDS)}")
    value = dict(given).get
    return UpdateOptions(
        application=application_from(**{name: value(name) for name in APPLICATION_FIELDS}),
        deployment=optional_text(value("deployment_id")),
        snapshot=optional_text(value("from_snapshot")),
        agree=text_list(value("agree"), "agree"),
        renames=text_map(value("renames"), "renames"),
        strategy=optional_text(value("strategy")) or DEFAULT_STRATEGY,
        rehearse=count(value("rehearse"), "rehearse"),
        run_beside=_duration(value("run_beside"), "run_beside"),
        catch_up_timeout=_duration(value("catch_up_timeout"), "catch_up_timeout"),
        drain_timeout=optional_seconds(value("drain_timeout"), "drain_timeout", settings.drain_timeout),
        submit_timeout=optional_seconds(value("submit_timeout"), "submit_timeout", settings.submit_timeout),
        verify_for=verify_for(value("verify_for"), "verify_for"),
        check_only=truth(value("check_only"), "check_only"),
        asked_by=asked_by,
    )


def _duration(value: Any, what: str) -> float | None:
    """Seconds, or None where there is nothing to wait for."""
    return optional_seconds(value, what, 0.0) or None


def count(value: Any, what: str) -> int:
    """A number, perhaps as text; blank: 0."""
    text = optional_text(value) or "0"
    try:
        return int(text)
    except ValueError as error:
        raise InvalidInputError(f"{what} must be a whole number, not {text!r}") from error
