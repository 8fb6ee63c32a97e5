"""The port between the agent's lifecycle and what runs an app's queries."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from typing import Protocol

import attrs

from ...core.compatibility.report import CompatibilityReport
from ...core.difference.comparison import NEW, Comparison
from ...core.plan.plan import AppPlan
from ...core.registry.deployment import QueryStatus
from ...core.registry.in_flight import ChangeRequest
from ..restore.saved_state import SavedState


@attrs.frozen(kw_only=True)
class Session:
    """An engine's session, as a heartbeat reports it. ui: the address of its pages (None: it has none)."""

    ui: str | None
    application_id: str
    version: str


class Followable(Protocol):
    """Runs the batches of the running deployment on a copy of its state, muted, until it takes over."""

    def unfollowable(self, saved: SavedState) -> list[str]:
        """Why the running deployment, whose state `saved` is, cannot be followed; empty where it can."""
        ...

    def follow(
        self,
        find: Callable[[], SavedState],
        committed: bool = False,
        comparison: Comparison | None = None,
        version: str = NEW,
    ) -> None:
        """Build the checkpoints from what the running deployment has committed, and get ready to run on them, muted,
        the batches that it logs from then on. RefusedError where that cannot be done.

        find: returns that state
        committed: run a batch only once the running deployment has committed it: its driver may die in one
        comparison: where the rows of the queries asked for are to be recorded, as `version`'s; the new version tells
            what its author expects to differ, too
        """
        ...

    def compare(self, comparison: Comparison) -> None:
        """Compare rows that both versions have recorded and that were not compared, and note what differs. Of many
        batches the next call compares the rest."""
        ...

    def keep_up(self) -> bool:
        """Begin what the running deployment has logged, without waiting for its end. Whether at most one batch is
        left. Raises the error of a query that failed."""
        ...

    def followed(self) -> frozenset[str]:
        """The queries that follow those of the running deployment, so that they need no restore. A query that had not
        committed a batch when that began is not among them."""
        ...

    def queries_with_unclear_commit(self, saved: SavedState) -> frozenset[str]:
        """Return the following queries whose batch in flight may or may not be in their sink. Their files in `saved`
        are needed to find out."""
        ...

    def catch_up(self, saved: SavedState) -> None:
        """Run what is left of the batches that the other deployment, which runs none any more, has ended with (`saved`)
        and wait for it. `start` then lets the queries go on by themselves, first of all with a batch in flight. A query
        whose sink may have that batch, and would skip it without making its state, is left for `restore`."""
        ...


class Reconfigurable(Protocol):
    """Continues with other parameters in the same session."""

    def has_settled(self, since: Mapping[str, int]) -> bool:
        """Whether every query has committed a batch after those in `since`, or has looked for data and found none.
        Raises the error of one that failed."""
        ...

    def rebuild(self, request: ChangeRequest) -> None:
        """Build the queries with other parameters, beside those that run, and keep them for `replace`. RefusedError,
        with nothing changed, when they cannot continue on the committed checkpoint unchanged."""
        ...

    def replace(self) -> None:
        """Make the next start run the rebuilt queries. The queries are drained or stopped."""
        ...

    def put_back(self) -> None:
        """Make the next start run the queries from before `rebuild`, in the session as it was."""
        ...


class QueryEngine(Followable, Reconfigurable, Protocol):
    """Runs the queries of one app for one deployment, on the deployment's checkpoints.

    The lifecycle calls, in this order: `open`, `on_termination`, `build`, `make_plan`; for a standby
    `check_restorable`, `used_beyond`, then `practise` and `bring_ahead` or, for one that follows, `follow`, and
    `keep_up` again and again, and `catch_up`; with saved state `restore`; `skip_used_batch_ids`,
    `check_start`, `start`. From then on one thread starts, drains, stops and rebuilds, while another asks for
    `progress` and `ended`. Every call may raise what the engine raises, which ends the driver, unless stated otherwise
    here.

    It marks the boundaries of an update that it reaches with `state.boundaries`: draining, drained, checkpoint-built,
    checkpoint-marked, first-commit-seen.
    """

    @property
    def app(self) -> str:
        """The app's name, as its application file says."""
        ...

    @property
    def plan(self) -> AppPlan:
        """The plan of the queries that the next start runs."""
        ...

    def open(self, title: str, practises: bool = False) -> Session:
        """Start the session. practises: `practise` comes later: begin with what needs no plan, beside what comes
        first."""
        ...

    def on_termination(self, then: Callable[[], None]) -> None:
        """Call `then`, in a thread of its own, when the cluster has the engine's process end, where no signal tells
        this process."""
        ...

    def build(self, params: Mapping[str, str]) -> tuple[str, ...]:
        """Build the queries with these parameters and return their names. Warn of parameters that no query reads."""
        ...

    @property
    def warnings(self) -> tuple[str, ...]:
        """The warnings given so far."""
        ...

    def make_plan(self, recorded: Mapping[str, Mapping[str, str]]) -> AppPlan:
        """The plan of the built queries. recorded: the configuration that each query will find in its offset log."""
        ...

    def check_restorable(self, saved: SavedState, report: CompatibilityReport) -> CompatibilityReport:
        """The report of comparing the plan with `saved`, with what the engine itself refuses. Nothing lasting is
        written."""
        ...

    def practise(self, saved: SavedState) -> Generator[None, None, None]:
        """Do what the restore and the first batches will do, on scratch, so that they are fast; the deployment's
        checkpoints and the app's sinks are not touched. In parts of a few seconds: after each one the caller may close
        it. Raises what the restore would raise."""
        ...

    def bring_ahead(self, find: Callable[[], SavedState]) -> None:
        """Copy state to the checkpoints ahead of the restore, which would otherwise have to do it. find: returns the
        present state of the running deployment. Errors are left to the restore."""
        ...

    def used_beyond(self, parent: str) -> bool:
        """Whether a sink may have batch ids that `parent` has not logged, so that `skip_used_batch_ids` has to look."""
        ...

    def restore(self, saved: SavedState) -> None:
        """Build the checkpoints from `saved`, and mark each one that is complete. Marked ones are left alone, all
        others are rebuilt."""
        ...

    def skip_used_batch_ids(self) -> Mapping[str, tuple[int, int]]:
        """Let no query use batch ids that its sink has from another version and would skip. Return each changed query
        with the batch after which it continues, and that batch's new id. No query runs."""
        ...

    def check_start(self, agree: Iterable[str]) -> None:
        """Raise IncompatibleError when a start without state is refused."""
        ...

    def start(self) -> None:
        """Start every query on its checkpoint; those that run already are left alone. After a drain they continue where
        they were."""
        ...

    def drain(self) -> None:
        """Let every query finish the batch in flight and begin no other, and wait for that. Raise the error of a failed
        query."""
        ...

    def stop(self) -> None:
        """Stop at once, even during a batch. Raises nothing."""
        ...

    def progress(self) -> dict[str, QueryStatus]:
        """Each query's status. A batch counts once it is in the commit log."""
        ...

    def committed(self) -> Mapping[str, int]:
        """The last committed batch of each query, -1 before the first."""
        ...

    def ended(self) -> bool:
        """Whether all queries ended by themselves. Raises the error of one that failed."""
        ...

    def ended_part(self, error: BaseException) -> str | None:
        """Return which part of the engine has ended, in words, if that caused the error; else None. The call may wait
        for the end."""
        ...
