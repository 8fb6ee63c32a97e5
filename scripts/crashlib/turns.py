"""When a driver may write into a sink: in its epochs, and while it runs beside the current deployment."""

from __future__ import annotations

import json
from pathlib import Path

import attrs

from airflow_provider_streamupdate.core.registry.deployment import DeploymentSpec
from airflow_provider_streamupdate.core.registry.registry import AppRegistry


@attrs.frozen
class Turn:
    """Of process `pid`, from `begin` to `end` (Unix time, seconds)."""

    pid: int
    begin: float
    end: float

    def allows(self, pid: int, at: float, tolerance: float) -> bool:
        return pid == self.pid and self.begin - tolerance <= at <= self.end + tolerance


@attrs.frozen
class _Epoch:
    """Of a deployment. number: its driver's"""

    deployment: str
    number: int
    begin: float
    end: float


def turns(registry: AppRegistry, output: str) -> list[Turn]:
    """Of the drivers whose version has this parameter `output`."""
    specs = {s.deployment: s for s in registry.deployments() if s.application.params.get("output") == output}
    epochs = _epochs(Path(registry.folder.base))
    found = [turn for spec in specs.values() if spec.fork for turn in _beside(registry, spec, epochs)]
    drivers: dict[str, set[int]] = {}
    before: _Epoch | None = None
    for epoch in epochs:
        if epoch.deployment in specs:
            claim = _claims(registry, epoch.deployment).get(epoch.number)
            known = drivers.setdefault(epoch.deployment, set())
            # A driver that took its epoch back from another deployment may not have come to claiming it.
            taken_back: set[int] = set() if before is None or before.deployment == epoch.deployment else set(known)
            claimed = taken_back if claim is None else {_pid(claim)}
            known |= claimed
            found += [Turn(pid, epoch.begin, epoch.end) for pid in claimed]
        before = epoch
    return found


def _epochs(app: Path) -> list[_Epoch]:
    """In order. The number of one that was promoted after it ran beside another may be greater than its file's."""
    files = sorted((app / "epochs").glob("*.json"), key=lambda p: int(p.stem))
    begins = [file.stat().st_mtime for file in files]
    held = [json.loads(file.read_text()) for file in files]
    ends = [*begins[1:], float("inf")]
    return [_Epoch(h["deployment"], h["epoch"], b, e) for h, b, e in zip(held, begins, ends, strict=True)]


def _beside(registry: AppRegistry, spec: DeploymentSpec, epochs: list[_Epoch]) -> list[Turn]:
    """Until the next driver of the deployment was started, or its own epoch began."""
    own = next((epoch for epoch in epochs if epoch.deployment == spec.deployment), None)
    claims = [c for n, c in sorted(_claims(registry, spec.deployment).items()) if own is None or n <= own.number]
    begins = [claim.stat().st_mtime for claim in claims]
    ends = [*begins[1:], own.begin if own else float("inf")]
    return [Turn(_pid(claim), b, e) for claim, b, e in zip(claims, begins, ends, strict=True)]


def _claims(registry: AppRegistry, deployment: str) -> dict[int, Path]:
    folder = Path(registry.folder.base) / "deployments" / deployment / "drivers"
    return {int(p.stem): p for p in folder.glob("*.json")}


def _pid(claim: Path) -> int:
    return int(json.loads(claim.read_text())["pid"])
