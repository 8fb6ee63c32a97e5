"""A supervisor at work."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from .worker import Worker

if TYPE_CHECKING:
    from .ground import Ground


class Supervisor(Worker):
    """Watches the app of the ground."""

    def __init__(self, ground: Ground, name: str) -> None:
        self._looks = ground.folder / f"{name}.looks"
        words = (str(ground.folder / "root"), ground.spark_submit, str(self._looks))
        super().__init__(("crashlib.watcher", *words), ground.environment, Path(ground.folder / f"{name}.log"))

    def looks(self) -> int:
        """How often the process has looked at the app."""
        return int(self._looks.read_text()) if self._looks.exists() else 0

    def start(self) -> None:
        self._looks.unlink(missing_ok=True)
        super().start()
