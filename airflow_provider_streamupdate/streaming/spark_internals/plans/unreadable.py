"""What is raised of a value that has no text."""

from __future__ import annotations


class Unreadable(Exception):
    """A value has no stable text; says which class."""
