"""Servers that a test starts on this machine."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from airflow_provider_streamupdate.control.waiting import wait_for

LOGGING = """\
log4j.rootLogger=INFO, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%d %p %c %m%n
"""  # of Java servers, to their output


@contextmanager
def daemon(
    command: Sequence[str],
    log: Path,
    ready: str,
    env: Mapping[str, str] | None = None,
    seconds: float = 180,
    end: signal.Signals = signal.SIGTERM,
    **options: Any,
) -> Iterator[re.Match[str]]:
    """A process while the block runs, from when its output, which goes to `log`, matches `ready`.

    seconds: it has until then; end: the signal that ends it; options: Popen's
    """
    with (
        log.open("wb") as output,
        subprocess.Popen(command, stdout=output, stderr=output, env=env, **options) as process,
    ):

        def told() -> re.Match[str] | None:
            assert process.poll() is None, log.read_text()
            return re.search(ready, log.read_text())

        try:
            yield wait_for(told, f"{ready!r} in {log}", seconds)
        finally:
            process.send_signal(end)


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])
