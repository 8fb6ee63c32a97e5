"""What every kind of cluster does, tried with real processes: this machine, YARN (its own client over a YARN made of
files; tests/ground/yarn.py has the real one), Kubernetes (over pods made of files; tests/ground/k8s.py), and the
example of a kind of one's own."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import attrs
import pytest

from airflow_provider_streamupdate.control.drivers import clusters, process
from airflow_provider_streamupdate.control.drivers.clusters import Living, alive, cluster_for, cluster_of
from airflow_provider_streamupdate.control.drivers.clusters.cluster import Client, Cluster
from airflow_provider_streamupdate.control.drivers.clusters.kubernetes import Kubernetes
from airflow_provider_streamupdate.control.waiting import wait_for
from airflow_provider_streamupdate.core import clock
from airflow_provider_streamupdate.core.errors import StreamUpdateError
from airflow_provider_streamupdate.core.registry.deployment import Launch
from airflow_provider_streamupdate.core.serde import from_json, to_json

from . import pods_of_files, yarn_of_files
from .boxes import Boxes

# A driver: says where it runs, and goes on.
DRIVER = "import os, sys, time; open(sys.argv[1], 'w').write(str(os.getpid())); time.sleep(600)"


@attrs.frozen
class Case:
    """options: of spark-submit, with which the cluster takes a command"""

    cluster: Cluster
    spark_submit: Path
    options: list[str]

    def command(self, *words: str) -> list[str]:
        return [str(self.spark_submit), *self.options, *words]

    def start(self, folder: Path, name: str, note: Callable[[Launch], None] = lambda _: None) -> Launch:
        command = self.command(sys.executable, "-c", DRIVER, str(folder / name))
        prepared = cluster_for(command).prepare(command, ("root", "app", name, "1"), {})
        return process.start(
            prepared.command,
            os.environ,
            folder / f"{name}.log",
            1,
            note,
            cluster=self.cluster.name,
            submitted=prepared.submitted,
        )

    def client(self) -> Client:
        return Client(str(self.spark_submit), os.environ)


@pytest.fixture(params=["local", "yarn", "kubernetes", "boxes"])
def case(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Case:
    monkeypatch.setattr(clusters, "CLUSTERS", [Boxes(), *clusters.CLUSTERS])
    runs_what_follows = tmp_path / "bin" / "spark-submit"
    runs_what_follows.parent.mkdir()
    runs_what_follows.write_text('#!/bin/sh\nshift 2\nexec "$@"\n')
    runs_what_follows.chmod(0o755)
    if request.param == "local":
        return Case(named("local"), runs_what_follows, ["--master", "local[1]"])
    if request.param == "boxes":
        return Case(named("boxes"), runs_what_follows, ["--master", f"box:{tmp_path}/boxes"])
    if request.param == "kubernetes":
        submit, pods = pods_of_files.install(tmp_path / "pods"), pods_of_files.PodsOfFiles(tmp_path / "pods")
        cluster = Kubernetes(lambda place: pods)
        monkeypatch.setattr(clusters, "CLUSTERS", [cluster, *(c for c in clusters.CLUSTERS if c.name != cluster.name)])
        return Case(cluster, submit, ["--master", "k8s://https://127.0.0.1:1", "--deploy-mode", "cluster"])
    submit = yarn_of_files.install(tmp_path / "yarn")
    return Case(named("yarn"), submit, ["--master", "yarn", "--deploy-mode", "cluster"])


def named(name: str) -> Cluster:
    return next(cluster for cluster in clusters.CLUSTERS if cluster.name == name)


def running(place: Path) -> int:
    """The driver's process, when it has begun."""
    return wait_for(lambda: int(text) if place.exists() and (text := place.read_text()) else None, str(place), 60)


def exists(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def ended(pid: int) -> None:
    wait_for(lambda: True if not exists(pid) else None, f"the end of {pid}", 60)


def test_one_takes_a_command_and_runs_what_is_found_by_a_record(case: Case) -> None:
    assert len({c.name for c in clusters.CLUSTERS}) == len(clusters.CLUSTERS)
    assert cluster_for(case.command("app.py")) is case.cluster
    assert cluster_for(["spark-submit", "app.py"]).name == "local", "whatever is not known"
    # what is run ends with the application and is found by a record
    one, other = (case.cluster.prepare(case.command("app.py", "run"), ("root", "app", d, "1"), {}) for d in ("a", "b"))
    assert one.command[-2:] == other.command[-2:] == ["app.py", "run"]
    assert one == case.cluster.prepare(case.command("app.py", "run"), ("root", "app", "a", "1"), {})
    assert one.submitted is None or one.submitted != other.submitted


def test_a_driver_is_started_found_by_its_record_and_ended_alone(case: Case, tmp_path: Path) -> None:
    notes: list[bytes] = []
    made = case.start(tmp_path, "a", lambda launch: notes.append(to_json(launch)))
    beside = case.start(tmp_path, "b")
    pid, other = running(tmp_path / "a"), running(tmp_path / "b")
    found = from_json(notes[0], Launch, "the registry")  # as from another process
    assert found == made and cluster_of(found) is case.cluster
    assert alive(found) in (True, None) and Living()(found) in (True, None)
    told = case.cluster.log_of(made, "application_1_1")
    assert (told is None) == (made.submitted is None), "whose log it is"
    assert case.cluster.end(found, case.client) is True
    ended(pid)
    assert exists(other)
    assert case.cluster.end(found, case.client) is True, "once more: it has ended"
    assert alive(attrs.evolve(found, killed=True)) is False
    if found.submitted is None:
        assert alive(found) is False is Living()(found)
    case.cluster.end(beside, case.client)
    ended(other)


def test_one_whose_submitter_is_gone_is_ended_all_the_same(case: Case, tmp_path: Path) -> None:
    made = case.start(tmp_path, "a")
    pid = running(tmp_path / "a")
    if made.submitted:
        wait_for(lambda: True if process.alive_check()(attrs.evolve(made, submitted=None)) is False else None, "it", 60)
        assert exists(pid)
    case.cluster.end(made, case.client)
    ended(pid)


def test_one_that_was_never_begun_does_not_begin_later(case: Case, tmp_path: Path) -> None:
    """Whoever starts it dies before the launch is known."""

    def dies(_launch: Launch) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        case.start(tmp_path, "a", dies)
    follower = case.start(tmp_path, "b")  # which begins after the first would have
    pid = running(tmp_path / "b")
    assert not (tmp_path / "a").exists()
    case.cluster.end(follower, case.client)
    ended(pid)


def test_a_launch_in_a_cluster_that_is_not_known_is_a_clear_error() -> None:
    launch = Launch(epoch=1, host="h", pid=1, log="", launched_at=clock.now(), cluster="nomad")
    with pytest.raises(StreamUpdateError, match=r"'nomad', which this version of the package does not know \(it"):
        alive(launch)
