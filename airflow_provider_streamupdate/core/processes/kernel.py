"""What this machine's kernel says about processes. Standard library only, since it runs in the driver.

Nothing here depends on the wall clock: Linux counts a process's start in clock ticks since boot (field 22 of
``/proc/<pid>/stat``, proc_pid_stat(5)), macOS keeps the time it noted at the fork.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import struct
import sys
import time
from functools import cache
from pathlib import Path
from typing import Protocol

import attrs


@attrs.frozen
class ProcessInfo:
    """An existing process."""

    pid: int
    start: int  # when it began, in the kernel's own unit
    session: int  # the id of its session
    zombie: bool  # it has ended, and its parent has not waited for it


class NotInspectableError(Exception):
    """The process may exist, but cannot be inspected from here."""


class Kernel(Protocol):
    """The port to the kernel. Tests and the simulation replace it (`use`)."""

    def own_pid(self) -> int:
        """The pid of this process."""

    def boot(self) -> str | None:
        """An id that the machine drew when it was booted; None: it has none."""

    def namespace(self) -> str | None:
        """The pid namespace (containers share boot and host name, but not this); None: unknown, so no pid means
        anything."""

    def uptime(self) -> float | None:
        """Seconds since boot, a clock that cannot be set. None: unknown."""

    def inspect(self, pid: int) -> ProcessInfo | None:
        """The process with that pid; None when there is none. NotInspectableError when that is unknown."""


class Unknown:
    """An unsupported system: no process can be distinguished from another."""

    def own_pid(self) -> int:
        return os.getpid()

    def boot(self) -> str | None:
        return None

    def namespace(self) -> str | None:
        return None

    def uptime(self) -> float | None:
        return None

    def inspect(self, pid: int) -> ProcessInfo | None:
        raise NotInspectableError(f"process {pid}: processes cannot be inspected on {sys.platform}")


class Linux(Unknown):
    """The kernel's answers from /proc, if /proc belongs to this process's own pid namespace."""

    def boot(self) -> str | None:
        try:
            return Path("/proc/sys/kernel/random/boot_id").read_text().strip() or None
        except OSError:
            return None

    def namespace(self) -> str | None:
        try:
            if os.readlink("/proc/self") != str(os.getpid()):
                return None  # a /proc of another namespace: what it calls a pid is another process
            found = os.readlink("/proc/self/ns/pid")
        except OSError:
            return None
        with contextlib.suppress(OSError):  # kernels before 5.6 have none; starts are counted in it
            found += " " + os.readlink("/proc/self/ns/time")
        return found

    def uptime(self) -> float | None:
        return time.clock_gettime(time.CLOCK_BOOTTIME) if sys.platform == "linux" else None

    def inspect(self, pid: int) -> ProcessInfo | None:
        try:
            text = Path(f"/proc/{pid}/stat").read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            if exists(pid):  # hidden (hidepid of proc(5)), or new since
                raise NotInspectableError(f"process {pid} is hidden") from None
            return None
        except OSError as error:
            raise NotInspectableError(f"process {pid}: {error}") from error
        fields = text.rpartition(b")")[2].split()  # a name may hold anything; what follows starts with field 3
        return ProcessInfo(pid, int(fields[19]), int(fields[3]), fields[0] in (b"Z", b"X"))


class MacOS(Unknown):
    """The kernel's answers from sysctl(3), which psutil uses, too."""

    # sys/sysctl.h and sys/proc.h: kinfo_proc begins with extern_proc, that with the time of the fork as a timeval;
    # p_stat follows three pointers' worth and an int.
    _KERN_PROC_PID = (1, 14, 1)
    _STATUS, _ZOMBIE = 36, 5

    def boot(self) -> str | None:
        found = self._by_name("kern.bootsessionuuid")
        return found.rstrip(b"\0").decode() or None if found else None

    def namespace(self) -> str | None:
        return "macos"  # one for the machine

    def uptime(self) -> float | None:
        return time.monotonic()  # stands still while the machine sleeps

    def inspect(self, pid: int) -> ProcessInfo | None:
        words = (ctypes.c_int * 4)(*self._KERN_PROC_PID, pid)
        buffer, size = ctypes.create_string_buffer(4096), ctypes.c_size_t(4096)
        if _libc().sysctl(words, 4, buffer, ctypes.byref(size), None, 0) != 0:
            raise NotInspectableError(f"process {pid}: {os.strerror(ctypes.get_errno())}")
        if size.value <= self._STATUS:
            if exists(pid):
                raise NotInspectableError(f"process {pid} is hidden")
            return None
        seconds, micros = struct.unpack_from("=qi", buffer.raw)
        zombie = buffer.raw[self._STATUS] == self._ZOMBIE
        try:
            session = os.getsid(pid)
        except ProcessLookupError:
            session, zombie = 0, True
        except PermissionError:
            session = 0
        return ProcessInfo(pid, seconds * 1_000_000 + micros, session, zombie)

    def _by_name(self, name: str) -> bytes | None:
        buffer, size = ctypes.create_string_buffer(256), ctypes.c_size_t(256)
        failed = _libc().sysctlbyname(name.encode(), buffer, ctypes.byref(size), None, 0)
        return None if failed else buffer.raw[: size.value]


def exists(pid: int) -> bool:
    """Whether there is a process with that pid, of any user."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True


_KINDS: dict[str, type[Linux] | type[MacOS]] = {"linux": Linux, "darwin": MacOS}
_kernel: Kernel = _KINDS.get(sys.platform, Unknown)()


def use(kernel: Kernel) -> None:
    """Ask another kernel from now on."""
    global _kernel
    _kernel = kernel


def this_kernel() -> Kernel:
    """The kernel of the machine that this runs on."""
    return _kernel


def own_pid() -> int:
    """The pid of this process."""
    return _kernel.own_pid()


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
