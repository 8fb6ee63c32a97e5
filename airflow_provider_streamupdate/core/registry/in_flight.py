"""Changes in flight: a running deployment goes on with other values of parameters that its app declares reloadable, in
the same session and on the same checkpoint. What may change so, and the record of it."""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from ..compatibility.report import CARRIED, LOSS, CompatibilityReport
from ..errors import RefusedError
from ..names import named
from ..plan.plan import AppPlan, QueryPlan
from .application import Application

_OTHERWISE = "use strategy standby or restart"
_PARTS = {
    "code": "the code",
    "py_files": "the Python files",
    "files": "the data files",
    "conf": "the Spark configuration",
    "env_vars": "the environment",
    "master": "the Spark master",
}


@attrs.frozen(kw_only=True)
class ChangeRequest:
    """What a driver is asked for. id: the update's; params: all parameters from now on; digest: the application's with
    them; asked_by: a person or a task; agree: names of the losses that are agreed to."""

    id: str = attrs.field(validator=named("change"))
    params: dict[str, str]
    digest: str
    asked_by: str
    agree: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class ParameterChange:
    """A change that was made: ``deployments/<id>/changes/<number>.json``, created exclusively by the driver between the
    last batch with the old values and the first with the new ones. The last one counts, for a driver that is started
    later as well. before, digest_before: what it goes back to. undoes: why, when it takes the change before it back."""

    number: int
    request: ChangeRequest
    before: dict[str, str]
    digest_before: str
    at: str
    undoes: str | None = None

    @property
    def changed(self) -> dict[str, tuple[str | None, str | None]]:
        """Parameter -> its values before and after."""
        return differences(self.before, self.request.params)


def differences(old: dict[str, str], new: dict[str, str]) -> dict[str, tuple[str | None, str | None]]:
    """The keys whose values differ, with both (None: not given)."""
    return {k: (old.get(k), new.get(k)) for k in sorted({*old, *new}) if old.get(k) != new.get(k)}


def check_applications(old: Application, new: Application, reloadable: Iterable[str]) -> None:
    """RefusedError when more than reloadable parameters differ."""
    before, after = old.content(), new.content()
    if others := [name for part, name in _PARTS.items() if before[part] != after[part]]:
        raise RefusedError(
            f"not only parameters differ from the running deployment's, but also {', '.join(others)}: give these again "
            f"as they were submitted, or {_OTHERWISE}"
        )
    check_parameters(old.params, new.params, reloadable)


def check_parameters(old: dict[str, str], new: dict[str, str], reloadable: Iterable[str]) -> None:
    """RefusedError when another parameter than a reloadable one differs."""
    known = set(reloadable)
    if fixed := [key for key in differences(old, new) if key not in known]:
        raise RefusedError(
            f"parameter {', '.join(fixed)} cannot change in flight: the app declares "
            f"{', '.join(sorted(known)) or 'nothing'} reloadable (StreamingApp(..., reloadable=...)); {_OTHERWISE}"
        )


def check_plans(old: AppPlan, new: AppPlan, report: CompatibilityReport) -> None:
    """RefusedError when the checkpoint would not do for the new plan as it lies there: Spark finds state and offsets by
    position, so that nothing may come, go, move or be rewritten. `report`: of comparing the two."""
    problems = list(report.problems)
    problems += [
        f"{i.thing} {i.name}: {i.verdict}: {i.reason}"
        for i in report.items
        if not i.blocks and i.verdict not in (CARRIED, LOSS)
    ]
    moved = [q.name for q in new.queries if (was := old.query(q.name)) is not None and _places(was) != _places(q)]
    problems += [f"query {name}: its stages or sources are at other places" for name in moved]
    if problems:
        raise RefusedError(
            f"with these parameters the plan is another one: {'; '.join(problems)}; nothing was stopped: {_OTHERWISE}"
        )


def _places(query: QueryPlan) -> tuple[object, ...]:
    return ([(s.name, s.operator_id, s.stores) for s in query.stages], query.source_order)
