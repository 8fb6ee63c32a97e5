"""Updates that nobody goes on with: their records are ended, so that what they left standing by ends, and nobody is
told to continue them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

import attrs

from ...core import clock
from ...core.errors import StreamUpdateError
from ...core.registry.registry import AppRegistry
from ...core.registry.update import SUPERSEDED, UpdateRecord


def supersede(registry: AppRegistry, records: Iterable[UpdateRecord], now: str) -> None:
    """End these records. now: what was done instead of continuing them, in words.

    The caller holds the lease, so no process works on any of them.
    """
    for record in records:
        why = f"it was not continued, and {now}"
        registry.set_update(attrs.evolve(record, outcome=SUPERSEDED, reason=why, ended_at=clock.now()))


def supersede_left_behind(registry: AppRegistry, now: str) -> None:
    """End the records of updates that are not about what runs any more, since both of their versions were replaced
    without them. Fails nothing: what runs does so already, and a record that stays open is under way no more."""
    with contextlib.suppress(StreamUpdateError):
        current = registry.current_id()
        left = [u for u in registry.updates() if u.outcome is None and not u.under_way(current)]
        supersede(registry, left, now)
