"""What all requests of the client rest on: the registry, the launcher, an app's drivers."""

from __future__ import annotations

from typing import Any

from ...core.errors import StreamUpdateError
from ...core.registry.registry import AppRegistry, Registry
from ..drivers.drivers import Drivers
from ..drivers.launcher import Launcher


def quiet(_line: str) -> None:
    return None


class Requests:
    """Base class of the client's parts.

    root: local path or fsspec URI of the registry; launcher: how drivers are started (None: reading only)
    """

    def __init__(
        self, root: str, launcher: Launcher | None = None, storage_options: dict[str, Any] | None = None
    ) -> None:
        self.registry = Registry(root, storage_options)
        self.launcher = launcher
        self.storage_options = dict(storage_options or {})
        # Drivers run elsewhere with another working directory, so a relative path must not be handed on.
        here = self.registry.folder.path_here
        self.root = root if here is None else str(here)

    def apps(self) -> list[str]:
        return self.registry.apps()

    def drivers(self, app: str, watch: bool = True) -> Drivers:
        """The app's drivers, for what lies between these requests."""
        return self._drivers(self.registry.existing(app), watch)

    def _drivers(self, registry: AppRegistry, watch: bool = True) -> Drivers:
        return Drivers(registry, self.launcher, self.root, self.storage_options, watch=watch)

    def need_launcher(self) -> Launcher:
        if self.launcher is None:
            raise StreamUpdateError("this client was made without a launcher, so it cannot start a driver")
        return self.launcher
