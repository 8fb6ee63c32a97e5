"""The pods of a namespace, by the official client (extra ``k8s``)."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from .....core.errors import DriverError, EnvironmentProblem
from .....core.registry.deployment import PodPlace
from .pod import PodState

SECONDS = 10.0  # for an answer of the API server
BAD_REQUEST, NOT_FOUND, CONFLICT = 400, 404, 409
FOLLOW_SECONDS = 1.0  # between two connections that follow a log
QUIET_SECONDS = 30.0  # after which a connection that brings nothing is made anew
OVERLAP_SECONDS = 60  # of what a connection gets once more
AWAY_SECONDS = 10.0  # for which an API server that did not answer is not asked again
_TIME = re.compile(r"\d{4}-\d\d-\d\dT")


class Pods:
    """The pods of a namespace. DriverError when the API server does not answer or refuses."""

    def __init__(self, place: PodPlace) -> None:
        self._place = place
        self._api = _core_api(place)
        self._away: tuple[float, str] | None = None  # since when it does not answer, and why

    def get(self, name: str) -> PodState | None:
        """Return the pod of this name; None if it does not exist."""
        found = self._ask("read pod", self._api.read_namespaced_pod, name=name)
        return None if found is None else PodState.of(found)

    def find(self, labels: Mapping[str, str]) -> list[PodState]:
        """Return the pods that have all of these labels."""
        selector = ",".join(f"{key}={value}" for key, value in labels.items())
        found = self._ask("list pods", self._api.list_namespaced_pod, label_selector=selector) or {}
        return [PodState.of(pod) for pod in found.get("items") or ()]

    def lacks(self, pod: PodState) -> str | None:
        """Return the name of a config map that the pod mounts and that does not exist; None: all exist."""
        read = self._api.read_namespaced_config_map
        for name in pod.config_maps:
            if self._ask("read config map", read, name=name, kind="configmaps") is None:
                return name
        return None

    def delete(self, pod: PodState, grace: int) -> None:
        """Have this very pod end, with a grace period of so many seconds; nothing when it is gone, or another one has
        its name."""
        body = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": pod.uid},
            "gracePeriodSeconds": grace,
        }
        self._ask("delete pod", self._api.delete_namespaced_pod, none=(NOT_FOUND, CONFLICT), name=pod.name, body=body)

    def log(self, pod: PodState, lines: int) -> str:
        """Return the last lines of its driver's log; empty without any."""
        of: dict[str, Any] = {"container": pod.container} if pod.container else {}
        read = self._api.read_namespaced_pod_log
        return self._ask("read the log of pod", read, raw=True, name=pod.name, tail_lines=lines, **of) or ""

    def follow_log(self, pod: PodState, lines: int, over: Callable[[], bool]) -> Iterator[str]:
        """Yield the last lines, then each new one, until the driver has ended or `over` returns true."""
        of: dict[str, Any] = {"container": pod.container} if pod.container else {}
        how: dict[str, Any] = {"tail_lines": lines} if lines else {"since_seconds": 1}
        last, seen = "", list[str]()  # the time of the last line, and the lines of that time
        while not over():
            found = self.get(pod.name)
            if found is not None and found.uid == pod.uid and found.phase == "Pending":
                time.sleep(FOLLOW_SECONDS)
                continue
            ended = found is None or found.uid != pod.uid or found.ended
            for line in self._stream(pod.name, {**of, **how}):
                at, _, text = line.partition(" ")
                if not _TIME.match(at):  # the kubelet's own words
                    yield line
                    continue
                if at < last or (at == last and text in seen):
                    continue  # a connection may end before the driver does, and the next one begins earlier
                last, seen = at, [*(seen if at == last else ()), text]
                yield text
            if ended:
                return
            how = {"since_seconds": OVERLAP_SECONDS if last else 2}
            time.sleep(FOLLOW_SECONDS)

    def _stream(self, name: str, how: dict[str, Any]) -> Iterator[str]:
        from kubernetes.client.exceptions import ApiException
        from urllib3.exceptions import HTTPError

        try:
            answer = self._api.read_namespaced_pod_log(
                name,
                self._place.namespace,
                follow=True,
                timestamps=True,
                _preload_content=False,
                _request_timeout=(SECONDS, QUIET_SECONDS),
                **how,
            )
        except ApiException as error:
            if error.status in (NOT_FOUND, BAD_REQUEST):  # it has gone, or its container is not there yet
                return
            raise DriverError(f"the log of pod {name} cannot be read: {_server_message(error)}") from error
        except (HTTPError, OSError) as error:
            raise DriverError(f"the log of pod {name} cannot be read: {error}") from error
        yield from _lines(answer)

    def _ask(
        self,
        what: str,
        call: Any,
        none: tuple[int, ...] = (NOT_FOUND,),
        raw: bool = False,
        kind: str = "pods",
        **how: Any,
    ) -> Any:
        from kubernetes.client.exceptions import ApiException
        from urllib3.exceptions import HTTPError

        subject = f"{what} {how.get('name', '')}".strip()
        if self._away is not None and time.monotonic() - self._away[0] < AWAY_SECONDS:
            raise DriverError(self._away[1])
        try:
            answer = call(namespace=self._place.namespace, _preload_content=False, _request_timeout=SECONDS, **how)
            data = answer.data
            return data.decode(errors="replace") if raw else json.loads(data)
        except ApiException as error:
            if error.status in none and (error.status != NOT_FOUND or _is_of(error, kind)):
                return None
            raise DriverError(
                f"the API server at {self._place.server} refuses to {subject}: {_server_message(error)}"
            ) from error
        except (HTTPError, OSError, ValueError) as error:
            told = (
                f"the API server at {self._place.server} does not answer ({subject}): {error}; check that it can be "
                "reached from here, and try again"
            )
            self._away = time.monotonic(), told
            raise DriverError(told) from error


