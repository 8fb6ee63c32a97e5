"""The options of an update. Each is declared here only; the command line, DAGs and their form are generated from it.

This module imports little, since the command line reads it for every command's help.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from ...core.difference.limits import Limits, parse_ratio, parse_share
from ...core.difference.request import ComparisonRequest
from ...core.errors import InvalidInputError
from ...core.names import check_name
from ...core.registry.application import Application
from ...core.registry.update import DEFAULT_STRATEGY, RUN_FOR_SECONDS, RUN_FOR_VARIABLE, STRATEGY_SUMMARIES
from ...core.slo.limits import parse_slo
from .option import APPLICATION, FOLLOW_ONLY, PARALLEL_ONLY, STATE, STEPS, Kind, option, options_of

DRAIN_SECONDS = 300.0
SUBMIT_SECONDS = 300.0
CATCH_UP_SECONDS = 3600.0


@attrs.frozen(kw_only=True)
class UpdateOptions:
    """The options of an update, from the command line, from operators and from callers of the client.

    InvalidInputError for an invalid value; ApplicationError for an application that cannot be read.

    application: the new version
    asked_by: for the records of the update, its steps, a change in flight and a rollback; None: this process's user and
        host
    traceparent: the span that asks, as W3C Trace Context writes it; None: there is none
    the others: see their help
    """

    application: Application
    deployment: str | None = option(
        Kind.NAME,
        "Id of the new deployment, never used before.",
        blank="made from the application's digest",
        metavar="ID",
        argument="deployment_id",
        section=APPLICATION,
        in_release=False,
    )
    unset: tuple[str, ...] = option(
        Kind.NAMES,
        "Leave out something that the running version has: the NAME of a parameter, conf=KEY, env=NAME, or "
        "option=master, option=py-files, option=files. What is neither given nor unset stays as it is there.",
        default=(),
        examples=("max_files", "conf=spark.sql.shuffle.partitions"),
        section=APPLICATION,
        in_release=False,
    )
    reset: bool = option(
        Kind.SWITCH,
        "Take nothing over from the running version: what is not given is not set.",
        default=False,
        section=APPLICATION,
        in_release=False,
    )
    snapshot: str | None = option(
        Kind.NAME,
        "Start from this snapshot. Results since then are computed again.",
        blank="the snapshot that the old version ends with",
        argument="from_snapshot",
        title="Start from snapshot",
        section=STATE,
        in_release=False,
    )
    agree: tuple[str, ...] = option(
        Kind.NAMES,
        "Agree to a loss, by the name that the check gives it; or QUERY/STAGE:same=REASON, for a refused stage whose "
        "meaning is unchanged.",
        default=(),
        examples=("windows/daily",),
        title="Agreed losses",
        section=STATE,
    )
    renames: Mapping[str, str] | None = option(
        Kind.RENAMES,
        "Stages and sources with new names, QUERY/OLD: NEW.",
        examples=('{"windows/daily": "per_day"}',),
        flag="--rename",
        section=STATE,
    )
    strategy: str = option(
        Kind.CHOICE,
        "How the new version replaces the old one. With a given snapshot, restart is used in place of standby "
        "and follow.",
        default=DEFAULT_STRATEGY,
        choices=STRATEGY_SUMMARIES,
        section=STEPS,
    )
    rehearse: int = option(
        Kind.COUNT,
        "Rehearse this many batches of the new version before the old one is touched, on the given snapshot or the "
        "app's newest.",
        default=0,
        blank="no rehearsal",
        section=STEPS,
    )
    check_only: bool = option(
        Kind.SWITCH,
        "Stop after the check, and after the rehearsal if there is one. Nothing is written, stopped or started.",
        default=False,
        flag="",  # that is the command check
        section=STEPS,
        in_release=False,
    )
    run_beside: float | None = option(
        Kind.SECONDS,
        "With strategy parallel: the least time that both versions run side by side.",
        blank="until the new one has caught up",
        examples=("PT10M", "PT1H"),
        section=PARALLEL_ONLY,
    )
    catch_up_timeout: float | None = option(
        Kind.SECONDS,
        "With strategies follow and parallel: how long the new version may take to catch up with the old one, after "
        "run-beside if that is given.",
        blank=f"{CATCH_UP_SECONDS:g} s",
        examples=("PT10M", "PT2H"),
        title="Catch-up timeout",
        section=STEPS,
    )
    max_slower: str | None = option(
        Kind.NAME,
        "With strategy follow: how long the new version's batches may take (their median), as a multiple of the old "
        "one's. Above that the update fails before the old version is touched.",
        blank="it is told, and not limited",
        examples=("1.5",),
        metavar="RATIO",
        section=FOLLOW_ONLY,
    )
    max_rows_changed: str | None = option(
        Kind.NAME,
        "With strategy follow: how many more or fewer rows the new version may write, as a share of the old one's.",
        blank="it is told, and not limited",
        examples=("5%",),
        metavar="SHARE",
        section=FOLLOW_ONLY,
    )
    max_state_changed: str | None = option(
        Kind.NAME,
        "With strategy follow: how many more or fewer rows a stage of the new version may hold, as a share of the old "
        "one's.",
        blank="it is told, and not limited",
        examples=("5%",),
        metavar="SHARE",
        section=FOLLOW_ONLY,
    )
    diff: tuple[str, ...] = option(
        Kind.NAMES,
        "With strategy follow: compare the rows of this query, QUERY or QUERY=COLUMN,COLUMN with the columns by which "
        "rows are paired. A third driver runs the old version's batches along for that. Rows that differ and that the "
        "application does not expect to (expect_difference) fail the update.",
        default=(),
        examples=("counts=carrier,window",),
        section=FOLLOW_ONLY,
    )
    diff_tolerance: str | None = option(
        Kind.NAME,
        "With diff: by what share floating columns of paired rows may differ. A sum of doubles depends on the order in "
        "which Spark adds them, so that the same code may give another last digit.",
        blank="0, they must be the same",
        examples=("0.000001", "0.01%"),
        metavar="SHARE",
        section=FOLLOW_ONLY,
    )
    verify_for: float = option(
        Kind.SECONDS,
        "How long the new version must have run, and be healthy at the end, before it is promoted. It must also have "
        "committed two batches, unless there is no input.",
        default=RUN_FOR_SECONDS,
        examples=("PT2M", "PT10M"),
        section=STEPS,
        zero=True,
        variable=RUN_FOR_VARIABLE,
    )
    slo: tuple[str, ...] = option(
        Kind.NAMES,
        "How much worse than the app in the hours before the new version may do, while it is verified: NAME=LIMIT, "
        "NAME=off, or off for all. batch-time=3: a batch may take three times as long; lag-growth=10%: this share of "
        "the rows that come in may add to the lag; rows-out=50%: so many more or fewer rows out per row in; "
        "state-growth=100%: so many more rows may a stage gain per row in; nulls=10%: so much higher, in points, may "
        "the share of nulls in a column of the output be. These are the defaults. Above one of them for a minute, the "
        "update is rolled back.",
        default=(),
        examples=("batch-time=2", "rows-out=off"),
        metavar="NAME=LIMIT",
        title="Service levels",
        section=STEPS,
    )
    drain_timeout: float = option(
        Kind.SECONDS,
        "How long the old version's last batch may take.",
        default=DRAIN_SECONDS,
        examples=("PT1M", "PT5M", "PT30M"),
        section=STEPS,
    )
    submit_timeout: float = option(
        Kind.SECONDS,
        "How long the start of the new version may take, and its verification where that has no timeout of its own.",
        default=SUBMIT_SECONDS,
        flag="--timeout",
        in_release=False,
    )
    asked_by: str | None = None
    traceparent: str | None = None

    def __attrs_post_init__(self) -> None:
        self.application.check()
        if self.deployment is not None:
            check_name("deployment", self.deployment)
        if self.rehearse:
            from ..operations.rehearse import check_batches

            check_batches(self.rehearse)
        self.limits  # noqa: B018 (raises what is wrong with them)
        self.comparison_request  # noqa: B018
        parse_slo(self.slo)
        if self.unset and self.reset:
            raise InvalidInputError(
                "reset takes nothing over, so that there is nothing to unset; leave one of them out"
            )

    @property
    def limits(self) -> Limits:
        """The limits on differences between the versions' figures."""
        return Limits(
            max_slower=parse_ratio("max_slower", self.max_slower),
            max_rows_changed=parse_share("max_rows_changed", self.max_rows_changed),
            max_state_changed=parse_share("max_state_changed", self.max_state_changed),
        )

    @property
    def diff_keys(self) -> dict[str, tuple[str, ...]]:
        """The queries whose rows are compared, with the columns by which they are paired."""
        found = {}
        for text in self.diff:
            query, _, keys = text.partition("=")
            names = tuple(key.strip() for key in keys.split(",")) if keys else ()
            check_name("query", query.strip())
            if "=" in text and not all(names or [""]):
                raise InvalidInputError(f"diff={text!r} has an empty column; write QUERY or QUERY=COLUMN,COLUMN")
            found[query.strip()] = names
        return found

    @property
    def comparison_request(self) -> ComparisonRequest:
        """The request for the comparison of rows."""
        keys, tolerance = self.diff_keys, parse_share("diff_tolerance", self.diff_tolerance)
        if tolerance is not None and (without := [query for query, names in keys.items() if not names]):
            raise InvalidInputError(
                f"diff={without[0]!r} has no columns by which rows are paired, so that a tolerance (diff_tolerance) "
                f"says nothing: write {without[0]}=COLUMN,COLUMN"
            )
        if tolerance is not None and tolerance >= 1:
            raise InvalidInputError(f"diff_tolerance={self.diff_tolerance!r} must be less than 100%")
        return ComparisonRequest(keys=keys, tolerance=tolerance or 0.0)

    @property
    def compares(self) -> bool:
        """True when a difference between the versions may end the update."""
        return self.limits.any or bool(self.diff)


OPTIONS = options_of(UpdateOptions)
