"""Which drivers run and should not: the rule, and a supervisor and doctor that act on it."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import attrs
import pytest

from airflow_provider_streamupdate.control.client import StreamUpdateClient
from airflow_provider_streamupdate.control.drivers import clusters
from airflow_provider_streamupdate.control.drivers.clusters.cluster import RunningDriver
from airflow_provider_streamupdate.control.drivers.clusters.kubernetes import Kubernetes
from airflow_provider_streamupdate.control.drivers.launcher import SparkSubmit
from airflow_provider_streamupdate.control.drivers.orphans import END_SECONDS, orphans, why_over
from airflow_provider_streamupdate.control.supervision.supervise import SuperviseOptions, _Supervisor
from airflow_provider_streamupdate.core import clock
from airflow_provider_streamupdate.core.errors import DriverError
from airflow_provider_streamupdate.core.registry import hot_standby
from airflow_provider_streamupdate.core.registry.deployment import CANCELLED, LOST, RUNNING, Current, Launch, Status
from airflow_provider_streamupdate.core.registry.hot_standby import HotStandby
from airflow_provider_streamupdate.core.registry.registry import AppRegistry, Registry
from tests.core.builders import deploy, set_status, spec, status

from .test_kubernetes import Answers, its

LAUNCH = Launch(epoch=3, host="h", pid=1, log="", launched_at="2026-01-01T00:00:00+00:00")
KILLED = attrs.evolve(LAUNCH, killed=True)
HERS = Current(deployment="v1", epoch=3)
NEXT = Current(deployment="v2", epoch=4)
RUNS = attrs.evolve(status(), state=RUNNING)


def ended(seconds: float) -> Status:
    """One that reported its end so long before the call."""
    at = (clock.parse(clock.now()) - timedelta(seconds=seconds)).isoformat()
    return attrs.evolve(status(), state=CANCELLED, heartbeat_at=at)


CASES = {
    "the current one": (3, LAUNCH, RUNNING, RUNS, HERS, False, None),
    "it starts": (3, LAUNCH, "starting", None, HERS, False, None),
    "its launch is being written": (3, None, "", None, HERS, False, None),
    "no app has it": (3, None, "", None, HERS, False, "no deployment"),
    "an earlier one of the same deployment": (2, LAUNCH, RUNNING, RUNS, HERS, False, "later driver, of epoch 3"),
    "one that was ended": (3, KILLED, RUNNING, RUNS, HERS, False, "was ended"),
    "the new version of an update": (5, attrs.evolve(LAUNCH, epoch=5), RUNNING, RUNS, NEXT, True, None),
    "the old version, while the update goes on": (3, LAUNCH, RUNNING, RUNS, NEXT, True, None),
    "the old version, after it": (3, LAUNCH, RUNNING, RUNS, NEXT, False, "epoch 3 is over: v2 runs in epoch 4"),
    "one that took back: its pod has the label of the epoch it was started in": (
        3, LAUNCH, RUNNING, RUNS, Current(deployment="v1", epoch=5), False, None,
    ),
    "standby": (4, attrs.evolve(LAUNCH, epoch=4), "standby", RUNS, Current(deployment="v0", epoch=3), False, None),
    "it has just ended": (3, LAUNCH, CANCELLED, 1.0, HERS, False, None),
    "it hangs at its end": (3, LAUNCH, CANCELLED, END_SECONDS + 5, HERS, False, "its end (cancelled)"),
    "lost, by a reader's clock": (3, LAUNCH, LOST, RUNS, HERS, False, None),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=str)
def test_which_driver_s_time_is_over(case: str) -> None:
    epoch, launch, state, heard, current, updating, why = CASES[case]
    of = None if case == "no app has it" else "v1"
    driver = RunningDriver(name="pod p", label="v1", epoch=epoch, end=lambda: None)
    told_at = ended(heard) if isinstance(heard, float) else heard
    told = why_over(driver, of, launch, state, told_at, current, updating)
    assert (told is None) if why is None else (why in (told or ""))


@pytest.fixture
def pods(monkeypatch: pytest.MonkeyPatch) -> Answers:
    made = Answers()
    cluster = Kubernetes(lambda place: made)
    monkeypatch.setattr(clusters, "CLUSTERS", [cluster, *clusters.CLUSTERS])
    return made


def start(app: AppRegistry, pods: Answers, deployment: str, epoch: int, parent: str | None = None) -> None:
    """A deployment whose driver runs in a pod."""
    if deployment not in [known.deployment for known in app.deployments()]:
        app.create_deployment(spec(deployment, parent=parent))
    command = ["spark-submit", "--master", "k8s://https://h", "--deploy-mode", "cluster", "a.py"]
    submitted = clusters.CLUSTERS[0].prepare([*command], ("root", app.name, deployment, str(epoch)), {}).submitted
    launch = attrs.evolve(LAUNCH, epoch=epoch, cluster="kubernetes", submitted=submitted)
    app.set_launch(deployment, launch)
    pods.pods.append(its(launch, uid=submitted.name))
    set_status(app, deployment, status(epoch=epoch))


def found(app: AppRegistry, root: Path, everywhere: bool = True) -> list[str]:
    seen = orphans(StreamUpdateClient(str(root)).drivers(app.name, watch=False), everywhere)
    assert not seen.problems
    return [f"{orphan.driver.name}: {orphan.why}" for orphan in seen.found]


@pytest.fixture
def app(tmp_path: Path, pods: Answers) -> AppRegistry:
    """v1 runs in epoch 1, in a pod."""
    registry = Registry(str(tmp_path)).app("flights")
    deploy(registry, "v1")
    start(registry, pods, "v1", 1)
    return registry


def test_one_that_was_started_while_pods_were_listed_is_none(app: AppRegistry, pods: Answers, tmp_path: Path) -> None:
    pods.meanwhile = lambda: start(app, pods, "v2", 2, "v1") if len(pods.pods) == 1 else None
    assert found(app, tmp_path) == [] and len(pods.pods) == 2


def test_a_hot_standby_outlives_restarts_of_its_leader(app: AppRegistry, pods: Answers, tmp_path: Path) -> None:
    start(app, pods, "v1-standby-1", 2, "v1")
    hot_standby.write(app.folder, HotStandby(deployment="v1-standby-1", asked_by="me", asked_at=clock.now()))
    for epoch in (2, 3, 4):
        pods.pods = [pod for pod in pods.pods if "standby" in pod.name]
        app.claim(Current(deployment="v1", epoch=epoch, promoted=True))
        start(app, pods, "v1", epoch)
        assert found(app, tmp_path) == []
    hot_standby.write(app.folder, None)
    assert len(found(app, tmp_path)) == 1, "nobody wants it any more"


def test_pods_of_deployments_that_are_gone_are_ended_by_a_supervisor(
    app: AppRegistry, pods: Answers, tmp_path: Path
) -> None:
    labels = {**pods.pods[0].labels, "streamupdate-deployment": "v0"}
    pods.pods.append(attrs.evolve(pods.pods[0], name="su-flights-v0-1-driver", labels=labels))
    for everywhere in (True, False):
        assert found(app, tmp_path, everywhere) == [
            "pod su-flights-v0-1-driver: no deployment of the app is its own any more"
        ]
    told: list[str] = []
    client = StreamUpdateClient(str(tmp_path), SparkSubmit("/bin/true"))
    options = SuperviseOptions(apps=("flights",), timeout=1.0, progress=told.append, once=True)
    supervisor = _Supervisor(client.context, options)
    supervisor.check_apps()
    supervisor.close()
    assert [pod.name for pod in pods.deleted] == ["su-flights-v0-1-driver"]
    assert any("runs and should not" in line for line in told)


def test_an_app_of_another_cluster_costs_no_look(tmp_path: Path, pods: Answers) -> None:
    registry = Registry(str(tmp_path)).app("flights")
    deploy(registry, "v1")
    pods.meanwhile = lambda: pytest.fail("nobody is to be asked")
    assert found(registry, tmp_path) == []


def test_a_usual_look_reads_nothing_else(app: AppRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drivers = StreamUpdateClient(str(tmp_path)).drivers(app.name, watch=False)
    monkeypatch.setattr(AppRegistry, "deployments", lambda _: pytest.fail("all deployments are read"))
    assert orphans(drivers, everywhere=False).found == []


def test_a_place_that_does_not_answer_hides_no_other_one(app: AppRegistry, pods: Answers, tmp_path: Path) -> None:
    start(app, pods, "v0", 1)
    launch = app.launch("v0")
    place = attrs.evolve(launch.submitted.place, server="https://gone")
    app.set_launch("v0", attrs.evolve(launch, submitted=attrs.evolve(launch.submitted, place=place)))
    looks = [lambda: None, lambda: (_ for _ in ()).throw(DriverError("https://gone does not answer"))]
    pods.meanwhile = lambda: looks.pop(0)()
    app.set_launch("v1", attrs.evolve(app.launch("v1"), epoch=2))
    seen = orphans(StreamUpdateClient(str(tmp_path)).drivers("flights", watch=False))
    assert len(seen.problems) == 1 and any("later driver, of epoch 2" in orphan.why for orphan in seen.found)
