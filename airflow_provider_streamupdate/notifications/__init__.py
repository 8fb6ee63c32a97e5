"""Notifiers: callbacks of tasks and DAGs that tell people something."""
