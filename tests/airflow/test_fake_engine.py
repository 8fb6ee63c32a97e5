"""The engine without Spark is one to the lifecycle as Spark's is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fake_engine import FakeEngine

from tests.engine_contract import APP, CONTRACT, Ground


class WithoutSpark(Ground):
    def make(self, deployment: str) -> FakeEngine:
        return FakeEngine({"APP": APP, "RELOADABLE": ("mark",)}, self.registry, deployment)

    def more(self) -> None:
        """There is always more."""


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[WithoutSpark]:
    made = WithoutSpark(tmp_path)
    yield made
    made.end()


@pytest.mark.parametrize("promise", CONTRACT, ids=lambda promise: promise.__name__)
def test_what_every_engine_does(ground: WithoutSpark, promise: Callable[[Ground], None]) -> None:
    promise(ground)
