"""Changes in flight: a running deployment continues with other values of parameters that its app declares reloadable,
in the same session and on the same checkpoint. This module says what may change in this way, and records it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import attrs

from .. import clock
from ..compatibility.compatibility import migrations
from ..compatibility.report import CompatibilityReport
from ..compatibility.verdict import CARRIED, LOSS
from ..errors import RefusedError
from ..names import named
from ..plan.plan import AppPlan, QueryPlan
from ..redaction import hide, redacted, secret_values
from .application import Application

_OTHERWISE = "use strategy standby or restart"
_PARTS = {
    "code": "the code",
    "arguments": "the script's arguments",
    "own_files": "the files beside the script",
    "py_files": "the Python files",
    "files": "the data files",
    "conf": "the Spark configuration",
    "env_vars": "the environment",
    "master": "the Spark master",
}
_NOT_SHOWN = ("code", "arguments", "own_files")


@attrs.frozen(kw_only=True)
class ChangeRequest:
    """The request to a driver to continue with other parameters."""

    id: str = attrs.field(validator=named("change"))  # the update's
    params: dict[str, str]  # all of them, from now on
    digest: str  # of the application with these parameters
    asked_by: str  # a person or a task
    agree: tuple[str, ...] = ()  # names of the losses that are agreed to


@attrs.frozen(kw_only=True)
class ParameterChange:
    """A change that was made: ``deployments/<id>/changes/<number>.json``. The driver creates it exclusively between the
    last batch with the old values and the first with the new ones. The last change counts, also for a driver that is
    started later."""

    number: int
    request: ChangeRequest
    before: dict[str, str]  # all parameters before the change
    digest_before: str
    at: str = attrs.field(validator=clock.is_moment)
    undoes: str | None = None  # the reason, when it takes back the change before it

    @property
    def changed(self) -> dict[str, tuple[str | None, str | None]]:
        """Return {parameter: its values before and after}."""
        return differences(self.before, self.request.params)


def kept_out(id: str) -> str:
    """Return the id of the record that keeps the change `id` out: it changes nothing, and has its number."""
    return f"{id}-kept-out"


def in_force(changes: Iterable[ParameterChange]) -> ParameterChange | None:
    """Return the last change that no driver has taken back; None when there is none. Oldest first."""
    stands: list[ParameterChange] = []
    for change in changes:
        if change.undoes is None:
            stands.append(change)
        elif stands:
            stands.pop()
    return stands[-1] if stands else None


def differences(old: dict[str, str], new: dict[str, str]) -> dict[str, tuple[str | None, str | None]]:
    """The keys whose values differ, with both (None: not given)."""
    return {k: (old.get(k), new.get(k)) for k in sorted({*old, *new}) if old.get(k) != new.get(k)}


def check_applications(old: Application, new: Application, reloadable: Iterable[str]) -> None:
    """Raise RefusedError when anything besides reloadable parameters differs."""
    before, after = old.content(), new.content()
    differ = [part for part in _PARTS if before.get(part) != after.get(part)]
    if differ:
        secrets = secret_values(*(part for a in (old, new) for part in a.settings))
        others = [
            _PARTS[p] + ("" if p in _NOT_SHOWN else _values(before.get(p), after.get(p), secrets)) for p in differ
        ]
        raise RefusedError(
            f"besides parameters, these differ from the running deployment's: {', '.join(others)}; leave out what "
            f"is to stay as it is, or {_OTHERWISE}"
        )
    check_parameters(old.params, new.params, reloadable)


def _values(old: Any, new: Any, secrets: tuple[str, ...]) -> str:
    """Return both values, where they can be shown: settings, names of files, the master."""
    if isinstance(old, dict):
        changed = differences(old, new)
        sides = ({key: values[side] or "not given" for key, values in changed.items()} for side in (0, 1))
        was, now = (redacted(side, secrets) for side in sides)
        return f" ({', '.join(f'{key} is {was[key]}, now {now[key]}' for key in changed)})"
    if isinstance(old, list):
        was_named, now_named = (", ".join(name for name, _ in files) or "none" for files in (old, new))
        return "" if was_named == now_named else f" ({was_named}, now {now_named})"
    return hide(f" ({old or 'not given'}, now {new or 'not given'})", secrets)


def check_parameters(old: dict[str, str], new: dict[str, str], reloadable: Iterable[str]) -> None:
    """Raise RefusedError when a parameter differs that is not reloadable."""
    known = set(reloadable)
    if fixed := [key for key in differences(old, new) if key not in known]:
        raise RefusedError(
            f"parameter {', '.join(fixed)} cannot change in flight: the app declares "
            f"{', '.join(sorted(known)) or 'nothing'} reloadable (StreamingApp(..., reloadable=...)); {_OTHERWISE}"
        )


def check_plans(old: AppPlan, new: AppPlan, report: CompatibilityReport) -> None:
    """Raise RefusedError when the new plan cannot continue on the checkpoint unchanged: Spark finds state and offsets
    by position, so nothing may be added, removed, moved or rewritten. `report`: the comparison of the two plans."""
    problems = list(report.problems)
    problems += [
        f"{i.thing} {i.name}: {i.verdict}: {i.reason}"
        for i in report.items
        if not i.blocks and i.verdict not in (CARRIED, LOSS)
    ]
    problems += [
        f"stage {q.name}/{name}: its state would be rewritten"
        for q in new.queries
        if (was := old.query(q.name)) is not None
        for name in migrations(was, q)
    ]
    moved = [q.name for q in new.queries if (was := old.query(q.name)) is not None and _places(was) != _places(q)]
    problems += [f"query {name}: its stages or sources have other positions" for name in moved]
    if problems:
        raise RefusedError(
            f"with these parameters the plan changes: {'; '.join(problems)}; nothing was stopped: {_OTHERWISE}"
        )


def _places(query: QueryPlan) -> tuple[object, ...]:
    return ([(s.name, s.operator_id, s.stores) for s in query.stages], query.source_order)
