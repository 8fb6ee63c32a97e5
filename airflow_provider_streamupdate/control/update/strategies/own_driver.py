"""Plan and check a new version with the driver that will run it, so that an update starts only one driver."""

from __future__ import annotations

from collections.abc import Callable

from ....core.errors import DriverError, WaitTimeoutError
from ....core.registry.deployment import FINAL_STATES, DriverState
from ....core.registry.registry import AppRegistry
from ....core.snapshots.plan_answer import PlanAnswer, read_answer
from ...operations.plan import TIMEOUT_SECONDS, Planned, planned
from ...operations.stop import stop_deployment
from ...operations.version import NewVersion, stored_spec
from ...waiting import wait_for
from ..update import Update


def plan(update: Update, start: Callable[[Update], object], drop: Callable[[Update], None]) -> Planned:
    """Return the plan and report from the new version's driver; `start` starts that driver unless it runs, `drop` drops
    what an earlier try has made.

    Raises the error that the driver found in the application; DriverError when it died without an answer;
    WaitTimeoutError after TIMEOUT_SECONDS.
    """
    if _is_other(update):
        drop(update)
    start(update)
    registry, drivers, new = update.registry, update.drivers, update.record.new

    def poll() -> PlanAnswer | None:
        state = drivers.state(new)  # read before the answer: the driver may answer and then end
        answer = read_answer(registry, new)
        if answer is None and state in FINAL_STATES:
            raise DriverError(f"nothing was stopped or changed: {drivers.death(new, DriverState(state))}")
        return answer

    file = update.options.application.file
    try:
        return planned(wait_for(poll, f"the plan of {file}", TIMEOUT_SECONDS))
    except WaitTimeoutError as error:
        raise WaitTimeoutError(
            f"planning {file} took more than {TIMEOUT_SECONDS:g} s; nothing was stopped or changed, and "
            f"{update.record.old} keeps running. Try again when the machine or the cluster is less busy.\n"
            f"{drivers.last_lines(new)}"
        ) from error


def _is_other(update: Update) -> bool:
    """Return whether an earlier try of the update stored the deployment with other agreements or renames."""
    spec, version = stored_spec(update.registry, update.version), update.version
    return spec is not None and (spec.agree, spec.renames) != (version.agree, dict(version.renames or {}))


def drop(update: Update) -> None:
    """Drop the new version's deployment and its driver.

    Does nothing when there is no such deployment, it has taken over, or it has built a checkpoint.
    """
    registry, version = update.registry, update.version
    if update.pending and stored_spec(registry, version) is not None and not _has_restored(registry, version):
        stop_deployment(update.context, update.app, version.deployment)
        registry.remove_deployment(version.deployment)


def _has_restored(registry: AppRegistry, version: NewVersion) -> bool:
    return bool(registry.deployment_folder(version.deployment).names("restored"))
