"""A real kube-apiserver over kine with SQLite, with RBAC, and tokens for its users."""

from __future__ import annotations

import json
import ssl
import subprocess
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import attrs
import yaml

from airflow_provider_streamupdate.control.waiting import wait_for

from ..daemon import daemon, free_port

# Token, user, uid, groups
USERS = {
    "admin": ("admin-token", "1", "system:masters"),
    "submitter": ("submitter-token", "2", ""),  # who submits and updates: what docs/kubernetes.md gives him
    "driver": ("driver-token", "3", ""),  # what a driver's service account has
    "nobody": ("nobody-token", "4", ""),
}


@attrs.define(kw_only=True)
class Server:
    """Where it is, and the folder with its certificate and the kubeconfigs of its users."""

    port: int
    folder: Path
    command: list[str]
    _runs: ExitStack = attrs.field(factory=ExitStack)

    def start(self) -> None:
        self._runs.enter_context(daemon(self.command, self.folder / "apiserver.log", ""))
        wait_for(lambda: _ready(self), "the API server", 120.0, 0.2)

    def stop(self) -> None:
        """Its data stays."""
        self._runs.close()

    @property
    def address(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    @property
    def certificate(self) -> Path:
        return self.folder / "certs" / "apiserver.crt"

    def kubeconfig(self, user: str) -> Path:
        path = self.folder / f"{user}.kubeconfig"
        if not path.exists():
            cluster = {"server": self.address, "certificate-authority": str(self.certificate)}
            path.write_text(
                yaml.safe_dump(
                    {
                        "apiVersion": "v1",
                        "kind": "Config",
                        "current-context": "here",
                        "clusters": [{"name": "here", "cluster": cluster}],
                        "users": [{"name": user, "user": {"token": USERS[user][0]}}],
                        "contexts": [
                            {"name": "here", "context": {"cluster": "here", "user": user, "namespace": "streams"}}
                        ],
                    }
                )
            )
        return path

    def token_file(self, user: str) -> Path:
        path = self.folder / f"{user}.token"
        path.write_text(USERS[user][0])
        return path

    def ask(self, method: str, path: str, body: Mapping[str, Any] | None = None, user: str = "admin") -> Any:
        """The answer as JSON; HTTPError when it refuses."""
        headers = {"Authorization": f"Bearer {USERS[user][0]}", "Content-Type": "application/json"}
        if method == "PATCH":
            headers["Content-Type"] = "application/merge-patch+json"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.address}{path}", data=data, method=method, headers=headers)
        with urllib.request.urlopen(request, context=self.tls(), timeout=30) as answer:
            return json.loads(answer.read() or b"{}")

    def tls(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.certificate))

    def apply(self, manifest: Path) -> None:
        """Create what a manifest has, in its namespaces; and let the user `driver` be who its drivers' service account
        is, because there is nobody here who makes tokens for service accounts."""
        places = {
            "Namespace": "/api/v1/namespaces",
            "ServiceAccount": "/api/v1/namespaces/{ns}/serviceaccounts",
            "Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/{ns}/roles",
            "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/{ns}/rolebindings",
        }
        for document in yaml.safe_load_all(manifest.read_text()):
            ns = document["metadata"].get("namespace", "")
            for subject in [*document.get("subjects", ())]:
                if subject["kind"] == "ServiceAccount":
                    user = {"kind": "User", "name": "driver", "apiGroup": "rbac.authorization.k8s.io"}
                    document["subjects"].append(user)
            self.ask("POST", places[document["kind"]].format(ns=ns), document)


@contextmanager
def api_server(binaries: Path, folder: Path) -> Iterator[Server]:
    """A server while the block runs."""
    certs = folder / "certs"
    certs.mkdir(parents=True, exist_ok=True)
    key = certs / "service-account.key"
    if not key.exists():
        subprocess.run(["openssl", "genrsa", "-out", str(key), "2048"], check=True, capture_output=True)
    tokens = folder / "tokens.csv"
    tokens.write_text("".join(f'{token},{name},{uid},"{groups}"\n' for name, (token, uid, groups) in USERS.items()))
    stored, port = free_port(), free_port()
    kine = [str(binaries / "kine"), "--listen-address", f"127.0.0.1:{stored}"]
    kine += ["--endpoint", f"sqlite://{folder}/state.db?_journal=WAL&cache=shared&_busy_timeout=30000"]
    kine += ["--metrics-bind-address", "0"]
    command = [
        str(binaries / "kube-apiserver"),
        f"--etcd-servers=http://127.0.0.1:{stored}",
        f"--secure-port={port}",
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        f"--cert-dir={certs}",
        "--service-cluster-ip-range=10.0.0.0/24",
        "--service-account-issuer=https://streams.test",
        f"--service-account-key-file={key}",
        f"--service-account-signing-key-file={key}",
        "--authorization-mode=RBAC",
        f"--token-auth-file={tokens}",
        "--disable-admission-plugins=ServiceAccount",
        "--endpoint-reconciler-type=none",
    ]
    server = Server(port=port, folder=folder, command=command)
    with daemon(kine, folder / "kine.log", "Kine available at|Kine listening"):
        try:
            server.start()
            yield server
        finally:
            server.stop()


def _ready(server: Server) -> bool | None:
    try:
        server.ask("GET", "/api/v1/namespaces/default")
    except (OSError, ssl.SSLError):
        return None
    return True


def conf_of_pods(server: Server, folder: Path) -> dict[str, str]:
    """The settings of docs/kubernetes.md, and what a pod has from its service account elsewhere. folder: for uploads"""
    mounted = "spark.kubernetes.authenticate.driver.mounted"
    (folder / "upload").mkdir(exist_ok=True)
    return {
        "spark.submit.deployMode": "cluster",
        "spark.kubernetes.namespace": "streams",
        "spark.kubernetes.container.image": "streams:test",
        "spark.kubernetes.file.upload.path": (folder / "upload").as_uri(),
        "spark.kubernetes.authenticate.driver.serviceAccountName": "stream-driver",
        f"{mounted}.oauthTokenFile": str(server.token_file("driver")),
        f"{mounted}.caCertFile": str(server.certificate),
        "spark.kubernetes.driver.master": server.address,
        "spark.kubernetes.executor.useDriverPodIP": "true",
        "spark.executor.instances": "1",
        "spark.executor.memory": "512m",
    }
