"""An example strategy, as somebody would add one: this file, and its name in STRATEGIES."""

from __future__ import annotations

from airflow_provider_streamupdate.control.update.strategies.restart import Restart
from airflow_provider_streamupdate.control.update.update import Update


class Announced(Restart):
    """As restart; it leaves a note of what it is about to stop."""

    name = "announced"
    summary = "as restart, with a note before the old version ends"

    def stop_old(self, update: Update) -> None:
        if update.pending:
            update.registry.folder.write("announced", str(update.record.old).encode())
        super().stop_old(update)
