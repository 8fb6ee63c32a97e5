"""Drivers in pods: their names and labels, what the API server says of them, and the settings of spark-submit."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import attrs
import pytest

from airflow_provider_streamupdate.control.drivers.clusters import cluster_for
from airflow_provider_streamupdate.control.drivers.clusters.kubernetes import Kubernetes, names
from airflow_provider_streamupdate.control.drivers.clusters.kubernetes.pod import PodState
from airflow_provider_streamupdate.control.drivers.clusters.kubernetes.settings import settings, where
from airflow_provider_streamupdate.control.drivers.clusters.local import Local
from airflow_provider_streamupdate.control.drivers.launcher import in_cluster, master_of, on_this_machine
from airflow_provider_streamupdate.core import clock
from airflow_provider_streamupdate.core.errors import DriverError, EnvironmentProblem
from airflow_provider_streamupdate.core.registry.deployment import Launch, Status
from tests.core.builders import status

NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")  # RFC 1123
VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?")
SUBMIT = ["spark-submit", "--master", "k8s://https://h:6443", "--deploy-mode", "cluster"]


@pytest.mark.parametrize(
    "parts",
    [
        ("flights", "v1", "3"),
        ("Flight_Windows", "v1.2", "3"),
        ("a" * 63, "b" * 63, "123456"),
        ("a", "_-.", "1"),
        ("\u00fcber", "v", "1"),
    ],
)
def test_a_pod_s_name_and_labels_are_allowed_and_its_own(parts: tuple[str, str, str]) -> None:
    name = names.pod_name("root", *parts)
    assert NAME.fullmatch(name) and len(name) <= 63 and name.startswith("su-") and name.endswith(f"-{parts[2]}-driver")
    others = [(parts[0], f"{parts[1]}x", parts[2]), (f"{parts[0]}x", parts[1], parts[2]), (*parts[:2], "77")]
    assert name not in [names.pod_name("root", *other) for other in others]
    assert name not in [names.pod_name("another", *parts)]
    for value in names.labels("s3://bucket/a root", *parts).values():
        assert VALUE.fullmatch(value) and 0 < len(value) <= 63


def test_names_that_differ_stay_apart() -> None:
    assert names.pod_name("root", "flights", "v1", "3").startswith("su-flights-v1-")
    found = {names.pod_name("root", "flights", d, "3") for d in ("v1", "V1", "v.1", "v_1", "v-1")}
    assert len(found) == 5
    assert names.pod_name("root", "a", "b-c", "1") != names.pod_name("root", "a-b", "c", "1")
    assert len({names.label(text) for text in ("a", "a ", " a", "a/", "a" * 63, "a" * 64, "a" * 65)}) == 7


def pod(phase: str | None = "Running", meta: dict[str, Any] | None = None, **told: Any) -> PodState:
    metadata = {"name": "p", "uid": "1", "labels": {}, **(meta or {})}
    return PodState.of({"metadata": metadata, "status": {"phase": phase, **told}})


def container(**state: Any) -> list[dict[str, Any]]:
    return [{"name": "spark-kubernetes-driver", "state": state}]


def waiting(reason: str, message: str = "") -> list[dict[str, Any]]:
    return container(waiting={"reason": reason, "message": message})


def ended(code: int, reason: str | None = None) -> list[dict[str, Any]]:
    return container(terminated={"exitCode": code, "reason": reason})


UNSCHEDULED = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes\nfit"}
DELETED = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
CASES: list[tuple[PodState, bool | None, str | None]] = [
    (pod(), True, None),
    (pod("Pending"), True, None),
    (pod(None), True, None),
    (pod("Pending", containerStatuses=waiting("ContainerCreating")), True, "ContainerCreating"),
    (pod("Pending", containerStatuses=waiting("ImagePullBackOff", "no such image")), True, "ImagePullBackOff (no such"),
    (pod("Pending", containerStatuses=waiting("CreateContainerConfigError", "no x")), True, "ConfigError (no x)"),
    (pod("Pending", conditions=[UNSCHEDULED]), True, "Unschedulable (0/3 nodes fit)"),
    (pod("Succeeded", containerStatuses=ended(0, "Completed")), False, None),
    (pod("Failed", containerStatuses=ended(137, "OOMKilled")), False, "OOMKilled, exit code 137, signal 9"),
    (pod("Failed", containerStatuses=ended(1)), False, "ended, exit code 1"),
    (pod("Failed", reason="Evicted", message="low on memory"), False, "Evicted (low on memory)"),
    (pod("Unknown"), None, None),
    (pod("Running", reason="NodeLost", message="node n"), None, "NodeLost (node n)"),
    (pod("Running", DELETED), True, "it is being deleted"),
    (pod("Failed", DELETED), False, None),
]


@pytest.mark.parametrize(("state", "alive", "reason"), CASES)
def test_what_is_said_of_a_pod(state: PodState, alive: bool | None, reason: str | None) -> None:
    assert state.alive is alive
    assert (state.reason is None) if reason is None else (reason in (state.reason or ""))


class Answers:
    """Pods of a namespace, as told."""

    def __init__(self) -> None:
        self.pods: list[PodState] = []
        self.error: str | None = None
        self.deleted: list[PodState] = []
        self.config_maps: list[str] = []
        self.meanwhile: Callable[[], object] = lambda: None  # while they are listed

    def get(self, name: str) -> PodState | None:
        if self.error:
            raise DriverError(self.error)
        return next((p for p in self.pods if p.name == name), None)

    def find(self, labels: dict[str, str]) -> list[PodState]:
        self.meanwhile()
        if self.error:
            raise DriverError(self.error)
        return [p for p in self.pods if labels.items() <= p.labels.items()]

    def delete(self, pod: PodState, grace: int) -> None:
        assert grace > 0  # never by force: it may still write
        self.deleted.append(pod)
        self.pods.remove(pod)

    def lacks(self, pod: PodState) -> str | None:
        return next((name for name in pod.config_maps if name not in self.config_maps), None)

    def log(self, pod: PodState, lines: int) -> str:
        return ""

    def follow_log(self, pod: PodState, lines: int, over: Callable[[], bool]) -> Iterator[str]:
        yield from ("one", "two")


def prepared(answers: Answers) -> tuple[Kubernetes, Launch]:
    cluster = Kubernetes(lambda place: answers)
    made = cluster.prepare([*SUBMIT, "app.py", "run"], ("s3://b/root", "flights", "v1", "3"), {})
    launch = Launch(
        epoch=3, host="elsewhere", pid=4, log="", launched_at="2026-01-01T00:00:00+00:00",
        cluster="kubernetes", submitted=made.submitted,
    )  # fmt: skip
    return cluster, launch


def its(launch: Launch, uid: str = "1", phase: str = "Running", root: str | None = None) -> PodState:
    labels = {"spark-role": "driver", **launch.submitted.labels, **({names.ROOT: root} if root else {})}
    meta = {"name": launch.submitted.name, "uid": uid, "labels": labels}
    return PodState.of({"metadata": meta, "status": {"phase": phase}})


@pytest.mark.parametrize("many", [False, True])
def test_whether_a_driver_lives(many: bool) -> None:
    answers = Answers()
    cluster, launch = prepared(answers)
    heard = status()

    def alive(told: Status | None = None) -> bool | None:
        return cluster.alive_check(many)(launch, told)

    assert alive(heard) is None, "its pod was removed, perhaps by force: its heartbeat tells"
    for phase in ("Pending", "Running", "Unknown", "Failed", "Succeeded"):
        answers.pods = [its(launch, phase=phase)]
        assert alive() is alive(heard) is (None if phase in ("Pending", "Running", "Unknown") else False)
    answers.pods = [its(launch, root="another")]
    assert alive(heard) is None, "the pod of its name is another root's"
    answers.error = "no answer"
    assert alive() is None is alive(heard)


def test_a_pod_that_lacks_what_its_submitter_makes_next_never_runs() -> None:
    answers = Answers()
    cluster, launch = prepared(answers)
    meta = {"name": launch.submitted.name, "uid": "1", "labels": launch.submitted.labels}
    volumes = [{"configMap": {"name": "conf"}}, {"configMap": {"name": "other", "optional": True}}]

    def alive(age: float, told: Status | None = None, phase: str = "Pending") -> bool | None:
        at = (clock.parse(clock.now()) - timedelta(seconds=age)).isoformat()
        made = {"metadata": {**meta, "creationTimestamp": at}, "spec": {"volumes": volumes}, "status": {"phase": phase}}
        answers.pods = [PodState.of(made)]
        return cluster.alive_check()(launch, told)

    assert alive(1) is None, "its submitter may be about to make it"
    assert alive(100) is False
    assert alive(100, status()) is alive(100, phase="Running") is None, "it has begun"
    answers.config_maps = ["conf"]
    assert alive(10_000) is None, "it waits for its image"


def test_another_root_s_pod_is_never_ended() -> None:
    answers = Answers()
    cluster, launch = prepared(answers)

    def end() -> bool:
        return cluster.end(launch, lambda: pytest.fail("spark-submit is not needed"))

    answers.pods = [its(launch, root="another")]
    assert end() is False and answers.deleted == [], "its own may come: it was submitted from another machine"
    answers.pods = [its(launch, uid="7")]
    assert end() is True and [p.uid for p in answers.deleted] == ["7"]
    answers.error = "the API server does not answer"
    with pytest.raises(DriverError, match="does not answer"):
        end()


def test_the_command_keeps_its_settings_and_gets_the_pod_s_name_and_labels() -> None:
    theirs = ["--conf", "spark.kubernetes.namespace=streams", "--conf", "spark.kubernetes.context=prod", "--verbose"]
    theirs += ["--conf", "spark.kubernetes.submission.waitAppCompletion=true", "--py-files", "a.zip"]
    command = [*SUBMIT, *theirs, "local:///app.py", "run", "--conf", "x=y"]
    assert cluster_for(command).name == "kubernetes"
    made = Kubernetes().prepare(command, ("/root", "flights", "v1", "3"), {})
    end = made.command.index("local:///app.py")
    assert made.command[end:] == command[-4:], "the application's own words"
    found = settings(made.command[:end])
    assert found["spark.kubernetes.driver.pod.name"] == made.submitted.name
    assert found["spark.kubernetes.submission.waitAppCompletion"] == "true", "the user's"
    for kind in ("driver", "executor"):
        assert found[f"spark.kubernetes.{kind}.label.streamupdate-deployment"] == "v1"
    assert (made.submitted.place.namespace, made.submitted.place.context) == ("streams", "prod")


@pytest.mark.parametrize(
    ("master", "address"),
    [("k8s://https://h:1", "https://h:1"), ("k8s://h:1", "https://h:1"), ("k8s://http://h", "http://h")],
)
def test_the_server_is_the_one_spark_takes(master: str, address: str) -> None:
    assert where(["spark-submit", "--master", master, "app.py"], {}).server == address


def test_plans_and_client_mode_are_on_this_machine() -> None:
    command = ["spark-submit", "--master", "k8s://https://h", "app.py", "run"]
    cluster = cluster_for(command)
    made = cluster.prepare(command, ("/root", "flights", "v1", "3"), {})
    assert isinstance(cluster, Local) and made.submitted is None and made.command[-2:] == command[-2:]
    found = settings(made.command)
    assert found["spark.kubernetes.executor.label.streamupdate-app"] == "flights"
    assert "spark.kubernetes.driver.pod.name" not in found
    # a plan is made on this machine without pods
    command = [*SUBMIT, "--conf", "a=b", "app.py", "plan"]
    here = on_this_machine(command)
    assert (master_of(here), in_cluster(here)) == ("local[*]", False)
    assert here[-4:] == command[-4:] and cluster_for(here).name == "local"
    given = ["spark-submit", "--master", "k8s://https://h", "--deploy-mode", "client", "app.py"]
    assert on_this_machine(given) == given, "who asks for client mode has pods that reach it"


def test_what_is_checked_before_anything_is_started() -> None:
    answers = Answers()
    cluster = prepared(answers)[0]
    with pytest.raises(EnvironmentProblem, match=r"spark\.kubernetes\.file\.upload\.path is needed"):
        cluster.check([*SUBMIT, "app.py"], {})
    command = [*SUBMIT, "--conf", "spark.kubernetes.file.upload.path=s3a://b/up", "app.py"]
    cluster.check(command, {})
    answers.error = "the API server does not answer"
    with pytest.raises(DriverError, match="does not answer"):
        cluster.check(command, {})
    # a name that somebody's pod has is told before anything is started
    answers = Answers()
    cluster, launch = prepared(answers)
    command = [*SUBMIT, "--conf", "spark.kubernetes.file.upload.path=s3a://b/up", "app.py"]
    driver = ("s3://b/root", "flights", "v1", "3")
    cluster.check(command, {}, driver)
    answers.pods = [its(launch, phase="Succeeded", root="another")]
    cluster.check(command, {})
    with pytest.raises(EnvironmentProblem, match=r"in namespace default already, and is not this package's"):
        cluster.check(command, {}, driver)
    for phase in ("Failed", "Running"):  # its own of an earlier try: it makes room
        answers.pods, answers.deleted = [its(launch, phase=phase)], []
        cluster.check(command, {}, driver)
        assert answers.pods == [] and len(answers.deleted) == 1


def test_settings_of_spark_defaults_count(tmp_path: Path) -> None:
    """Where pip's Spark has them, and where SPARK_CONF_DIR says."""
    submit = tmp_path / "env" / "bin" / "spark-submit"
    own = tmp_path / "env" / "lib" / "python3.11" / "site-packages" / "pyspark" / "conf"
    for folder in (submit.parent, own, tmp_path / "conf"):
        folder.mkdir(parents=True)
    (own / "spark-defaults.conf").write_text("# ours\nspark.kubernetes.namespace  streams\n\nspark.x=1\n")
    (tmp_path / "conf" / "spark-defaults.conf").write_text("spark.kubernetes.namespace: others\n")
    command = [str(submit), "--master", "k8s://h", "app.py"]
    assert where(command, {}).namespace == "streams"
    assert where(command, {"SPARK_CONF_DIR": str(tmp_path / "conf")}).namespace == "others"
    assert where([*command[:3], "--conf", "spark.kubernetes.namespace=mine", "app.py"], {}).namespace == "mine"
    (own / "spark-defaults.conf").write_text("spark.submit.deployMode cluster\n")
    with pytest.raises(EnvironmentProblem, match=r"give it with the master \(--conf spark\.submit\.deployMode"):
        cluster_for(command).check(command, {})


