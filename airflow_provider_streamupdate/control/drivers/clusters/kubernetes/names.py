"""What a driver's pod is called, and the labels by which it is found."""

from __future__ import annotations

import hashlib
import re

LENGTH = 63  # of a label's value, and of a pod's name that is a host name, too (RFC 1123)
DIGEST = 8  # characters of it in a name that was shortened
APP, DEPLOYMENT, EPOCH, ROOT = (f"streamupdate-{part}" for part in ("app", "deployment", "epoch", "root"))


def pod_name(root: str, app: str, deployment: str, epoch: str) -> str:
    """Return ``su-<app>-<deployment>-<digest>-<epoch>-driver``, of at most LENGTH characters.

    The digest is of root, app and deployment: two drivers never share a name (``a`` of ``b-c`` and ``a-b`` of ``c``,
    the same app under two roots), although what a pod's name may not have, or is too long, is changed. The API server
    makes a pod of one name once, which refuses a second submit of the same epoch.

    root: the address of the app's registry
    epoch: the number of the driver's epoch
    """
    end = f"-{_digest(f'{root}|{app}|{deployment}')}-{epoch}-driver"
    allowed = re.sub(r"[^a-z0-9-]+", "-", f"su-{app}-{deployment}".lower())
    return allowed[: LENGTH - len(end)].rstrip("-") + end


def labels(root: str, app: str, deployment: str, epoch: str) -> dict[str, str]:
    """Return the labels of the driver's and executors' pods. The root is a digest, as a label has no slashes."""
    return {ROOT: _digest(root), APP: label(app), DEPLOYMENT: label(deployment), EPOCH: epoch}


def label(text: str) -> str:
    """Return a text as a label's value. Text with characters that labels lack is changed and gets a digest."""
    allowed = re.sub(r"[^A-Za-z0-9_.-]+", "-", text)[:LENGTH].strip("_.-")
    if allowed == text:
        return text
    return f"{allowed[: LENGTH - DIGEST - 1].rstrip('_.-')}-{_digest(text)}".lstrip("-")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:DIGEST]
