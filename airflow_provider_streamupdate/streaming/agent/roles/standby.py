"""Drivers that get ready beside the running deployment: one takes over from it, one runs its queries in parallel."""

from __future__ import annotations

import contextlib

import attrs

from ....core import clock
from ....core.boundaries import boundary
from ....core.coordination.lease import held_for
from ....core.difference.comparison import NEW, Comparison
from ....core.errors import RefusedError, StorageError
from ...restore.saved_state import SavedState
from ..context import DriverContext
from ..planning import Start, answer_plan
from .role import Waiting


class Standby(Waiting):
    """The new version of an update: it takes over when the old one hands over.

    batches: until then, follow from so many of the running deployment's last batches on; 0: do not follow
    """

    waits = True
    practises = True  # it gets as fast as it can before its turn
    only_committed = False  # follow a batch only once the running deployment has committed it

    def __init__(self, driver: DriverContext, batches: int = 0) -> None:
        super().__init__(driver)
        self.batches = batches
        self.follows = batches > 0
        self._next_look = 0.0

    def prepare(self) -> Start | None:
        with self.driver.patiently():
            start = answer_plan(self.driver, self.saved_state.at_first, self._check_followable, self.practises)
            # Known before the hand-over, since every look there is part of the pause.
            later_ids = self.driver.engine.used_beyond(str(self.driver.spec.parent))
            self._get_ready(start)
        if not self.wait():
            return None
        with self.driver.patiently():
            return attrs.evolve(start, saved=self._drained(), later_ids=later_ids, followed=self.follows)

    def begins(self) -> bool:
        """Whether its epoch has begun."""
        current = self.driver.app.current()
        return current is not None and current.epoch >= self.driver.epoch.number

    def poll(self) -> None:
        """Have the driver end when the update does not go on for which it stands by."""
        driver = self.driver
        if clock.monotonic() < self._next_look:
            return
        if (update := driver.app.update(driver.spec.deployment)) is None or update.outcome is not None:
            driver.end("the update it stood by for has ended")
        elif not held_for(driver.app.folder, driver.spec.deployment):
            driver.end("the app's lease for the update it stood by for is no longer held")
        self._next_look = clock.monotonic() + driver.pace.heartbeat

    def comparison(self) -> tuple[Comparison, str]:
        """Return where rows are recorded when they are to be compared, and as which version's."""
        return Comparison(self.driver.app.deployment_folder(self.driver.spec.deployment)), NEW

    def refusal(self, problems: str) -> str:
        """Return what to say when the running deployment cannot be followed."""
        return f"strategy follow cannot be used: {problems}; use strategy standby"

    def _check_followable(self, saved: SavedState) -> None:
        """Raise RefusedError with why the running deployment cannot be followed."""
        if not self.follows:
            return
        engine, problems = self.driver.engine, self.driver.engine.unfollowable(saved)
        if engine.used_beyond(str(self.driver.spec.parent)):
            problems.append(
                "a sink may have batch ids of another version that the running one has not logged, so that its batches "
                "cannot run under their own ids"
            )
        if problems:
            raise RefusedError(self.refusal("; ".join(problems)))

    def _get_ready(self, start: Start) -> None:
        """Do what can be done of the takeover before it."""
        engine = self.driver.engine
        if self.practises and self._practise(start):
            self.follows = False  # nobody runs whom it could follow
        if self.follows:  # after that: it follows from the state by then
            comparison, version = self.comparison()
            recorded = None if comparison.request() is None else comparison
            engine.follow(self._followed_state, self.only_committed, recorded, version)
            boundary("following")
        else:
            engine.bring_ahead(self.saved_state.running)
            boundary("practised")

    def _practise(self, start: Start) -> bool:
        """Get faster. Return whether the epoch has begun meanwhile: the running driver may have died."""
        assert start.saved is not None  # it continues from a deployment
        with contextlib.closing(self.driver.engine.practise(start.saved)) as parts:
            for _ in parts:
                with contextlib.suppress(StorageError):
                    if self.begins():
                        return True
        return False

    def _followed_state(self) -> SavedState:
        """Return the state to follow the running deployment from. The engine then makes this deployment's checkpoint
        anew."""
        saved = self.saved_state.before(self.batches)
        self.driver.epoch.check_replaced()  # this driver may have been without the storage for long
        return saved

    def _drained(self) -> SavedState:
        """Return what the deployment that this one takes over from has left: with the files of those queries that have
        to be restored."""
        if not self.follows:
            return self.saved_state.drained()
        engine = self.driver.engine
        followed = engine.followed()
        saved = self.saved_state.drained(without=followed)
        if unclear := engine.queries_with_unclear_commit(saved):
            saved = self.saved_state.drained(without=followed - unclear)
        return saved


class Parallel(Waiting):
    """The new version of a parallel update. Its epoch becomes the app's when it is promoted."""

    def __init__(self, driver: DriverContext) -> None:
        super().__init__(driver)
        driver.epoch.run_beside_parent()

    def prepare(self) -> Start | None:
        with self.driver.patiently():
            start = answer_plan(self.driver, self.saved_state.at_first)
        if not self.wait():
            return None
        with self.driver.patiently():
            return attrs.evolve(start, saved=self.saved_state.saved())
