"""The report of a driver about its application, before it runs it."""

from __future__ import annotations

import traceback

import attrs

from ..compatibility.report import CompatibilityReport
from ..errors import StreamUpdateError, describe
from ..plan.plan import AppPlan
from ..registry.hiding import Hiding
from ..registry.registry import AppRegistry
from ..serde import read_file, to_json
from .rehearsal import Rehearsal

PLANNED = "planned.json"  # in the deployment's folder


@attrs.frozen(kw_only=True)
class PlanError:
    """An error of an application, as its driver reports it."""

    type: str  # a class of `core.errors`, by name, or ``ApplicationError``
    message: str
    traceback: str | None = None  # the whole one, where the error was not this package's own; None elsewhere

    @classmethod
    def of(cls, error: BaseException, hiding: Hiding | None = None) -> PlanError:
        kind = type(error).__name__ if isinstance(error, StreamUpdateError) else "ApplicationError"
        hiding, foreign = hiding or Hiding(), error.__cause__ or error
        whole = None if isinstance(foreign, StreamUpdateError) else "".join(traceback.format_exception(error))
        return cls(type=kind, message=hiding.text(describe(error)), traceback=hiding.text(whole) if whole else None)


@attrs.frozen(kw_only=True)
class PlanAnswer:
    """The answer of a plan-only driver, or of one that gets ready to run a new version."""

    plan: AppPlan | None = None  # None with an error
    # whether it can go on from the saved state; None when it was not compared with any
    report: CompatibilityReport | None = None
    rehearsal: Rehearsal | None = None  # what it did when it was to rehearse
    warnings: tuple[str, ...] = ()  # of parameters that no query reads
    error: PlanError | None = None  # what is wrong with the application
    checkpoints: dict[str, str] = attrs.field(factory=dict)  # of a script that adopts its own, by query


def write_answer(app: AppRegistry, deployment: str, answer: PlanAnswer) -> None:
    """Write the answer of the driver that gets ready for a deployment."""
    app.deployment_folder(deployment).write(PLANNED, to_json(answer))


def read_answer(app: AppRegistry, deployment: str) -> PlanAnswer | None:
    """Read the answer; None when the driver that was started last has not written it yet."""
    return read_file(app.deployment_folder(deployment), PLANNED, PlanAnswer)
