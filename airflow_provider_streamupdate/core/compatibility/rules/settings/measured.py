"""A setting that changes results, as the sweep over Spark's settings found it."""

from __future__ import annotations

import attrs

# Kinds of examples that are SQL: an expression, a query, a query the order of whose rows counts.
SQL = ("expression", "query", "ordered")


@attrs.frozen
class Measured:
    """key: the setting; default: of Spark 4.3 (where the sweep set another one, that); other: a value with which
    `example` gives something else
    change: how: other ``values``, other ``types`` (or names, or number of columns), ``errors`` in one of them
    kind: of the example: one of SQL, ``frame`` (tests/sweep/settings_frames.py), ``stream``
    under: what else was set (``key=value``): ANSI mode hides what some settings change
    recorded: Spark keeps it in the offset log, whose value wins over the session's
    """

    key: str
    default: str
    other: str
    change: str
    kind: str
    example: str
    under: str = ""
    recorded: bool = False
