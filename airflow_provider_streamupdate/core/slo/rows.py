"""Rows that go out and that stages keep, per row in, against the least and the most before."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..difference.figures import BatchFigures
from .before import Before
from .finding import FEWEST_BATCHES, LONGEST_SECONDS, MORE_ROWS, PATIENCE_SECONDS, SIGMAS, Finding, Found, with_rows
from .stretch import Stretch, of_batches, of_minutes, windows

FEWEST_STRETCHES = 5
FAR_FEWER = 0.1  # rows of a stretch, as a share of those that are judged
FEW_ROWS = 10  # by which rows out may be more, and a stage may grow, in any case
# Larger batches tell that too much goes out or is kept, or that nothing goes out: an aggregation gives fewer rows for
# each that came in then, but some.
_MORE_ROWS = Finding(None, "its batches have more rows than any before", open=LONGEST_SECONDS)


def rows_out(batches: Sequence[BatchFigures], before: Before, limit: float) -> Found:
    """Rows out per row in, against the least and the most before, over stretches with as many rows."""
    if before.changed:
        return [Finding(None, before.changed)]
    alike = _alike(batches, before)
    judged = alike or batches
    stretch = of_batches(judged)
    if stretch.rows_out is None or not stretch.told_in:
        return [Finding(None, "this sink does not tell how many rows it got")]
    known = [s for s in _stretches_before(judged, before) if s.out_share is not None]
    shares = [s.out_share for s in known if s.out_share is not None]
    if len(shares) < FEWEST_STRETCHES:
        few = Finding(None, f"only {len(shares)} stretches with as many rows before are known")
        return [few if alike else _MORE_ROWS]
    least, most = stretch.told_in * min(shares), stretch.told_in * max(shares)
    fewest = least * (1 - limit) - SIGMAS * math.sqrt(least)
    if least > SIGMAS**2:
        fewest = max(fewest, 1.0)  # none at all is no matter of chance, and within no limit
    highest = most * (1 + limit) + SIGMAS * math.sqrt(most) + FEW_ROWS
    told = f"{stretch.rows_out} rows out for {stretch.told_in} in; before, {least:.0f} to {most:.0f}"
    told += f" ({max(math.ceil(fewest), 0)} to {math.floor(highest)} are allowed)"
    if stretch.rows_out > highest:
        if before.rare or _fewer_a_batch(stretch, known, limit):
            return [Finding(None, before.rare or "its batches have fewer rows than any before")]
        return [Finding(True, told)]
    if not alike and (stretch.rows_out or fewest <= 0):
        return [_MORE_ROWS]
    if fewest <= 0 < least and stretch.rows_out < least / 2:
        why = f"{stretch.rows_out} rows out for {stretch.told_in} in are too few to tell"
        return [Finding(None, why, open=PATIENCE_SECONDS)]
    chance = not least * (1 - limit) <= stretch.rows_out <= most * (1 + limit)
    return [Finding(stretch.rows_out < fewest, told, open=PATIENCE_SECONDS if chance else 0.0)]


def _fewer_a_batch(now: Stretch, before: Sequence[Stretch], limit: float) -> bool:
    """Whether its batches have fewer rows than ever before, and no more rows go out of a batch: the groups of an
    aggregation are no more than before, but more of each row that came in."""
    fewest = min((s.told_in / s.batches for s in before if s.batches), default=0.0)
    most = max(((s.rows_out or 0) / s.batches for s in before if s.batches), default=0.0)
    rows_out = now.rows_out or 0
    smaller = now.told_in / now.batches * MORE_ROWS < fewest
    return smaller and rows_out <= most * now.batches * (1 + limit) + SIGMAS * math.sqrt(most * now.batches)


def state_growth(batches: Sequence[BatchFigures], before: Before, limit: float) -> Found:
    """Rows that each stage gained per row in, against the most before."""
    if before.changed:
        return [Finding(None, before.changed)]
    alike = _alike(batches, before)
    judged = alike or batches
    stretch, stretches = of_batches(judged), _stretches_before(judged, before)
    held = judged[-1].state_rows or {}
    if not stretch.gained or not stretch.rows_in:
        return [Finding(None, "it holds no state whose rows are counted")]
    found: Found = []
    for stage, gained in sorted(stretch.gained.items()):
        shares = [share for s in stretches if (share := s.gain_share(stage)) is not None]
        if stage in before.uncounted or len(shares) < FEWEST_STRETCHES:
            why = "the update changed it" if stage in before.uncounted else f"{len(shares)} stretches before are known"
            found.append(Finding(None, f"stage {stage}: {why}"))
            continue
        most = stretch.rows_in * max(*shares, 0.0)
        allowed = most * (1 + limit) + SIGMAS * math.sqrt(most) + max(FEW_ROWS, held.get(stage, 0) // 1000)
        told = f"stage {stage} gained {gained} rows for {stretch.rows_in} in; before, {most:.0f} at most"
        exceeded = gained > allowed
        told += f" (up to {allowed:.0f} are allowed)"
        if exceeded and before.rare:
            found.append(Finding(None, f"stage {stage}: {before.rare}"))
        else:
            found.append(Finding(exceeded, told) if exceeded or alike else _MORE_ROWS)
    return found


def _alike(batches: Sequence[BatchFigures], before: Before) -> Sequence[BatchFigures]:
    """The last batches in a row that have no more rows than batches had before."""
    most = max((b.rows_in or 0 for b in before.batches), default=0)
    found = list(batches)
    for at in range(len(batches) - 1, -1, -1):
        if most and (batches[at].rows_in or 0) > most * MORE_ROWS + SIGMAS * math.sqrt(most):
            found = list(batches[at + 1 :])
            break
    return found if len(with_rows(found)) >= FEWEST_BATCHES else ()


def _stretches_before(alike: Sequence[BatchFigures], before: Before) -> list[Stretch]:
    """As long as what is judged: as many batches, and minutes with as many rows. Far fewer rows say little."""
    length, rows = min(len(alike), max(FEWEST_BATCHES, len(before.batches) // 2)), of_batches(alike).rows_in
    found = [*windows(before.batches, length), *of_minutes(before.own or before.runs, rows)]
    return [s for s in found if s.rows_in and s.rows_in >= rows * FAR_FEWER * length / len(alike)]
