"""Deployments of new versions and of copies: their owners, their code and files."""

from __future__ import annotations

from pathlib import Path

import attrs

from ...core import clock
from ...core.boundaries import boundary
from ...core.compatibility.agreement import names_to_agree_to
from ...core.compatibility.compatibility import compare
from ...core.registry.application import Application
from ...core.registry.deployment import DeploymentSpec
from ...core.registry.registry import AppRegistry
from ...core.storage import Folder
from ..drivers.launch_files import local_application


def update_owner(deployment: str) -> str:
    """Return the owner token of what an update starts."""
    return f"update {deployment}"


def store_copy(
    registry: AppRegistry, of: str, deployment: str, owner: str, from_snapshot: str | None = None
) -> DeploymentSpec:
    """Store a deployment with the code, files and parameters of `of`, which is its parent.

    Of what `of` agreed to, only what is asked of a version that continues itself: the rest was about the change to it.
    """
    parent, plan = registry.spec(of), registry.plan(of)
    asked = names_to_agree_to(compare(plan, plan, of).items) if plan is not None else set()
    spec = DeploymentSpec(
        app=registry.name,
        deployment=deployment,
        application=store_application(local_application(registry, of), registry.deployment_folder(deployment)),
        digest=parent.digest,
        submitted_at=clock.now(),
        parent=of,
        from_snapshot=from_snapshot,
        agree=tuple(name for name in parent.agree if name.partition("=")[0].strip() in asked),
        owner=owner,
    )
    registry.create_deployment(spec)
    return spec


def store_application(application: Application, folder: Folder) -> Application:
    """Copy code and files into the deployment's folder, so that a rollback runs the same code.

    Returns the application with paths relative to that folder.
    """
    kept = copy_application(application, folder)
    boundary("code-stored")
    return kept


def copy_application(application: Application, folder: Folder) -> Application:
    """Copy code and files into a folder. Returns the application with paths relative to it."""

    def keep(path: str, place: str) -> str:
        target = f"application/{place}{Path(path).name}"
        folder.write(target, Path(path).read_bytes())
        return target

    kept = attrs.evolve(
        application,
        file=keep(application.file, ""),
        py_files=tuple(keep(f, f"py_files/{n}/") for n, f in enumerate(application.py_files)),
        files=tuple(keep(f, f"files/{n}/") for n, f in enumerate(application.files)),
    )
    if (script := application.script) is not None:
        in_folder = script.in_folder or Path(script.folder) == Path(application.file).parent  # of a copy: as it was
        kept = attrs.evolve(kept, script=attrs.evolve(script, in_folder=in_folder))
    for name in application.files_beside():
        folder.write(f"application/{name}", (Path(application.file).parent / name).read_bytes())
    return kept
