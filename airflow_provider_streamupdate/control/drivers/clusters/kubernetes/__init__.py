"""Kubernetes (master ``k8s://...``): the driver's pod too (deploy mode cluster), or the executors' only (client).

The pod's name is known before anything is submitted, and the API server makes a pod of one name once: a driver that is
submitted twice is refused the second time, and every driver is found from any machine. Both come in by `CLUSTERS`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import attrs

from .....core import clock
from .....core.errors import DriverError, EnvironmentProblem, WaitTimeoutError
from .....core.registry.deployment import Launch, PodPlace, Status, Submitted
from ....waiting import wait_for
from ... import process
from ...launcher import DEPLOY_MODE, in_cluster, is_kubernetes
from ..cluster import Client, Cluster, Prepared, RunningDriver
from ..local import Local
from . import names
from .api import Pods
from .pod import PodState
from .settings import TOKEN, UPLOADS, defaults, settings, where, with_settings

GRACE_SECONDS = 10  # between SIGTERM and SIGKILL, as on this machine
NOBODY = "nobody"  # any app: few are called so
CLIENT_SECONDS = 300.0  # for which a client is used
SUBMIT_SECONDS = 60.0  # from a pod to its config map, by far
END_SECONDS = 300.0  # for a pod's end: its grace period, and its node
UNCERTAIN_SECONDS = 30.0  # the same, where its node does not answer


class Kubernetes(Cluster):
    """Kubernetes in cluster deploy mode. A driver's name is its pod's.

    pods: reaches the pods of a place
    """

    name = "kubernetes"
    finds = True
    first_sign_seconds = 900.0  # it may wait for a node, and for its image

    def __init__(self, pods: Callable[[PodPlace], Pods] = Pods) -> None:
        self._open = pods
        self._opened: dict[str, tuple[float, Pods]] = {}

    def _pods(self, place: PodPlace, to_act: bool = False) -> Pods:
        """One client for many looks; another one after a while, since tokens and kubeconfigs change, and for whoever
        acts: that an API server did not answer a look a moment ago is no reason to fail."""
        key, now = f"{place} {os.environ.get('KUBECONFIG')}", time.monotonic()
        if to_act or key not in self._opened or now - self._opened[key][0] > CLIENT_SECONDS:
            self._opened[key] = now, self._open(place)
        return self._opened[key][1]

    def takes(self, command: Sequence[str]) -> bool:
        return in_cluster(command) and is_kubernetes(command)

    def prepare(self, command: list[str], driver: tuple[str, ...], environment: Mapping[str, str]) -> Prepared:
        root, app, deployment, epoch = driver
        pod, labels = names.pod_name(*driver), names.labels(root, app, deployment, epoch)
        own = {"spark.kubernetes.driver.pod.name": pod}
        own |= {f"spark.kubernetes.{of}.label.{k}": v for of in ("driver", "executor") for k, v in labels.items()}
        submitted = Submitted(name=pod, labels=labels, place=where(command, environment))
        return Prepared(with_settings(command, own), submitted)

    def alive_check(self, many: bool = False) -> process.Alive:
        seen: dict[str, list[PodState]] = {}

        def alive(launch: Launch, status: Status | None = None) -> bool | None:
            if launch.killed:
                return False
            # Looked at first: it makes the pod before it ends.
            submitting = None if status is not None else _submitting(launch)
            try:
                pod = self._pod_of(launch, seen if many else None)
                if pod is None and submitting is False and many:
                    pod = self.pod(launch)  # it may have been made since the list
            except (DriverError, EnvironmentProblem):  # no answer, or nothing to ask with
                return None  # whether it lives is not known; its heartbeat tells
            if pod is not None:
                # Of one that has not ended, the heartbeat tells: a node that is gone leaves its pods as they were, and
                # a pod may wait for its image. What its submitter did not come to make will never be there.
                return False if pod.ended or self._unfinished(launch, pod, status, submitting) else None
            return False if submitting is False else None  # one that has begun may have lost its pod, not its life

        return alive

    def _unfinished(self, launch: Launch, pod: PodState, status: Status | None, submitting: bool | None) -> bool:
        """Return whether spark-submit died after it made the pod and before it made its config map (Client.run)."""
        if status is not None or pod.phase != "Pending" or submitting is True:
            return False
        if submitting is None and (pod.created_at is None or clock.age(pod.created_at) < SUBMIT_SECONDS):
            return False
        try:
            return self._pods(_place(launch)).lacks(pod) is not None
        except DriverError:
            return False

    def end(self, launch: Launch, client: Callable[[], Client]) -> bool:
        process.end(launch)  # before its pod is looked for: it may be about to submit
        submitting = _submitting(launch)
        pods, pod = self._pods(_place(launch), to_act=True), self.pod(launch)
        if pod is None:
            return submitting is False
        pods.delete(pod, GRACE_SECONDS)
        _wait_for_end(pods, pod)
        return True

    def check(
        self, command: Sequence[str], environment: Mapping[str, str], driver: tuple[str, ...] | None = None
    ) -> None:
        given = {**defaults(command, environment), **settings(command)}
        if TOKEN in given:
            raise EnvironmentProblem(
                f"{TOKEN} is a secret that everybody sees who lists processes, and that this package, which would need "
                f"it to look at pods, does not store: put the token in a file and set {TOKEN}File"
            )
        if not given.get(UPLOADS):
            raise EnvironmentProblem(
                f"in cluster deploy mode on Kubernetes {UPLOADS} is needed: a folder that this machine and the pod "
                "reach (e.g. in a bucket), by which spark-submit brings the application and this package to the pod"
            )
        place = where(command, environment)
        pods = self._pods(place, to_act=True)
        if driver is None:
            pods.find({names.APP: NOBODY})  # the library is here, the API server answers, and pods may be listed
            return
        pod = pods.get(name := names.pod_name(*driver))
        if pod is None:
            return
        if not _has(pod, names.labels(*driver)):
            raise EnvironmentProblem(
                f"pod {name} is in namespace {place.namespace} already, and is not this package's. Use another "
                "namespace, or remove it when it is of no use any more"
            )
        # Of an earlier try of this very epoch: a standby that was evicted, or whose update was begun again.
        pods.delete(pod, GRACE_SECONDS)
        _wait_for_end(pods, pod, gone=True)

    def label(self, deployment: str) -> str:
        return names.label(deployment)

    def place(self, launch: Launch) -> str:
        return f"{_place(launch)} {_submitted(launch).labels[names.ROOT]}"

    def running_drivers(self, launch: Launch) -> list[RunningDriver]:
        labels = {key: _submitted(launch).labels[key] for key in (names.ROOT, names.APP)}
        pods, wanted = self._pods(_place(launch)), {names.DEPLOYMENT, names.EPOCH}
        return [
            RunningDriver(
                name=f"pod {pod.name}",
                label=pod.labels[names.DEPLOYMENT],
                epoch=int(pod.labels[names.EPOCH]),
                end=partial(pods.delete, pod, GRACE_SECONDS),
            )
            for pod in pods.find({"spark-role": "driver", **labels})
            if pod.driver and not pod.ended and wanted <= pod.labels.keys()
        ]

    def pod(self, launch: Launch) -> PodState | None:
        """Return the driver's pod; None without one. DriverError when the API server cannot be reached."""
        return self._pod_of(launch, None)

    def _pod_of(self, launch: Launch, seen: dict[str, list[PodState]] | None) -> PodState | None:
        """Return the driver's pod. seen: the pods listed before, by place; None: ask the API server now."""
        pods, submitted = self._pods(_place(launch)), _submitted(launch)
        if seen is None:
            pod = pods.get(submitted.name)
        else:
            key = str(submitted.place)
            if key not in seen:
                seen[key] = pods.find({"spark-role": "driver"})
            pod = next((p for p in seen[key] if p.name == submitted.name), None)
        return pod if pod is not None and _has(pod, submitted.labels) else None

    def why_not_running(self, launch: Launch) -> str | None:
        try:
            pod = self.pod(launch)
        except (DriverError, EnvironmentProblem) as error:
            return str(error)
        return None if pod is None or pod.reason is None else f"pod {pod.name}: {pod.reason}"

    def grace_seconds(self, launch: Launch) -> float | None:
        try:
            pod = self.pod(launch)
        except (DriverError, EnvironmentProblem):
            return None
        return None if pod is None or pod.ended else pod.grace_seconds

    def last_log(self, launch: Launch, lines: int) -> tuple[str, str] | None:
        try:
            pod = self.pod(launch)
            text = "" if pod is None else self._pods(_place(launch)).log(pod, lines)
        except (DriverError, EnvironmentProblem):
            return None  # that of spark-submit is there
        return (_kubectl(launch), text) if text else None

    def follow_log(self, launch: Launch, lines: int, over: Callable[[], bool]) -> Iterator[str] | None:
        pod = self.pod(launch)
        return None if pod is None else self._pods(_place(launch)).follow_log(pod, lines, over)

    def log_of(self, launch: Launch, application: str | None) -> str | None:
        return f"of spark-submit; the driver's own: {_kubectl(launch)}"


