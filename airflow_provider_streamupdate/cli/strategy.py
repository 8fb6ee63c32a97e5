"""The option that chooses an update's strategy. What it may be, and what that means, is read when somebody looks:
importing the strategies takes what the help of other commands does not need."""

from __future__ import annotations

from typing import Any

import click


class StrategyChoice(click.Choice):
    """The names of the strategies."""

    def __init__(self) -> None:
        super().__init__(())

    def __getattribute__(self, name: str) -> Any:
        if name == "choices":
            from ..control.update.strategies import STRATEGIES

            return tuple(STRATEGIES)
        return super().__getattribute__(name)


class StrategyOption(click.Option):
    """Its help is what the strategies say of themselves, before its own."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        from ..control.update.strategies import summaries

        record = super().get_help_record(ctx)
        return None if record is None else (record[0], f"{summaries()} {record[1]}")
