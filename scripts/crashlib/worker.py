"""A process of the suite's own that is struck: an update's, or a supervisor. It may be started again and again."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path


class Worker:
    """Runs `python -m <words>` and appends what it says to `log`."""

    def __init__(self, words: tuple[str, ...], environment: Mapping[str, str], log: Path) -> None:
        self.log = log
        self._command = [sys.executable, "-m", *words]
        self._environment = environment
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with open(self.log, "ab") as output:
            output.write(b"-- a process starts\n")
            output.flush()
            self._process = subprocess.Popen(
                self._command, env=self._environment, stdout=output, stderr=output, start_new_session=True
            )

    def ended(self) -> bool:
        return self._process is None or self._process.poll() is not None

    @property
    def code(self) -> int:
        """The exit code of one that has ended."""
        assert self._process is not None and self._process.returncode is not None
        return self._process.returncode

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def end(self, seconds: float) -> int:
        """Ask it to end (SIGTERM); its exit code. subprocess.TimeoutExpired after so many seconds."""
        assert self._process is not None
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        return self._process.wait(seconds)
