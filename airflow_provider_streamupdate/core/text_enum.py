"""Enumerations whose members are texts: in JSON, on a command line and in a message a member is its value."""

from __future__ import annotations

import enum


class TextEnum(str, enum.Enum):
    """A stand-in for enum.StrEnum, which Python 3.10 does not have."""

    def __str__(self) -> str:
        return str(self.value)

    def __repr__(self) -> str:
        return repr(str(self.value))

    def __format__(self, spec: str) -> str:
        return format(str(self.value), spec)
