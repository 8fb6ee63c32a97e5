"""A drawn version: which expression decides what, in which place of an app."""

from __future__ import annotations

import attrs


@attrs.frozen(kw_only=True)
class Drawn:
    """place: a key of `places.PLACES`; text: an expression of the sweep's table, or the source of a Python function
    inputs: argument lists of that function; second: another expression, or a lookup's or branch's condition; third:
    where there are three
    where: a condition below the stage; retyped: the source has its other types; flipped: sides or branches changed over
    settings: of the session, over `places.SETTINGS`
    """

    place: str
    text: str
    second: str = ""
    third: str = ""
    inputs: tuple[str, ...] = ()
    where: str = ""
    retyped: bool = False
    flipped: bool = False
    mode: str = "update"
    store: str = "rocksdb"
    settings: tuple[tuple[str, str], ...] = ()
