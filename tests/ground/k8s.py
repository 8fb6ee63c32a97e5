"""Kubernetes: a real API server with RBAC, and pods that are processes of this machine (kube/). Drivers in pods, with
executors in pods of their own; who submits and what a driver does have the rights of docs/kubernetes/rbac.yaml."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from airflow_provider_streamupdate.control.client import StreamUpdateClient
from airflow_provider_streamupdate.control.drivers.clusters import cluster_of
from airflow_provider_streamupdate.control.drivers.launch_files import local_application
from airflow_provider_streamupdate.control.drivers.launcher import SparkSubmit, spark_environment
from airflow_provider_streamupdate.control.waiting import wait_for
from airflow_provider_streamupdate.core.boundaries import VARIABLE
from airflow_provider_streamupdate.core.checkpoint.checkpoint import Checkpoint
from airflow_provider_streamupdate.core.errors import DriverError, WaitTimeoutError
from tests.e2e.ground import ROOT, SPARK_SUBMIT

from .kube.kubelet import Kubelet
from .kube.server import Server, api_server, conf_of_pods
from .records import PARTS, Records

PATIENCE = 120.0
REATTACH_SECONDS = 5.0
AWAY_SECONDS = 60.0
# What a pod gets from its service account and its network elsewhere, and what keeps this machine from being overrun.
NOT_OF_A_READER = ("spark.kubernetes.authenticate.driver.mounted", "spark.kubernetes.driver.master",
                   "spark.kubernetes.executor.useDriverPodIP", "spark.executor", "spark.sql", "spark.ui")  # fmt: skip


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with api_server((PARTS / "k8s" / "bin").resolve(), tmp_path_factory.mktemp("kube")) as made:
        made.apply(ROOT / "docs" / "kubernetes" / "rbac.yaml")
        yield made


@pytest.fixture
def kubelet(server: Server, tmp_path: Path) -> Iterator[Kubelet]:
    home = next(Path(SPARK_SUBMIT).resolve().parents[1].glob("lib/python3*/site-packages/pyspark"))
    with Kubelet(server, tmp_path / "pods", home, spark_environment(SPARK_SUBMIT, {})) as made:
        yield made


class InPods(Records):
    """The root and the input are on a volume that all pods have: this machine's disk."""

    patience = PATIENCE

    def __init__(self, folder: Path, server: Server, master: str | None = None) -> None:
        super().__init__(folder, ("files",), conf_of_pods(server, folder))
        self.server = server
        self.master = master or f"k8s://{server.address}"
        self.client = self.new_client()

    def new_client(self, user: str = "submitter", root: Path | None = None) -> StreamUpdateClient:
        env = {"KUBECONFIG": str(self.server.kubeconfig(user))}
        launcher = SparkSubmit(SPARK_SUBMIT, master=self.master, env_vars=env)
        return StreamUpdateClient(str(root or self.root), launcher)

    def start(self) -> None:
        self.write()
        self.client.submit(self.of_version(1), "one", app=self.app, timeout=PATIENCE)
        self.feed()

    def supervise(self) -> None:
        """One look, and what it starts."""
        self.client.supervise([self.app], timeout=PATIENCE, once=True, progress=print)

    def wait_for_some(self) -> None:
        """Three batches more."""

        def batch() -> int:
            status = self.client.status(self.app).status
            return status.queries["files"].batch if status and "files" in status.queries else -1

        last = batch() + 3
        wait_for(lambda: batch() >= last or None, "three batches more", self.patience)

    def submit_again(self) -> int:
        """The very command of version 1's driver, once more: the exit code of spark-submit, whose output is in
        again.log."""
        drivers = self.client.drivers(self.app)
        launch = drivers.app.launch("one")
        assert launch is not None
        application, launcher = local_application(drivers.app, "one"), self.client.launcher
        assert launcher is not None
        zipped = str(Path(launch.log).parent / "runtime.zip")
        identity = f"{drivers.app.folder.address}|{drivers.app.first_claim()}"
        args = ["run", "--root", self.client.root, "--app", self.app, "--deployment", "one", "--epoch", "1"]
        command = launcher.command(application, args, zipped)
        made = cluster_of(launch).prepare(command, (identity, self.app, "one", "1"), launcher.environment(application))
        assert made.submitted == launch.submitted
        with (self.folder / "again.log").open("wb") as log:
            return subprocess.run(
                made.command, env=launcher.environment(application), stdout=log, stderr=log, timeout=120, check=False
            ).returncode

    def kill_a_submit(self, at: str, pods: Callable[[], list[str]]) -> None:
        """At a boundary of ours, or while spark-submit works (`submitting`), or when the pod is there (`submitted`)."""
        strikes = self.folder / "boundaries"
        for folder in ("armed", "reached", "go"):
            (strikes / folder).mkdir(parents=True)
        if not at.startswith("submit"):
            (strikes / "armed" / at).write_text("kill")
        words = [word for key, value in self.conf.items() for word in ("--conf", f"{key}={value}")]
        words += [word for key, value in self.given.items() for word in ("--set", f"{key}={value}")]
        command = self.command("submit", self.version(1), "--deployment", "one", "--master", self.master, *words)
        env = {
            **self.environment,
            "PYTHONPATH": os.environ["PYTHONPATH"],
            "KUBECONFIG": str(self.server.kubeconfig("submitter")),
            VARIABLE: str(strikes),
        }
        submitting = subprocess.Popen(command, env=env)
        if at.startswith("submit"):
            app = self.client.registry.app(self.app)
            launch = wait_for(lambda: app.launch("one"), "the launch", 120)
            if at == "submitted":
                wait_for(lambda: pods() or None, "the pod", 120)
            submitting.kill()
            with contextlib.suppress(ProcessLookupError):
                os.killpg(launch.pid or 0, signal.SIGKILL)
        submitting.wait(120)

    def settle(self) -> None:
        self.stop_feeding()
        self.write()
        self.wait_for_all()
        self.count_up("files", self.file_sink())


