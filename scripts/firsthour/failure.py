"""How a step ends that does not pass."""

from __future__ import annotations


class StepError(Exception):
    """It did not do what it must; the message says what."""


class Skipped(Exception):
    """It cannot be done on this machine; the message says why."""
