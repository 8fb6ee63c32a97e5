"""How long ago another process did something, without comparing two clocks: by the time since boot where both run on
one machine, else by the storage's own clock."""

from __future__ import annotations

import uuid

import attrs

from ..storage import Folder
from .kernel import this_kernel


@attrs.frozen(kw_only=True)
class Uptime:
    """A moment on the clock of one boot of one machine."""

    boot: str
    namespace: str  # each container may have a boot time of its own (time_namespaces(7))
    seconds: float  # since the boot

    @classmethod
    def now(cls) -> Uptime | None:
        """The present moment; None where it is unknown."""
        kernel = this_kernel()
        boot, namespace, seconds = kernel.boot(), kernel.namespace(), kernel.uptime()
        if boot is None or namespace is None or seconds is None:
            return None
        return cls(boot=boot, namespace=namespace, seconds=seconds)

    def ago(self) -> float | None:
        """Seconds since that moment; None when it is of another boot or container."""
        now = self.now()
        if now is None or (now.boot, now.namespace) != (self.boot, self.namespace):
            return None
        return now.seconds - self.seconds


def written_ago(folder: Folder, path: str) -> float:
    """Seconds since a file was written, by the clock of the storage alone: a file that is written now is compared with
    it. 0.0 when it is gone."""
    probe = f"_probe-{uuid.uuid4().hex}"
    try:
        folder.write(probe, b"")
        return folder.modified(probe) - folder.modified(path)
    except FileNotFoundError:
        return 0.0
    finally:
        folder.remove(probe)