@pytest.fixture
def ground(kubelet: Kubelet, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[InPods]:
    monkeypatch.setenv("KUBECONFIG", str(server.kubeconfig("submitter")))
    made = InPods(tmp_path, server)
    yield made
    kubelet.lost.clear()
    made.end()
    wait_for(lambda: not kubelet.running() or None, "the end of all pods", 120)
    kubelet.remove_ended()


@pytest.mark.timeout(900)
@pytest.mark.parametrize("strategy", ["restart", "standby", "follow"])
def test_an_update_in_pods_loses_and_doubles_nothing(ground: InPods, kubelet: Kubelet, strategy: str) -> None:
    ground.start()
    assert kubelet.epoch_of("one") == 1
    ground.update(strategy=strategy, submit_timeout=PATIENCE)
    ground.settle()
    assert kubelet.epoch_of("two") == 2
    assert not [name for name in kubelet.running() if "-one-" in name], "the old version's pods have ended"
    executors = [pod for pod in kubelet.pods() if pod["metadata"]["labels"].get("spark-role") == "executor"]
    assert executors and all(pod["metadata"]["labels"]["streamupdate-app"] == "records" for pod in executors)


@pytest.mark.timeout(900)
def test_it_is_seen_rolled_back_and_ended_from_another_machine(ground: InPods, kubelet: Kubelet) -> None:
    """From a client that has only the root and the API server."""
    ground.start()
    ground.update(strategy="standby", submit_timeout=PATIENCE)
    other = ground.new_client()
    began = time.monotonic()
    found = other.status(ground.app)
    assert found.state == "running" and time.monotonic() - began < REATTACH_SECONDS
    assert "Started reading" in (log := "\n".join(other.driver_log(ground.app, "two", 5000).lines)) or log
    ground.stop_feeding()
    other.rollback(ground.app, timeout=PATIENCE)
    written = {n for n, _, _ in ground.records}  # what version 2 wrote is written once more, under later batch ids
    wait_for(lambda: {row["id"] for row in ground.file_sink()} == written or None, "all records", PATIENCE)
    assert other.status(ground.app).current.deployment == "one"
    other.cancel(ground.app)
    wait_for(lambda: not kubelet.running() or None, "the end of all pods", 120)


@pytest.mark.timeout(900)
def test_a_driver_that_is_killed_is_told_of_and_started_again(ground: InPods, kubelet: Kubelet) -> None:
    ground.start()
    ground.wait_for_some()
    name = kubelet.driver_of("one")
    kubelet.out_of_memory.add(name)
    os.killpg(kubelet.process_of(name).pid, signal.SIGKILL)
    wait_for(lambda: ground.client.status(ground.app).state == "lost" or None, "the loss", 60)
    wait_for(lambda: "OOMKilled" in (ground.client.status(ground.app).cluster or "") or None, "the reason", 60)
    ground.supervise()
    assert kubelet.epoch_of("one") == 2
    ground.settle()


@pytest.mark.timeout(900)
def test_a_drained_node_cuts_no_batch(ground: InPods, kubelet: Kubelet) -> None:
    ground.start()
    ground.wait_for_some()
    name = kubelet.driver_of("one")
    process = kubelet.process_of(name)
    kubelet.drain(name)
    process.wait(60)
    found = ground.client.status(ground.app)
    assert (found.state, found.status and found.status.reason) == ("failed", "evicted")
    checkpoint = Checkpoint(ground.client.registry.app(ground.app).checkpoint("one", "files"))
    assert checkpoint.committed_batch() == checkpoint.logged_batch(), "no batch was cut"
    ground.supervise()
    ground.settle()


@pytest.mark.timeout(900)
def test_executors_that_are_lost_are_replaced(ground: InPods, kubelet: Kubelet) -> None:
    ground.start()
    ground.wait_for_some()
    for name in [n for n in kubelet.running() if "-exec-" in n]:
        os.killpg(kubelet.process_of(name).pid, signal.SIGKILL)
    ground.settle()


@pytest.mark.timeout(900)
def test_a_lost_node_s_driver_is_fenced_and_ended_when_it_comes_back(ground: InPods, kubelet: Kubelet) -> None:
    """Nobody is told of its end, and nobody can say that it is dead: its heartbeat alone."""
    ground.start()
    ground.wait_for_some()
    name = kubelet.driver_of("one")
    process = kubelet.process_of(name)
    kubelet.tell_unknown(name)
    kubelet.lost.add(name)
    os.killpg(process.pid, signal.SIGSTOP)  # it hangs, and may come back
    try:
        wait_for(lambda: ground.client.status(ground.app).state == "lost" or None, "the loss", 120)
        ground.supervise()
        assert ground.client.status(ground.app).current.epoch == 2  # type: ignore[union-attr]
        ground.wait_for_some()
    finally:
        os.killpg(process.pid, signal.SIGCONT)
    ground.settle()
    kubelet.lost.clear()
    wait_for(lambda: process.poll() is not None or None, "the end of the fenced one", 120)
    ground.supervise()
    wait_for(lambda: name not in kubelet.running() or None, "the end of its pod", 60)


@pytest.mark.timeout(900)
def test_an_api_server_that_is_away_stops_no_stream(ground: InPods, kubelet: Kubelet, server: Server) -> None:
    ground.start()
    ground.wait_for_some()
    server.stop()
    try:
        began = time.monotonic()
        while time.monotonic() - began < AWAY_SECONDS:
            ground.wait_for_some()
            assert ground.client.status(ground.app).state == "running"
        with pytest.raises(DriverError, match="does not answer"):
            ground.client.drivers(ground.app).kill("one")
    finally:
        server.start()
    ground.update(strategy="standby", submit_timeout=PATIENCE)
    ground.settle()


@pytest.mark.timeout(600)
def test_what_keeps_a_pod_from_running_is_told(ground: InPods, kubelet: Kubelet) -> None:
    kubelet.refused["-one-"] = "ImagePullBackOff"
    ground.write()
    with pytest.raises(WaitTimeoutError, match=r"spark-kubernetes-driver: ImagePullBackOff"):
        ground.client.submit(ground.of_version(1), "one", app=ground.app, timeout=60)
    assert "ImagePullBackOff" in (ground.client.status(ground.app).cluster or "")
    ground.client.cancel(ground.app, drain=False)
    assert not kubelet.running()


@pytest.mark.timeout(600)
def test_who_has_no_rights_is_told_which(ground: InPods, monkeypatch: pytest.MonkeyPatch, server: Server) -> None:
    ground.start()
    ground.settle()
    with monkeypatch.context() as only_here:  # whoever ends the pods afterwards has rights
        only_here.setenv("KUBECONFIG", str(server.kubeconfig("nobody")))
        with pytest.raises(DriverError, match=r'refuses to read pod .*User "nobody" cannot get resource "pods"'):
            ground.new_client("nobody").drivers(ground.app).kill("one")


@pytest.mark.timeout(600)
def test_of_two_that_submit_one_epoch_the_second_is_refused(ground: InPods, kubelet: Kubelet) -> None:
    ground.start()
    before = kubelet.process_of(kubelet.driver_of("one")).pid
    again = ground.submit_again()
    text = (ground.folder / "again.log").read_text()
    assert again != 0 and "AlreadyExists" in text, text
    assert kubelet.process_of(kubelet.driver_of("one")).pid == before
    ground.settle()


@pytest.mark.timeout(900)
@pytest.mark.parametrize("at", ["driver-forked", "driver-noted", "submitting", "submitted"])
def test_a_submitter_that_is_killed_leaves_no_second_driver(ground: InPods, kubelet: Kubelet, at: str) -> None:
    ground.write()
    ground.kill_a_submit(at, kubelet.names)
    if at == "driver-noted":  # spark-submit goes on by itself
        wait_for(lambda: ground.client.status(ground.app).state == "running" or None, "the driver", PATIENCE)
    elif at == "driver-forked":  # no driver of it is known
        ground.client.restart(ground.app, timeout=PATIENCE)
    else:  # a pod without its config map waits for ever, unless it was made in time
        wait_for(lambda: ground.client.status(ground.app).state in ("lost", "running") or None, "its end", PATIENCE)
        ground.supervise()
    ground.feed()
    ground.settle()
    ground.supervise()
    drivers = lambda: [name for name in kubelet.running() if name.endswith("-driver")]  # noqa: E731
    wait_for(lambda: len(drivers()) == 1 or None, "the end of what should not run", 60)


@pytest.mark.timeout(900)
def test_the_page_of_the_docs_leads_to_an_update(ground: InPods, kubelet: Kubelet) -> None:
    """Its own settings and commands, with this Kubernetes and this disk in the place of the reader's."""
    page = (ROOT / "docs" / "kubernetes.md").read_text()
    part = page[page.index("\n## 4. ") : page.index("\n## How drivers are found")]
    blocks = re.findall(r"```bash\n(.*?)```", part, re.DOTALL)
    lines = [line for line in "".join(blocks).splitlines() if line != "streamupdate supervise"]  # which runs for ever
    mine = {key: value for key, value in ground.conf.items() if key.startswith(NOT_OF_A_READER)}
    template = ground.folder / "driver-pod.yaml"
    template.write_text((ROOT / "docs" / "kubernetes" / "driver-pod.yaml").read_text())
    given = " ".join(f"--set {key}={value}" for key, value in ground.given.items())
    script = "\n".join(lines)
    for theirs, ours in {
        "https://HOST:6443": ground.server.address,
        "s3a://bucket/uploads": ground.conf["spark.kubernetes.file.upload.path"],
        "s3a://bucket/driver-pod.yaml": template.as_uri(),
        "s3://bucket/streams": str(ground.root),
        "REGISTRY/streams:1": "streams:test",
        "app/v1.py": f"{ground.version(1)} {given}",
        "app/v2.py": f"{ground.version(2)} {given}",
        "my-app": ground.app,
        "SETTINGS=(\n": "SETTINGS=(\n" + "".join(f"  --conf {key}={value}\n" for key, value in mine.items()),
    }.items():
        assert theirs in script, f"{theirs} is not in the page any more"
        script = script.replace(theirs, ours)
    command = f"{sys.executable} -c 'from airflow_provider_streamupdate.cli import main; main()'"
    ground.write()
    ground.feed()
    own = {"PYTHONPATH": os.environ["PYTHONPATH"], "KUBECONFIG": str(ground.server.kubeconfig("submitter"))}
    done = subprocess.run(
        ["bash", "-euxc", f'streamupdate() {{ {command} "$@"; }}\n{script}'],
        env={**ground.environment, **own}, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    print(done.stdout, done.stderr)
    assert done.returncode == 0
    ground.settle()
    driver = next(p for p in kubelet.pods() if p["metadata"]["name"] == kubelet.driver_of("v2"))
    assert driver["spec"]["terminationGracePeriodSeconds"] == 300, "of the page's pod template"


@pytest.mark.timeout(900)
def test_in_client_mode_the_executors_are_pods_of_their_driver(ground: InPods, kubelet: Kubelet) -> None:
    """With the rights of a driver, which is a process of this machine."""

    def deployments() -> list[str]:
        running = [pod for pod in kubelet.pods() if pod["status"].get("phase") not in ("Succeeded", "Failed")]
        return [pod["metadata"]["labels"]["streamupdate-deployment"] for pod in running]

    ground.conf = {k: v for k, v in ground.conf.items() if ".driver." not in k and "upload" not in k}
    ground.conf |= {"spark.submit.deployMode": "client", "spark.driver.host": "127.0.0.1"}
    ground.client = ground.new_client("driver")
    ground.start()
    ground.wait_for_some()
    assert deployments() == ["one"]
    ground.update(strategy="standby", submit_timeout=PATIENCE)
    ground.settle()
    wait_for(lambda: deployments() == ["two"] or None, "the end of the old executor", 120)
    ground.client.cancel(ground.app)
    wait_for(lambda: not kubelet.running() or None, "the end of all pods", 120)


@pytest.mark.timeout(900)
def test_a_version_is_rehearsed_and_a_checkpoint_adopted(ground: InPods, kubelet: Kubelet) -> None:
    """What a driver in a pod has left goes on as an app under another root."""
    ground.start()
    ground.wait_for_some()
    ground.client.save_snapshot(ground.app, "s1")
    ground.wait_for_some()
    report = ground.client.rehearse(ground.of_version(2), ground.app, "s1", batches=2, timeout=PATIENCE)
    assert report.passed, report.problems
    assert kubelet.epoch_of("one") == 1
    ground.settle()
    ground.client.cancel(ground.app, drain=True)
    checkpoint = ground.client.registry.app(ground.app).checkpoint("one", "files").address
    (other_root := ground.folder / "other").mkdir()
    ground.root, ground.client = other_root, ground.new_client(root=other_root)
    ground.client.adopt(ground.of_version(1), checkpoint, ground.app)
    ground.client.submit(ground.of_version(1), "one", app=ground.app, snapshot="adopted", timeout=PATIENCE)
    ground.settle()
    assert kubelet.epoch_of("one") == 1