def _submitting(launch: Launch) -> bool | None:
    """Return whether spark-submit, which makes the pod, still runs; None: it cannot be inspected from here."""
    return process.alive(attrs.evolve(launch, submitted=None))


def _wait_for_end(pods: Pods, pod: PodState, gone: bool = False) -> None:
    """gone: the pod itself is, and not only its driver"""

    def over() -> bool | None:
        found = pods.get(pod.name)
        return True if found is None or found.uid != pod.uid or (found.ended and not gone) else None

    try:
        wait_for(over, f"the end of pod {pod.name}", END_SECONDS if pod.certain else UNCERTAIN_SECONDS)
    except WaitTimeoutError as error:
        still = "It is of no use, and has the name that is wanted" if pod.ended else "It may still run"
        raise DriverError(
            f"{error}: {pod.reason or 'its node has not ended it'}. {still}. Wait until its node answers, or, when "
            f"that machine is certainly off, remove the pod by force (kubectl delete pod --force {pod.name}); then try "
            "again"
        ) from error


def _has(pod: PodState, labels: Mapping[str, str]) -> bool:
    """Return whether the pod belongs to this driver, not to another app or root with the same name."""
    return all(pod.labels.get(key) == value for key, value in labels.items())


def _submitted(launch: Launch) -> Submitted:
    assert launch.submitted is not None
    return launch.submitted


