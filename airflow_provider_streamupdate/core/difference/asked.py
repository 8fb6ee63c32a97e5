"""Which rows are to be compared."""

from __future__ import annotations

import attrs


@attrs.frozen(kw_only=True)
class Asked:
    """keys: by query, the columns by which rows are paired
    tolerance: by what share floating columns of a pair may differ"""

    keys: dict[str, tuple[str, ...]]
    tolerance: float = 0.0
