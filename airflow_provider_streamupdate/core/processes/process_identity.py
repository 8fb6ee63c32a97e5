"""The identity of a process. A pid alone is not enough: it is reused, and each container counts its own.

A process is identified by its boot, its pid namespace, its pid and its exact start. If all of these are equal, it is
the same process, no matter what the clocks say; if no such process is found, it has ended. A process of another boot or
namespace, or without a known exact start, cannot be judged from here: only its heartbeat shows whether it lives
(`pulse.py`).
"""

from __future__ import annotations

import os
import signal
import socket

import attrs

from .kernel import NotInspectableError, ProcessInfo, this_kernel


@attrs.frozen(kw_only=True)
class ProcessIdentity:
    """The identity of a process. boot, namespace and start are None where the kernel does not tell them
    (`kernel.py`)."""

    host: str  # for people
    pid: int
    boot: str | None = None
    namespace: str | None = None
    start: int | None = None

    @classmethod
    def of(cls, pid: int) -> ProcessIdentity:
        """The identity of a process of this machine, as exact as possible; a process that has ended has no start."""
        kernel = this_kernel()
        namespace, start = kernel.namespace(), None
        if namespace is not None:
            try:
                found = kernel.inspect(pid)
                start = found.start if found else None
            except NotInspectableError:
                pass
        return cls(host=socket.gethostname(), pid=pid, boot=kernel.boot(), namespace=namespace, start=start)

    @classmethod
    def own(cls) -> ProcessIdentity:
        """The identity of this process."""
        return cls.of(this_kernel().own_pid())

    @property
    def exact(self) -> bool:
        """True when it distinguishes the process from every other one."""
        return None not in (self.boot, self.namespace, self.start)

    def same(self, other: ProcessIdentity | None) -> bool:
        """Whether both are certainly the same process."""
        return other is not None and self.exact and attrs.evolve(other, host=self.host) == self

    def here(self) -> bool:
        """Whether the process belongs (or belonged) to the process table that is visible from here."""
        kernel = this_kernel()
        return self.exact and (self.boot, self.namespace) == (kernel.boot(), kernel.namespace())

    def lives(self) -> bool | None:
        """Return whether the process lives; None when that is unknown from here."""
        if not self.here():
            return None
        try:
            found = this_kernel().inspect(self.pid)
        except NotInspectableError:
            return None
        return found is not None and self.is_seen_as(found) and not found.zombie

    def is_seen_as(self, found: ProcessInfo) -> bool:
        """Whether a process seen here is this one, living or a zombie."""
        return (found.pid, found.start) == (self.pid, self.start)

    def signal(self, number: int) -> bool:
        """Send a signal to this very process; False when it was not sent, because the process is gone, another user's,
        or cannot be distinguished from another. Where the system has descriptors of processes (Linux: pidfd_open(2)),
        the inspected process is the signalled one, even when its pid is reused in between."""
        try:
            descriptor = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return False
        except (AttributeError, OSError):  # not this system, an older kernel, or forbidden by a sandbox
            return bool(self.lives()) and _kill(self.pid, number)
        try:
            if not self.lives():  # it was there already when the descriptor was opened, if it is there now
                return False
            signal.pidfd_send_signal(descriptor, number)
        except (ProcessLookupError, PermissionError):
            return False
        finally:
            os.close(descriptor)
        return True


def _kill(pid: int, number: int) -> bool:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True
