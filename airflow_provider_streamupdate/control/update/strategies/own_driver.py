"""The check of a new version by the driver that will run it, so that an update starts one driver."""

from __future__ import annotations

from ....core.errors import DriverError
from ....core.registry.deployment import FINAL_STATES, DriverState
from ....core.registry.registry import AppRegistry
from ....core.snapshots.plan_answer import PlanAnswer, read_answer
from ...operations.plan import TIMEOUT_SECONDS, Planned, planned
from ...operations.stop import stop_deployment
from ...operations.version import NewVersion, stored_spec
from ...waiting import wait_for
from ..update import Update


def wait_planned(update: Update) -> Planned:
    """What the new version's driver answers, which was started. Raises what it found wrong with the application,
    DriverError when it died without an answer, WaitTimeoutError."""
    registry, drivers, new = update.registry, update.drivers, update.record.new

    def poll() -> PlanAnswer | None:
        state = drivers.state(new)  # before the answer, which may be its last word
        answer = read_answer(registry, new)
        if answer is None and state in FINAL_STATES:
            raise DriverError(f"nothing was stopped or changed: {drivers.death(new, DriverState(state))}")
        return answer

    return planned(wait_for(poll, f"the plan of {update.options.application.file}", TIMEOUT_SECONDS))


def drop_other(update: Update) -> None:
    """Drop a deployment that an earlier try of the update made, where that was asked for with other agreements."""
    spec, version = stored_spec(update.registry, update.version), update.version
    if spec is not None and (spec.agree, spec.renames) != (version.agree, dict(version.renames or {})):
        drop(update)


def drop(update: Update) -> None:
    """Drop the new version's deployment, with its driver; nothing when there is none, or it has built a checkpoint."""
    registry, version = update.registry, update.version
    if stored_spec(registry, version) is not None and not _has_restored(registry, version):
        stop_deployment(update.context, update.app, version.deployment)
        registry.remove_deployment(version.deployment)


def _has_restored(registry: AppRegistry, version: NewVersion) -> bool:
    return bool(registry.deployment_folder(version.deployment).names("restored"))
