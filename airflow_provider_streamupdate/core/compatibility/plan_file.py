"""A plan in a file, to check a new version without the state, for instance in the CI of the app's owners."""

from __future__ import annotations

from pathlib import Path

import attrs

from ..checkpoint.snapshot import Snapshot
from ..errors import InvalidInputError
from ..plan.plan import AppPlan
from ..plan.state_stores import as_recorded
from ..serde import from_document, parse_json


@attrs.frozen(kw_only=True)
class PlanFile:
    """source: its name in reports; recorded: the configuration in each query's offset log, where known"""

    source: str
    plan: AppPlan
    recorded: dict[str, dict[str, str]] = attrs.field(factory=dict)

    @classmethod
    def read(cls, path: str) -> PlanFile:
        """The output of ``plan --json``, a deployment's ``plan.json`` or a snapshot's ``snapshot.json``.
        InvalidInputError when it cannot be read, CorruptError when it is none of them, NewerFormatError when a
        newer version of this package wrote it."""
        try:
            data = Path(path).read_bytes()
        except OSError as error:
            raise InvalidInputError(f"plan {path} cannot be read: {error}") from error
        kept = parse_json(data, path)
        if isinstance(kept, dict) and "plan" in kept:
            snapshot = from_document(kept, Snapshot, path)
            recorded = {name: dict(query.conf) for name, query in snapshot.queries.items() if query.conf}
            return cls(
                source=f"the plan of snapshot {snapshot.name}",
                plan=as_recorded(snapshot.plan, {name: query.conf for name, query in snapshot.queries.items()}),
                recorded=recorded,
            )
        plan = from_document(kept, AppPlan, path)
        recorded = {q.name: dict(q.stores) for q in plan.queries if q.stores}  # what its offset log will have
        return cls(source=f"the plan in {Path(path).name}", plan=plan, recorded=recorded)