def _place(launch: Launch) -> PodPlace:
    place = _submitted(launch).place
    assert place is not None
    return place


def _kubectl(launch: Launch) -> str:
    return f"kubectl logs -n {_place(launch).namespace} {_submitted(launch).name}"


class KubernetesClientMode(Local):
    """A driver on this machine with executors in pods. The pods' labels name the app; they end with the driver."""

    name = "kubernetes-client"

    def takes(self, command: Sequence[str]) -> bool:
        return not in_cluster(command) and is_kubernetes(command)

    def check(
        self, command: Sequence[str], environment: Mapping[str, str], driver: tuple[str, ...] | None = None
    ) -> None:
        if defaults(command, environment).get(DEPLOY_MODE) == "cluster" and DEPLOY_MODE not in settings(command):
            raise EnvironmentProblem(
                f"spark-defaults.conf sets {DEPLOY_MODE}=cluster, but how a driver is found is decided by the "
                f"command: give it with the master (--conf {DEPLOY_MODE}=cluster, or the connection's deploy mode)"
            )

    def prepare(self, command: list[str], driver: tuple[str, ...], environment: Mapping[str, str]) -> Prepared:
        labels = names.labels(*driver)
        own = {f"spark.kubernetes.executor.label.{key}": value for key, value in labels.items()}
        return Prepared(with_settings(command, own))
