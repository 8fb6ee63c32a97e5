"""What a driver is started with, on the machine that starts it."""

from __future__ import annotations

import hashlib
import uuid
from pathlib import Path

import attrs

from ...core.registry.application import Application
from ...core.registry.deployment import DeploymentSpec
from ...core.registry.output_log import DEPLOYMENTS, name_here
from ...core.registry.registry import AppRegistry
from ...core.storage import Folder
from . import runtime
from .runtime import private_folder


@attrs.frozen(kw_only=True)
class LaunchFiles:
    """The local files from which a deployment's driver is started."""

    folder: Path  # also of the driver's log
    runtime: Path
    application: Application  # its paths are inside the folder


def launch_files(app: AppRegistry, spec: DeploymentSpec, root: str) -> LaunchFiles:
    """Bring what the driver needs to this machine. This may fail, so it is done before another driver is fenced.
    StorageError when it cannot be read."""
    own = app.deployment_folder(spec.deployment)
    folder = local_folder(own, spec)
    zipped = runtime.of_deployment(own, folder, root)
    return LaunchFiles(folder=folder, runtime=zipped, application=located(spec.application, folder))


def local_application(app: AppRegistry, deployment: str) -> Application:
    """Return a deployment's application with its files on this machine."""
    spec = app.spec(deployment)
    return located(spec.application, local_folder(app.deployment_folder(deployment), spec))


def local_folder(folder: Folder, spec: DeploymentSpec) -> Path:
    """Return a folder on this machine with a deployment's application: its own for a local root, else a copy."""
    if (here := folder.path_here) is not None:
        return here
    # A root that was removed and made again has the same address, and so has another server's.
    made = hashlib.sha256(spec.submitted_at.encode()).hexdigest()[:12]
    target = private_folder(DEPLOYMENTS) / f"{name_here(folder)}{made}"
    copies, arriving = Folder.scratch(target), f".{uuid.uuid4().hex}"
    for file in folder.files("application"):
        (target / "application" / file).parent.mkdir(parents=True, exist_ok=True)
        copies.copy_from(folder, f"application/{file}", arriving)
        copies.rename(arriving, f"application/{file}")  # a driver may be reading it
    return target


def located(application: Application, folder: Path) -> Application:
    """Return the application with its relative paths below the folder."""
    return attrs.evolve(
        application,
        file=str(folder / application.file),
        py_files=tuple(str(folder / f) for f in application.py_files),
        files=tuple(str(folder / f) for f in application.files),
    )
