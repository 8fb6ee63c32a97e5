"""The steps of an update by name. The command line runs them in this order; a DAG has a task for each."""

from __future__ import annotations

from ...core.text_enum import TextEnum


class Step(TextEnum):
    """A step of an update. Its value is the name of the task in a DAG."""

    PLAN = "plan"
    CHECK = "check"
    REHEARSE = "rehearse"
    STANDBY = "standby"
    SNAPSHOT = "snapshot"
    SUBMIT = "submit"
    VERIFY = "verify"
    PROMOTE = "promote"


# What an update's record calls the steps when they are done; a strategy has its own name for STANDBY.
NOTED = {
    Step.PLAN: "planned",
    Step.CHECK: "checked",
    Step.REHEARSE: "rehearsed",
    Step.SNAPSHOT: "snapshotted",
    Step.SUBMIT: "submitted",
    Step.VERIFY: "verified",
    Step.PROMOTE: "promoted",
}
