"""The context of operations. An operation is a function whose first argument is a context."""

from __future__ import annotations

from typing import Any

import attrs

from ...core.registry.registry import AppRegistry, Registry
from ..drivers.clusters import alive
from ..drivers.drivers import Drivers
from ..drivers.launcher import Launcher, need_launcher
from ..drivers.process import Alive


@attrs.frozen(kw_only=True)
class Context:
    """The apps under one root, and how their drivers are started.

    root: as it is passed to drivers
    launcher: how drivers are started; None: reading only
    storage_options: what fsspec needs to reach the root
    """

    registry: Registry
    root: str
    launcher: Launcher | None = None
    storage_options: dict[str, Any] = attrs.field(factory=dict, repr=False)

    @classmethod
    def of(cls, root: str, launcher: Launcher | None = None, storage_options: dict[str, Any] | None = None) -> Context:
        """root: local path or fsspec URI of the registry"""
        registry = Registry(root, storage_options)
        # Drivers run in another working directory, so a relative path must not be passed on.
        here = registry.folder.path_here
        return cls(
            registry=registry,
            root=root if here is None else str(here),
            launcher=launcher,
            storage_options=dict(storage_options or {}),
        )

    def drivers(self, registry: AppRegistry, watch: bool = True, alive: Alive = alive) -> Drivers:
        """Return the drivers of one app. watch: see `Drivers`"""
        return Drivers(registry, self.launcher, self.root, self.storage_options, alive, watch)

    def need_launcher(self) -> Launcher:
        return need_launcher(self.launcher)
