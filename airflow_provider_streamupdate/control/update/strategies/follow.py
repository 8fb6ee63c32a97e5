"""Strategy ``follow``: the new version runs along, muted, and takes over without a restore or a start."""

from __future__ import annotations

import functools

from ....core.coordination.following import unfollowable
from ....core.errors import RefusedError
from ....core.plan.plan import AppPlan
from ...operations.plan import Planned
from ..update import Update
from . import own_driver
from .standby import Standby, stand_by, start


class Follow(Standby):
    """A standby whose queries already run: on their own copy of the state, one batch behind the old version's, into
    nothing. The pause is an ordinary interval between two batches, whatever the size of the state."""

    name = "follow"
    summary = "the new version runs the old one's batches along, muted, until it takes over (twice the work until then)"

    def plan(self, update: Update) -> Planned:
        return own_driver.plan(update, functools.partial(start, follow=True))

    def check_plan(self, update: Update, plan: AppPlan) -> None:
        if problems := unfollowable(plan):
            raise RefusedError(f"strategy follow cannot be used: {'; '.join(problems)}; use strategy standby")

    def get_ready(self, update: Update) -> None:
        stand_by(update, follow=True)
