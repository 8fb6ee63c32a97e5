"""The settings of two deployments, compared: parameters, Spark configuration, environment and the rest."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

import attrs

from ...core import clock
from ...core.registry.application import Application
from ...core.registry.deployment import DeploymentSpec
from ...core.registry.hiding import Hiding
from ...core.registry.in_flight import differences
from ...core.registry.registry import AppRegistry

HIDDEN_CHANGED = ", another"


@attrs.frozen(kw_only=True)
class Changed:
    """part: parameters, conf, environment or application; before, after: None: not given. Secrets are hidden."""

    part: str
    key: str
    before: str | None
    after: str | None


def settings_diff(old: DeploymentSpec, new: DeploymentSpec) -> tuple[Changed, ...]:
    """Return the differences, sorted by part and key."""
    one, other, hiding = old.application, new.application, Hiding.of([old, new])
    return (
        *changed("parameters", one.params, other.params, hiding),
        *changed("conf", one.conf, other.conf, hiding),
        *changed("environment", one.env_vars, other.env_vars, hiding),
        *changed("application", _others(one), _others(other), hiding),
    )


def _others(application: Application) -> dict[str, str]:
    arguments = {"arguments": shlex.join(application.script.arguments)} if application.script else {}
    return {"master": application.master or "", **arguments}


def changed(part: str, before: Mapping[str, str], after: Mapping[str, str], hiding: Hiding) -> tuple[Changed, ...]:
    """The keys whose values differ. Of a secret it is told that it differs, and nothing else."""
    shown, made = (hiding.settings(before), hiding.settings(after)), list[Changed]()
    for key in differences(dict(before), dict(after)):
        was, now = (values.get(key) for values in shown)
        made.append(Changed(part=part, key=key, before=was, after=f"{now}{HIDDEN_CHANGED}" if was == now else now))
    return tuple(made)


def as_of(registry: AppRegistry, spec: DeploymentSpec, at: str | None) -> DeploymentSpec:
    """The deployment with the parameters it had at a moment (ISO; None: at its start), without later changes."""
    changes = registry.changes(spec.deployment)
    if not changes:
        return spec
    params = changes[0].before
    for change in changes:
        if at is not None and clock.parse(change.at) <= clock.parse(at):
            params = change.request.params
    return attrs.evolve(spec, application=attrs.evolve(spec.application, params=params))