def test_all_drivers_of_an_app_are_found_by_their_labels() -> None:
    answers = Answers()
    cluster, launch = prepared(answers)
    labels = launch.submitted.labels

    def put(name: str, phase: str = "Running", **changed: str) -> None:
        own = {f"streamupdate-{k}" if k != "role" else "spark-role": v for k, v in changed.items()}
        found = {"spark-role": "driver", **labels, **own}
        meta = {"name": name, "uid": name, "labels": found}
        answers.pods.append(PodState.of({"metadata": meta, "status": {"phase": phase}}))

    put("its-own", role="driver")
    put("earlier", epoch="2", role="driver")
    put("deleted-since", deployment="v0", epoch="1")
    put("an-executor", role="executor")
    put("ended", "Failed", epoch="1")
    put("another-app-s", app="other")
    put("another-root-s", root="ffffffff")
    found = cluster.running_drivers(launch)
    assert [(f.name, f.epoch) for f in found] == [("pod its-own", 3), ("pod earlier", 2), ("pod deleted-since", 1)]
    assert [f.label for f in found] == ["v1", "v1", "v0"] and cluster.label("v0") == "v0"
    found[1].end()
    assert [p.name for p in answers.deleted] == ["earlier"]
    assert cluster.place(launch) == cluster.place(attrs.evolve(launch, epoch=4))


def test_how_long_a_pod_may_take_to_end_is_known() -> None:
    answers = Answers()
    cluster, launch = prepared(answers)
    assert cluster.grace_seconds(launch) is None, "it has no pod"
    labels = {"name": launch.submitted.name, "uid": "1", "labels": launch.submitted.labels}
    for spec, seconds in (({}, 30.0), ({"terminationGracePeriodSeconds": 600}, 600)):
        answers.pods = [PodState.of({"metadata": labels, "spec": spec, "status": {"phase": "Running"}})]
        assert cluster.grace_seconds(launch) == seconds
    answers.error = "no answer"
    assert cluster.grace_seconds(launch) is None
