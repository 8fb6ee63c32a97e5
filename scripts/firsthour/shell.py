"""A user's shell: commands one after the other, whose directory and exports stay."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

from firsthour.failure import StepError

FOREIGN = ("AIRFLOW_", "STREAMUPDATE_", "SPARK_", "PYSPARK_", "PYTHON", "VIRTUAL_ENV", "UV_")
SHOWN = 3000  # characters of what a command said


class Shell:
    """In `folder`; `log`: where all that commands say is kept, beside what they were."""

    def __init__(self, folder: Path, log: Path) -> None:
        self.cwd = folder
        self.log = log
        self.environment = {n: v for n, v in os.environ.items() if not n.startswith(FOREIGN)}
        self._left = folder / ".environment"

    def run(self, line: str, code: int = 0, words: str = "", timeout: float = 600.0) -> str:
        """What it said, both streams; StepError when it exits with another code, or does not say `words`."""
        said, ended = self._run(line, timeout)
        with self.log.open("a", encoding="utf-8") as log:
            log.write(f"$ {line}\n{said}(exit code {ended})\n\n")
        if ended != code:
            raise StepError(f"exit code {ended} and not {code}: {line}\n{said[-SHOWN:]}")
        if words and " ".join(words.split()) not in " ".join(said.split()):
            raise StepError(f"it does not say {words!r}: {line}\n{said[-SHOWN:]}")
        return said

    def _run(self, line: str, timeout: float) -> tuple[str, int]:
        script = f"{line}\n__code=$?; {{ pwd -P; env -0; }} > '{self._left}'; exit $__code"
        process = subprocess.Popen(
            ["bash", "-c", script],
            cwd=self.cwd,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            said, _ = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired as error:
            raise StepError(f"still running after {timeout:.0f} s: {line}") from error
        finally:
            if process.poll() is None:  # also when this process is ended
                os.killpg(process.pid, signal.SIGTERM)
                process.wait(timeout=60)
        self._keep()
        return said, process.returncode

    def _keep(self) -> None:
        """The directory and the exports that the last command has left."""
        if not self._left.exists():  # it ended the shell
            return
        where, _, exports = self._left.read_text().partition("\n")
        self._left.unlink()
        self.cwd = Path(where)
        self.environment = dict(e.split("=", 1) for e in exports.split("\0") if "=" in e)