def _lines(answer: Any) -> Iterator[str]:
    """Yield the lines of a stream until it ends or breaks."""
    from urllib3.exceptions import HTTPError

    text = b""
    try:
        for read in answer.stream(decode_content=True):
            *whole, text = (text + read).split(b"\n")
            yield from (line.decode(errors="replace") for line in whole)
        if text:
            yield text.decode(errors="replace")
    except HTTPError:
        pass  # half a line comes again


def _is_of(error: Any, kind: str) -> bool:
    """Return whether a 404 comes from the API server about a thing of this kind, not from a proxy about the path."""
    try:
        body = json.loads(error.body or "{}")
    except ValueError:
        return False
    return isinstance(body, dict) and (body.get("details") or {}).get("kind") == kind


def _server_message(error: Any) -> str:
    """Return the server's message, e.g. which permission is missing."""
    try:
        message = json.loads(error.body or "{}").get("message")
    except ValueError:
        message = None
    return f"{message or error.reason} (HTTP {error.status})"


def _kubeconfig(place: PodPlace) -> str | None:
    """Return the one that spark-submit was given, where it exists here, else this process's own; None: the default."""
    given = place.kubeconfig
    if given is not None and any(os.path.exists(path) for path in given.split(os.pathsep)):
        return given
    return os.environ.get("KUBECONFIG")


def _core_api(place: PodPlace) -> Any:
    """Return a client configured like Spark's: from KUBECONFIG or this pod's service account, and the given files."""
    try:
        from kubernetes import client, config
    except ImportError as error:
        raise EnvironmentProblem(
            "drivers on Kubernetes need the library kubernetes here: pip install 'airflow-provider-streamupdate[k8s]'"
        ) from error
    made = client.Configuration()
    try:
        config.load_kube_config(_kubeconfig(place), context=place.context, client_configuration=made)
    except config.ConfigException:
        if place.context is not None:
            raise EnvironmentProblem(f"the kubeconfig (KUBECONFIG) has no context {place.context!r}") from None
        try:
            config.load_incluster_config(client_configuration=made)
        except config.ConfigException:
            pass  # no kubeconfig and no service account: by the files alone
    except Exception as error:  # of YAML, of its contents, of a program that makes tokens
        raise EnvironmentProblem(f"the kubeconfig (KUBECONFIG) cannot be used: {error}") from error
    made.host = place.server
    if path := place.files.get("caCertFile"):
        made.ssl_ca_cert = path
    if path := place.files.get("clientCertFile"):
        made.cert_file = path
    if path := place.files.get("clientKeyFile"):
        made.key_file = path
    if path := place.files.get("oauthTokenFile"):
        try:
            with open(path) as file:
                made.api_key["authorization"] = f"Bearer {file.read().strip()}"
        except OSError as error:
            raise EnvironmentProblem(f"the token of the API server cannot be read here: {error}") from error
    made.retries = False
    return client.CoreV1Api(client.ApiClient(made))
