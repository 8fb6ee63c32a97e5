"""A release: the version of an app that should be running, and whether an update to it is needed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .control.update.options import OPTIONS
from .core.coordination import lease
from .core.errors import InvalidInputError
from .core.names import check_keys, check_name
from .core.registry.application import Application
from .core.registry.deployment import FINISHED, RUNNING
from .core.registry.update import ROLLED_BACK
from .hooks.templated_values import text_list
from .hooks.update_options import APPLICATION_FIELDS, application_from

if TYPE_CHECKING:
    from .control.client import StreamUpdateClient

# What describes a release; the first two are required, the rest are as for `stream_update`.
FIELDS = ("app", *APPLICATION_FIELDS, *(option.argument for option in OPTIONS if option.in_release))


def read_release(path: str) -> dict[str, Any]:
    """Return a release's description from a JSON file. Relative paths in it start at the file's folder."""
    file = Path(path)
    try:
        described = json.loads(file.read_text())
    except (OSError, ValueError) as error:
        raise InvalidInputError(f"release file {path} cannot be read as JSON: {error}") from error
    return describe(described, base=file.parent, where=f"release file {path}")


def describe(described: Any, base: Path | None = None, where: str = "the release") -> dict[str, Any]:
    """Return all FIELDS of a description, checked. InvalidInputError names missing and unknown fields."""
    if not isinstance(described, Mapping):
        raise InvalidInputError(
            f"{where} must be a JSON object with {', '.join(FIELDS)}, not a {type(described).__name__}"
        )
    check_keys(described, FIELDS, where)
    if missing := [field for field in FIELDS[:2] if not described.get(field)]:
        raise InvalidInputError(f"{where} lacks {', '.join(missing)}; {' and '.join(FIELDS[:2])} are required")
    release = {field: described.get(field) for field in FIELDS}
    check_name("app", release["app"])
    release["application"] = _resolved(release["application"], base)
    for field in ("py_files", "files"):
        release[field] = [_resolved(path, base) for path in text_list(release[field], field)]
    return release


def application_of(release: Mapping[str, Any]) -> Application:
    """Return the application of a release, after the cheap checks."""
    application = application_from(release["application"], release, release["app"])
    application.check()
    return application


def release_needed(client: StreamUpdateClient, release: Mapping[str, Any], try_again: bool = False) -> tuple[bool, str]:
    """Return whether an update to the release is needed, and why or why not.

    try_again: also if this release was rolled back before. A refused one is tried every time: nothing was stopped for
        it, and the failed run shows it.
    """
    app, digest = release["app"], application_of(release).digest()
    if app not in client.apps():
        return (
            False,
            f"app {app} was never submitted; submit it once by hand (StreamSubmitOperator or streamupdate submit)",
        )
    status = client.status(app)
    if status.update is not None:
        folder = client.registry.app(app).folder
        if status.update.digest == digest and not lease.held(folder, lease.read(folder)):
            return True, f"the update of app {app} to this release ({status.update.new}) was interrupted: continuing it"
        return False, f"an update of app {app} to {status.update.new} is under way: leaving it alone"
    if status.spec is not None and status.spec.digest == digest:
        return False, f"app {app} has the released version already (deployment {status.spec.deployment})"
    if status.state not in (RUNNING, FINISHED):
        return (
            False,
            f"app {app} is {status.state}; a schedule does not start what was stopped: "
            + (status.outage.help if status.outage else f"streamupdate restart {app} continues where it stopped"),
        )
    for spec in client.deployments(app):
        record = client.registry.app(app).update(spec.deployment)
        if spec.digest == digest and record is not None and record.outcome == ROLLED_BACK and not try_again:
            return False, (
                f"this release of app {app} was rolled back before (deployment {spec.deployment}: "
                f"{record.reason or 'no reason kept'}); change it, or trigger this DAG with try_again"
            )
    return True, f"app {app} runs another version than the released one: updating it"


def _resolved(path: Any, base: Path | None) -> str:
    return str(base / path) if base and "://" not in str(path) else str(path)
