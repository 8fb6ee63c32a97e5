"""What came out of one pair."""

from __future__ import annotations

import re
from typing import Any

import attrs
from pyspark.errors import AnalysisException, StreamingQueryException

from airflow_provider_streamupdate.core.errors import ApplicationError

RIGHT = "right"  # it went on as the verdicts say, or was refused for a reason
SILENTLY_WRONG = "silently wrong"
FALSELY_REFUSED = "falsely refused"
FAILED = "failed after the check"  # loud, yet the check had called it compatible
ORACLE_WRONG = "oracle differs from the first version"  # the fuzz itself is wrong: nothing can be said
NO_VERSION = "no version"  # Spark takes one of the two for no valid query: another pair is made

# Spark gives a Python worker ten seconds to begin (PythonWorkerFactory.createSimpleWorker): says nothing of a version.
TOO_BUSY = "Python worker failed to connect back"


@attrs.frozen(kw_only=True)
class Outcome:
    """old, new: the versions (`spec.Spec`, or `drawn.spec.Drawn`); mutations: what was changed; operators: what the
    stages are; handed_over: by the real hand-over (`hand_over`), else from a snapshot"""

    seed: int
    old: Any
    new: Any
    mutations: tuple[str, ...] = ()
    renames: dict[str, str] = attrs.field(factory=dict)
    operators: tuple[str, ...] = ()
    store: str = ""
    handed_over: bool = False
    kind: str = RIGHT
    verdicts: tuple[str, ...] = ()
    details: str = ""


def no_version(outcome: Outcome, error: Exception, everything: bool = False) -> Outcome:
    """Spark, or the application, says that there is no such version; else the error is raised. everything: whatever it
    says (of texts that Spark's registry made)."""
    known = everything or isinstance(error, (AnalysisException, ApplicationError, StreamingQueryException))
    if not known and TOO_BUSY not in str(error):
        raise error
    text = str(error)
    causes = [line for line in text.splitlines() if re.match(r"(Caused by: |: )?[\w.]+(Exception|Error): ", line)]
    details = "\n".join([f"{type(error).__name__}: {text[:300]}", *causes])
    return attrs.evolve(outcome, kind=NO_VERSION, details=details[:3000])
