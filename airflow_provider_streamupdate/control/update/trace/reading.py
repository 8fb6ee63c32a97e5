"""Read what an update's trace is made of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ....core import clock
from ....core.errors import CorruptError, NotFoundError
from ....core.formats import EVENT
from ....core.registry.events import latest_lines
from ....core.registry.hiding import Hiding
from ....core.registry.registry import AppRegistry
from ....core.registry.update import UpdateRecord
from ....core.serde import parse_json
from .driver_parts import LAUNCHED
from .span import Trace
from .spans import trace_of


def read(registry: AppRegistry, deployment: str) -> tuple[UpdateRecord, Trace]:
    """Return an update's record and its trace, without secrets: a trace is sent elsewhere. That of an update under way
    lasts until now.

    deployment: the one that the update brings in, or its id. NotFoundError when there is no such update
    """
    record, hiding = registry.update(deployment), Hiding.in_app(registry)
    if record is None:
        known = ", ".join(each.new for each in registry.updates()[-5:]) or "none"
        raise NotFoundError(
            f"app {registry.name} has no update to {deployment!r}; give the deployment of one of its updates "
            f"(the newest: {known})"
        )
    names = [name for name in (record.old, record.new) if name is not None]
    events = {name: [hiding.event(event) for event in _events(registry, name)] for name in names}
    record, rollbacks = hiding.update(record), [hiding.rollback(rollback) for rollback in registry.rollbacks()]
    return record, trace_of(record, rollbacks, events, clock.utc_now())


def _events(registry: AppRegistry, deployment: str) -> list[Mapping[str, Any]]:
    """The events of a deployment's drivers, oldest first, and before them the last launch. A line that is none is left
    out: nothing depends on them."""
    path, found = f"deployments/{deployment}/events.jsonl", list[Mapping[str, Any]]()
    if launch := registry.launch(deployment):
        found.append({"event": LAUNCHED, "at": launch.launched_at, "epoch": launch.epoch})
    for line in latest_lines(registry.deployment_folder(deployment)):
        try:
            event = EVENT.understood(parse_json(line, path, finite=True), path)
        except CorruptError:
            continue
        if isinstance(event, dict) and isinstance(event.get("epoch"), int | None):
            found.append(event)
    return found
