"""What the compatibility check says of one thing: a verdict, why, and the ways on."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

import attrs

from ..plan.differences import code_changed
from ..text_enum import TextEnum


class Verdict(TextEnum):
    """The fate of a thing's state, from harmless to impossible. LOSS and IGNORED need agreement."""

    CARRIED = "carried"  # it continues
    MIGRATED = "migrated"  # it continues, its rows rewritten for the new plan
    EMPTY = "empty"  # new: it starts without state
    LOSS = "carried with loss"  # it continues, and some results are not what the new version alone would give
    IGNORED = "ignored"  # gone from the plan: its state is left behind
    REFUSED = "refused"  # it cannot be continued correctly


CARRIED, MIGRATED, EMPTY = Verdict.CARRIED, Verdict.MIGRATED, Verdict.EMPTY
LOSS, IGNORED, REFUSED = Verdict.LOSS, Verdict.IGNORED, Verdict.REFUSED


class Fate(TextEnum):
    """The fate of the state on a way on, in the order in which ways are offered."""

    BACK = "put it back"  # the new version is changed, and nothing is lost
    CARRY = "carry it"
    LOSE = "lose it"


AGREE, RENAME = "--agree", "--rename"
REASON = "=REASON"  # the end of an agreement that needs a reason, as it is offered
DEAD_END = "no option gets past this"


@attrs.frozen(kw_only=True)
class Remedy:
    """A way on from what blocks an update.

    text: what to do, for people
    option, value: what to give check and update for it (None: something is to be written)
    evident: the plans show that it is right: the renamed one means the same, or reads the same place
    """

    fate: Fate
    text: str
    option: str | None = None
    value: str | None = None
    evident: bool = False


def rename_way(old: str, new: str, then: str, evident: bool) -> Remedy:
    """Return the way of a rename. old: ``query/name``"""
    text = f"{RENAME} {shlex.quote(f'{old}={new}')} {then}"
    return Remedy(fate=Fate.CARRY, text=text, option=RENAME, value=f"{old}={new}", evident=evident)


def _agree_way(name: str) -> Remedy:
    text = f"agree to it with {AGREE} {shlex.quote(name)}"
    return Remedy(fate=Fate.LOSE, text=text, option=AGREE, value=name)


def _same_way(offer: str) -> Remedy:
    text = f"if you know that it means the same, agree with a reason: {AGREE} '{offer}{REASON}'"
    return Remedy(fate=Fate.CARRY, text=text, option=AGREE, value=f"{offer}{REASON}")


@attrs.frozen(kw_only=True)
class CodeChange:
    """A Python function whose code differs.

    file, line: where, in the new version (None: unknown)
    definition: what is defined there: the function, or something that it uses
    before, after: the differing part of the first line that does (both empty: it may hold a secret)
    """

    function: str
    file: str | None = None
    line: int | None = None
    definition: str = ""
    before: str = ""
    after: str = ""

    def __str__(self) -> str:
        if self.file is None:
            return code_changed(self.function)
        what = f": `{self.before}` -> `{self.after}`"
        if not self.before or not self.after:
            what = f": `{self.before}` is gone" if self.before else f": `{self.after}` is new" if self.after else ""
        used = "" if self.definition == self.function.rpartition(".")[2] else f", which `{self.function}` uses,"
        return f"`{self.definition}` in {self.file}{used} changed at line {self.line}{what}"


@attrs.frozen(kw_only=True)
class ReportItem:
    """One verdict.

    thing: stage, source, sink, query, app, watermark or setting
    name: ``query/stage`` for a stage, ``query:watermark`` for what holds for a query as a whole
    rules: ids of the rules it follows from (docs/compatibility.md)
    offer: for a refusal, the name under which the author may declare that it means the same (None: not possible)
    because: the reason given with an agreement
    details: what was before and what is now, exactly (empty: the reason has it)
    ways: what can be done about it, as its rules say (`ways_on` has the agreements, too)
    continues: the name that the source or stage had which this one continues (None: it had this name)
    code: the Python functions in a stage whose code differs
    rows: of state that a stage or query that blocks has now (None: unknown)
    """

    thing: str
    name: str
    verdict: Verdict
    reason: str
    needs_agreement: bool = False
    agreed: bool = False
    rules: tuple[str, ...] = ()
    offer: str | None = None
    because: str | None = None
    details: str = ""
    ways: tuple[Remedy, ...] = ()
    continues: str | None = None
    code: tuple[CodeChange, ...] = ()
    rows: int | None = None

    @property
    def changed(self) -> bool:
        """Whether anything but an unchanged continuation was found."""
        return self.verdict != CARRIED or self.continues is not None or any(not r.endswith(".same") for r in self.rules)

    @property
    def ways_on(self) -> tuple[Remedy, ...]:
        """The ways on, where it blocks: what puts it back first, what loses state last."""
        if not self.blocks:
            return ()
        return tuple(sorted(self._unsorted_ways(), key=lambda way: list(Fate).index(way.fate)))

    def _unsorted_ways(self) -> Iterator[Remedy]:
        yield from self.ways
        if self.offer:
            yield _same_way(self.offer)
        if self.verdict != REFUSED:
            yield _agree_way(self.name)

    @property
    def next_steps(self) -> list[str]:
        """The ways on as texts. A dead end says that it is one."""
        steps = [f"{way.fate}: {way.text}{self._lost_rows(way)}" for way in self.ways_on]
        return [*steps, DEAD_END] if self.is_dead_end else steps

    def _lost_rows(self, way: Remedy) -> str:
        """Return what is lost, where the state itself is."""
        if way.fate != Fate.LOSE or self.rows is None or self.verdict not in (REFUSED, IGNORED):
            return ""
        return f"; its {self.rows:,} rows of state are lost"

    @property
    def suggestion(self) -> Remedy | None:
        """The only way on that the plans show to be right."""
        evident = [way for way in self.ways_on if way.evident]
        return evident[0] if len(evident) == 1 else None

    @property
    def is_dead_end(self) -> bool:
        """Whether the change can only be put back."""
        return {way.fate for way in self.ways_on} == {Fate.BACK}

    @property
    def blocks(self) -> bool:
        return self.verdict == REFUSED or (self.needs_agreement and not self.agreed)
