"""What the API server says of a driver's pod (Kubernetes API v1, PodStatus), in the words that a reader needs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from .....core.errors import cut

ENDED = ("Succeeded", "Failed")
KILLED = 128  # and the signal's number: the exit code of a process that a signal ended
GRACE_SECONDS = 30.0  # Kubernetes' own default
MESSAGE = 300  # characters shown of one; it may be the end of a log
DRIVER = "spark-kubernetes-driver"  # Spark's name of the driver's container, unless a template has another


@attrs.frozen(kw_only=True)
class PodState:
    """A driver's pod.

    uid: of this pod; another one of the same name has another uid
    labels: its own
    ended: its driver has ended for good
    certain: what is told is of now; not so while its node does not answer
    reason: why it does not run, or why it ended; None: there is nothing to tell
    created_at: by the API server's clock (ISO)
    config_maps: those that it mounts, without which it waits
    container: the name of the driver's; None: not known
    grace_seconds: seconds between SIGTERM and SIGKILL when its node is drained or somebody deletes it
    """

    name: str
    uid: str
    labels: Mapping[str, str]
    phase: str
    ended: bool
    certain: bool
    reason: str | None = None
    created_at: str | None = None
    config_maps: tuple[str, ...] = ()
    container: str | None = None
    grace_seconds: float = GRACE_SECONDS

    @property
    def driver(self) -> bool:
        """True for a driver's pod, false for an executor's (by Spark's own label)."""
        return self.labels.get("spark-role") == "driver"

    @property
    def alive(self) -> bool | None:
        """True while the pod runs. None: its node does not answer, so its driver may still write."""
        if self.ended:
            return False
        return True if self.certain else None

    @classmethod
    def of(cls, pod: Mapping[str, Any]) -> PodState:
        """From the API's JSON."""
        status, meta = pod.get("status") or {}, pod["metadata"]
        phase = status.get("phase") or "Pending"
        containers = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
        own: list[Mapping[str, Any]] = status.get("containerStatuses") or []
        # A template may give the driver's container another name, and add sidecars, which may outlive it.
        driver = next((c for c in own if c.get("name") == DRIVER), own[0] if len(own) == 1 else {})
        terminated = (driver.get("state") or {}).get("terminated")
        conditions = {c.get("type"): c.get("status") for c in status.get("conditions") or ()}
        # What the controller of nodes does to the pods of a node that does not answer (MarkPodsNotReady)
        silent = conditions.get("Ready") == "False" and conditions.get("ContainersReady") == "True"
        reasons = list(dict.fromkeys(_reasons(status, meta, containers)))
        return cls(
            name=meta["name"],
            uid=meta["uid"],
            labels=meta.get("labels") or {},
            phase=phase,
            ended=phase in ENDED or terminated is not None,
            certain=phase != "Unknown" and status.get("reason") != "NodeLost" and not silent,
            reason="; ".join([*reasons, *(["its node does not answer"] if silent else [])]) or None,
            created_at=meta.get("creationTimestamp"),
            config_maps=tuple(
                volume["configMap"]["name"]
                for volume in (pod.get("spec") or {}).get("volumes") or ()
                if volume.get("configMap") and not volume["configMap"].get("optional")
            ),
            container=driver.get("name"),
            grace_seconds=(pod.get("spec") or {}).get("terminationGracePeriodSeconds", GRACE_SECONDS),
        )


def _reasons(status: Mapping[str, Any], meta: Mapping[str, Any], containers: list[Any]) -> Iterator[str]:
    if status.get("reason"):  # Evicted, NodeLost, Preempting, NodeAffinity ...
        yield _with_message(status["reason"], status.get("message"))
    for condition in status.get("conditions") or ():
        unscheduled = condition.get("type") == "PodScheduled" and condition.get("status") == "False"
        if unscheduled or condition.get("type") == "DisruptionTarget":
            yield _with_message(condition.get("reason") or "not scheduled", condition.get("message"))
    for container in containers:
        state = container.get("state") or {}
        waiting = state.get("waiting") or {}  # ImagePullBackOff, CreateContainerConfigError ...
        if waiting:
            yield _with_message(f"{container['name']}: {waiting.get('reason')}", waiting.get("message"))
        if (ended := state.get("terminated")) and ended.get("exitCode"):
            code, why = ended["exitCode"], ended.get("reason")  # OOMKilled, Error
            signal = f", signal {code - KILLED}" if code > KILLED else ""
            yield _with_message(
                f"{container['name']}: {why or 'ended'}, exit code {code}{signal}", ended.get("message")
            )
    if meta.get("deletionTimestamp") and status.get("phase") not in ENDED:
        yield "it is being deleted"


def _with_message(what: str, message: str | None) -> str:
    return f"{what} ({cut(' '.join(message.split()), MESSAGE)})" if message else what
